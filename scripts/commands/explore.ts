/** `rack explore`: cuts the power at every instant, and checks what survives. */
import type { Command } from "commander";
import { formatExact } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { exitOf, exploreScenario } from "../../console/explore/explore_scenario.ts";
import { exploredDocument, exploredText } from "../../console/explore/report.ts";
import { exploreSuites } from "../../console/reports/junit/suites.ts";
import {
  EXPLORE_NUMBERS,
  EXPLORE_STALL,
  type ExploreNumber,
} from "../../console/api/explore_options.ts";
import { cutOf, exploreOptions, refuseNothing } from "../../console/explore/options.ts";
import { type ExploreOptions, UNCHECKED } from "../../console/explore/types.ts";
import { exploreTheMatrix } from "./explore_matrix.ts";
import { exploreTheProtocol } from "./explore_protocol.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import {
  addCheckOption,
  addJobsOption,
  addJunitOption,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  given,
  type JobsFlags,
  jobsOf,
  prepareOptions,
  timeOf,
  type VariantFlags,
  whole,
} from "./options.ts";
import { print, Progress, say } from "./output.ts";

interface ExploreFlags extends VariantFlags, CheckFlags, JunitFlags, JobsFlags {
  readonly json?: boolean;
  readonly cut?: string;
  readonly choices?: string;
  readonly tear?: string;
  readonly cuts?: string;
  readonly preemptions?: string;
  readonly stall?: string;
  readonly interleavings?: string;
  readonly from?: string;
  readonly until?: string;
  readonly limit?: string;
  readonly for?: string;
  readonly claims?: boolean;
  readonly robust?: boolean;
  readonly matrix?: boolean;
  readonly protocol?: string;
}

