import type { Command } from "commander";
import { PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { CHAOS_OPTIONS } from "../../console/api/options.ts";
import {
  type CampaignReport,
  exitOf,
  type RoundReport,
  startCampaign,
} from "../../console/chaos/campaign.ts";
import { chaosSuites } from "../../console/reports/junit/suites.ts";
import { onInterrupt } from "./interrupt.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import {
  addCheckOption,
  addJunitOption,
  addPackOption,
  addTable,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  type FlagsOf,
  jobsOf,
  prepareOptions,
  readTable,
  type VariantFlags,
  wordOf,
} from "./options.ts";
import { print, say } from "./output.ts";

interface ChaosFlags extends VariantFlags, CheckFlags, JunitFlags, FlagsOf<typeof CHAOS_OPTIONS> {
  readonly pack?: string;
  readonly save?: string;
  readonly json?: boolean;
}

export function addChaos(program: Command): void {
  const chaosOf = addVariantOptions(program.command("chaos <scenario>"));
  addPackOption(addTable(addJunitOption(addCheckOption(chaosOf)), CHAOS_OPTIONS), {
    words: PROCESS_PACKINGS,
    otherwise: "; else each in turn",
  })
    .description("kill, pause and cut what a rack consists of, round after round, and judge it")
    .option("--save <folder>", "write each round as a scenario that does the same again")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
Every round brings the scenario's rack up as processes over a NATS of its own, kills and pauses devices,
timekeeper and broker, lets cables do wrong, then heals it all. It is to come to its end, to have kept
what it promised, and its record is to replay in one process to the same digest, while the next rounds are
played. What a round does follows from the seed and its number; where exactly it hits, from the machine.
An interrupted round that was played and not replayed is said, and has not held.

--seed is the campaign's; rounds draw those of their racks from it. Exit codes: 0 all held; 1 a round
did not; 2 none was broken, and one or all gave no result.

Example:
  rack chaos scripts/scenarios/persist_pair.yaml --for 10m --seed 7`,
    )
    .action(chaos);
}

async function chaos(path: string, flags: ChaosFlags): Promise<void> {
  const { seed = drawnSeed(), packing: _, isTyped: __, ...fixed } = prepareOptions(flags, "node");
  const { pack, save, json } = flags;
  const { for: forMs = CHAOS_OPTIONS.for.normal, ...rounds } = readTable(CHAOS_OPTIONS, flags);
  const seen: RoundReport[] = [];
  const junit = await JunitFile.open(flags, `rack chaos ${path}`);
  const scenario = await junit.of(checkedScenario(path, flags));
  const report = await junit.of(startCampaign(scenario, {
    seed,
    forMs,
    from: 0,
    ...rounds,
    fixed,
    ...(pack !== undefined && { packing: wordOf("--pack", pack, PROCESS_PACKINGS) }),
    ...(save !== undefined && { save }),
    jobs: jobsOf(flags),
    native: { kind: "run", onNotice: json ? () => {} : say },
    signal: onInterrupt("taking the rack down"),
    onStart: ({ id }) => {
      if (!json) say(`seed ${seed}, run ${id}`);
    },
    onRound: (round) => {
      seen.push(round);
      if (!json) sayRound(round);
    },
  }));
  await junit.write(chaosSuites(report, seen));
  if (json) print(JSON.stringify(report));
  else printReport(report);
  Deno.exitCode = exitOf(report);
}

/** Printed before the first round: the campaign then runs as if the seed had been given. */
function drawnSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0]!;
}

function sayRound(round: RoundReport): void {
  const { outcome, blows, findings, untold, replay, command, directory } = round;
  const what = blows.map((action) => action.what).join("; ");
  const seconds = (round.wallMs / 1_000).toFixed(1);
  say(
    `round ${round.round}: ${outcome}, ${replayText(replay)}, ${seconds} s; ${round.what}: ${what}`,
  );
  if (round.unsaved !== null) say(`  no scenario: ${round.unsaved}`);
  if (outcome === "held") return;
  for (const { check, text } of findings) say(`  FAIL ${check}: ${text}`);
  if (round.replayShows === false) say("  the replay shows nothing of what checkers found");
  if (untold !== null) say(`  no result: ${untold}`);
  if (directory !== null) say(`  kept in ${directory}`);
  if (replay !== "none" && replay !== "inexact") say(`  ${command}`);
}

function replayText(replay: RoundReport["replay"]): string {
  switch (replay) {
    case "same":
      return "replays";
    case "different":
      return "replays differently";
    case "inexact":
      return "messages lost with their sender";
    case "missing":
      return "not replayed";
    case "none":
      return "no replay";
  }
}

function printReport(report: CampaignReport): void {
  const { rounds, held, broken, untold, blows, hits, replayed, inexact, goals } = report;
  print(
    `${rounds} rounds in ${
      (report.wallMs / 1_000).toFixed(0)
    } s: ${held} held, ${broken} broken, ` +
      `${untold} gave no result`,
  );
  print(`${blows} actions, ${hits} hit something`);
  print(`${replayed} replayed to the same digest, ${inexact} had lost messages with their sender`);
  const never = Object.entries(goals).filter(([, count]) => count === 0).map(([name]) => name);
  const reached = Object.entries(goals).filter(([, count]) => count > 0);
  print(`reached: ${reached.map(([name, count]) => `${name} (${count})`).join(", ") || "nothing"}`);
  if (never.length > 0) print(`never: ${never.join(", ")}`);
  for (const { round, findings, command, replay } of report.failures) {
    for (const { check, text } of findings) print(`FAIL round ${round}: ${check}: ${text}`);
    if (replay === "same" || replay === "different") print(`  ${command}`);
  }
  for (const { round, file, digest } of report.saved) {
    print(`round ${round} as a scenario: ${file}, digest ${digest}`);
  }
  print(`seed ${report.seed}, kept in ${report.directory}`);
}
