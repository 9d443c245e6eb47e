/**
 * Runs every check, and ends with the line `N passed, N failed`. `--quick` leaves out the tests of
 * the whole rack. Started by `scripts/test`.
 */
import {
  type Bounded,
  type BoundedOptions,
  FILE_LIMIT_MS,
  runBounded,
  tellsOfTest,
  testUnderWay,
} from "./bounded.ts";
import { forEachAtOnce } from "../../console/base/at_once.ts";
import { countTests, type TestCount } from "./count_tests.ts";
import { isThere } from "../../console/base/files.ts";
import { ROOT, toFileUrl } from "../../console/base/paths.ts";

export interface Stage {
  readonly name: string;
  readonly args: readonly string[];
  /** A stage without any of these tests is left out. */
  readonly tests?: readonly string[];
  /** Among these. */
  readonly without?: readonly string[];
  /**
   * `apart`: each file by a `deno test` of its own, or with others of its folder ({@link
   * TOGETHER}), several at a time. `together`: by a few modules that import them, so that shared
   * code is loaded once. Default: by one `deno test`.
   */
  readonly files?: "apart" | "together";
  readonly slow?: boolean;
}

export interface Outcome extends TestCount {
  readonly stage: string;
  readonly seconds: number;
  readonly processorSeconds: number;
}

/**
 * Tests of racks, of the command and of its shell completion start processes; Deno permits reading
 * `/proc` only with all permissions.
 */
const RACK_PERMISSIONS: readonly string[] = ["--allow-all"];

export const SEED_PERMISSIONS: readonly string[] = [
  "--allow-read",
  "--allow-env=RACKMESH_TEST_SEED",
];

/**
 * They begin first, so that none is left alone at the end: by their time in a whole run, but those
 * which mostly wait among those which compute.
 */
export const LONGEST: readonly string[] = [
  "tests/programs",
  "tests/persistence",
  "tests/rig/coming_up_test.ts",
  "tests/chaos/chaos_test.ts",
  "tests/rig/elsewhere_test.ts",
  "tests/crash",
  "tests/tools/files_test.ts",
  "tests/coherence",
  "tests/crash/matrix_test.ts",
  "tests/native/explore_test.ts",
  "tests/tools/newcomer_test.ts",
  "tests/console/moments_test.ts",
  "tests/tools/cli_test.ts",
  "tests/rig/large_rack_test.ts",
  "tests/crash/command_test.ts",
  "tests/native/command_test.ts",
  "tests/console/page_test.ts",
  "tests/rig/chaos_up_test.ts",
  "tests/console/instruments_test.ts",
  "tests/rig/determinism_test.ts",
  "tests/rig/machines_test.ts",
  "tests/rig/lanes_test.ts",
  "tests/native/library_test.ts",
  "tests/native",
  "tests/native/replay_test.ts",
  "tests/rig/world_faults_test.ts",
  "tests/transport",
  "tests/programs/own_program_rules_test.ts",
  "tests/verbs",
  "tests/console/own_programs_test.ts",
  "tests/console/so_far_test.ts",
  "tests/console/picture_test.ts",
  "tests/native/verbs_suite_test.ts",
  "tests/native/table_test.ts",
  "tests/rig/nats_cluster_test.ts",
  "tests/console/walk_test.ts",
  "tests/tools/compose_test.ts",
  "tests/programs/own_protocol_mistakes_test.ts",
  "tests/rig/power_failure_test.ts",
  "tests/console/doors_page_test.ts",
  "tests/rig/several_commands_test.ts",
  "tests/rig/replay_test.ts",
  "tests/checks",
  "tests/transport/link_faults_test.ts",
  "tests/console/api_test.ts",
  "tests/programs/program_ends_test.ts",
  "tests/tools/capture_test.ts",
  "tests/rig/pause_test.ts",
  "tests/tools/run_checks_test.ts",
  "tests/verify/verify_test.ts",
  "tests/programs/own_program_rights_test.ts",
  "tests/programs/own_check_test.ts",
  "tests/rig/broker_rights_test.ts",
  "tests/rig/shutdown_order_test.ts",
  "tests/console/command_test.ts",
  "tests/tools/sweep_test.ts",
  "tests/rig/soak_test.ts",
  "tests/rig/live_power_order_test.ts",
  "tests/rig/process_ends_test.ts",
];

/**
 * One `deno test` for each folder, except for files of {@link LONGEST}: loading and compiling the
 * code of a rack is a sixth to a quarter of their time if each does it alone.
 */
const TOGETHER: readonly string[] = [
  "tests/checks",
  "tests/coherence",
  "tests/crash",
  "tests/native",
  "tests/persistence",
  "tests/programs",
  "tests/transport",
  "tests/verbs",
];

/** `--quick` has no time for so many seeds. */
const MANY_SEEDS: readonly string[] = [
  "tests/seeds/hostile_frames_test.ts",
  "tests/seeds/properties_test.ts",
  "tests/seeds/transport_full_test.ts",
];