export function addExplore(program: Command): void {
  const explore = addVariantOptions(program.command("explore [scenario]"));
  addJunitOption(addCheckOption(addJobsOption(explore, "processes that explore")))
    .description(
      "cut the power at every instant, and interleave programs on shared regions, and see whether every promise is kept",
    )
    .option(
      "--cut <host>",
      "power of a host, of each in turn, of all at once, or none; else of the hosts that are written to",
    )
    .option("--claims", "judge what methods claim as though it were promised")
    .option(
      "--robust",
      "judge what recoveries read by robustness, also where a protocol has a check",
    )
    .option("--choices <n>", helpOf("choices"))
    .option("--tear <bytes>", helpOf("tear"))
    .option("--cuts <n>", helpOf("cuts"))
    .option("--preemptions <n>", helpOf("preemptions"))
    .option("--stall <time>", `${EXPLORE_STALL.what} (${formatExact(EXPLORE_STALL.normal)})`)
    .option("--interleavings <n>", helpOf("interleavings"))
    .option("--from <time>", "only instants from this virtual time on (40us)")
    .option("--until <time>", "only instants before this one")
    .option("--limit <n>", `${helpOf("limit")}, or with --protocol states of each rack`)
    .option("--for <time>", "stop after so much wall time (30s)")
    .option("--matrix", "no scenario: every method on every kind of responder, as a table")
    .option(
      "--protocol <file>",
      "no scenario: rows of the coherent cards' protocol of your own, in every state of small racks",
    )
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
With --protocol: 0: all racks hold, 1: one does not, with the shortest way there, 2: not all states were seen, or no
rack has met any of the rows; see scripts/scenarios/OWN_COHERENCE.md.
A protocol's own file may say how a host recovers, and what must hold then: see scripts/scenarios/OWN_RECOVERY.md.
Ends with 0: every promise is kept; 1: one is not, with a counterexample, or the run is wrong without a power failure
(failed); 2: not all instants or choices were seen (partial), or nothing was promised or checked (unchecked).

Example:
  rack explore scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio on
  rack explore scripts/scenarios/persist_pair.yaml --method write-only --claims
  rack explore --matrix
  rack explore --protocol scripts/scenarios/my_coherence.ts`,
    )
    .action(start);
}

async function start(scenario: string | undefined, flags: ExploreFlags): Promise<void> {
  const { protocol } = flags;
  const asked = [scenario, protocol, flags.matrix || undefined].filter((each) =>
    each !== undefined
  );
  if (asked.length !== 1) {
    const found = asked.length === 0 ? "rack explore" : "several of them";
    throw refusal("", { found, expected: "a scenario, or --matrix, or --protocol FILE" });
  }
  if (flags.matrix) refuseWith(flags, "matrix", MATRIX_FLAGS);
  if (protocol !== undefined) refuseWith(flags, "protocol", PROTOCOL_FLAGS);
  const jobs = jobsOf(flags);
  const stop = stopOnInterrupt();
  if (scenario !== undefined) return await run(scenario, flags, { jobs, ...stop });
  const { json = false, junit, limit, check } = flags;
  if (protocol !== undefined) {
    const most = { least: 1, most: Number.MAX_SAFE_INTEGER };
    const statesMax = limit === undefined ? undefined : whole("--limit", limit, most);
    const options = { ...given({ junit, check }), json, jobs, statesMax };
    return await exploreTheProtocol(protocol, { ...options, isStopped: stop.isWanted });
  }
  return await exploreTheMatrix({ json, jobs, ...given({ junit }), isStopped: stop.isWanted });
}

const MATRIX_FLAGS = ["jobs", "json", "junit", "check"];
const PROTOCOL_FLAGS = ["check", "jobs", "json", "junit", "limit"];

/** The matrix and a protocol's racks are fixed: options that would change them are refused. @throws Refusal */
function refuseWith(
  flags: ExploreFlags,
  what: "matrix" | "protocol",
  allowed: readonly string[],
): void {
  const other = Object.keys(flags).find((name) => name !== what && !allowed.includes(name));
  if (other === undefined) return;
  const shown = allowed.filter((name) => name !== "check").map((name) => `--${name}`);
  const expected = `--${what} alone, or ${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
  throw refusal("", { found: `--${other} and --${what} stand together`, expected });
}

async function run(
  path: string,
  flags: ExploreFlags,
  { jobs, isWanted, signal }: {
    readonly jobs: number;
    readonly isWanted: () => boolean;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const progress = new Progress({ quiet: flags.json === true });
  const prepare = prepareOptions(flags, "all"), explore = optionsOf(flags);
  const junit = await JunitFile.open(flags, `rack explore ${path}`);
  const scenario = await junit.of(checkedScenario(path, flags));
  const exploring = exploreScenario(scenario, {
    prepare: { ...prepare, signal },
    explore: { ...explore, stopped: isWanted },
    jobs,
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  const explored = await junit.of(exploring).catch((error) => {
    if (error !== signal.reason) throw error;
    // Nothing is known yet: its programs were still being tried.
    Deno.exit(130);
  });
  await junit.write(exploreSuites(explored));
  if (flags.json) print(JSON.stringify(exploredDocument(explored)));
  else print(exploredText(explored.explored));
  // What has no oracle: of others the verdict says why they had nothing to judge.
  const unchecked = explored.explored.filter(({ verdict: { verdict, judgedBy } }) =>
    verdict === "unchecked" && judgedBy.length === 0
  ).map(({ label }) => label);
  if (unchecked.length > 0) say(uncheckedText(unchecked, { claims: flags.claims === true }));
  Deno.exitCode = exitOf(explored);
}

function uncheckedText(
  labels: readonly string[],
  { claims }: { readonly claims: boolean },
): string {
  const ways = [
    "a program's cpu.note",
    "a protocol's recover or check",
    ...(claims ? [] : ["--claims"]),
  ];
  return `${labels.join("; ")}: ${UNCHECKED}: ${ways.join(", ")} would say what has to hold`;
}

/** Checks and converts the options. @throws Refusal */
function optionsOf(flags: ExploreFlags): ExploreOptions {
  const number = (option: NumberFlag) => {
    const text = flags[option];
    return text === undefined ? undefined : numberOf(option, text);
  };
  const time = (option: "stall" | "from" | "until" | "for") => {
    const text = flags[option];
    return text === undefined ? undefined : timeOf(`--${option}`, text);
  };
  const forPs = time("for");
  const options = exploreOptions({
    cut: flags.cut === undefined ? undefined : cutOf(flags.cut),
    choices: number("choices"),
    tear: number("tear"),
    cuts: number("cuts"),
    preemptions: number("preemptions"),
    stall: time("stall"),
    interleavings: number("interleavings"),
    from: time("from"),
    until: time("until"),
    limit: number("limit"),
    forMs: forPs === undefined ? undefined : forPs / 1e9,
    claims: flags.claims === true,
    robust: flags.robust === true,
  });
  refuseNothing(options, (option) => `--${option}`);
  return options;
}

type NumberFlag = keyof typeof EXPLORE_NUMBERS;

/** @throws Refusal */
function numberOf(option: NumberFlag, text: string): number {
  const range: ExploreNumber = EXPLORE_NUMBERS[option];
  const value = whole(`--${option}`, text, range), { multipleOf = 1 } = range;
  if (value % multipleOf === 0) return value;
  throw refusal(`--${option}`, { found: `"${text}"`, expected: `a multiple of ${multipleOf}` });
}

function helpOf(option: NumberFlag): string {
  const { what, normal }: ExploreNumber = EXPLORE_NUMBERS[option];
  return normal === undefined ? what : `${what} (${normal})`;
}

/** The first Ctrl-C ends with the results so far; a second one ends at once. */
function stopOnInterrupt() {
  const ending = new AbortController(), { signal } = ending;
  const listen = () => {
    if (signal.aborted) Deno.exit(130);
    say("stopping: what is known by now follows");
    ending.abort();
  };
  for (const name of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(name, listen);
  return { isWanted: () => signal.aborted, signal };
}
