import type { Command } from "commander";
import { PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { CHAOS_OPTIONS } from "../../console/api/options.ts";
import {
  type CampaignOptions,
  type CampaignReport,
  exitOf,
  type RoundReport,
  startCampaign,
} from "../../console/chaos/campaign.ts";
import { chaosOnRack } from "../../console/chaos/rack_up.ts";
import { chaosSuites } from "../../console/reports/junit/suites.ts";
import { attachTo, refuseWithoutAttach } from "./attach.ts";
import { onInterrupt } from "./interrupt.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import {
  addJunitOption,
  addLockOption,
  addNatsOptions,
  addTable,
  type FlagsOf,
  given,
  type NatsCredentialFlags,
  readTable,
  wordOf,
} from "./options.ts";
import {
  addCheckOption,
  addPackOption,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  jobsOf,
  prepareOptions,
  type VariantFlags,
} from "./rack_options.ts";
import { print, Progress, say } from "./output.ts";

interface ChaosFlags
  extends VariantFlags, CheckFlags, JunitFlags, NatsCredentialFlags, FlagsOf<typeof CHAOS_OPTIONS> {
  readonly pack?: string;
  readonly save?: string;
  readonly run?: string;
  readonly attach?: string;
  readonly overrideLock?: boolean;
  readonly json?: boolean;
}

export function addChaos(program: Command): void {
  const chaosOf = addVariantOptions(program.command("chaos [scenario]"));
  const played = addPackOption(addTable(addJunitOption(addCheckOption(chaosOf)), CHAOS_OPTIONS), {
    words: PROCESS_PACKINGS,
    otherwise: "; else each in turn",
  })
    .description("kill, pause and cut what a rack consists of, round after round, and judge it")
    .option("--save <folder>", "write each round as a scenario that does the same again")
    .option(
      "--run <id>",
      "without a scenario: on this rack, or how its name begins; else the one that is up",
    )
    .option(
      "--attach <urls>",
      "without a scenario: on a rack that runs elsewhere, as rack attach finds it",
    );
  addLockOption(addNatsOptions(played))
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
Every round brings the scenario's rack up as processes over a NATS of its own, kills and pauses devices,
timekeeper and broker, lets cables do wrong, then heals it all. It is to come to its end, to have kept
what it promised, and its record is to replay in one process to the same digest, while the next rounds are
played. What a round does follows from the seed and its number; where exactly it hits, from the machine.
An interrupted round that was played and not replayed is said, and has not held.

Without a scenario it is done to a rack that is up, here or elsewhere, over the bus: devices are killed, each a
power failure at an instant on record, and started again, cables do wrong, while objects are put to hosts with
persistd; timekeeper and broker are left alone. Its history goes on from round to round: each round is judged, by
a replay in one process, with all that was before, and one that does not hold is the last. The object chaos.bin is
removed at the end.

--seed is the campaign's; rounds draw those of their racks from it. Exit codes: 0 all held; 1 a round
did not; 2 none was broken, and one or all gave no result.

Example:
  rack chaos scripts/scenarios/persist_pair.yaml --for 10m --seed 7
  rack chaos --attach lab1,lab2 --nats-users bus/users.json --rounds 20`,
    )
    .action(chaos);
}

async function chaos(path: string | undefined, flags: ChaosFlags): Promise<void> {
  if (path === undefined) refuseStray(flags);
  else refuseRack(flags);
  const { json } = flags, seen: RoundReport[] = [];
  const { seed = drawnSeed() } = readTable({ seed: CHOICES.seed }, flags);
  const { for: forMs = CHAOS_OPTIONS.for.normal, ...rounds } = readTable(CHAOS_OPTIONS, flags);
  const common = {
    ...{ seed, forMs, from: 0, ...rounds },
    onStart: ({ id }: { readonly id: string }) => {
      if (!json) say(`seed ${seed}, run ${id}`);
    },
    onRound: (round: RoundReport) => {
      seen.push(round);
      if (!json) sayRound(round);
    },
  };
  const play = path === undefined ? onRackUp(flags, common) : onScenario(path, flags, common);
  const junit = await JunitFile.open(
    flags,
    path === undefined ? "rack chaos" : `rack chaos ${path}`,
  );
  const report = await junit.of(play());
  await junit.write(chaosSuites(report, seen));
  if (json) print(JSON.stringify(report));
  else printReport(report);
  Deno.exitCode = exitOf(report);
}

type Common = Pick<CampaignOptions, "seed" | "forMs" | "from" | "rounds" | "onStart" | "onRound">;

/** @throws Refusal */
function onScenario(
  path: string,
  flags: ChaosFlags,
  common: Common,
): () => Promise<CampaignReport> {
  const { packing: _, isTyped: __, seed: ___, ...fixed } = prepareOptions(flags, "node");
  const { pack, save, json } = flags;
  const options = {
    ...{ ...common, fixed },
    ...(pack !== undefined && { packing: wordOf("--pack", pack, PROCESS_PACKINGS) }),
    ...(save !== undefined && { save }),
    jobs: jobsOf(flags),
    native: { kind: "run", onNotice: json ? () => {} : say },
    signal: onInterrupt("taking the rack down"),
  } as const;
  return async () => await startCampaign(await checkedScenario(path, flags), options);
}

function onRackUp(flags: ChaosFlags, common: Common): () => Promise<CampaignReport> {
  const { attach, json, overrideLock } = flags;
  return async () => {
    const run = attach === undefined ? flags.run : (await attachTo(attach, flags)).runFile.run;
    const progress = new Progress({ quiet: json === true });
    return await chaosOnRack({
      ...{ ...common, ...given({ run, overrideLock }) },
      onRound: (round) => {
        progress.clear();
        common.onRound(round);
      },
      signal: onInterrupt("healing the rack"),
      onProgress: (title, share) => progress.show(title, share),
      onNotice: json ? () => {} : say,
    }).finally(() => progress.clear());
  };
}

/** @throws Refusal for options of a rack that is up, beside a scenario. */
function refuseRack(
  { run, attach, overrideLock, natsUsers, natsCreds, natsCa }: ChaosFlags,
): void {
  const given = {
    attach,
    run,
    "nats-users": natsUsers,
    "nats-creds": natsCreds,
    "nats-ca": natsCa,
    "override-lock": overrideLock,
  };
  const [name] = Object.entries(given).find(([, value]) => value !== undefined) ?? [];
  if (name === undefined) return;
  throw refusal(`--${name}`, { found: "together with a scenario", expected: "one of them" });
}

/** Options that a rack that is up has, too. */
const OF_BOTH: ReadonlySet<string> = new Set([
  ...["run", "attach", "overrideLock", "natsUsers", "natsCreds", "natsCa"],
  ...["seed", "for", "rounds", "from", "junit", "json"],
]);

/** @throws Refusal for options of a scenario, without one. */
function refuseStray(flags: ChaosFlags): void {
  refuseWithoutAttach(flags);
  const { check = true, ...others } = flags;
  const [stray] = Object.keys(others).filter((name) => !OF_BOTH.has(name));
  if (stray === undefined && check) return;
  const name = stray?.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) ?? "no-check";
  throw refusal(`--${name}`, { found: "without a scenario", expected: "a scenario, too" });
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
  if (Object.keys(goals).length > 0) {
    print(
      `reached: ${reached.map(([name, count]) => `${name} (${count})`).join(", ") || "nothing"}`,
    );
  }
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
