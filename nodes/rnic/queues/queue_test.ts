import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  DOORBELL_OFFSET,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeSpace1,
  decodeSpace2,
  SPACE1_BYTES,
  SPACE2_BYTES,
} from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { Pair } from "../testing/pair_testing.ts";
import { rnicPlan, type Side, stepsToRts } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { ask } from "../testing/space2_testing.ts";

function pair(rig = new Rig(), qp: Parameters<Rig["connect"]>[0] = {}): Pair {
  const from = rig.register(rig.a, { length: 65536 });
  const to = rig.register(rig.b, { length: 65536 });
  rig.fill(rig.a, from, (i) => i * 11 + 1);
  return { rig, ...rig.connect(qp), from, to };
}

function write(p: Pair, at: number, qp = p.a): number {
  return p.rig.enqueueSend(p.rig.a, qp, {
    opcode: "write",
    remote: { va: BigInt(p.to.va + at), rkey: p.to.key },
    sges: [{ address: p.from.va + at, length: 8, lkey: p.from.key }],
  });
}

/** A WQE of several units: 200 B inline. */
function longWrite(p: Pair, at: number): number {
  return p.rig.enqueueSend(p.rig.a, p.a, {
    opcode: "write",
    remote: { va: BigInt(p.to.va + at), rkey: p.to.key },
    inline: Uint8Array.from({ length: 200 }, (_, i) => i + at),
  });
}

function space1(rig: Rig, side: Side, queue: number): ReturnType<typeof decodeSpace1> {
  const at = side.host.spaces.space1 + queue * SPACE1_BYTES;
  return decodeSpace1(
    rig.a === side || rig.b === side
      ? side.host.memory.subarray(at, at + SPACE1_BYTES)
      : new Uint8Array(0),
  );
}