/**
 * Groups run one after the other, a group's stages at the same time. Types and unit tests take
 * longest, and the type check has only one thread.
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
        // TypeScript's parser reads the environment when it is loaded.
        "--allow-env",
        "--allow-sys",
        "scripts/check/check_layers.ts",
      ],
    },
    // No permission at all proves that the models are pure.
    { name: "unit tests", args: ["--parallel"], tests: ["fabric", "nodes"], files: "together" },
    // One after the other: some set environment variables, which the modules of a parallel run
    // share. They wait for half of their time.
    { name: "console tests", args: RACK_PERMISSIONS, tests: ["console"], files: "together" },
  ],
  [
    // They read the tree (names in documents), and run shells (completion) in temporary folders.
    { name: "script tests", args: RACK_PERMISSIONS, tests: ["scripts"], files: "together" },
    {
      name: "seeds",
      args: SEED_PERMISSIONS,
      tests: ["tests/seeds"],
      without: MANY_SEEDS,
    },
    {
      name: "more seeds",
      args: [...SEED_PERMISSIONS, "--parallel"],
      tests: MANY_SEEDS,
      slow: true,
    },
  ],
  [{
    name: "rack tests",
    args: RACK_PERMISSIONS,
    tests: ["tests"],
    without: ["tests/seeds"],
    files: "apart",
    slow: true,
  }],
];

export type Run = (args: readonly string[]) => Promise<boolean>;

async function deno(
  args: readonly string[],
  { name, isSlow, files }: {
    readonly name: string;
    readonly isSlow: boolean;
    readonly files: number;
  },
): Promise<Bounded> {
  const ended = await runBounded(Deno.execPath(), args, {
    ...limitOf(files),
    ...(isSlow && { onOutput: (part) => void Deno.stdout.writeSync(part) }),
  });
  const { success, isLate, text } = ended;
  if (!success && !isSlow) console.log(text);
  if (isLate) console.log(lateText(name, text));
  return ended;
}

/** Each file adds its time; a file that hangs ends no test. A stage without tests counts as one. */
export function limitOf(files: number): Pick<BoundedOptions, "withinMs" | "silentMs" | "isWord"> {
  const withinMs = Math.max(1, files) * FILE_LIMIT_MS;
  return { withinMs, silentMs: FILE_LIMIT_MS, isWord: tellsOfTest };
}

export function timeText(start: number, { processorSeconds }: Bounded): string {
  const wall = `${((performance.now() - start) / 1000).toFixed(1)} s`;
  return processorSeconds === undefined
    ? wall
    : `${wall}, ${processorSeconds.toFixed(1)} s of processor time`;
}

export function lateText(name: string, text: string): string {
  const last = testUnderWay(text) ?? "none is known";
  return `FAILED  ${name}: it has not ended, or no test in it, within ${
    FILE_LIMIT_MS / 60_000
  } min for each file, and was ended. ` +
    `The test that had begun last: ${last}`;
}

/**
 * Each rack in a test's process has memories of some MiB outside of V8's heap. By default V8 marks
 * its whole heap, in which `deno test` has 80 MB of its own (an array of `Deno.bench`), when these
 * have grown by a tenth.
 */
const TEST_V8_FLAGS = "--v8-flags=--external-memory-max-growing-factor=8";

/** A run that fails without a failed test counts as one failure. */
export async function runTests(
  { args }: Pick<Stage, "args">,
  files: readonly string[],
  run: Run,
): Promise<TestCount> {
  const report = await Deno.makeTempFile({ prefix: "rackmesh-junit-", suffix: ".xml" });
  try {
    const plain = ["--no-prompt", "--no-check", "--permit-no-files", TEST_V8_FLAGS];
    const flags = [...plain, `--junit-path=${report}`];
    // By name: in a folder that contains a workspace member, Deno finds only the member's.
    const ok = await run(["test", ...flags, ...args, ...files]);
    const count = countTests(await Deno.readTextFile(report));
    if (ok || count.failed > 0) return count;
    const failures = [`${files.join(", ")}: no test failed, but the run of the tests did`];
    return { ...count, failed: 1, failures };
  } finally {
    await Deno.remove(report);
  }
}

/**
 * Tests of racks wait for processes, browsers and timers a third of their time. With one more than
 * the cores, a fifth of two cores was idle.
 */
const FILES_AT_ONCE = navigator.hardwareConcurrency + 2;

async function runUnits(
  stage: Stage,
  paths: readonly string[],
  onEnded: (ended: Bounded) => void,
): Promise<TestCount> {
  let total: TestCount = sum([]);
  await forEachAtOnce(unitsOf(paths, stage.without ?? []), async ({ name, files }) => {
    const start = performance.now();
    const run: Run = async (args) => {
      const ended = await runBounded(Deno.execPath(), args, limitOf(files.length));
      onEnded(ended);
      console.log(`── ${name}, ${timeText(start, ended)}\n${ended.text}`);
      if (ended.isLate) console.log(lateText(name, ended.text));
      return ended.success;
    };
    const count = files.length === 1
      ? await runTests(stage, files, run)
      : await runTogether(stage, [files], run);
    total = sum([total, count]);
  }, { atOnce: FILES_AT_ONCE });
  return total;
}

