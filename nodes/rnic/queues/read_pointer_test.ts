/** the pointer that the RNIC moves, as the host reads it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { PLACEMENTS } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { ringDistance } from "../../../fabric/wire/host_bus/queue_information.ts";
import type { Pair } from "../testing/pair_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

const DEPTH = 16;

function pair(plan: Partial<typeof QUEUE_PLAN>): Pair {
  const queuePlan = { ...QUEUE_PLAN, ...plan };
  const rig = new Rig({ plans: { a: { queuePlan }, b: { queuePlan } } });
  const from = rig.register(rig.a, { length: 4096 });
  const to = rig.register(rig.b, { length: 4096 });
  return { rig, ...rig.connect({ depth: DEPTH, rqDepth: DEPTH }), from, to };
}

function write({ rig, a, from, to }: Pair): number {
  const sges = [{ address: from.va, length: 64, lkey: from.key }];
  const remote = { va: BigInt(to.va), rkey: to.key };
  return rig.enqueueSend(rig.a, a, { opcode: "write", remote, sges });
}

describe("the read pointer in host memory", () => {
  for (const placement of [PLACEMENTS.default, PLACEMENTS["both-in-3"]]) {
    const space = placement.rnicPointer;
    it(`Q-03: in space ${space} it stands behind the last unit when all are taken, through three passes of the ring`, () => {
      const p = pair({ readPointer: "batched", placement });
      const { rig, a, b } = p;
      for (let round = 0; round < 10; round++) {
        for (let i = 0; i < 5; i++) write(p);
        rig.ring(rig.a, a.sq);
        const sges = [{ address: p.to.va, length: 64, lkey: p.to.key }];
        rig.recv(rig.b, b, sges);
        rig.send(rig.a, a, { opcode: "send", inline: new Uint8Array(8) });
        rig.run();
        assert.equal(rig.poll(rig.a, a.sendCq).length, 6);
        rig.poll(rig.b, b.recvCq);
        assert.equal(rig.a.host.field(a.sq.queue, "rnicPointer"), (a.sq.write + 1) % DEPTH);
        assert.equal(rig.b.host.field(b.rq.queue, "rnicPointer"), (b.rq.write + 1) % DEPTH);
      }
      const { pointerWrites } = rig.a.rnic.statistics();
      assert.ok(pointerWrites! < 10 * 6, `${pointerWrites} writes for 60 WQEs: a few together`);
    });
  }

  it("Q-12: in a completion queue the roles turn: the RNIC moves the write pointer, the host the read pointer", () => {
    const p = pair({ readPointer: "batched" });
    const { rig } = p;
    const cq = rig.createCq(rig.a, { entries: 16 });
    const a = rig.createQp(rig.a, { cq });
    const b = rig.createQp(rig.b);
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    let written = 0;
    for (let round = 0; round < 10; round++) {
      for (let i = 0; i < 4; i++) write({ ...p, a });
      rig.ring(rig.a, a.sq);
      rig.run();
      written += 4;
      // Of a ring of 16 it is told with every quarter: the last entry filled.
      assert.equal(rig.a.host.field(cq.cqn, "rnicPointer"), (written - 1) % 16);
      assert.equal(rig.a.host.field(cq.cqn, "hostPointer"), (written - 4) % 16, "none is taken");
      assert.equal(rig.poll(rig.a, cq).length, 4);
      assert.equal(rig.a.host.field(cq.cqn, "hostPointer"), written % 16, "the host has");
    }
  });

  it("Q-03: by at-eviction nothing is written while the queue is cached", () => {
    const p = pair({});
    for (let i = 0; i < 5; i++) write(p);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    assert.equal(p.rig.a.host.field(p.a.sq.queue, "rnicPointer"), 0);
    assert.equal(p.rig.a.rnic.statistics()["pointerWrites"] ?? 0, 0);
  });

  it("Q-03: at every instant the copy is not ahead, and less than a quarter behind any completion that is there", () => {
    const bursts = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 6, maxLength: 16 });
    fc.assert(
      fc.property(bursts, (list) => {
        const p = pair({ readPointer: "batched" });
        const { rig, a } = p;
        let posted = 0, completed = 0, before = 0;
        for (const burst of list) {
          for (let i = 0; i < burst && posted - completed < DEPTH - 1; i++, posted++) write(p);
          rig.ring(rig.a, a.sq);
          // Not to the end: the next burst finds the ring partly filled.
          for (let i = 0; i < 30 && rig.step(); i++) {
            completed += rig.poll(rig.a, a.sendCq).length;
            const copy = rig.a.host.field(a.sq.queue, "rnicPointer");
            const moved = ringDistance(before % DEPTH, copy, DEPTH);
            before += moved;
            assert.ok(before <= posted, `${before} taken of ${posted} posted`);
            assert.ok(completed - before < DEPTH / 4, `${before} told, ${completed} completed`);
          }
        }
      }),
      seeded({ numRuns: 40 }),
    );
  });
});