describe("queue information", () => {
  it("Q-03 (in part), Q-04 (in part): the RNIC fills spaces 1 and 2 and leaves space 3 to the host", () => {
    const { rig, a } = pair();
    const info = space1(rig, rig.a, a.sq.queue);
    assert.deepEqual(
      [info.wqeAddress, info.kind, info.state, info.valid, info.owner, info.pointer],
      [
        a.sq.address,
        "sq",
        "rts",
        true,
        a.qpn,
        0,
      ],
    );
    const at = rig.a.host.spaces.space2 + a.rq.queue * SPACE2_BYTES;
    assert.deepEqual(decodeSpace2(rig.a.host.memory.subarray(at, at + 16)), {
      depth: 64,
      unitBytes: 64,
    });
    const { space3, queues } = rig.a.host.spaces;
    const touched = rig.a.host.log.some((message) =>
      message.kind === "memory-write" && message.address >= space3 &&
      message.address < space3 + 16 * queues
    );
    assert.equal(touched, false);
  });

  it("Q-06 (in part): a doorbell with the pointer needs no read of queue information that is cached", () => {
    const p = pair();
    write(p, 0);
    p.rig.ring(p.rig.a, p.a.sq, "pointer");
    p.rig.run();
    assert.equal(p.rig.a.rnic.statistics()["dmaReadsPerDoorbell"], 0);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 1);
  });

  it("Q-06 (in part), Q-08: a doorbell with the number only costs one read, of space 3", () => {
    const p = pair();
    write(p, 0);
    p.rig.ring(p.rig.a, p.a.sq, "number");
    p.rig.run();
    assert.equal(p.rig.a.rnic.statistics()["dmaReadsPerDoorbell"], 1);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 1);
  });

  it("Q-06 (in part): doorbells of a queue that is not there are counted and change nothing", () => {
    const p = pair();
    p.rig.toRnic(p.rig.a, {
      kind: "register-write",
      offset: 0x800,
      data: new Uint8Array([0, 0, 0, 63]),
    });
    p.rig.toRnic(p.rig.a, { kind: "register-write", offset: 0x800, data: new Uint8Array(7) });
    p.rig.toRnic(p.rig.a, { kind: "register-write", offset: 0x123, data: new Uint8Array(8) });
    p.rig.run();
    assert.equal(p.rig.a.rnic.statistics()["doorbellsRefused"], 3);
  });

  it("Q-06 (in part): a doorbell with the number only that is written over one with the pointer has the pointer read", () => {
    const doorbell = { form: "fifo", carries: "pointer", coalescedPpm: 999_999 } as const;
    const timing = { ...rnicPlan("a").timing, gatherReadsMax: 1 };
    const plan = { queuePlan: { ...QUEUE_PLAN, doorbell }, timing };
    const p = pair(new Rig({ plans: { a: plan } }));
    write(p, 0);
    p.rig.ring(p.rig.a, p.a.sq, "number");
    // The card has read the pointer, and waits for the answer, so that the next doorbells wait.
    p.rig.run(() => p.rig.a.host.log.at(-1)?.kind === "memory-read");
    write(p, 8);
    p.rig.ring(p.rig.a, p.a.sq, "pointer");
    write(p, 16);
    p.rig.ring(p.rig.a, p.a.sq, "number");
    p.rig.run();
    assert.equal(p.rig.a.rnic.statistics()["doorbellsCoalesced"], 1);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 3);
  });

  it("Q-06 (in part): a doorbell of a queue pair in RESET, or of its life before, is dropped and counted", () => {
    const timing = { ...rnicPlan("a").timing, gatherReadsMax: 1 };
    for (const bell of ["pointer", "number"] as const) {
      const p = pair(new Rig({ plans: { a: { timing } } }));
      const { rig, a, b } = p;
      assert.equal(rig.modify(rig.a, a, { state: "reset" }).status, "ok");
      rig.ring(rig.a, a.sq, bell);
      rig.run();
      assert.equal(rig.a.rnic.statistics()["doorbellsRefused"], 1, "in RESET");
      rig.bringUp(rig.a, a, { qpn: b.qpn });
      // The card looks up one pointer and has the other doorbell wait, as the next life begins.
      for (const each of ["number", bell] as const) {
        write(p, 0);
        rig.ring(rig.a, a.sq, each);
      }
      const steps = [
        { state: "reset" },
        ...stepsToRts(rig.b.plan.address, { qpn: b.qpn }),
      ] as const;
      const replies = steps.map((attributes) =>
        ask(rig, rig.a, { op: "modify-qp", qpn: a.qpn, attributes })
      );
      a.sq.write = a.sq.depth - 1;
      rig.a.host.tellPointer(a.sq, rig.now);
      rig.run();
      assert.ok(replies.every((reply) => reply()?.status === "ok"));
      assert.equal(rig.a.rnic.statistics()["doorbellsRefused"], 3, "of the life before");
      assert.deepEqual(rig.poll(rig.a, a.sendCq), [], "nothing is posted in the new life");
      const position = write(p, 0);
      rig.ring(rig.a, a.sq, bell);
      rig.run();
      assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ wqeIndex }) => wqeIndex), [position]);
    }
  });

  it("Q-06 (in part): a doorbell of a queue in ERR is served: what is posted there is flushed, and nothing executed", () => {
    for (const bell of ["pointer", "number"] as const) {
      const p = pair();
      const { rig, a } = p;
      assert.equal(rig.modify(rig.a, a, { state: "err" }).status, "ok");
      const { framesOut, wqeReads = 0 } = rig.a.rnic.statistics();
      write(p, 0);
      rig.ring(rig.a, a.sq, bell);
      rig.recv(rig.a, a, [{ address: p.from.va, length: 64, lkey: p.from.key }], bell);
      rig.run();
      const done = rig.poll(rig.a, a.sendCq).map(({ opcode, status }) => `${opcode} ${status}`);
      assert.deepEqual(done.toSorted(), [
        "requester-error WR_FLUSH_ERR",
        "responder-error WR_FLUSH_ERR",
      ]);
      const counts = rig.a.rnic.statistics();
      assert.deepEqual([counts["doorbellsRefused"], counts["framesOut"]], [0, framesOut]);
      assert.equal(counts["wqeReads"]! - wqeReads, 1, "the WQE sent; a receive's place is enough");
    }
  });

  it("Q-07 (in part): a queue that is not cached is read from the three spaces, its pointer written back", () => {
    const queueCache = { entries: 1, evict: "oldest", amount: 1 } as const;
    const p = pair(new Rig({ plans: { a: { queueCache } } }));
    for (let i = 0; i < 5; i++) {
      write(p, 8 * i);
      p.rig.ring(p.rig.a, p.a.sq, i % 2 === 0 ? "pointer" : "number");
      p.rig.run();
    }
    const { cacheMisses, cacheEvictions, doorbellReads } = p.rig.a.rnic.statistics();
    assert.ok(cacheMisses! >= 5 && cacheEvictions! >= 5);
    assert.equal(doorbellReads, 12, "the first finds it cached since RTS");
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 5);
    assert.equal(space1(p.rig, p.rig.a, p.a.sq.queue).pointer, 5, "evicted by the CQ");
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 40), p.rig.bytes(p.rig.a, p.from, 0, 40));
  });

  it("Q-08: a stale doorbell behind a newer one does not move the pointer back", () => {
    const p = pair();
    for (let round = 0; round < 10; round++) {
      const order = [];
      for (let i = 0; i < 20; i++) order.push(write(p, 8 * i));
      const stale = { ...p.a.sq, write: (p.a.sq.write + 54) % 64, stamp: p.a.sq.stamp };
      p.rig.ring(p.rig.a, p.a.sq);
      // A doorbell as it was ten WQEs ago, but taken later.
      const data = new Uint8Array(16);
      const view = new DataView(data.buffer);
      view.setUint32(0, stale.queue);
      view.setUint32(4, stale.write);
      view.setBigUint64(8, BigInt(stale.stamp));
      p.rig.toRnic(p.rig.a, { kind: "register-write", offset: 0x800, data });
      p.rig.run();
      assert.deepEqual(p.rig.poll(p.rig.a, p.a.sendCq).map(({ wqeIndex }) => wqeIndex), order);
    }
  });

  for (const isCached of [true, false]) {
    const where = isCached ? "a queue that is cached" : "one that is read from memory again";
    it(`Q-08: of ${where}, once its units have held two WQEs the pointer stored later counts`, () => {
      const entries = isCached ? 64 : 4;
      const queueCache = { entries, evict: "oldest", amount: 1 } as const;
      const p = pair(new Rig({ plans: { a: { queueCache } } }));
      const others = [1, 2, 3, 4].map(() => p.rig.connect().a);
      const finish = (count: number, qp = p.a) => {
        for (let i = 0; i < count; i++) write(p, 8 * i, qp);
        p.rig.ring(p.rig.a, qp.sq);
        p.rig.run();
        return p.rig.poll(p.rig.a, qp.sendCq).length;
      };
      assert.equal(finish(31), 31);
      const { queue, write: pointer, stamp } = p.a.sq;
      assert.equal(finish(31) + finish(8), 39);
      if (!isCached) { for (const qp of others) finish(1, qp); }
      // Farther from the read pointer than what the host has told last, but of the pass before.
      const data = encodeDoorbell({ queue, write: { pointer, stamp } });
      p.rig.toRnic(p.rig.a, { kind: "register-write", offset: DOORBELL_OFFSET, data });
      p.rig.run();
      assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 0, "nothing is sent again");
      assert.equal(finish(3), 3);
    });
  }

  it("Q-08: a doorbell that rings while space 3 is on its way is not answered by that older read", () => {
    const p = pair();
    write(p, 0);
    p.rig.ring(p.rig.a, p.a.sq, "number");
    const { space3 } = p.rig.a.host.spaces;
    p.rig.run(() => {
      const last = p.rig.a.host.log.at(-1);
      return last?.kind === "memory-read" && last.address === space3 + 16 * p.a.sq.queue;
    });
    write(p, 8);
    p.rig.ring(p.rig.a, p.a.sq, "number");
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 2);
  });

  it("Q-01 (in part), Q-09: WQEs of several units wrap at the ring's end; none is lost, repeated or reordered", () => {
    const p = pair(new Rig(), { depth: 32 });
    const seen: number[] = [], expected: number[] = [];
    for (let round = 0; round < 40; round++) {
      for (let i = 0; i < 1 + round % 5; i++) {
        expected.push(i % 2 === 0 ? longWrite(p, 8 * i) : write(p, 8 * i));
      }
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run();
      seen.push(...p.rig.poll(p.rig.a, p.a.sendCq).map(({ wqeIndex }) => wqeIndex));
    }
    assert.deepEqual(seen, expected);
  });

  it("bytes that are no WQE complete with LOC_QP_OP_ERR and flush what follows", () => {
    const p = pair();
    write(p, 0);
    const position = write(p, 8);
    p.rig.a.host.memory[p.a.sq.address + position * 64 + 3] = 0x7f;
    write(p, 16);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    const statuses = p.rig.poll(p.rig.a, p.a.sendCq).map(({ status }) => status);
    assert.deepEqual(statuses, ["SUCCESS", "LOC_QP_OP_ERR", "WR_FLUSH_ERR"]);
    assert.equal(space1(p.rig, p.rig.a, p.a.sq.queue).state, "err");
  });

  it("Q-04 (in part): space 2 changes through the RNIC or under its lock; a breach changes nothing", () => {
    const { rig, a } = pair();
    const queue = a.sq.queue;
    const data = new Uint8Array([0, 0, 0, 32]);
    const refused = [
      { op: "write-space2", queue: 63, offset: 0, data },
      { op: "write-space2", queue, offset: 14, data },
      { op: "unlock-space2", queue },
    ] as const;
    for (const command of refused) assert.equal(rig.command(rig.a, command).status, "error");
    const at = rig.a.host.spaces.space2 + queue * SPACE2_BYTES;
    assert.equal(decodeSpace2(rig.a.host.memory.subarray(at, at + 16)).depth, 64);
    assert.equal(rig.command(rig.a, { op: "lock-space2", queue }).status, "ok");
    assert.equal(rig.command(rig.a, { op: "lock-space2", queue }).status, "error");
    assert.equal(
      rig.command(rig.a, { op: "write-space2", queue, offset: 0, data }).status,
      "error",
    );
    assert.equal(rig.command(rig.a, { op: "unlock-space2", queue }).status, "ok");
    assert.equal(rig.command(rig.a, { op: "write-space2", queue, offset: 0, data }).status, "ok");
    assert.equal(decodeSpace2(rig.a.host.memory.subarray(at, at + 16)).depth, 32);
  });

  it("Q-04 (in part): while the host holds the lock nothing of the queue is fetched; then it goes on", () => {
    const p = pair();
    p.rig.command(p.rig.a, { op: "lock-space2", queue: p.a.sq.queue });
    write(p, 0);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(50 * PS_PER_US);
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 0);
    p.rig.command(p.rig.a, { op: "unlock-space2", queue: p.a.sq.queue });
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq).length, 1);
  });

  it("Q-11: works with more queue pairs than the cache holds, by every eviction rule", () => {
    for (const evict of ["oldest", "several-oldest", "older-than", "random"] as const) {
      const queueCache = { entries: 3, evict, amount: evict === "older-than" ? 5_000_000 : 2 };
      const p = pair(new Rig({ plans: { a: { queueCache } } }));
      const qps = [p.a, ...[1, 2, 3, 4, 5].map(() => p.rig.connect().a)];
      for (let i = 0; i < 30; i++) {
        write(p, 8 * i, qps[i % 6]);
        p.rig.ring(p.rig.a, qps[i % 6]!.sq);
      }
      p.rig.run();
      const done = qps.flatMap((qp) => p.rig.poll(p.rig.a, qp.sendCq));
      assert.equal(done.length, 30);
      assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 240), p.rig.bytes(p.rig.a, p.from, 0, 240));
    }
  });
});

