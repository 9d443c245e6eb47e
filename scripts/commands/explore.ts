/** `rack explore`: the power fails at every instant, and somebody looks at what is left. */
import type { Command } from "commander";
import { createRunDirectory } from "../../console/rack/run_directory.ts";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { parseTime, type Time } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import { fileName } from "../../console/captures/captures.ts";
import { faultLines } from "../../console/explore/counterexample.ts";
import { explore } from "../../console/explore/explore.ts";
import { preparedRack } from "../../console/explore/prepared_rack.ts";
import { type Explored, exploredText } from "../../console/explore/report.ts";
import {
  type Cut,
  EXPLORE_DEFAULTS,
  type ExploredRack,
  type ExploreOptions,
  type Verdict,
} from "../../console/explore/types.ts";
import { lacksInput, prepare, type Prepared, readScenario } from "../../console/rack/prepare.ts";
import { exploreTheMatrix } from "./explore_matrix.ts";
import { addVariantOptions, prepareOptions, type VariantFlags, whole } from "./options.ts";
import { print, Progress, say } from "./output.ts";

interface ExploreFlags extends VariantFlags {
  readonly json?: boolean;
  readonly cut?: string;
  readonly choices: string;
  readonly tear: string;
  readonly cuts: string;
  readonly from?: string;
  readonly until?: string;
  readonly limit?: string;
  readonly for?: string;
  readonly claims?: boolean;
  readonly matrix?: boolean;
}

/** What is written where neither the scenario nor the command line has something: four messages. */
const MADE_UP_BYTES = 16 * 1024;

