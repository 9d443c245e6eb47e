import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CQE_BYTES, decodeCqe, encodeCqe, ownerBit } from "../../../fabric/wire/host_bus/cqe.ts";
import { encodeSpace3, SPACE3_BYTES } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import type { RigCq, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

/** A queue of 16 entries at `a`, and a queue pair that completes there. */
function small(): { rig: Rig; cq: RigCq; qp: RigQp } {
  const rig = new Rig();
  const cq = rig.createCq(rig.a, { entries: 16, vector: 4 });
  const peer = rig.createQp(rig.b);
  const qp = rig.createQp(rig.a, { cq });
  rig.bringUp(rig.a, qp, { qpn: peer.qpn });
  rig.bringUp(rig.b, peer, { qpn: qp.qpn });
  return { rig, cq, qp };
}

function complete({ rig, qp }: { rig: Rig; qp: RigQp }, count: number): void {
  for (let i = 0; i < count; i++) {
    rig.enqueueSend(rig.a, qp, { opcode: "write", remote: { va: 0n, rkey: 0 } });
  }
  rig.ring(rig.a, qp.sq);
  rig.run();
}

/** What the driver does: a new ring, the command, then moves what it has not taken. */
function resize(made: { rig: Rig; cq: RigCq }, entries: number): RigCq | string {
  const { rig, cq } = made;
  const { host } = rig.a;
  const address = host.allocate(entries * CQE_BYTES);
  host.memory.fill(0xf1, address, address + entries * CQE_BYTES);
  const ring = { address, units: entries };
  const stamp = rig.now + 1;
  const command = { op: "resize-cq", cqn: cq.cqn, ring, taken: cq.taken, stamp } as const;
  const reply = rig.command(rig.a, command);
  if (reply.status === "error") return reply.errno;
  for (let position = cq.taken;; position++) {
    const at = cq.address + (position % cq.entries) * CQE_BYTES;
    const bytes = host.memory.subarray(at, at + CQE_BYTES);
    const cqe = decodeCqe(bytes, position, cq.entries);
    assert.ok(cqe !== undefined, "the old ring is not closed");
    if (cqe.opcode === "resize") break;
    const to = address + (position % entries) * CQE_BYTES;
    host.memory.set(encodeCqe(cqe, ownerBit(position, entries)), to);
  }
  const pointer = cq.taken % entries;
  const space3 = host.spaces.space3 + cq.cqn * SPACE3_BYTES;
  host.memory.set(encodeSpace3({ pointer, stamp }), space3);
  return { cqn: cq.cqn, address, entries, taken: cq.taken };
}

describe("a completion queue that is resized", () => {
  for (const entries of [8, 32, 64]) {
    it(`§7 #18: from 16 to ${entries} entries: what it holds stays, in order, and it goes on`, () => {
      const made = small();
      const { rig, qp } = made;
      // Not at the ring's beginning, and in its second pass.
      complete(made, 10);
      rig.poll(rig.a, made.cq);
      complete(made, 9);
      rig.poll(rig.a, made.cq);
      complete(made, 5);
      const cq = resize(made, entries);
      assert.ok(typeof cq === "object");
      complete(made, 2);
      assert.deepEqual(
        rig.poll(rig.a, cq).map(({ wqeIndex }) => wqeIndex),
        [19, 20, 21, 22, 23, 24, 25],
      );
      for (let pass = 0; pass < 12; pass++) {
        complete(made, 6);
        assert.equal(rig.poll(rig.a, cq).length, 6);
      }
      assert.ok(!rig.a.host.events.some(({ type }) => type === "CQ_ERR"));
      assert.equal(qp.sq.write, (26 + 72 - 1) % 64);
    });
  }

  it("§7 #18: to fewer than it holds: EINVAL, nothing has changed", () => {
    const made = small();
    complete(made, 9);
    assert.equal(resize(made, 8), "EINVAL");
    assert.equal(made.rig.poll(made.rig.a, made.cq).length, 9);
  });

  it("§7 #18: to as many units as it holds: EINVAL, as one unit stays free", () => {
    const made = small();
    complete(made, 8);
    assert.equal(resize(made, 8), "EINVAL");
    assert.equal(made.rig.poll(made.rig.a, made.cq).length, 8);
    complete(made, 7);
    const cq = resize(made, 8);
    assert.ok(typeof cq === "object");
    assert.equal(made.rig.poll(made.rig.a, cq).length, 7);
  });

  it("an arm of before is good: one interrupt for what comes in the new ring", () => {
    const made = small();
    const { rig } = made;
    rig.arm(rig.a, made.cq);
    rig.run();
    const cq = resize(made, 32);
    assert.ok(typeof cq === "object");
    complete(made, 2);
    assert.deepEqual(rig.a.host.interrupts, [4]);
    assert.equal(rig.poll(rig.a, cq).length, 2);
  });

  it("its size counts: the larger ring takes what would have overflowed the smaller one", () => {
    const made = small();
    const cq = resize(made, 32);
    assert.ok(typeof cq === "object");
    complete(made, 31);
    assert.ok(!made.rig.a.host.events.some(({ type }) => type === "CQ_ERR"));
    complete(made, 1);
    assert.deepEqual(
      made.rig.a.host.events.map(({ type }) => type).sort(),
      ["CQ_ERR", "QP_FATAL"],
    );
  });
});

describe("arming a completion queue", () => {
  for (const untaken of [1, 2, 3]) {
    it(`§7 #20: raises one interrupt at once for ${untaken} that the host has not taken`, () => {
      const made = small(), { rig, cq } = made;
      complete(made, untaken);
      assert.deepEqual(rig.a.host.interrupts, []);
      rig.arm(rig.a, cq);
      rig.run();
      assert.deepEqual(rig.a.host.interrupts, [4]);
    });
  }

  it("§7 #20: raises none for those that the host says it has taken", () => {
    const made = small(), { rig, cq } = made;
    complete(made, 2);
    assert.equal(rig.poll(rig.a, cq).length, 2);
    rig.arm(rig.a, cq);
    rig.run();
    assert.deepEqual(rig.a.host.interrupts, []);
    complete(made, 1);
    assert.deepEqual(rig.a.host.interrupts, [4]);
  });
});
