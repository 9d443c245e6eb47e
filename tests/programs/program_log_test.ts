/** `cpu.log`: on stderr, with host and virtual time, in the order of virtual time in every packing. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

const PROTOCOL = `export default function* ({ cpu, options }) {
  for (let i = 0; i < 3; i++) {
    yield* cpu.sleep(Number(options.every));
    cpu.log("round", i, { host: cpu.host });
  }
}
`;
/** The sleeps end at no common instant. */
const SCENARIO = `name: logged
seed: 7
profile: clx-optane-cx5
hosts: { a: {}, b: {} }
programs:
  - { on: a, program: ./logged.js, every: 1000003, at: 150us }
  - { on: b, program: ./logged.js, every: 1700001, at: 150us }
`;

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
  await rig.file("logged.js", PROTOCOL);
});

afterAll(() => rig.closeDown());

describe("cpu.log", () => {
  it("prints host, virtual time and values in the order of time, alike in every packing", async () => {
    const scenario = await rig.file("logged.yaml", SCENARIO);
    const logs: string[][] = [];
    for (const pack of ["all", "node"]) {
      const { code, stdout, stderr } = await rig.run(["run", scenario, "--pack", pack]);
      assert.equal(code, 0, stdout + stderr);
      logs.push(stderr.split("\n").filter((line) => /^\[[ab] /.test(line)));
      assert.doesNotMatch(stdout, /round/);
    }
    const [one, many] = logs;
    assert.deepEqual(many, one);
    assert.deepEqual(
      one!.map((line) => line.replace(/^(\[[ab]) [\d.]+ us\]/, "$1]")),
      ["a 0", "b 0", "a 1", "a 2", "b 1", "b 2"].map((line) => {
        const [host, round] = line.split(" ");
        return `[${host}] round ${round} { host: "${host}" }`;
      }),
    );
    const times = one!.map((line) => Number(/ ([\d.]+) us/.exec(line)![1]));
    assert.deepEqual(times, times.toSorted((x, y) => x - y));
  });

  it("prints in a trace as well", async () => {
    const scenario = await rig.file("logged.yaml", SCENARIO);
    const { stderr } = await rig.run(["trace", scenario]);
    assert.match(stderr, /^\[a [\d.]+ us\] round 0 /m);
  });
});
