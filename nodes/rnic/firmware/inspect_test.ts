import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { psnAdd } from "../state/psn.ts";
import { EVERY_ACCESS, FIRST_PSN, go, pair, PAIR_BYTES, post } from "../testing/pair_testing.ts";

describe("Node.inspect of an RNIC", () => {
  it("has its queue pairs by number with what is under way, and its regions", () => {
    const p = pair();
    for (let i = 0; i < 3; i++) post(p, "write", { length: 4, at: 8 * i });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.frames.length === 3);
    const { queuePairs, regions } = p.rig.a.rnic.inspect!();
    const qp = queuePairs.find(({ qpn }) => qpn === p.a.qpn)!;
    assert.partialDeepStrictEqual(qp, {
      type: "rc",
      state: "rts",
      peer: { qpn: p.b.qpn },
      nextPsn: psnAdd(FIRST_PSN, 3),
      unacknowledgedPsn: FIRST_PSN,
      outstanding: 3,
      persistWaiting: 0,
    });
    assert.partialDeepStrictEqual(regions, [{
      key: p.from.key,
      va: p.from.va,
      bytes: PAIR_BYTES,
      access: EVERY_ACCESS,
      isWindow: false,
    }]);
    p.rig.run();
    const after = p.rig.a.rnic.inspect!().queuePairs.find(({ qpn }) => qpn === p.a.qpn)!;
    assert.deepEqual([after.outstanding, after.unacknowledgedPsn], [0, psnAdd(FIRST_PSN, 3)]);
    const far = p.rig.b.rnic.inspect!().queuePairs.find(({ qpn }) => qpn === p.b.qpn)!;
    assert.equal(far.expectedPsn, psnAdd(FIRST_PSN, 3));
  });

  it("shows a queue pair that has failed, which a step has told of", () => {
    const p = pair({}, {}, 0);
    p.rig.tracing = true;
    post(p, "write", { length: 4 });
    go(p);
    const failed = p.rig.traces.filter(({ step }) => step.step === "qp-err");
    const at = (node: string, qpn: number) => [node, qpn, `queue pair ${qpn} enters ERR`];
    assert.deepEqual(
      failed.map(({ node, step }) => [node, step.qpn, step.text]).sort(),
      [at("a", p.a.qpn), at("b", p.b.qpn)],
    );
    for (const side of [p.rig.a, p.rig.b]) {
      const states = side.rnic.inspect!().queuePairs.map(({ state }) => state);
      assert.ok(states.includes("err"), states.join());
    }
  });
});
