/**
 * rdma-core's own tests by `rack verbs-test`: all but those whose rings of 128 MiB and pages take most of the
 * command's time (`cq`, `cqex`, `odp`). The whole: the command without a name.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe } from "@std/testing/bdd";
import { type VerbsTestReport, verbsTestScenario } from "../../console/verbs_suite/run.ts";
import {
  chosenTests,
  fileOf,
  type Suite,
  TESTS_FOLDER,
  unpackSuite,
} from "../../console/verbs_suite/suite.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { CommandRig } from "../support/command.ts";
import { giveLibrary, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const SLOW = ["test_cq", "test_cqex", "test_odp"];
/** Files with traffic, polls and events, in short runs. */
const COMPARED = ["atomic", "cq_events"];

const folder = await Deno.makeTempDir({ prefix: "rackmesh-verbs-suite-" });
const suite = await nativeMissing() ?? await suiteIn(folder);
const it = itUnless(
  typeof suite === "string" ? suite : undefined,
  "tests/native/verbs_suite_test.ts",
);

/** The tests, or what this machine lacks for them. */
async function suiteIn(folder: string): Promise<Suite | string> {
  try {
    return await unpackSuite(TESTS_FOLDER, folder);
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

describe("rdma-core's own tests", () => {
  let rig: CommandRig;
  const { tests } = typeof suite === "string" ? { tests: [] } : suite;

  beforeAll(async () => {
    rig = await CommandRig.open();
    if (typeof suite !== "string") await giveLibrary(rig);
  });
  afterAll(async () => {
    await rig.close();
    await Deno.remove(folder, { recursive: true });
  });

  it("come to what is known of them", async () => {
    const files = [...new Set(tests.map(fileOf))].filter((file) => !SLOW.includes(file));
    const { code, stdout, stderr } = await rig.run(["verbs-test", ...files, "--json"]);
    const report: VerbsTestReport = JSON.parse(stdout);
    assert.deepEqual(report.differences, [], stderr);
    assert.equal(code, 0);
    assert.equal(report.code, 0);
    assert.deepEqual(new Set(report.tests.map(({ test }) => fileOf(test))), new Set(files));
  });

  it("print the same at the same instants with leases and without", async () => {
    const { names } = chosenTests({ tests }, COMPARED);
    const scenario = verbsTestScenario(folder, names);
    const on = await runNative(folder, scenario);
    const off = await runNative(folder, scenario, { env: { RACKMESH_LEASE: "off" } });
    assert.deepEqual(off.transcript, on.transcript);
    assert.ok(on.transcript.some((line) => / OK \(skipped=\d+\)$/.test(line)), "all have run");
  });

  it("are refused by name where there is none, and where their packages are not here", async () => {
    const cases = [
      [["verbs-test", "pdd"], /^"pdd" is no file, class or test of rdma-core's: expected pd$/m],
      [["verbs-test", "--tests", folder + "/none"], /^There are no tests of rdma-core in .*none/m],
    ] as const;
    for (const [words, said] of cases) {
      const { code, stderr } = await rig.run([...words]);
      assert.equal(code, 64, stderr);
      assert.match(stderr, said);
    }
  });
});
