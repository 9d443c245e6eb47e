/** Runs rdma-core's own tests as a native program on a host of a rack, and judges what they came to. */
import { runScenario } from "../rack/run_scenario.ts";
import { sourceOf } from "../scenarios/scenario_source.ts";
import { type Difference, differenceOf, OutcomeReader, type TestOutcome } from "./outcomes.ts";
import { KNOWN_SKIPS, matches } from "./skips.ts";
import { chosenTests, PYTHON, TESTS_FOLDER, unpackSuite } from "./suite.ts";

export interface VerbsTestOptions {
  /** Files, classes, tests; none: all. */
  readonly words?: readonly string[];
  /** A folder with rdma-core's tests; default: Debian's. */
  readonly from?: string;
  readonly signal?: AbortSignal;
  readonly onNotice?: (text: string) => void;
  readonly onStart?: (run: { readonly id: string }) => void;
  readonly onProgress?: (title: string, share: number) => void;
}

/** Plain data. */
export interface VerbsTestReport {
  readonly run: string;
  readonly directory: string;
  readonly digest: string;
  readonly virtualPs: number;
  readonly wallMs: number;
  /** Of the program; null where it has not ended. */
  readonly code: number | null;
  readonly tests: readonly TestOutcome[];
  /** Empty: all is as known. */
  readonly differences: readonly Difference[];
  /** Patterns of known skips that name no test any more; only where all tests ran. */
  readonly stale: readonly string[];
}

const HOST = "a";
/** Of a line of a log, for people: host and instant. */
const PREFIX = /^\[[^\]]*\] /;

/** The scenario in which tests run: their two ends are queue pairs of one process, over one card. */
export function verbsTestScenario(folder: string, names: readonly string[]): string {
  // -B: nothing is compiled into the folder, as addresses differ for one who finds it there.
  const words = [PYTHON, "-B", `${folder}/run_tests.py`, "-v", "--dev", "rackmesh0", "--gid", "0"];
  const native = JSON.stringify([...words, ...names]);
  return [
    "name: verbs-test",
    `hosts: { ${HOST}: { services: none } }`,
    "programs:",
    `  - { on: ${HOST}, native: ${native} }`,
    "",
  ].join("\n");
}

/** @throws Refusal where something that it needs is not here, or a word names no test; as `runScenario`. */
export async function runVerbsTests(options: VerbsTestOptions = {}): Promise<VerbsTestReport> {
  const { words = [], from = TESTS_FOLDER, signal, onNotice, onStart, onProgress } = options;
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-verbs-test-" });
  try {
    const suite = await unpackSuite(from, folder);
    const { names, tests } = chosenTests(suite, words);
    const seen = new OutcomeReader();
    const scenario = verbsTestScenario(folder, names);
    const report = await runScenario(
      sourceOf(scenario, { path: "verbs-test", base: folder, allowRead: [] }),
      {
        prepare: { packing: "all", native: { kind: "run", ...(onNotice && { onNotice }) } },
        ...(signal && { signal }),
        ...(onStart && { onStart }),
        onLog(line) {
          seen.take(line.replace(PREFIX, ""));
          onProgress?.(`${seen.count} of ${tests.length} tests`, seen.count / tests.length);
        },
      },
    );
    const [ran] = report.natives ?? [];
    const reader = new OutcomeReader();
    for (const { text } of ran?.lines ?? []) reader.take(text);
    const outcomes = reader.outcomes(tests);
    const { run, directory, digest, virtualPs, wallMs } = report;
    return {
      ...{ run, directory, digest, virtualPs, wallMs },
      code: ran?.code ?? null,
      tests: outcomes,
      differences: outcomes.flatMap((one) => differenceOf(one) ?? []),
      stale: words.length > 0 ? [] : staleIn(tests),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function staleIn(tests: readonly string[]): string[] {
  const names = tests.map((test) => test.replace(/^tests\.test_/, ""));
  return KNOWN_SKIPS.flatMap((row) => row.tests)
    .filter((pattern) => !names.some((name) => matches(name, pattern)));
}
