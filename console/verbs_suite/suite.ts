/** rdma-core's own tests, as Debian installs them: where they are, which of them the rack runs, their names. */
import { listOf, nearest, refusal } from "../../fabric/rack/plan/problem.ts";
import { isThere } from "../base/files.ts";

/** Where Debian's rdma-core has the tests, most of them gzipped. */
export const TESTS_FOLDER = "/usr/share/doc/rdma-core/tests";
/** Debian's, for which python3-pyverbs is built: another one in PATH does not have it. */
export const PYTHON = "/usr/bin/python3";
const PACKAGES = "Debian's packages rdma-core and python3-pyverbs";
/** Images for containers often leave out what packages have in /usr/share/doc. */
const TESTS_EXPECTED = `${PACKAGES}, or --tests with a copy of rdma-core's tests of their version`;
/** Tests of what one vendor's cards alone have. */
const VENDORS = /^test_(mlx5|efa|efadv|cuda)(_|$)/;

/** The tests, unpacked. */
export interface Suite {
  /** Has `run_tests.py`. */
  readonly folder: string;
  /** `tests.test_qp.QPTest.test_create_rc_qp`, in the order in which they run. */
  readonly tests: readonly string[];
}

/**
 * Unpacks the tests into a folder, and asks Python for their names.
 * @param from a folder with rdma-core's tests, gzipped or not.
 * @throws Refusal where they, Python or pyverbs are not here.
 */
export async function unpackSuite(from: string, folder: string): Promise<Suite> {
  if (!isThere(`${from}/run_tests.py`)) {
    const found = `There are no tests of rdma-core in ${from}`;
    throw refusal("", {
      found,
      expected: from === TESTS_FOLDER ? TESTS_EXPECTED : "run_tests.py there",
    });
  }
  for await (const { name, isFile } of Deno.readDir(from)) {
    if (!isFile) continue;
    const source = await Deno.open(`${from}/${name}`);
    const bytes = name.endsWith(".gz")
      ? source.readable.pipeThrough(new DecompressionStream("gzip"))
      : source.readable;
    await Deno.writeFile(`${folder}/${name.replace(/\.gz$/, "")}`, bytes);
  }
  return { folder, tests: await testsIn(folder) };
}

async function testsIn(folder: string): Promise<string[]> {
  if (!isThere(PYTHON)) {
    throw refusal("", { found: `There is no ${PYTHON} here`, expected: PACKAGES });
  }
  // Python keeps what it has compiled beside the tests: no run of them does that again.
  const { success, stdout, stderr } = await new Deno.Command(PYTHON, {
    args: [`${folder}/run_tests.py`, "--list-tests"],
    stdin: "null",
  }).output();
  if (!success) {
    const why = new TextDecoder().decode(stderr).trim().split("\n").at(-1) ?? "";
    throw refusal("", { found: `rdma-core's tests do not load: ${why}`, expected: PACKAGES });
  }
  const names = new TextDecoder().decode(stdout).split("\n");
  return names.filter((name) => name.startsWith("tests.") && !VENDORS.test(fileOf(name)));
}

/** `test_qp` of `tests.test_qp.QPTest.test_create_rc_qp`. */
export function fileOf(test: string): string {
  return test.split(".")[1] ?? "";
}

export interface ChosenTests {
  /** Files, classes and tests, as unittest takes them. */
  readonly names: readonly string[];
  /** All that are in them. */
  readonly tests: readonly string[];
}

/**
 * The tests that words name: a file (`qp`), a class or a test in it (`qp.QPTest`), also as rdma-core
 * writes them. None: all. @throws Refusal for a word that names no test.
 */
export function chosenTests(
  { tests }: Pick<Suite, "tests">,
  words: readonly string[],
): ChosenTests {
  const modules = [...new Set(tests.map(fileOf))];
  if (words.length === 0) return { names: modules.map((module) => `tests.${module}`), tests };
  const files = modules.map((module) => module.replace(/^test_/, ""));
  const names = words.map((word) => {
    const prefix = `tests.test_${word.replace(/^tests\./, "").replace(/^test_/, "")}`;
    if (tests.some((test) => isBelow(test, prefix))) return prefix;
    const near = nearest(word, files);
    throw refusal("", {
      found: `"${word}" is no file, class or test of rdma-core's`,
      expected: near ?? `one of ${listOf(files)}, or a class or a test in it`,
    });
  });
  return { names, tests: tests.filter((test) => names.some((name) => isBelow(test, name))) };
}

function isBelow(test: string, prefix: string): boolean {
  return test === prefix || test.startsWith(`${prefix}.`);
}
