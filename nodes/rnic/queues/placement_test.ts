/** The same traffic by every placement and layout of queue information, and by every cache. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_PLAN, type QueueCachePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import { type Placement, PLACEMENTS } from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { Pair } from "../testing/pair_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

const OWN: Placement = { ...PLACEMENTS.default, depth: 1, unitBytes: 1, wqeAddress: 2 };
const RULES: readonly [string, Placement][] = [...Object.entries(PLACEMENTS), ["own", OWN]];
const NONE: QueueCachePlan = { entries: 0, evict: "oldest", amount: 1 };
const ONE: QueueCachePlan = { entries: 1, evict: "oldest", amount: 1 };

function pair(plan: Parameters<typeof rigOf>[0]): Pair {
  const rig = rigOf(plan);
  const from = rig.register(rig.a, { length: 4096 });
  const to = rig.register(rig.b, { length: 4096 });
  rig.fill(rig.a, from, (i) => i * 7 + 1);
  return { rig, ...rig.connect({ depth: 8, rqDepth: 8 }), from, to };
}

function rigOf(plan: {
  readonly placement: Placement;
  readonly layout: "areas" | "record";
  readonly cache: QueueCachePlan;
}): Rig {
  const { cache: queueCache, ...given } = plan;
  const queuePlan = { ...QUEUE_PLAN, ...given };
  return new Rig({ plans: { a: { queueCache, queuePlan }, b: { queueCache, queuePlan } } });
}

/** SENDs and WRITEs round both rings, three at a time. */
function traffic({ rig, a, b, from, to }: Pair): void {
  const sent: number[] = [], seen: number[] = [], received: number[] = [];
  for (let round = 0; round < 8; round++) {
    const at = round * 64;
    rig.recv(rig.b, b, [{ address: to.va + at, length: 64, lkey: to.key }], "pointer");
    const sges = [{ address: from.va + at, length: 32, lkey: from.key }];
    sent.push(rig.enqueueSend(rig.a, a, { opcode: "send", sges }));
    const remote = { va: BigInt(to.va + 2048 + at), rkey: to.key };
    sent.push(rig.enqueueSend(rig.a, a, { opcode: "write", remote, sges }));
    rig.ring(rig.a, a.sq, round % 2 === 0 ? "pointer" : "number");
    sent.push(rig.send(rig.a, a, { opcode: "write", remote, sges }));
    rig.run();
    seen.push(...rig.poll(rig.a, a.sendCq).map(({ wqeIndex }) => wqeIndex));
    received.push(...rig.poll(rig.b, b.recvCq).map(({ wqeIndex }) => wqeIndex));
    assert.deepEqual(rig.bytes(rig.b, to, at, 32), rig.bytes(rig.a, from, at, 32));
    assert.deepEqual(rig.bytes(rig.b, to, 2048 + at, 32), rig.bytes(rig.a, from, at, 32));
  }
  assert.deepEqual(seen, sent, "none lost, repeated or reordered");
  assert.deepEqual(received, [0, 1, 2, 3, 4, 5, 6, 7]);
}

describe("placement", () => {
  for (const [name, placement] of RULES) {
    for (const layout of ["areas", "record"] as const) {
      it(`Q-05, Q-07: by ${name} in ${layout}, with one entry cached and without a cache, every WQE completes once and in order`, () => {
        for (const cache of [ONE, NONE]) traffic(pair({ placement, layout, cache }));
      });
    }
  }

  it("Q-07: a cold queue costs three reads in areas, one as a record; without a cache every doorbell is cold", () => {
    const cost = (layout: "areas" | "record", cache: QueueCachePlan) => {
      const p = pair({ placement: PLACEMENTS.default, layout, cache });
      const before = p.rig.a.rnic.statistics();
      traffic(p);
      const { doorbells, doorbellReads, cacheHits, cacheEvictions } = p.rig.a.rnic.statistics();
      const perDoorbell = doorbellReads! / doorbells!;
      return { perDoorbell, evictions: cacheEvictions! - before["cacheEvictions"]!, cacheHits };
    };
    const areas = cost("areas", NONE), record = cost("record", NONE);
    // Half of the doorbells come while the one before has the queue's information.
    assert.ok(areas.perDoorbell > 1.4, `${areas.perDoorbell}`);
    assert.ok(record.perDoorbell <= areas.perDoorbell / 2, `${record.perDoorbell}`);
    assert.deepEqual([areas.evictions, record.evictions], [0, 0], "there is nothing to evict");
    assert.ok(cost("record", ONE).evictions > 8);
  });

  it("Q-05: by both-in-3 the RNIC's pointer lies beside the host's, and neither write touches the other", () => {
    const p = pair({ placement: PLACEMENTS["both-in-3"], layout: "areas", cache: ONE });
    traffic(p);
    const { host } = p.rig.a;
    const { queue, write, stamp } = p.a.sq;
    assert.equal(host.field(queue, "hostPointer"), write);
    assert.equal(host.field(queue, "stamp"), stamp);
    assert.equal(host.field(queue, "rnicPointer"), (write + 1) % 8, "evicted by its CQ");
  });
});
