/** Where a program waits is a line of its file, and what a card has refused and why: at the end of a run, and of a rack that is up. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

/** It READs from its own host with a key that no region has, and waits for one completion more than comes. */
const PROTOCOL = `export default function* ({ cpu, device }) {
  const v = device.verbs;
  const cq = v.must(yield* v.createCq(device, { entries: 16 })), pd = v.allocPd(device);
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(64), { access: 1 }));
  const sizes = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };
  const qps = [v.must(yield* v.createQp(pd, sizes)), v.must(yield* v.createQp(pd, sizes))];
  for (const [i, qp] of qps.entries()) {
    v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
    const destQpn = qps[1 - i].qpn, destAddress = cpu.addresses.a;
    const rtr = { destAddress, destQpn, rqPsn: 0, pathMtu: 1024, maxDestRdAtomic: 1, minRnrTimer: 1 };
    v.must(yield* v.modifyQp(qp, { state: "rtr", ...rtr }));
    const rts = { sqPsn: 0, timeout: 14, retryCnt: 7, rnrRetry: 7, maxRdAtomic: 1 };
    v.must(yield* v.modifyQp(qp, { state: "rts", ...rts }));
  }
  const remote = { va: mr.address, rkey: 0x1234 };
  v.must(yield* v.postSend(qps[0], { opcode: "write", sges: [v.sge(mr)], remote }));
  yield* v.waitCompletion(cq);
  cpu.log("waits now");
  yield* v.waitCompletion(cq);
}
`;
const SCENARIO = `name: waiting
seed: 7
profile: clx-optane-cx5
hosts: { a: {} }
programs: [{ on: a, program: ./waiting.ts }]
`;
const WAITS = /waits for a completion \(waitCompletion\) since [\d.]+ us, at waiting\.ts:19:3/;
const REFUSED = /NAK [a-z ]+ to a, queue pair \d+ to \d+, PSN 0: .*0x1234/;

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
  await rig.file("waiting.ts", PROTOCOL);
  await rig.file("waiting.yaml", SCENARIO);
});

afterAll(() => rig.closeDown());

describe("a program that waits", () => {
  it("is named with the line at which it waits, and so is what a card has refused, by rack run and by rack why", async () => {
    const scenario = `${rig.cache}/waiting.yaml`;
    const { code, stdout } = await rig.run(["run", scenario, "--pack", "all"]);
    assert.equal(code, 1, stdout);
    assert.match(stdout, WAITS);
    assert.match(stdout, REFUSED);

    await rig.must(["up", scenario, "--pack", "machine"]);
    let said = "";
    await eventually("it waits", async () => {
      said = await rig.must(["why"]);
      return WAITS.test(said);
    });
    assert.match(said, /^a: \.\/waiting\.ts#2 waits for a completion/m);
    const [program] = JSON.parse(await rig.must(["why", "--json"])).programs;
    assert.deepEqual(
      [program.host, program.program, program.at],
      ["a", "./waiting.ts#2", "waiting.ts:19:3"],
    );
    assert.match(said, new RegExp(`^a-rnic at [\\d.]+ us: ${REFUSED.source}`, "m"));
    const { warnings: [warning] } = JSON.parse(await rig.must(["why", "--json"]));
    assert.equal(warning.card, "a-rnic");
    assert.match(warning.message, REFUSED);
    // What it has logged is in its process's own log.
    assert.match(await rig.must(["logs", "a"]), /\[a [\d.]+ us\] waits now/);
  });
});
