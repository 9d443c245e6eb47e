/** The lock of space 2 and what a paused queue does. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import {
  DOORBELL_OFFSET,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeSpace1, SPACE1_BYTES } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { createSrq, createSrqQp, postShared } from "../testing/objects_testing.ts";
import {
  counter,
  go,
  names,
  packetOf,
  type Pair,
  pair,
  post,
  RECV_AT,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { adopt, ask, lock, resumed, space2Of, storeSpace2 } from "../testing/space2_testing.ts";
import { connectUc, createUd, Q_KEY, udAddress } from "../testing/unreliable_testing.ts";
import type { RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

const LOCK_PS = 100 * PS_PER_US;

function unlock({ rig }: Pair, side: "a" | "b", queue: number) {
  return rig.command(rig[side], { op: "unlock-space2", queue });
}

/** Opcodes and statuses of what completes at `b`. */
function received(p: Pair): string[] {
  return p.rig.poll(p.rig.b, p.b.recvCq).map(({ opcode, status }) => `${opcode} ${status}`);
}

describe("the lock of space 2", () => {
  it("Q-04: is one queue's: granted until a time, refused to a second host, released once", () => {
    const p = pair();
    const { rig, a } = p;
    const until = lock(rig, rig.a, a.sq.queue);
    assert.ok(until > rig.now && until <= rig.now + LOCK_PS);
    const again = rig.command(rig.a, { op: "lock-space2", queue: a.sq.queue });
    assert.ok(again.status === "error" && again.errno === "EBUSY");
    const answerAt = rig.a.host.spaces.space3;
    const inside = rig.command(rig.a, { op: "lock-space2", queue: a.rq.queue, answerAt });
    assert.ok(inside.status === "error" && /lies in queue information/.test(inside.reason));
    lock(rig, rig.a, a.rq.queue);
    lock(rig, rig.a, a.sendCq.cqn);
    resumed(unlock(p, "a", a.sq.queue));
    assert.equal(unlock(p, "a", a.sq.queue).status, "error");
    assert.equal(counter(p, "a", "locksGranted"), 3);
    assert.equal(counter(p, "a", "locksDenied"), 1);
  });

  it("Q-04: of a host that dies with it is taken back: what it half wrote is dropped, the queue goes on", () => {
    const p = pair();
    const { rig, a } = p;
    const queue = a.sq.queue;
    const until = lock(rig, rig.a, queue);
    post(p, "write", { length: 8 });
    rig.ring(rig.a, a.sq);
    storeSpace2(rig.a, queue, { depth: 0x1234, unitBytes: 7 });
    rig.runFor(until - rig.now - 1);
    assert.deepEqual(statuses(p), []);
    rig.runFor(10 * PS_PER_US);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.deepEqual(space2Of(rig.a, queue), { depth: 64, unitBytes: 64 });
    const late = unlock(p, "a", queue);
    assert.ok(late.status === "error" && late.errno === "EINVAL");
    assert.equal(counter(p, "a", "locksTakenBack"), 1);
    for (let i = 0; i < 100; i++) {
      post(p, "write", { length: 8 });
      go(p);
    }
    assert.equal(statuses(p).length, 100, "by the old depth");
  });

  it("Q-04: its time is the plan's", () => {
    const plain = pair();
    const timing = { ...plain.rig.a.plan.timing, space2LockPs: 3 * PS_PER_US };
    const p = pair({ plans: { a: { timing } } });
    const until = lock(p.rig, p.rig.a, p.a.sq.queue);
    assert.ok(until <= p.rig.now + 3 * PS_PER_US);
    p.rig.run();
    assert.ok(p.rig.now < until + PS_PER_US);
    assert.equal(counter(p, "a", "locksTakenBack"), 1);
  });

  it("Q-04: is granted when what was being fetched is there, from memory too", () => {
    const queueCache = { entries: 1, evict: "oldest", amount: 1 } as const;
    const p = pair({ plans: { a: { queueCache } } });
    const { rig, a } = p;
    for (let i = 0; i < 6; i++) post(p, "write", { length: 8 });
    rig.ring(rig.a, a.sq);
    const granted = ask(rig, rig.a, { op: "lock-space2", queue: a.sq.queue });
    rig.run(() => rig.a.host.log.at(-1)?.kind === "memory-read");
    assert.equal(granted(), undefined, "the queue's information is being read");
    rig.run(() => granted() !== undefined);
    const units = rig.a.host.log.filter((message) =>
      message.kind === "memory-read" && message.address >= a.sq.address &&
      message.address < a.sq.address + 64 * 64
    );
    rig.runFor(20 * PS_PER_US);
    const done = statuses(p).length;
    assert.ok(done < 6 && units.length <= 1, "no fetch is begun behind it");
    resumed(unlock(p, "a", a.sq.queue));
    rig.run();
    assert.equal(done + statuses(p).length, 6);
  });

  it("Q-04: ends with its queue, and its command is answered", () => {
    const p = pair();
    const { rig, a } = p;
    lock(rig, rig.a, a.sq.queue);
    const reply = rig.command(rig.a, { op: "destroy-qp", qpn: a.qpn });
    assert.equal(reply.status, "ok");
    assert.equal(unlock(p, "a", a.sq.queue).status, "error");
    rig.run();
    assert.equal(counter(p, "a", "locksTakenBack"), 0);
  });
});

