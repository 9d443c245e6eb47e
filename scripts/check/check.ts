/**
 * Runs every check of the tree, continues after a failure so that all problems are reported, and
 * ends with the line `N passed, N failed`. `--quick` leaves out the tests of the whole rack.
 * Started by `scripts/test`.
 */
import { countTests, type TestCount } from "./count_tests.ts";
import { isThere } from "../../console/base/files.ts";
import { ROOT } from "../../console/base/paths.ts";

export interface Stage {
  readonly name: string;
  readonly args: readonly string[];
  /** Folders whose tests are counted; the stage is left out where none of them exists. */
  readonly tests?: readonly string[];
  readonly slow?: boolean;
}

export interface Outcome extends TestCount {
  readonly stage: string;
  readonly seconds: number;
}

/**
 * Tests of racks, of the command and of its shell completion start processes; Deno permits reading `/proc` only with
 * all permissions.
 */
const RACK_PERMISSIONS: readonly string[] = ["--allow-all"];

const SEED_PERMISSIONS: readonly string[] = ["--allow-read", "--allow-env=RACKMESH_TEST_SEED"];

/**
 * Tests of whole racks in this process, and of checkers, records and tables: they share nothing (each
 * writes to a temporary folder of its own), so they can run in parallel. The other tests start processes,
 * brokers or the command, and need the whole machine.
 */
const IN_ONE_PROCESS: readonly string[] = [
  "tests/chaos/chaos_draw_test.ts",
  "tests/chaos/chaos_records_test.ts",
  "tests/checks",
  "tests/crash",
  "tests/persistence",
  "tests/programs/perftest_faults_test.ts",
  "tests/programs/replicated_log_again_test.ts",
  "tests/programs/replicated_log_test.ts",
  "tests/rig/load_test.ts",
  "tests/tools/requirements_test.ts",
  "tests/tools/shipped_scenarios_test.ts",
  "tests/tools/trace_test.ts",
  "tests/tools/wireshark_test.ts",
  "tests/transport/congestion_test.ts",
  "tests/transport/connect_test.ts",
  "tests/transport/unreliable_rack_test.ts",
  "tests/verbs",
  "tests/verify",
];

/** Seeds that take longer than `--quick` may. */
const MANY_SEEDS: readonly string[] = [
  "tests/seeds/hostile_frames_test.ts",
  "tests/seeds/properties_test.ts",
  "tests/seeds/transport_full_test.ts",
];

/**
 * Groups that run one after the other; the stages of a group run at the same time. Types and unit tests stand
 * first: they take longest, and the type check has but one thread.
 */
const GROUPS: readonly (readonly Stage[])[] = [
  [
    { name: "format", args: ["fmt", "--check"] },
    { name: "lint", args: ["lint", "--quiet"] },
    { name: "types", args: ["check", "--quiet", "."] },
    {
      name: "layers",
      args: [
        "run",
        "--quiet",
        "--no-prompt",
        "--allow-read",
        "--allow-write",
        "--allow-run",
        "scripts/check/check_layers.ts",
      ],
    },
    // No permission at all: this is the proof that the models are pure.
    { name: "unit tests", args: ["--parallel"], tests: ["fabric", "nodes"] },
  ],
  [
    // These read the tree (what documents name), and run shells (completion) in temporary folders.
    { name: "script tests", args: RACK_PERMISSIONS, tests: ["scripts"] },
    { name: "console tests", args: RACK_PERMISSIONS, tests: ["console"] },
    {
      name: "seeds",
      args: [...SEED_PERMISSIONS, `--ignore=${MANY_SEEDS.join(",")}`],
      tests: ["tests/seeds"],
    },
  ],
  [{
    name: "more seeds",
    args: [...SEED_PERMISSIONS, "--parallel"],
    tests: MANY_SEEDS,
    slow: true,
  }],
  [{
    name: "racks in one process",
    args: ["--parallel", ...RACK_PERMISSIONS],
    tests: IN_ONE_PROCESS,
    slow: true,
  }],
  [{
    name: "rack tests",
    args: [...RACK_PERMISSIONS, `--ignore=tests/seeds,${IN_ONE_PROCESS.join(",")}`],
    tests: ["tests"],
    slow: true,
  }],
];

