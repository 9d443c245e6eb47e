/** `--junit FILE`: what a CI reads of `rack run` and `rack explore`, also of a command that fails. */
import { strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { matrixPlaces } from "../../console/explore/matrix.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { exploreTheMatrix } from "../../scripts/commands/explore_matrix.ts";
import { CommandRig } from "../support/command.ts";

const PAIR = `
name: pair
seed: 7
hosts: { a: {}, b: { ddio: both, scm: { size: 1MiB } } }
programs: [{ on: a, run: put, to: b, method: write-only, bytes: 4096, name: x }]
`;

describe("--junit", () => {
  let rig: CommandRig;

  beforeAll(async () => {
    rig = await CommandRig.open();
  });

  afterAll(() => rig.close());

  /** The heads of a document's elements, without times. */
  async function headsOf(file: string): Promise<string[]> {
    const text = await Deno.readTextFile(`${rig.cache}/out/${file}`);
    return text.split("\n").filter((line) => /<(testsuites?|testcase|failure|error) /.test(line))
      .map((line) => line.trim().replace(/ time="[^"]*"/, "").replace(/(?<=">).*/, ""));
  }

  it("has a suite for each variant and a case for each check, as the exit code says", async () => {
    const pair = await rig.file("pair.yaml", PAIR);
    const lacking = await rig.file("lacking.yaml", `${PAIR}expect: [shutdowns-end-in-time]\n`);
    const out = (name: string) => ["--junit", `${rig.cache}/out/${name}.xml`];
    const said = await rig.each([
      ["run", pair, "--pack", "all", "--claims", ...out("claims")],
      ["run", lacking, "--pack", "all", ...out("lacking")],
      ["explore", pair, "--ddio", "off", ...out("unchecked")],
      ["explore", pair, "--ddio", "on", "--claims", ...out("unsafe")],
      ["run", `${rig.cache}/none.yaml`, ...out("none")],
      ["run", pair, "--pack", "all", "--junit", `${pair}/x.xml`],
    ]);
    equal(said.map(({ code }) => code).join(), "1,1,2,1,64,64", JSON.stringify(said, null, 1));

    const claims = await headsOf("claims.xml");
    equal(claims[0], `<testsuites name="rack run ${pair}" tests="18" failures="1" errors="0">`);
    const suites = claims.filter((line) => line.startsWith("<testsuite "));
    equal(suites[0], '<testsuite name="ddio off" tests="9" failures="0" errors="0" skipped="0">');
    equal(suites[1], '<testsuite name="ddio on" tests="9" failures="1" errors="0" skipped="0">');
    const failed = claims.findIndex((line) => line.startsWith("<failure"));
    equal(claims[failed - 1], '<testcase classname="pair" name="survives-what-was-reported">');
    // The same words as on stdout.
    const [, detail] = /^FAIL survives-what-was-reported: (.*)$/m.exec(said[0]!.stdout)!;
    equal(claims[failed], `<failure type="survives-what-was-reported" message="${detail}">`);

    const expected = (await headsOf("lacking.xml")).slice(-3);
    equal(
      expected[0],
      '<testsuite name="all variants" tests="1" failures="1" errors="0" skipped="0">',
    );
    equal(expected[1], '<testcase classname="pair" name="shutdowns-end-in-time">');

    const unchecked = (await headsOf("unchecked.xml")).at(-1);
    equal(unchecked, '<error type="unchecked" message="nothing was promised or checked">');
    const unsafe = (await headsOf("unsafe.xml")).at(-1)!;
    equal(unsafe.replace(/ at .*/, ""), '<failure type="unsafe" message="the power of b fails');

    const none = (await headsOf("none.xml")).at(-1)!;
    equal(none.startsWith('<error type="command" message="Cannot read the scenario '), true, none);
    equal(
      /^Cannot write --junit .*pair\.yaml\/x\.xml: .*expected a file$/m.test(said[5]!.stderr),
      true,
      said[5]!.stderr,
    );
  });

  it("of the matrix has a case for each cell that was explored, and says how many were not", async () => {
    const junit = `${rig.cache}/out/matrix.xml`;
    const before = Deno.exitCode;
    let cells = 0;
    try {
      await exploreTheMatrix({ json: true, jobs: 1, junit, isStopped: () => ++cells === 2 });
      equal(Deno.exitCode, EXIT.unclear);
    } finally {
      Deno.exitCode = before;
    }
    const heads = await headsOf("matrix.xml");
    const count = matrixPlaces().length;
    equal(
      heads[0]!.startsWith('<testsuites name="rack explore --matrix" tests="3" '),
      true,
      heads[0],
    );
    const first = matrixPlaces()[0]!.method;
    equal(
      heads[2]!.startsWith(`<testcase classname="${first}" name="single, adr, `),
      true,
      heads[2],
    );
    const left = `it was stopped before ${count - 2} cells were explored`;
    equal(heads.at(-1), `<error type="partial" message="${left}">`);
    const { code, stderr } = await rig.run(["explore", "--matrix", "--cut", "b", "--junit", junit]);
    equal(code, 64, stderr);
    equal(/--cut and --matrix stand together.*--json and --junit/.test(stderr), true, stderr);
  });
});
