import type { Command } from "commander";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { columnsOf, tableText } from "../../console/reports/table.ts";
import {
  type CatalogueRow,
  catalogueRow,
  catalogueRows,
  withFrames,
} from "../../console/scenarios/catalogue.ts";
import { exitOf, exploreScenario } from "../../console/explore/explore_scenario.ts";
import { exploredDocument, exploredText } from "../../console/explore/report.ts";
import { exploreSuites } from "../../console/reports/junit/suites.ts";
import { EXPLORE_OPTIONS, refuseNothing } from "../../console/api/options.ts";
import { exploreOptions } from "../../console/explore/options.ts";
import { type ExploreOptions, UNCHECKED } from "../../console/explore/types.ts";
import { exploreTheMatrix } from "./explore_matrix.ts";
import { exploreTheProtocol } from "./explore_protocol.ts";
import { JunitFile, type JunitFlags } from "../../console/reports/junit/file.ts";
import { addJunitOption, addTable, type FlagsOf, given, readTable } from "./options.ts";
import {
  addCheckOption,
  addVariantOptions,
  checkedScenario,
  type CheckFlags,
  jobsOf,
  prepareOptions,
  type VariantFlags,
} from "./rack_options.ts";
import { print, Progress, say } from "./output.ts";

interface ExploreFlags
  extends VariantFlags, CheckFlags, JunitFlags, FlagsOf<typeof EXPLORE_OPTIONS> {
  readonly json?: boolean;
  readonly matrix?: boolean;
  readonly list?: boolean;
  readonly protocol?: string;
}

export function addExplore(program: Command): void {
  const explore = addVariantOptions(program.command("explore [scenario]"));
  addTable(
    addJunitOption(addCheckOption(explore)),
    EXPLORE_OPTIONS,
  )
    .description(
      "cut the power at every instant, and interleave programs on shared regions, and see whether every promise is kept",
    )
    .option("--matrix", "no scenario: every method on every kind of responder, as a table")
    .option(
      "--protocol <file>",
      "no scenario: rows of the coherent cards' protocol of your own, in every state of small racks",
    )
    .option(
      "--list",
      "no scenario: protocols that are right or wrong, by the names that stand for their scenarios",
    )
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
With --protocol, which takes --limit as states of each rack: 0: all racks hold, 1: one does not, with the shortest way there, 2: not all states were seen, or no
rack has met any of the rows; see scripts/scenarios/OWN_COHERENCE.md.
A protocol's own file may say how a host recovers, and what must hold then: see scripts/scenarios/OWN_RECOVERY.md.
Native programs run once, and their recover: on each content of memory that is left: see scripts/scenarios/NATIVE_SCM.md.
Ends with 0: every promise is kept; 1: one is not, with a counterexample, or the run is wrong without a power failure
(failed); 2: not all instants or choices were seen (partial), or nothing was promised or checked (unchecked).

Example:
  rack explore scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio on
  rack explore scripts/scenarios/persist_pair.yaml --method write-only --claims
  rack explore --matrix
  rack explore --list
  rack explore ack_before_flush
  rack explore --protocol scripts/scenarios/my_coherence.ts`,
    )
    .action(start);
}

async function start(scenario: string | undefined, flags: ExploreFlags): Promise<void> {
  const { protocol } = flags;
  const kinds = [scenario, protocol, flags.matrix || undefined, flags.list || undefined];
  const asked = kinds.filter((each) => each !== undefined);
  if (asked.length !== 1) {
    const found = asked.length === 0 ? "rack explore" : "several of them";
    throw refusal("", {
      found,
      expected: "a scenario, or --matrix, or --list, or --protocol FILE",
    });
  }
  if (flags.list) {
    refuseWith(flags, "list", LIST_FLAGS);
    return printCatalogue(flags);
  }
  if (flags.matrix) refuseWith(flags, "matrix", MATRIX_FLAGS);
  if (protocol !== undefined) refuseWith(flags, "protocol", PROTOCOL_FLAGS);
  const jobs = jobsOf(flags);
  const stop = stopOnInterrupt();
  if (scenario !== undefined) return await run(scenario, flags, { jobs, ...stop });
  const { json = false, junit, check } = flags;
  if (protocol !== undefined) {
    const { limit: statesMax } = readTable({ limit: EXPLORE_OPTIONS.limit }, flags);
    const options = { ...given({ junit, check }), json, jobs, statesMax };
    return await exploreTheProtocol(protocol, { ...options, isStopped: stop.isWanted });
  }
  return await exploreTheMatrix({ json, jobs, ...given({ junit }), isStopped: stop.isWanted });
}

const MATRIX_FLAGS = ["jobs", "json", "junit", "check"];
const LIST_FLAGS = ["json", "check"];

function printCatalogue({ json }: Pick<ExploreFlags, "json">): void {
  const rows = catalogueRows();
  if (json) return print(JSON.stringify({ protocols: rows }));
  const columns = columnsOf<CatalogueRow>(
    { title: "protocol", value: ({ name }) => name },
    { title: "verdict", value: ({ verdict }) => verdict },
    {
      title: "why",
      value: ({ why, source }) => source === undefined ? why : `${why} (${source})`,
    },
  );
  print(tableText(columns, rows));
}

const PROTOCOL_FLAGS = ["check", "jobs", "json", "junit", "limit"];

/** The matrix and a protocol's racks are fixed. @throws Refusal */
function refuseWith(
  flags: ExploreFlags,
  what: "matrix" | "protocol" | "list",
  allowed: readonly string[],
): void {
  const other = Object.keys(flags).find((name) => name !== what && !allowed.includes(name));
  if (other === undefined) return;
  const shown = allowed.filter((name) => name !== "check").map((name) => `--${name}`);
  const ways = [shown.slice(0, -1).join(", "), shown.at(-1)].filter(Boolean).join(" and ");
  const expected = `--${what} alone, or ${ways}`;
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
  const prepare = prepareOptions(flags, "all"), explore = optionsOf(flags, catalogueRow(path));
  const junit = await JunitFile.open(flags, `rack explore ${path}`);
  const scenario = await junit.of(checkedScenario(path, flags));
  const exploring = exploreScenario(scenario, {
    prepare: { ...prepare, signal, native: { kind: "run", onNotice: say } },
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
  // Protocols without an oracle: for others the verdict says why they had nothing to judge.
  const unchecked = explored.explored.filter(({ verdict: { verdict, judgedBy, native } }) =>
    verdict === "unchecked" && judgedBy.length === 0 && native === undefined
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

/** @param row with the frames that show its verdict. @throws Refusal */
function optionsOf(flags: ExploreFlags, row: CatalogueRow | undefined): ExploreOptions {
  const options = withFrames(row, readTable(EXPLORE_OPTIONS, flags));
  refuseNothing(options);
  return exploreOptions(options);
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