describe("completion queue", () => {
  it("Q-12: passes of the ring turn the owner bit, and the host's pointer is read when it looks full", () => {
    const rig = new Rig();
    const p = pair(rig, { cq: undefined as never });
    const cq = rig.createCq(rig.a, { entries: 8 });
    const a = rig.createQp(rig.a, { cq });
    const b = rig.createQp(rig.b);
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    for (let round = 0; round < 10; round++) {
      const order = [0, 1, 2, 3, 4].map((i) => write(p, 8 * i, a));
      rig.ring(rig.a, a.sq);
      rig.run();
      assert.deepEqual(rig.poll(rig.a, cq).map(({ wqeIndex }) => wqeIndex), order);
    }
    assert.deepEqual(rig.a.host.events, []);
  });

  it("§7 #19: overflow: CQ_ERR, its queue pairs fail", () => {
    const rig = new Rig();
    const p = pair(rig);
    const cq = rig.createCq(rig.a, { entries: 4 });
    const a = rig.createQp(rig.a, { cq });
    const b = rig.createQp(rig.b);
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    for (let i = 0; i < 5; i++) write(p, 8 * i, a);
    rig.ring(rig.a, a.sq);
    rig.run();
    assert.deepEqual(rig.a.host.events.map(({ type }) => type), ["CQ_ERR", "QP_FATAL"]);
    const message = `completion queue ${cq.cqn} has overflowed: CQ_ERR, its queue pairs go to ERR`;
    assert.deepEqual(rig.reports, [{ node: "a", topic: "warning", value: { message } }]);
    assert.equal(space1(rig, rig.a, a.sq.queue).state, "err");
    assert.equal(space1(rig, rig.a, p.a.sq.queue).state, "rts");
  });

  it("§7 #20: an armed queue interrupts once, behind the CQE; at once where one is there already", () => {
    const rig = new Rig();
    const p = pair(rig);
    const cq = rig.createCq(rig.a, { vector: 3 });
    const a = rig.createQp(rig.a, { cq });
    const b = rig.createQp(rig.b);
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    rig.arm(rig.a, cq);
    for (let i = 0; i < 3; i++) write(p, 8 * i, a);
    rig.ring(rig.a, a.sq);
    rig.run(() => rig.a.host.interrupts.length > 0);
    assert.equal(
      rig.poll(rig.a, cq).length >= 1,
      true,
      "the CQE is there when the interrupt comes",
    );
    rig.run();
    assert.deepEqual(rig.a.host.interrupts, [3]);
    rig.arm(rig.a, cq);
    rig.run();
    assert.deepEqual(rig.a.host.interrupts, [3, 3], "no wake-up is lost between poll and arm");
    rig.poll(rig.a, cq);
    rig.arm(rig.a, cq);
    rig.run();
    assert.deepEqual(rig.a.host.interrupts, [3, 3]);
  });

  it("§7 #21 #22: armed for solicited events only, plain SENDs do not interrupt, a solicited one and errors do", () => {
    const rig = new Rig();
    const p = pair(rig);
    const cq = rig.createCq(rig.b, { vector: 1 });
    const a = rig.createQp(rig.a);
    const b = rig.createQp(rig.b, { cq });
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    for (let i = 0; i < 3; i++) {
      rig.recv(rig.b, b, [{ address: p.to.va, length: 64, lkey: p.to.key }]);
    }
    rig.arm(rig.b, cq, true);
    rig.send(rig.a, a, { opcode: "send", inline: new Uint8Array(16) });
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, []);
    rig.send(rig.a, a, { opcode: "send", solicited: true, inline: new Uint8Array(16) });
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, [1]);
    rig.poll(rig.b, cq);
    rig.arm(rig.b, cq, true);
    rig.modify(rig.b, b, { state: "err" });
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, [1, 1]);
  });

  it("§7 #22: an error that is there already interrupts at the arm for solicited events, a plain CQE does not", () => {
    const rig = new Rig();
    const p = pair(rig);
    const cq = rig.createCq(rig.b, { vector: 1 });
    const a = rig.createQp(rig.a);
    const b = rig.createQp(rig.b, { cq });
    rig.bringUp(rig.a, a, { qpn: b.qpn });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    for (let i = 0; i < 2; i++) {
      rig.recv(rig.b, b, [{ address: p.to.va, length: 64, lkey: p.to.key }]);
    }
    rig.send(rig.a, a, { opcode: "send", inline: new Uint8Array(16) });
    rig.run();
    rig.arm(rig.b, cq, true);
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, [], "a plain CQE is there");
    rig.modify(rig.b, b, { state: "err" });
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, [1], "the flushed RECV's CQE uses the arm up");
    rig.arm(rig.b, cq, true);
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, [1, 1], "it has not been taken yet");
    assert.deepEqual(rig.poll(rig.b, cq).map(({ status }) => status), ["SUCCESS", "WR_FLUSH_ERR"]);
    rig.arm(rig.b, cq, true);
    rig.run();
    assert.deepEqual(rig.b.host.interrupts, [1, 1]);
  });
});

