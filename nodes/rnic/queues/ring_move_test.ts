/**
 * Rings that go on elsewhere, with everything else happening at the same time: random traffic.
 * `interleavings_test.ts` has every interleaving of a small ring.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { PS_PER_NS, PS_PER_US } from "../../../fabric/base/time.ts";
import type { RigCq, Ring, Side } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import {
  adopt,
  movedPosition,
  type Resumed,
  resumed,
  storeSpace2,
} from "../testing/space2_testing.ts";

const UNIT_BYTES = 64;
/** Units that a ring's memory has room for. */
const ROOM_UNITS = 64;

/** What is outstanding in a queue: place in the ring, and what the completion will name it by. */
interface Outstanding {
  position: number;
  index: number;
  readonly units: number;
  readonly number: number;
}

/** A queue with the record that a driver keeps of it. */
class Driven {
  readonly outstanding: Outstanding[] = [];
  readonly done: number[] = [];
  #posted = 0;

  constructor(
    readonly rig: Rig,
    readonly side: Side,
    readonly ring: Ring,
    readonly cq: RigCq,
  ) {}

  get used(): number {
    return this.outstanding.reduce((sum, { units }) => sum + units, 0);
  }

  hasRoom(units: number): boolean {
    return this.used + units <= this.ring.depth - 1;
  }

  /** Notes what is about to be posted. @returns its number. */
  note(units: number): number {
    const position = (this.ring.write + 1) % this.ring.depth;
    const number = this.#posted++;
    this.outstanding.push({ position, index: position, units, number });
    return number;
  }

  poll(): void {
    for (const { wqeIndex, status } of this.rig.poll(this.side, this.cq)) {
      const oldest = this.outstanding.shift();
      assert.ok(oldest !== undefined, "a completion of nothing");
      assert.deepEqual([wqeIndex, status], [oldest.index, "SUCCESS"]);
      this.done.push(oldest.number);
    }
  }

  /** Has the RNIC take another ring over. @returns whether it has. */
  resize(place: { readonly address: number; readonly units: number }, byValue: boolean): boolean {
    const { rig, side, ring } = this;
    // As the driver (`refuseDepth`): completions that nobody has polled keep their units, which the RNIC
    // does not know. As many units as the ring has would be as none when it moves the next time.
    if (this.used >= place.units) return false;
    const { queue } = ring;
    const data = new Uint8Array([0, 0, 0, place.units]);
    const reply = rig.command(
      side,
      byValue
        ? { op: "write-space2", queue, offset: 0, data }
        : { op: "expand-queue", queue, ring: place },
    );
    if (reply.status === "error") {
      assert.equal(reply.errno, "EBUSY");
      return false;
    }
    this.take(place, resumed(reply));
    return true;
  }

  take(place: { readonly address: number; readonly units: number }, reply: Resumed): void {
    const { ring, cq, outstanding } = this;
    const tail = outstanding[0]?.position ?? (ring.write + 1) % ring.depth;
    const move = { from: ring.depth, to: place.units, read: reply.read, tail };
    for (const [i, each] of outstanding.entries()) {
      each.position = movedPosition(each.position, move);
      if (i >= reply.written - cq.taken) each.index = each.position;
    }
    adopt(ring, place, { reply, tail });
  }
}

/** A connection of which `a` sends and `b` receives, with memory for larger rings. */
function traffic() {
  const queueCache = { entries: 2, evict: "oldest", amount: 1 } as const;
  const rig = new Rig({ plans: { a: { queueCache }, b: { queueCache } }, memoryBytes: 1 << 20 });
  const create = (side: Side) => {
    const qp = rig.createQp(side, { depth: 8, rqDepth: 8 });
    return { qp, spare: [side.host.allocate(ROOM_UNITS * UNIT_BYTES)] };
  };
  const a = create(rig.a), b = create(rig.b);
  rig.bringUp(rig.a, a.qp, { qpn: b.qp.qpn });
  rig.bringUp(rig.b, b.qp, { qpn: a.qp.qpn });
  const to = rig.register(rig.b, { length: 4096 });
  return {
    rig,
    to,
    a: { ...a, queue: new Driven(rig, rig.a, a.qp.sq, a.qp.sendCq) },
    b: { ...b, queue: new Driven(rig, rig.b, b.qp.rq, b.qp.recvCq) },
  };
}

type Op =
  | { readonly kind: "send"; readonly count: number; readonly long: boolean; readonly bell: Bell }
  | { readonly kind: "recv"; readonly count: number; readonly bell: Bell }
  | { readonly kind: "wait"; readonly ns: number }
  | { readonly kind: "poll" }
  | { readonly kind: "lock"; readonly on: "a" | "b"; readonly ns: number; readonly dies: boolean }
  | {
    readonly kind: "resize";
    readonly on: "a" | "b";
    readonly units: number;
    readonly how: "value" | "in place" | "elsewhere";
  };
type Bell = "pointer" | "number" | "none";

