import { formatTime, parseTime } from "../../../fabric/base/time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { readProcesses } from "../../../console/rack/process_table.ts";
import { type Resumed, resumeRun } from "../../../console/replay/resume/resume_run.ts";
import { onInterrupt } from "../interrupt.ts";
import { given, type OrderFlags, type WorldFlags } from "../options.ts";
import { worldOf } from "../rack_options.ts";
import { printResult, Progress, say } from "../output.ts";

export interface ResumeFlags extends OrderFlags, WorldFlags {
  readonly at?: string;
  readonly variant?: string;
  readonly go?: boolean;
  readonly trace?: boolean;
}

/** @throws Refusal */
export async function bringUpAt(id: string, flags: ResumeFlags): Promise<void> {
  const { at, variant, go = false, trace = false } = flags;
  if (at === undefined) {
    const expected = "a time such as 2.5ms, or a checkpoint of the run: rack resume RUN --at 2.5ms";
    throw refusal("--at", { found: "not given", expected });
  }
  const progress = new Progress({ quiet: flags.json === true });
  const resumed = await resumeRun(id, {
    ...given({ variant }),
    ...worldOf(flags),
    at: parseTime(at) ?? at,
    go,
    trace,
    native: { kind: "run", onNotice: flags.json === true ? () => {} : say },
    signal: onInterrupt("taking the rack down"),
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  try {
    printResult(flags, documentOf(resumed, go), textOf(resumed, go));
  } catch (error) {
    say(`${resumed.rack.id} stays up: rack down --run ${resumed.rack.id}`);
    throw error;
  }
}

function documentOf({ rack, from, at, digest, events }: Resumed, go: boolean) {
  const processes = readProcesses(rack.directory).length;
  const { id: run, directory, supervisor: { url } } = rack;
  return { run, directory, from, atPs: at, digest, events, paused: !go, url, processes };
}

function textOf({ rack, from, at, digest, events }: Resumed, go: boolean): string {
  const processes = readProcesses(rack.directory).length;
  return [
    `${rack.id} is up: ${processes} processes, as ${from} stood at ${formatTime(at)}`,
    `same   digest ${digest} after ${events} events, on every device`,
    `kept   ${rack.directory}`,
    go
      ? "next   rack ps, rack get, rack kill, rack down"
      : "next   rack resume, rack step, rack down",
  ].join("\n");
}