export function addExplore(program: Command): void {
  addVariantOptions(program.command("explore [scenario]"))
    .description("cut the power at every instant, and see whether every promise is kept")
    .option(
      "--cut <host>",
      "whose power: a host's, each one's in turn, or of all at once; else of those written to",
    )
    .option("--claims", "judge what methods claim as though it were promised")
    .option(
      "--choices <n>",
      "ways to find caches, at one instant, before they are sampled",
      `${EXPLORE_DEFAULTS.choices}`,
    )
    .option(
      "--tear <bytes>",
      "what a write in progress leaves whole: a multiple of 8",
      `${EXPLORE_DEFAULTS.tear}`,
    )
    .option(
      "--cuts <n>",
      "2: the power fails again at every instant of each recovery",
      `${EXPLORE_DEFAULTS.cuts}`,
    )
    .option("--from <time>", "only instants from this virtual time on (40us)")
    .option("--until <time>", "only instants before this one")
    .option("--limit <n>", "stop after so many crash points")
    .option("--for <time>", "stop after so much wall time (30s)")
    .option("--matrix", "no scenario: every method on every kind of responder, as a table")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
A protocol's own file may say how a host recovers, and what must hold then: see README.
Ends with 0: every promise is kept; 1: one is not, with a counterexample, or the run is wrong without a power failure
(failed); 2: stopped before all was seen (partial), or nothing was promised or checked (unchecked).

Example:
  rack explore scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio on
  rack explore scripts/scenarios/persist_pair.yaml --method write-only --claims
  rack explore --matrix`,
    )
    .action(async (scenario: string | undefined, flags: ExploreFlags) => {
      Deno.exitCode = await start(scenario, flags);
    });
}

async function start(scenario: string | undefined, flags: ExploreFlags): Promise<number> {
  if ((scenario === undefined) !== (flags.matrix === true)) {
    throw refusal("", { found: "rack explore", expected: "a scenario, or --matrix" });
  }
  if (scenario === undefined) refuseWithMatrix(flags);
  const stop = stopOnInterrupt();
  if (scenario !== undefined) return await run(scenario, flags, stop);
  return await exploreTheMatrix({ json: flags.json === true, isStopped: stop.isWanted });
}

/** The matrix is the same every time: what would change it is not passed over. @throws Refusal */
function refuseWithMatrix(flags: ExploreFlags): void {
  const { choices, tear, cuts } = EXPLORE_DEFAULTS;
  const own = {
    matrix: true,
    json: flags.json,
    choices: `${choices}`,
    tear: `${tear}`,
    cuts: `${cuts}`,
  };
  const other = Object.entries(flags).find(([name, value]) =>
    value !== (own as Record<string, unknown>)[name]
  );
  if (other === undefined) return;
  const found = `--${other[0]} and --matrix stand together`;
  throw refusal("", { found, expected: "--matrix alone, or --json" });
}

async function run(
  scenario: string,
  flags: ExploreFlags,
  stop: { readonly isWanted: () => boolean },
): Promise<number> {
  const options = { ...optionsOf(flags), stopped: stop.isWanted };
  const place = await placeOf(scenario, flags);
  const input = flags.input ?? place.input;
  const prepared = await prepare(scenario, {
    ...prepareOptions({ ...flags, ...(input !== undefined && { input }) }, "all"),
  });
  const host = typeof options.cut === "object" ? options.cut.host : undefined;
  checkHost(prepared, host);
  const progress = new Progress({ quiet: flags.json === true });
  const all: Explored[] = [];
  const unchecked: string[] = [];
  for (const [i, one] of prepared.entries()) {
    if (stop.isWanted()) break;
    const rack = await preparedRack(one);
    const tell = (share: number, points: number) =>
      progress.tell(`${one.label}: ${points} crash points`, (i + share) / prepared.length);
    const verdict = await exploreOne(rack, options, tell);
    if (verdict.verdict === "unchecked") unchecked.push(one.label);
    const command = await leave(verdict, { scenario, flags, input, one, place });
    all.push({ label: one.label, verdict, command });
  }
  progress.clear();
  if (all.every(({ command }) => command === null)) await place.remove();
  if (flags.json) print(JSON.stringify(documentOf(prepared, all)));
  else print(exploredText(all));
  if (unchecked.length > 0) say(uncheckedText(unchecked, { claims: flags.claims === true }));
  return exitCode(all.map(({ verdict }) => verdict), prepared.length);
}

async function exploreOne(
  rack: ExploredRack,
  options: ExploreOptions,
  tell: (share: number, crashPoints: number) => void,
): Promise<Verdict> {
  const steps = explore(rack, options);
  tell(0, 0);
  for (;;) {
    const next = await steps.next();
    if (next.done) return next.value;
    tell(next.value.share, next.value.crashPoints);
  }
}

function uncheckedText(
  labels: readonly string[],
  { claims }: { readonly claims: boolean },
): string {
  const ways = ["a program's cpu.note", "a protocol's check", ...(claims ? [] : ["--claims"])];
  return `${labels.join("; ")}: nothing was promised or checked: ${
    ways.join(", ")
  } would say what has to hold`;
}

function exitCode(verdicts: readonly Verdict[], wanted: number): number {
  if (verdicts.some(({ verdict }) => verdict === "unsafe" || verdict === "failed")) {
    return EXIT.failed;
  }
  const isWhole = verdicts.length === wanted &&
    verdicts.every(({ verdict }) => verdict === "safe");
  return isWhole ? EXIT.done : EXIT.unclear;
}

function documentOf(prepared: readonly Prepared[], all: readonly Explored[]) {
  const { scenario, seed } = prepared[0]!.plan;
  const runs = all.map(({ label, verdict, command }, i) => {
    const { method, ddio } = prepared[i]!.variant;
    return { variant: label, method, ddio, ...verdict, command };
  });
  return { scenario, seed, runs };
}

/** Checks and converts what stands on the command line. @throws Refusal */
function optionsOf(flags: ExploreFlags): ExploreOptions {
  const { limit, claims } = flags;
  const many = { least: 1, most: Number.MAX_SAFE_INTEGER };
  const tear = whole("--tear", flags.tear, { least: 8, most: 4096 });
  if (tear % 8 !== 0) {
    throw refusal("--tear", { found: `"${flags.tear}"`, expected: "a multiple of 8" });
  }
  const from = timeOf("--from", flags.from), until = timeOf("--until", flags.until);
  const forPs = timeOf("--for", flags.for);
  if (from !== undefined && until !== undefined && from >= until) {
    const expected = `a time before --until ${flags.until}`;
    throw refusal("--from", { found: `"${flags.from}"`, expected });
  }
  return {
    ...(flags.cut !== undefined && { cut: cutOf(flags.cut) }),
    choices: whole("--choices", flags.choices, many),
    tear,
    cuts: whole("--cuts", flags.cuts, { least: 1, most: 2 }) === 2 ? 2 : 1,
    ...(from !== undefined && { from }),
    ...(until !== undefined && { until }),
    ...(limit !== undefined && { limit: whole("--limit", limit, many) }),
    ...(forPs !== undefined && { forMs: forPs / 1e9 }),
    claims: claims === true,
  };
}

function timeOf(option: string, text: string | undefined): Time | undefined {
  if (text === undefined) return undefined;
  const time = parseTime(text);
  if (time !== undefined) return time;
  throw refusal(option, { found: `"${text}"`, expected: "a time with its unit, like 40us" });
}

function cutOf(text: string): Cut {
  return text === "each" || text === "all" ? text : { host: text };
}

function checkHost(prepared: readonly Prepared[], host: string | undefined): void {
  const hosts = prepared[0]!.plan.nodes.filter(({ kind }) => kind === "host")
    .map(({ name }) => name);
  if (host === undefined || hosts.includes(host)) return;
  throw refusal("--cut", { found: `"${host}"`, expected: `${hosts.join(", ")}, each or all` });
}

/** Ctrl-C ends with what is known by then; a second one, at once. */
function stopOnInterrupt() {
  let signals = 0;
  const listen = () => {
    if (++signals > 1) Deno.exit(130);
    say("stopping: what is known by now follows");
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, listen);
  return { isWanted: () => signals > 0 };
}

/** Where counterexamples are left, and an input where one is lacking. */
interface Place {
  readonly input: string | undefined;
  /** The directory; made when it is first asked for. */
  readonly path: () => Promise<string>;
  readonly remove: () => Promise<void>;
}

async function placeOf(scenario: string, flags: ExploreFlags): Promise<Place> {
  const { name, programs } = await readScenario(scenario);
  let made: string | undefined;
  const path = async () => made ??= (await createRunDirectory(name)).path;
  const remove = async () => {
    if (made !== undefined) await Deno.remove(made, { recursive: true });
  };
  if (!programs.some((program) => lacksInput(program, flags.input))) {
    return { input: undefined, path, remove };
  }
  const input = `${await path()}/made-up.bin`;
  await Deno.writeFile(input, madeUpBytes(MADE_UP_BYTES, "made-up"));
  return { input, path, remove };
}

/** Leaves a counterexample's faults. @returns the command that replays it. */
async function leave(
  { counterexample }: Verdict,
  of: {
    readonly scenario: string;
    readonly flags: ExploreFlags;
    readonly input: string | undefined;
    readonly one: Prepared;
    readonly place: Place;
  },
): Promise<string | null> {
  if (counterexample === null) return null;
  const { scenario, flags, input, one, place } = of;
  const path = `${await place.path()}/${fileName(one.label)}.jsonl`;
  await Deno.writeTextFile(path, faultLines(counterexample).map((line) => `${line}\n`).join(""));
  const { method, ddio } = one.variant;
  const said = {
    input,
    method: flags.method ?? (one.label === one.variant.name ? undefined : method),
    ddio: flags.ddio ?? (one.label === one.variant.name ? undefined : ddio),
    size: flags.size,
    depth: flags.depth,
    seed: flags.seed,
  };
  const words = Object.entries(said).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [`--${name}`, quoted(value)]
  );
  if (flags.claims) words.push("--claims");
  const { atPs, isReplayable } = counterexample;
  if (isReplayable) words.push("--pack", "all", "--faults", quoted(path));
  else words.push(...askedAgain(flags), "--from", `${atPs}ps`, "--until", `${atPs + 1}ps`);
  return [`rack ${isReplayable ? "run" : "explore"}`, quoted(scenario), ...words].join(" ");
}

/** What else was asked for, so that the same choices are made at the instant. */
function askedAgain({ cut, cuts, choices, tear }: ExploreFlags): string[] {
  const assumed: Readonly<Record<string, number>> = EXPLORE_DEFAULTS;
  return Object.entries({ cut, cuts, choices, tear }).flatMap(([name, value]) =>
    value === undefined || value === `${assumed[name]}` ? [] : [`--${name}`, value]
  );
}

function quoted(word: string): string {
  return /^[\w./:=+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