describe("a paused queue", () => {
  it("Q-04: a SEND to a paused receive queue gets RNR NAK, and its RECV once it goes on", () => {
    const p = pair();
    recvs(p, 2);
    lock(p.rig, p.rig.b, p.b.rq.queue);
    post(p, "send", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(30 * PS_PER_US);
    assert.ok(counter(p, "b", "rnrNaksOut") >= 2);
    assert.deepEqual(received(p), []);
    resumed(unlock(p, "b", p.b.rq.queue));
    p.rig.run();
    assert.deepEqual(received(p), ["recv SUCCESS"]);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  it("Q-04: receives that are on the chip already are not used either", () => {
    const p = pair();
    recvs(p, 4);
    post(p, "send", { length: 8 });
    go(p);
    lock(p.rig, p.rig.b, p.b.rq.queue);
    post(p, "send", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(15 * PS_PER_US);
    assert.deepEqual(received(p), ["recv SUCCESS"], "of before");
    assert.ok(counter(p, "b", "rnrNaksOut") > 0);
  });

  it("Q-04: a message that has its RECV comes in, its completion is held", () => {
    const p = pair({}, { attributes: { pathMtu: 256 } });
    recvs(p, 1, { length: 16_384 });
    post(p, "send", { length: 16_384 });
    p.rig.ring(p.rig.a, p.a.sq);
    const first = p.to.address + RECV_AT;
    const { log } = p.rig.b.host;
    p.rig.run(() => log.some((one) => one.kind === "memory-write" && one.address === first));
    assert.ok(counter(p, "b", "requestsIn") < 64, "its last packet is not here");
    lock(p.rig, p.rig.b, p.b.rq.queue);
    p.rig.runFor(40 * PS_PER_US);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.deepEqual(received(p), []);
    resumed(unlock(p, "b", p.b.rq.queue));
    p.rig.run();
    assert.deepEqual(received(p), ["recv SUCCESS"]);
    assert.ok(!names(p, "b").includes("RC RNR NAK"));
  });

  it("Q-04: what UC and UD send to a paused receive queue is dropped and counted", () => {
    const rig = new Rig();
    const from = rig.register(rig.a, { length: 4096 });
    const to = rig.register(rig.b, { length: 4096 });
    const uc = connectUc(rig);
    const ud = { a: createUd(rig, rig.a), b: createUd(rig, rig.b) };
    const sges = [{ address: from.va, length: 8, lkey: from.key }];
    for (const qp of [uc.b, ud.b]) {
      rig.recv(rig.b, qp, [{ address: to.va, length: 64, lkey: to.key }]);
      lock(rig, rig.b, qp.rq.queue);
    }
    const address = { ...udAddress(rig.b.plan.address, ud.b.qpn), qKey: Q_KEY };
    const sendBoth = () => {
      rig.send(rig.a, uc.a, { opcode: "send", sges });
      rig.send(rig.a, ud.a, { opcode: "send", sges, ud: address });
      rig.runFor(10 * PS_PER_US);
    };
    sendBoth();
    assert.equal(rig.b.rnic.statistics()["drop-no-recv"], 2);
    for (const qp of [uc.b, ud.b]) {
      resumed(rig.command(rig.b, { op: "unlock-space2", queue: qp.rq.queue }));
    }
    sendBoth();
    for (const qp of [uc.b, ud.b]) assert.equal(rig.poll(rig.b, qp.recvCq).length, 1);
  });

  it("Q-04: a paused shared receive queue gives nothing to its queue pairs, and then goes on", () => {
    const rig = new Rig();
    const srq = createSrq(rig, rig.b);
    const cq = rig.createCq(rig.b);
    const to = rig.register(rig.b, { length: 4096 });
    const receivers = [0, 1].map(() => createSrqQp(rig, rig.b, { srq, cq }));
    const senders = receivers.map((receiver) => {
      const sender = rig.createQp(rig.a);
      rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
      rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
      return sender;
    });
    const sges = [{ address: to.va, length: 64, lkey: to.key }];
    for (const slot of [0, 1, 2, 3]) postShared(rig, rig.b, { srq, slot, sges });
    rig.command(rig.b, { op: "modify-srq", srqn: srq.srqn, limit: 3 });
    lock(rig, rig.b, srq.srqn);
    for (const sender of senders) rig.send(rig.a, sender, { opcode: "send", sges: [] });
    rig.runFor(25 * PS_PER_US);
    assert.equal(rig.poll(rig.b, cq).length, 0);
    assert.ok(rig.b.rnic.statistics()["rnrNaksOut"]! >= 2);
    resumed(rig.command(rig.b, { op: "unlock-space2", queue: srq.srqn }));
    rig.run();
    assert.deepEqual(rig.poll(rig.b, cq).map(({ wqeIndex }) => wqeIndex).sort(), [0, 1]);
    const limits = rig.b.host.events.filter(({ type }) => type === "SRQ_LIMIT_REACHED");
    assert.equal(limits.length, 1);
  });

  it("§4.5, Q-04: a limit that is armed while its queue is paused is looked at when that goes on", () => {
    const rig = new Rig();
    const srq = createSrq(rig, rig.b), { srqn } = srq;
    const limits = () => rig.b.host.events.filter(({ type }) => type === "SRQ_LIMIT_REACHED");
    for (const goesOn of ["it is released", "its time is over"]) {
      rig.b.host.events.length = 0;
      lock(rig, rig.b, srqn);
      assert.equal(rig.command(rig.b, { op: "modify-srq", srqn, limit: 1 }).status, "ok");
      rig.runFor(25 * PS_PER_US);
      assert.equal(limits().length, 0, "the card does not look at a paused queue");
      if (goesOn === "it is released") {
        resumed(rig.command(rig.b, { op: "unlock-space2", queue: srqn }));
      }
      rig.run();
      assert.equal(limits().length, 1, goesOn);
    }
  });

  it("Q-04: of what a paused shared receive queue has held a reset writes its queue pair's, and leaves others'", () => {
    const rig = new Rig();
    const srq = createSrq(rig, rig.b), cq = rig.createCq(rig.b);
    const from = rig.register(rig.a, { length: 4096 });
    const to = rig.register(rig.b, { length: 3 * 4096 });
    const receivers = [0, 1, 2].map(() => createSrqQp(rig, rig.b, { srq, cq }));
    const senders = receivers.map((receiver) => {
      const sender = rig.createQp(rig.a);
      rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
      rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
      return sender;
    });
    for (const slot of [0, 1, 2]) {
      const sges = [{ address: to.va + slot * 4096, length: 4096, lkey: to.key }];
      postShared(rig, rig.b, { srq, slot, sges });
    }
    // Each has a receive when the queue is paused, and its last packet comes while it is.
    rig.fate = (_, { bytes }) => {
      const { operation, position } = opcodeRow(packetOf(bytes).bth.opcode)!;
      const isLast = operation === "send" && position === "last";
      return isLast ? { delayPs: 10 * PS_PER_US } : "pass";
    };
    const sges = [{ address: from.va, length: 4096, lkey: from.key }];
    for (const sender of senders) rig.send(rig.a, sender, { opcode: "send", sges });
    rig.runFor(5 * PS_PER_US);
    lock(rig, rig.b, srq.srqn);
    rig.runFor(15 * PS_PER_US);
    const completed = () => rig.poll(rig.b, cq).map(({ qpn, status }) => [qpn, status]);
    assert.deepEqual(completed(), [], "all are held");
    const [first, second, third] = receivers.map(({ qpn }) => [qpn, "SUCCESS"]);
    rig.modify(rig.b, receivers[1]!, { state: "reset" });
    assert.deepEqual(completed(), [second]);
    resumed(rig.command(rig.b, { op: "unlock-space2", queue: srq.srqn }));
    rig.run();
    assert.deepEqual(completed(), [first, third]);
  });

  it("Q-12, Q-04: a paused completion queue holds its completions, in order; others go on", () => {
    const p = pair();
    const { rig, a } = p;
    const other = rig.connect();
    lock(rig, rig.a, a.sendCq.cqn);
    const order = [0, 1, 2, 3].map(() => post(p, "write", { length: 8 }));
    rig.ring(rig.a, a.sq);
    rig.send(rig.a, other.a, { opcode: "nop" });
    rig.runFor(20 * PS_PER_US);
    assert.equal(rig.poll(rig.a, other.a.sendCq).length, 1);
    assert.equal(rig.poll(rig.a, a.sendCq).length, 0);
    resumed(unlock(p, "a", a.sendCq.cqn));
    rig.run();
    assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ wqeIndex }) => wqeIndex), order);
  });

  it("Q-04: queues that complete into the same completion queue go on", () => {
    const rig = new Rig();
    const cq = rig.createCq(rig.a);
    const [one, three] = [0, 1].map(() => {
      const qp = rig.createQp(rig.a, { cq });
      rig.bringUp(rig.a, qp, { qpn: qp.qpn });
      return qp;
    }) as [RigQp, RigQp];
    lock(rig, rig.a, one.sq.queue);
    lock(rig, rig.a, one.rq.queue);
    rig.send(rig.a, one, { opcode: "nop" });
    rig.send(rig.a, three, { opcode: "nop" });
    rig.runFor(20 * PS_PER_US);
    assert.deepEqual(rig.poll(rig.a, cq).map(({ qpn }) => qpn), [three.qpn]);
    rig.run();
    assert.deepEqual(rig.poll(rig.a, cq).map(({ qpn }) => qpn), [one.qpn]);
  });

  it("a queue pair that fails while its receive queue is paused flushes it afterwards, in order", () => {
    const p = pair();
    recvs(p, 6);
    post(p, "send", { length: 8 });
    go(p);
    lock(p.rig, p.rig.b, p.b.rq.queue);
    p.rig.modify(p.rig.b, p.b, { state: "err" });
    p.rig.runFor(20 * PS_PER_US);
    assert.equal(p.rig.poll(p.rig.b, p.b.recvCq).length, 1);
    p.rig.run();
    const flushed = p.rig.poll(p.rig.b, p.b.recvCq).map(({ wqeIndex }) => wqeIndex);
    assert.deepEqual(flushed, [1, 2, 3, 4, 5]);
  });
});