async function runTogether(
  stage: Stage,
  lists: readonly (readonly string[])[],
  run: Run,
): Promise<TestCount> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-tests-" });
  try {
    const entries = await Promise.all(lists.map(async (files, n) => {
      const entry = `${folder}/${n}_test.ts`;
      const urls = files.map((file) => toFileUrl(`${ROOT}/${file}`));
      await Deno.writeTextFile(
        entry,
        urls.map((url) => `import ${JSON.stringify(url)};\n`).join(""),
      );
      return entry;
    }));
    return await runTests({ ...stage, args: ["--config=deno.json", ...stage.args] }, entries, run);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function dealt(files: readonly string[]): string[][] {
  const lists = 2 * navigator.hardwareConcurrency;
  return Array.from({ length: lists }, (_, n) => files.filter((_, i) => i % lists === n));
}

export interface Unit {
  readonly name: string;
  readonly files: readonly string[];
}

export function unitsOf(paths: readonly string[], without: readonly string[]): Unit[] {
  const units = new Map<string, string[]>();
  for (const file of filesOf(paths, without)) {
    const folder = TOGETHER.find((path) => file.startsWith(`${path}/`));
    const name = folder === undefined || LONGEST.includes(file) ? file : folder;
    units.set(name, [...units.get(name) ?? [], file]);
  }
  const rank = (name: string) => LONGEST.includes(name) ? LONGEST.indexOf(name) : LONGEST.length;
  return [...units].map(([name, files]) => ({ name, files }))
    .sort((x, y) => rank(x.name) - rank(y.name));
}

export function filesOf(paths: readonly string[], without: readonly string[]): string[] {
  return paths.flatMap(testFilesIn).filter((file) =>
    !without.some((path) => file === path || file.startsWith(`${path}/`))
  ).sort();
}

function testFilesIn(path: string): string[] {
  if (/_test\.ts$/.test(path)) return [path];
  return [...Deno.readDirSync(`${ROOT}/${path}`)].flatMap(({ name, isDirectory }) =>
    isDirectory || /_test\.ts$/.test(name) ? testFilesIn(`${path}/${name}`) : []
  );
}

function sum(counts: readonly TestCount[]): TestCount {
  const of = (key: "passed" | "failed" | "skipped") =>
    counts.reduce((total, count) => total + count[key], 0);
  return {
    passed: of("passed"),
    failed: of("failed"),
    skipped: of("skipped"),
    failures: counts.flatMap(({ failures }) => failures),
  };
}

function testsOf(
  stage: Stage,
  paths: readonly string[],
  onEnded: (ended: Bounded) => void,
): Promise<TestCount> {
  const files = filesOf(paths, stage.without ?? []);
  const run = runOf(stage, { onEnded, files: files.length });
  switch (stage.files) {
    case "apart":
      return runUnits(stage, paths, onEnded);
    case "together":
      return runTogether(stage, dealt(files), run);
    default:
      return runTests(stage, files, run);
  }
}

function runOf(
  { name, slow = false }: Stage,
  { onEnded, files }: {
    readonly onEnded: (ended: Bounded) => void;
    readonly files: number;
  },
): Run {
  return async (args) => {
    const ended = await deno(args, { name, isSlow: slow, files });
    onEnded(ended);
    return ended.success;
  };
}

async function runStage(stage: Stage): Promise<Outcome | null> {
  const folders = stage.tests?.filter((path) => isThere(`${ROOT}/${path}`));
  if (folders?.length === 0) return null;
  console.log(`── ${stage.name}`);
  const start = performance.now();
  let processorSeconds = 0;
  const onEnded = (ended: Bounded) => void (processorSeconds += ended.processorSeconds ?? 0);
  const count = folders === undefined
    ? { ...sum([]), failed: await runOf(stage, { onEnded, files: 1 })(stage.args) ? 0 : 1 }
    : await testsOf(stage, folders, onEnded);
  const seconds = (performance.now() - start) / 1000;
  return { stage: stage.name, seconds, processorSeconds, ...count };
}

/**
 * A failure does not stop the others. @returns also the last line of the output and the exit code.
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
  const { passed, failed } = sum(outcomes);
  return { outcomes, text: `${passed} passed, ${failed} failed`, code: failed === 0 ? 0 : 1 };
}

function lineOf(
  { stage, seconds, processorSeconds, passed, failed, skipped }: Outcome,
): string {
  const left = skipped > 0 ? `, ${skipped} SKIPPED` : "";
  const tests = passed > 0 ? `  ${passed} tests${left}` : "";
  const verdict = failed === 0 ? "ok    " : "FAILED";
  const [wall, processor] = [seconds, processorSeconds].map((each) => each.toFixed(1).padStart(6));
  return `${verdict}  ${stage.padEnd(20)} ${wall} s  processor ${processor} s${tests}`;
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
  const failures = outcomes.flatMap((outcome) => outcome.failures).map((line) => `FAILED  ${line}`);
  console.log(`\n${[...outcomes.map(lineOf), "", ...failures, text].join("\n")}`);
  return code;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
