/**
 * In the order of the help. Only the requested file is loaded: else loading takes most of a short
 * command's time.
 */
import type { Command } from "commander";

type Add = (program: Command) => void;

interface CommandFile {
  readonly commands: readonly string[];
  readonly load: () => Promise<Add>;
}

export const COMMAND_FILES: readonly CommandFile[] = [
  { commands: ["run"], load: async () => (await import("./commands/run.ts")).addRun },
  { commands: ["up"], load: async () => (await import("./commands/up.ts")).addUp },
  { commands: ["node"], load: async () => (await import("./commands/node.ts")).addNode },
  { commands: ["attach"], load: async () => (await import("./commands/attach.ts")).addAttach },
  { commands: ["down"], load: async () => (await import("./commands/down.ts")).addDown },
  { commands: ["ps"], load: async () => (await import("./commands/ps.ts")).addPs },
  {
    commands: ["kill", "shutdown", "start"],
    load: async () => (await import("./commands/power.ts")).addPower,
  },
  { commands: ["link"], load: async () => (await import("./commands/cables.ts")).addCables },
  {
    commands: ["pause", "resume", "step", "until", "find", "pace", "why"],
    load: async () => (await import("./commands/clock.ts")).addClock,
  },
  { commands: ["judge"], load: async () => (await import("./commands/judge.ts")).addJudge },
  {
    commands: ["checkpoint"],
    load: async () => (await import("./commands/resume/checkpoint.ts")).addCheckpoint,
  },
  { commands: ["logs"], load: async () => (await import("./commands/logs.ts")).addLogs },
  { commands: ["runs"], load: async () => (await import("./commands/runs.ts")).addRuns },
  {
    commands: ["get", "put", "ls", "rm"],
    load: async () => (await import("./commands/transfer.ts")).addTransfer,
  },
  { commands: ["trace"], load: async () => (await import("./commands/trace.ts")).addTrace },
  { commands: ["explore"], load: async () => (await import("./commands/explore.ts")).addExplore },
  { commands: ["sweep"], load: async () => (await import("./commands/sweep/sweep.ts")).addSweep },
  { commands: ["plot"], load: async () => (await import("./commands/sweep/plot.ts")).addPlot },
  {
    commands: ["perftest"],
    load: async () => (await import("./commands/perftest/perftest.ts")).addPerftest,
  },
  { commands: ["fio"], load: async () => (await import("./commands/fio/fio.ts")).addFio },
  {
    commands: ["verbs-test"],
    load: async () => (await import("./commands/verbs_suite.ts")).addVerbsTest,
  },
  { commands: ["chaos"], load: async () => (await import("./commands/chaos.ts")).addChaos },
  { commands: ["compose"], load: async () => (await import("./commands/compose.ts")).addCompose },
  {
    commands: ["nats-config"],
    load: async () => (await import("./commands/nats_config.ts")).addNatsConfig,
  },
  { commands: ["console"], load: async () => (await import("./commands/console.ts")).addConsole },
  { commands: ["events"], load: async () => (await import("./commands/events.ts")).addEvents },
  {
    commands: ["scenarios", "new", "check", "validate", "schema"],
    load: async () => (await import("./commands/scenario_files.ts")).addScenarioFiles,
  },
  {
    commands: ["completion"],
    load: async () => (await import("./commands/completion.ts")).addCompletion,
  },
];

/** Their script of completion has every command in it. Names for one are asked for at each Tab. */
const SHELLS: readonly string[] = ["bash", "zsh", "fish"];

export async function commandsFor([word, next]: readonly string[]): Promise<Add[]> {
  const asked = COMMAND_FILES.filter(({ commands }) => commands.includes(word ?? ""));
  const isScript = word === "completion" && SHELLS.includes(next ?? "");
  const needed = asked.length === 0 || isScript ? COMMAND_FILES : asked;
  return await Promise.all(needed.map(({ load }) => load()));
}
