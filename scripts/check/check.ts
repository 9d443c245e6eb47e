/**
 * Runs every check of the tree, goes on after a failure so that all problems show, and ends with the
 * line `N passed, N failed`. `--quick` leaves out the tests of the whole rack. Started by
 * `scripts/test`.
 */
import { countTests, type TestCount } from "./count_tests.ts";
import { ROOT } from "../../console/base/paths.ts";

/** One thing to run: `deno` with these arguments. */
interface Stage {
  readonly name: string;
  readonly args: readonly string[];
  /** Folders with tests to be counted; the stage is left out where none of them is there. */
  readonly tests?: readonly string[];
  /** Not part of `--quick`. */
  readonly slow?: boolean;
}

interface Outcome extends TestCount {
  readonly stage: string;
  readonly seconds: number;
}

/** Tests of the whole rack start, watch and end processes; `/proc` asks for all or nothing. */
const RACK_PERMISSIONS: readonly string[] = ["--allow-all"];

const SEED_PERMISSIONS: readonly string[] = ["--allow-read", "--allow-env=RACKMESH_TEST_SEED"];

/** Tests of whole racks that start nothing, and so may run side by side: much computing in each. */
const IN_ONE_PROCESS: readonly string[] = [
  "tests/crash",
  "tests/persistence/compound_test.ts",
  "tests/persistence/flush_on_fail_test.ts",
  "tests/persistence/memory_log_test.ts",
  "tests/persistence/message_sizes_test.ts",
  "tests/persistence/methods_table_test.ts",
  "tests/persistence/mixed_writes_test.ts",
  "tests/persistence/persist_methods_test.ts",
  "tests/persistence/persistence_promises_test.ts",
  "tests/persistence/receive_buffers_test.ts",
  "tests/persistence/replaced_objects_test.ts",
  "tests/persistence/several_requesters_test.ts",
  "tests/persistence/write_amplification_test.ts",
  "tests/programs/replicated_log_again_test.ts",
  "tests/programs/replicated_log_test.ts",
  "tests/transport/connect_uc_test.ts",
  "tests/transport/unreliable_rack_test.ts",
  "tests/verbs/memory_verbs_test.ts",
  "tests/verbs/verbs_test.ts",
  "tests/verbs/verify_verbs_test.ts",
];

const STAGES: readonly Stage[] = [
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
  { name: "script tests", args: [], tests: ["scripts"] },
  { name: "console tests", args: RACK_PERMISSIONS, tests: ["console"] },
  {
    name: "seeds",
    args: [...SEED_PERMISSIONS, "--parallel", "--ignore=tests/seeds/properties_test.ts"],
    tests: ["tests/seeds"],
  },
  {
    name: "property tests with another seed",
    args: [...SEED_PERMISSIONS],
    tests: ["tests/seeds/properties_test.ts"],
    slow: true,
  },
  {
    name: "racks in one process",
    args: ["--parallel", ...RACK_PERMISSIONS],
    tests: IN_ONE_PROCESS,
    slow: true,
  },
  {
    name: "rack tests",
    args: [...RACK_PERMISSIONS, `--ignore=tests/seeds,${IN_ONE_PROCESS.join(",")}`],
    tests: ["tests"],
    slow: true,
  },
];

function isThere(path: string): boolean {
  try {
    Deno.statSync(`${ROOT}/${path}`);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Runs deno. Its output is shown as it comes where it may take long, else only where it fails. */
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

/** Runs tests and counts them. A run that breaks without a failed test counts as one failure. */
async function runTests(stage: Stage, folders: readonly string[]): Promise<TestCount> {
  const report = await Deno.makeTempFile({ prefix: "rackmesh-junit-", suffix: ".xml" });
  try {
    // The types have had their own stage.
    const flags = ["--no-prompt", "--no-check", "--permit-no-files", `--junit-path=${report}`];
    const ok = await deno(["test", ...flags, ...stage.args, ...folders], stage.slow === true);
    const count = countTests(await Deno.readTextFile(report));
    return ok || count.failed > 0 ? count : { passed: count.passed, failed: 1 };
  } finally {
    await Deno.remove(report);
  }
}

async function runStage(stage: Stage): Promise<Outcome | null> {
  const folders = stage.tests?.filter(isThere);
  if (folders?.length === 0) return null;
  console.log(`── ${stage.name}`);
  const start = performance.now();
  const count = folders === undefined
    ? { passed: 0, failed: await deno(stage.args, false) ? 0 : 1 }
    : await runTests(stage, folders);
  return { stage: stage.name, seconds: (performance.now() - start) / 1000, ...count };
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
  const outcomes: Outcome[] = [];
  for (const stage of STAGES) {
    if (stage.slow && args.includes("--quick")) continue;
    const outcome = await runStage(stage);
    if (outcome !== null) outcomes.push(outcome);
  }
  const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0);
  const failed = outcomes.reduce((sum, outcome) => sum + outcome.failed, 0);
  console.log(`\n${outcomes.map(lineOf).join("\n")}\n\n${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