describe("power", () => {
  it("a host without power holds the card off; it comes back pristine", () => {
    const p = pair();
    for (let i = 0; i < 10; i++) write(p, 8 * i);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.a.rnic.statistics()["framesOut"]! > 2);
    p.rig.link(p.rig.a, PORTS.rnicBus, false);
    p.rig.step();
    const frames = p.rig.frames.length;
    p.rig.run();
    assert.equal(
      p.rig.frames.filter(({ from }) => from === "a").length,
      frames - p.rig.frames.slice(0, frames).filter(({ from }) => from === "b").length,
    );
    assert.equal(p.rig.a.rnic.wakeAt(), Number.POSITIVE_INFINITY);
    p.rig.link(p.rig.a, PORTS.rnicBus, true);
    p.rig.run();
    assert.equal(p.rig.a.rnic.statistics()["framesOut"], 0);
    const reply = p.rig.command(p.rig.a, {
      op: "create-cq",
      ring: { address: 4096, units: 8 },
      vector: null,
    });
    assert.equal(reply.status, "error", "init must come first");
  });

  it("a network link that goes down loses frames only", () => {
    const p = pair();
    p.rig.link(p.rig.a, PORTS.rnicNetwork, false);
    p.rig.fate = (_from, _frame, count) => count < 1 ? "drop" : "pass";
    write(p, 0);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.a, p.a.sendCq)[0]?.status, "SUCCESS");
  });
});