const bell = fc.constantFrom<Bell>("pointer", "pointer", "number", "none");
const on = fc.constantFrom("a" as const, "b" as const);
const operation: fc.Arbitrary<Op> = fc.oneof(
  fc.record({
    kind: fc.constant("send" as const),
    count: fc.integer({ min: 1, max: 6 }),
    long: fc.boolean(),
    bell,
  }),
  fc.record({ kind: fc.constant("recv" as const), count: fc.integer({ min: 1, max: 9 }), bell }),
  fc.record({ kind: fc.constant("wait" as const), ns: fc.integer({ min: 0, max: 6_000 }) }),
  fc.record({ kind: fc.constant("poll" as const) }),
  fc.record({
    kind: fc.constant("lock" as const),
    on,
    ns: fc.integer({ min: 0, max: 8_000 }),
    dies: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("resize" as const),
    on,
    units: fc.constantFrom(4, 8, 16, 32, 64),
    how: fc.constantFrom("value" as const, "in place" as const, "elsewhere" as const),
  }),
);

const INLINE = Uint8Array.from({ length: 200 }, (_, i) => i);

function perform(t: ReturnType<typeof traffic>, op: Op): void {
  const { rig, to } = t;
  switch (op.kind) {
    case "send": {
      const { queue, qp } = t.a;
      for (let i = 0; i < op.count && queue.hasRoom(op.long ? 4 : 1); i++) {
        const immediate = queue.note(op.long ? 4 : 1);
        const data = op.long ? { inline: INLINE } : {};
        rig.enqueueSend(rig.a, qp, { opcode: "send-immediate", immediate, ...data });
      }
      return rig.ring(rig.a, qp.sq, op.bell);
    }
    case "recv": {
      const { queue, qp } = t.b;
      for (let i = 0; i < op.count && queue.hasRoom(1); i++) {
        queue.note(1);
        rig.b.host.enqueueRecv(qp, [{ address: to.va, length: 256, lkey: to.key }]);
      }
      return rig.ring(rig.b, qp.rq, op.bell);
    }
    case "wait":
      return rig.runFor(op.ns * PS_PER_NS);
    case "poll":
      t.a.queue.poll();
      return t.b.queue.poll();
    case "lock": {
      const { side, ring: { queue, depth } } = t[op.on].queue;
      const unitBytes = UNIT_BYTES;
      // One that died may hold it still.
      const reply = rig.command(side, { op: "lock-space2", queue });
      if (reply.status === "error") return assert.equal(reply.errno, "EBUSY");
      rig.runFor(op.ns * PS_PER_NS);
      if (op.dies) return storeSpace2(side, queue, { depth: 2 * depth, unitBytes: 3 });
      storeSpace2(side, queue, { depth, unitBytes });
      resumed(rig.command(side, { op: "unlock-space2", queue }));
      return;
    }
    case "resize": {
      const { queue, spare } = t[op.on];
      const { address } = queue.ring;
      if (op.how !== "elsewhere") {
        queue.resize({ address, units: op.units }, op.how === "value");
      } else if (queue.resize({ address: spare[0]!, units: op.units }, false)) {
        spare[0] = address;
      }
    }
  }
}

describe("rings that are resized in use", () => {
  it("Q-09: random traffic, locks, dead lock holders, resizes: all complete once, in order", () => {
    let moves = 0;
    const property = fc.property(
      fc.array(operation, { minLength: 10, maxLength: 60 }),
      (ops) => {
        const t = traffic();
        const immediates: number[] = [];
        const { takeCqes } = t.rig.b.host;
        t.rig.b.host.takeCqes = function (...args) {
          const cqes = takeCqes.apply(this, args);
          immediates.push(...cqes.map(({ immediate }) => immediate));
          return cqes;
        };
        for (const op of ops) {
          perform(t, op);
          if (op.kind === "resize" && t[op.on].queue.ring.depth !== 8) moves++;
        }
        // Whatever was not rung for is rung for by the next post.
        for (let round = 0; t.a.queue.outstanding.length > 0; round++) {
          assert.ok(round < 200, "a SEND never completes");
          perform(t, { kind: "send", count: round < 3 ? 1 : 0, long: false, bell: "pointer" });
          perform(t, { kind: "recv", count: 3, bell: "pointer" });
          t.rig.runFor(150 * PS_PER_US);
          perform(t, { kind: "poll" });
        }
        // An ACK may be ahead of its RECV's completion, whose queue's information is read first.
        t.rig.run();
        perform(t, { kind: "poll" });
        const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
        assert.deepEqual(t.a.queue.done, upTo(t.a.queue.done.length));
        assert.deepEqual(t.b.queue.done, upTo(t.b.queue.done.length));
        assert.deepEqual(
          immediates,
          upTo(t.a.queue.done.length),
          "each SEND arrives once, in order",
        );
      },
    );
    fc.assert(property, seeded({ numRuns: 60 }));
    assert.ok(moves > 60, `${moves} resizes were tried`);
  });
});