describe("a change of space 2", () => {
  /** Sends `count` WRITEs by a ring of this depth, all at once where there is room. */
  function writes(p: Pair, count: number): number {
    for (let i = 0; i < count; i++) post(p, "write", { length: 8 });
    go(p);
    return statuses(p).length;
  }

  for (const how of ["by value", "under the lock"] as const) {
    it(`Q-04, Q-09: ${how} reaches the cached copy before the queue goes on`, () => {
      const p = pair({}, { depth: 16 });
      const { rig, a } = p;
      const { queue, address } = a.sq;
      rig.a.host.allocate(4096);
      writes(p, 5);
      const tail = (a.sq.write + 1) % 16;
      const info = { depth: 64, unitBytes: 64 };
      if (how === "by value") {
        const data = new Uint8Array([0, 0, 0, 64]);
        const reply = rig.command(rig.a, { op: "write-space2", queue, offset: 0, data });
        adopt(a.sq, { address, units: 64 }, { reply: resumed(reply), tail });
      } else {
        lock(rig, rig.a, queue);
        storeSpace2(rig.a, queue, info);
        const reply = resumed(unlock(p, "a", queue));
        adopt(a.sq, { address, units: 64 }, { reply, tail });
      }
      assert.equal(a.sq.write, 4, "the pointers stay");
      assert.equal(writes(p, 40), 40, "more than the old depth");
      assert.equal(writes(p, 40), 40, "around the new end");
      assert.deepEqual(space2Of(rig.a, queue), info);
    });
  }

  it("Q-04: of a WQE's size, to no power of two, or of a completion queue is refused and undone", () => {
    const p = pair();
    const { rig, a } = p;
    const wrong = [
      [a.sq.queue, { depth: 64, unitBytes: 32 }],
      [a.sq.queue, { depth: 48, unitBytes: 64 }],
      [a.sq.queue, { depth: 0, unitBytes: 64 }],
      [a.sendCq.cqn, { depth: 512, unitBytes: 64 }],
    ] as const;
    for (const [queue, info] of wrong) {
      const before = space2Of(rig.a, queue);
      lock(rig, rig.a, queue);
      storeSpace2(rig.a, queue, info);
      const reply = unlock(p, "a", queue);
      assert.ok(reply.status === "error" && reply.errno === "EINVAL", JSON.stringify(info));
      rig.run();
      assert.deepEqual(space2Of(rig.a, queue), before);
    }
    assert.equal(writes(p, 60), 60);
  });

  it("Q-09: shrinking is refused while the part to be cut holds WQEs, else accepted", () => {
    const p = pair({}, { depth: 64 });
    const { rig, a } = p;
    const { queue, address } = a.sq;
    const shrink = (units: number) => {
      const data = new Uint8Array([0, 0, 0, units]);
      return rig.command(rig.a, { op: "write-space2", queue, offset: 0, data });
    };
    // None of these is acknowledged, so they stay.
    rig.fate = () => "drop";
    for (let i = 0; i < 30; i++) post(p, "write", { length: 8 });
    rig.ring(rig.a, a.sq);
    rig.runFor(20 * PS_PER_US);
    const refused = shrink(16);
    assert.ok(refused.status === "error" && refused.errno === "EBUSY");
    assert.match(refused.reason, /from unit 0 to 29: 16 units do not hold them/);
    adopt(a.sq, { address, units: 32 }, { reply: resumed(shrink(32)), tail: 0 });
    rig.fate = () => "pass";
    rig.run();
    assert.equal(statuses(p).length, 30, "none is lost");
    const tail = (a.sq.write + 1) % 32;
    adopt(a.sq, { address, units: 8 }, { reply: resumed(shrink(8)), tail });
    for (let round = 0; round < 5; round++) assert.equal(writes(p, 7), 7);
    assert.deepEqual(space2Of(rig.a, queue), { depth: 8, unitBytes: 64 });
  });

  it("Q-09, §4.5: a shared receive queue's limit is below the units of the ring that it has now", () => {
    const rig = new Rig(), { srqn } = createSrq(rig, rig.b, { depth: 32 });
    const taken = () =>
      [7, 8, 31, 32].filter((limit) =>
        rig.command(rig.b, { op: "modify-srq", srqn, limit }).status === "ok"
      );
    assert.deepEqual(taken(), [7, 8, 31]);
    rig.command(rig.b, { op: "modify-srq", srqn, limit: 0 });
    const data = new Uint8Array([0, 0, 0, 8]);
    resumed(rig.command(rig.b, { op: "write-space2", queue: srqn, offset: 0, data }));
    assert.deepEqual(taken(), [7]);
  });

  it("Q-09: a ring is not shrunk to as many units as are filled: full would look empty", () => {
    const p = pair({}, { depth: 8 });
    const { rig, a } = p;
    for (let i = 0; i < 4; i++) post(p, "write", { length: 8 });
    rig.ring(rig.a, a.sq, "none");
    const data = new Uint8Array([0, 0, 0, 4]);
    const command = { op: "write-space2", queue: a.sq.queue, offset: 0, data } as const;
    const reply = rig.command(rig.a, command);
    assert.ok(reply.status === "error" && reply.errno === "EBUSY");
    go(p);
    assert.equal(statuses(p).length, 4);
  });

  it("Q-09: survives the cache: the read pointer goes to space 1 first, the new depth is read again", () => {
    const queueCache = { entries: 2, evict: "oldest", amount: 1 } as const;
    const p = pair({ plans: { a: { queueCache } } }, { depth: 16 });
    const { rig, a } = p;
    const { queue, address } = a.sq;
    writes(p, 5);
    const data = new Uint8Array([0, 0, 0, 32]);
    const reply = rig.command(rig.a, { op: "write-space2", queue, offset: 0, data });
    adopt(a.sq, { address, units: 32 }, { reply: resumed(reply), tail: 5 });
    const others = [0, 1, 2].map(() => rig.connect().a);
    for (const other of others) rig.send(rig.a, other, { opcode: "nop" });
    rig.run();
    const at = rig.a.host.spaces.space1 + queue * SPACE1_BYTES;
    const info = decodeSpace1(rig.a.host.memory.subarray(at, at + SPACE1_BYTES));
    assert.deepEqual([info.pointer, info.wqeAddress], [5, address]);
    assert.equal(writes(p, 30), 30);
  });

  it("Q-08, Q-09: a pointer of the ring before it moved is older, however far it lies in the new one", () => {
    const p = pair({}, { depth: 64 });
    const { rig, a } = p;
    const { queue, address } = a.sq;
    assert.equal(writes(p, 6), 6);
    const { write: pointer, stamp } = a.sq;
    assert.equal(writes(p, 28), 28);
    const shrunk = new Uint8Array([0, 0, 0, 16]);
    const reply = resumed(
      rig.command(rig.a, { op: "write-space2", queue, offset: 0, data: shrunk }),
    );
    adopt(a.sq, { address, units: 16 }, { reply, tail: 34 });
    assert.deepEqual([a.sq.write, pointer], [1, 5]);
    const data = encodeDoorbell({ queue, write: { pointer, stamp } });
    rig.toRnic(rig.a, { kind: "register-write", offset: DOORBELL_OFFSET, data });
    go(p);
    assert.deepEqual(statuses(p), [], "nothing is sent again");
    assert.equal(writes(p, 12), 12);
  });

  it("Q-09: a queue that has the number of one that moved knows nothing of its pointer", () => {
    const queueCache = { entries: 2, evict: "oldest", amount: 1 } as const;
    const rig = new Rig({ plans: { b: { queueCache } } });
    const before = rig.connect({ rqDepth: 16 });
    const { queue } = before.b.rq;
    for (let i = 0; i < 5; i++) rig.recv(rig.b, before.b, [], "pointer");
    const data = new Uint8Array([0, 0, 0, 32]);
    resumed(rig.command(rig.b, { op: "write-space2", queue, offset: 0, data }));
    rig.command(rig.b, { op: "destroy-qp", qpn: before.b.qpn });
    // Nothing is posted there yet.
    const { memory, spaces: { space3 } } = rig.b.host;
    memory.fill(0, space3 + 16 * queue, space3 + 16 * (queue + 1));
    const b = rig.createQp(rig.b, { rqDepth: 16, cq: before.b.sendCq });
    assert.equal(b.rq.queue, queue);
    const a = rig.createQp(rig.a);
    rig.bringUp(rig.a, a, { qpn: b.qpn, attributes: { rnrRetry: 0 } });
    rig.bringUp(rig.b, b, { qpn: a.qpn });
    for (let i = 0; i < 3; i++) rig.createCq(rig.b);
    rig.send(rig.a, a, { opcode: "send", sges: [] });
    rig.run();
    assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ status }) => status), ["RNR_RETRY_EXC_ERR"]);
  });
});