/** Runs deno. The output of a slow stage is shown at once, that of others only on failure. */
async function deno(args: readonly string[], isSlow: boolean): Promise<boolean> {
  const stdio = isSlow ? "inherit" : "piped";
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: ROOT,
    stdin: "null",
    stdout: stdio,
    stderr: stdio,
  });
  if (isSlow) return (await command.spawn().status).success;
  const { success, stdout, stderr } = await command.output();
  if (!success) {
    const decoder = new TextDecoder();
    console.log(decoder.decode(stdout) + decoder.decode(stderr));
  }
  return success;
}

/** Runs tests and counts them. A run that fails without a failed test counts as one failure. */
async function runTests(stage: Stage, folders: readonly string[]): Promise<TestCount> {
  const report = await Deno.makeTempFile({ prefix: "rackmesh-junit-", suffix: ".xml" });
  try {
    // A stage of its own checks the types.
    const flags = ["--no-prompt", "--no-check", "--permit-no-files", `--junit-path=${report}`];
    const ok = await deno(["test", ...flags, ...stage.args, ...folders], stage.slow === true);
    const count = countTests(await Deno.readTextFile(report));
    return ok || count.failed > 0 ? count : { passed: count.passed, failed: 1 };
  } finally {
    await Deno.remove(report);
  }
}

async function runStage(stage: Stage): Promise<Outcome | null> {
  const folders = stage.tests?.filter((path) => isThere(`${ROOT}/${path}`));
  if (folders?.length === 0) return null;
  console.log(`── ${stage.name}`);
  const start = performance.now();
  const count = folders === undefined
    ? { passed: 0, failed: await deno(stage.args, false) ? 0 : 1 }
    : await runTests(stage, folders);
  return { stage: stage.name, seconds: (performance.now() - start) / 1000, ...count };
}

/**
 * Runs each group when the one before has ended, and its stages at the same time. All of them run, whatever
 * fails.
 * @returns outcomes in the order of the stages, the last line of the output and the exit code.
 */
export async function runGroups(
  groups: readonly (readonly Stage[])[],
  { isQuick, run }: {
    readonly isQuick: boolean;
    readonly run: (stage: Stage) => Promise<Outcome | null>;
  },
): Promise<{ readonly outcomes: readonly Outcome[]; readonly text: string; readonly code: 0 | 1 }> {
  const outcomes: Outcome[] = [];
  for (const group of groups) {
    const stages = group.filter(({ slow }) => !(slow && isQuick));
    const ended = await Promise.all(stages.map(run));
    outcomes.push(...ended.filter((outcome) => outcome !== null));
  }
  const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0);
  const failed = outcomes.reduce((sum, outcome) => sum + outcome.failed, 0);
  return { outcomes, text: `${passed} passed, ${failed} failed`, code: failed === 0 ? 0 : 1 };
}

function lineOf({ stage, seconds, passed, failed }: Outcome): string {
  const tests = passed > 0 ? `  ${passed} tests` : "";
  const verdict = failed === 0 ? "ok    " : "FAILED";
  return `${verdict}  ${stage.padEnd(20)} ${seconds.toFixed(1).padStart(6)} s${tests}`;
}

async function main(args: readonly string[]): Promise<number> {
  const unknown = args.find((arg) => arg !== "--quick");
  if (unknown !== undefined) {
    console.error(`Cannot run the checks: ${unknown} is not known; there is only --quick`);
    return 64;
  }
  const { outcomes, text, code } = await runGroups(GROUPS, {
    isQuick: args.includes("--quick"),
    run: runStage,
  });
  console.log(`\n${outcomes.map(lineOf).join("\n")}\n\n${text}`);
  return code;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
