/** the classic scheme beside the one of three spaces, and what an observer of both counts. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  QUEUE_PLAN,
  type QueueCachePlan,
  type QueuePlan,
} from "../../../fabric/rack/plan/queue_plan.ts";
import { PS_PER_NS } from "../../../fabric/base/time.ts";
import { fieldAddress, PLACEMENTS } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { Rig } from "../testing/rnic_testing.ts";

const ONE: QueueCachePlan = { entries: 1, evict: "oldest", amount: 1 };
const NONE: QueueCachePlan = { entries: 0, evict: "oldest", amount: 1 };
const MANY: QueueCachePlan = { entries: 64, evict: "oldest", amount: 1 };

function pair(plan: Partial<QueuePlan>, queueCache: QueueCachePlan) {
  const queuePlan = { ...QUEUE_PLAN, ...plan };
  const rig = new Rig({ plans: { a: { queueCache, queuePlan }, b: { queueCache, queuePlan } } });
  const from = rig.register(rig.a, { length: 4096 });
  const to = rig.register(rig.b, { length: 4096 });
  return { rig, ...rig.connect({ depth: 16, rqDepth: 16 }), from, to };
}

/** SENDs one doorbell each, some of them while the card is at work with the one before. @returns what the sender's card counted. */
function bursts(plan: Partial<QueuePlan>, queueCache: QueueCachePlan): Record<string, number> {
  const { rig, a, b, from, to } = pair(plan, queueCache);
  const bell = plan.scheme === "classic" ? "number" : plan.doorbell?.carries ?? "pointer";
  const sent: number[] = [], seen: number[] = [], received: number[] = [];
  for (let round = 0; round < 12; round++) {
    for (let i = 0; i < 6; i++) {
      rig.recv(rig.b, b, [{ address: to.va, length: 64, lkey: to.key }], bell);
      const sges = [{ address: from.va, length: 8, lkey: from.key }];
      sent.push(rig.enqueueSend(rig.a, a, { opcode: "send", sges }));
      rig.ring(rig.a, a.sq, bell);
      // From all at once to one by one.
      rig.runFor(round * 60 * PS_PER_NS);
    }
    rig.run();
    seen.push(...rig.poll(rig.a, a.sendCq).map(({ wqeIndex }) => wqeIndex));
    received.push(...rig.poll(rig.b, b.recvCq).map(({ wqeIndex }) => wqeIndex));
  }
  assert.deepEqual(seen, sent, "without another doorbell, none is lost, repeated or reordered");
  assert.deepEqual(received, sent);
  return rig.a.rnic.statistics();
}

describe("the classic scheme", () => {
  it("Q-10: a pointer costs two reads, one behind the other: its address, then the pointer", () => {
    for (
      const placement of [PLACEMENTS.default, { ...PLACEMENTS.default, indexAddress: 2 }] as const
    ) {
      const { rig, a, from, to } = pair({ scheme: "classic", placement }, MANY);
      const { host } = rig.a;
      const { queue } = a.sq;
      const addressOf = (field: "indexAddress" | "hostPointer") =>
        fieldAddress(host.store, host.spaces, { queue, field });
      assert.equal(host.field(queue, "indexAddress"), addressOf("hostPointer"), "two stored words");
      const before = rig.a.rnic.statistics(), logged = host.log.length;
      rig.enqueueSend(rig.a, a, {
        opcode: "write",
        remote: { va: BigInt(to.va), rkey: to.key },
        sges: [{ address: from.va, length: 8, lkey: from.key }],
      });
      rig.ring(rig.a, a.sq, "number");
      rig.run(() => host.log.length > logged);
      assert.equal(
        rig.a.rnic.statistics()["queueReads"]! - before["queueReads"]!,
        1,
        "the second waits",
      );
      rig.run();
      const reads = host.log.slice(logged).flatMap((message) =>
        message.kind === "memory-read" ? [message.address] : []
      );
      assert.deepEqual(reads.slice(0, 2), [addressOf("indexAddress"), addressOf("hostPointer")]);
      const { queueReads, doorbellReads, stalePointers } = rig.a.rnic.statistics();
      assert.equal(queueReads! - before["queueReads"]!, 2);
      assert.deepEqual([doorbellReads! - before["doorbellReads"]!, stalePointers], [2, 0]);
      assert.equal(rig.poll(rig.a, a.sendCq).length, 1);
    }
  });

  for (const [name, placement] of Object.entries(PLACEMENTS)) {
    for (const layout of ["areas", "record"] as const) {
      it(`Q-10: by ${name} in ${layout} it has stale pointers, and recovers; three-space has none`, () => {
        for (const cache of [MANY, ONE, NONE]) {
          const classic = bursts({ scheme: "classic", placement, layout }, cache);
          assert.ok(classic["stalePointers"]! > 0, `${cache.entries} cached: none`);
          for (const carries of ["pointer", "number"] as const) {
            const doorbell = { form: "fifo", carries } as const;
            const counts = bursts({ placement, layout, doorbell }, cache);
            assert.equal(counts["stalePointers"], 0, `${carries}, ${cache.entries} cached`);
          }
        }
      });
    }
  }
});
