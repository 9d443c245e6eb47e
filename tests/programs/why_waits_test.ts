/** Where a program waits is a line of its file: at the end of a run, and of a rack that is up. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PROTOCOL = `export default function* ({ cpu, device }) {
  const { createCq, waitCompletion } = device.verbs;
  const cq = yield* createCq(device, { entries: 16 });
  cpu.log("waits now");
  yield* waitCompletion(cq);
}
`;
const SCENARIO = `name: waiting
seed: 7
profile: clx-optane-cx5
hosts: { a: {} }
programs: [{ on: a, program: ./waiting.ts }]
`;
const WAITS = /waits for a completion \(waitCompletion\) since [\d.]+ us, at waiting\.ts:5:3/;

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
  await rig.file("waiting.ts", PROTOCOL);
  await rig.file("waiting.yaml", SCENARIO);
});

afterAll(() => rig.closeDown());

describe("a program that waits", () => {
  it("is named with the line at which it waits, by rack run and by rack why", async () => {
    const scenario = `${rig.cache}/waiting.yaml`;
    const { code, stdout } = await rig.run(["run", scenario, "--pack", "all"]);
    assert.equal(code, 1, stdout);
    assert.match(stdout, WAITS);

    await rig.must(["up", scenario, "--pack", "machine"]);
    let said = "";
    await eventually("it waits", async () => {
      said = await rig.must(["why"]);
      return WAITS.test(said);
    }, { withinMs: 60_000 });
    assert.match(said, /^a: \.\/waiting\.ts#2 waits for a completion/m);
    const [program] = JSON.parse(await rig.must(["why", "--json"])).programs;
    assert.deepEqual(
      [program.host, program.program, program.at],
      ["a", "./waiting.ts#2", "waiting.ts:5:3"],
    );
    // What it has logged is in its process's own log.
    assert.match(await rig.must(["logs", "a"]), /\[a [\d.]+ us\] waits now/);
  });
});
