/** Features of the transport that meet: each test is a way in which one once got in another's way. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../fabric/wire/roce/feth.ts";
import { encodeSpace2, SPACE2_BYTES } from "../../fabric/wire/host_bus/default_store_testing.ts";
import { ACCESS } from "../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../fabric/wire/host_bus/wqe.ts";
import { allocateMw, createSrq, createSrqQp, postShared } from "./testing/objects_testing.ts";
import {
  counter,
  EVERY_ACCESS,
  go,
  losing,
  names,
  packets,
  type Pair,
  pair,
  post,
  recvs,
  statuses,
} from "./testing/pair_testing.ts";
import { FLOW_2, flushByCpu } from "./testing/pm_testing.ts";
import { Rig } from "./testing/rnic_testing.ts";
import { connectUc, createUd, udAddress } from "./testing/unreliable_testing.ts";

const PERSIST_ACCESS = EVERY_ACCESS | ACCESS.remoteWritePersistence | ACCESS.mwBind;

/** A pair that takes persistent WRITEs and windows. */
function persistentPair(
  options: Parameters<typeof pair>[0] = {},
  attributes: NonNullable<Parameters<typeof pair>[1]>["attributes"] = {},
): Pair {
  return pair(
    options,
    { attributes: { accessFlags: PERSIST_ACCESS, ...attributes } },
    EVERY_ACCESS | ACCESS.mwBind,
  );
}

function flush(p: Pair, remote: { readonly va: bigint; readonly rkey: number }): void {
  const operands = {
    select: FLUSH_SELECT.range,
    placement: FLUSH_PLACEMENT.persistence,
    length: 64,
  };
  p.rig.enqueueSend(p.rig.a, p.a, { opcode: "flush", remote, flush: operands });
}

describe("a persistence ACK", () => {
  const answered = (p: Pair) => {
    const all = names(p, "b");
    return packets(p, "b").map(({ bth }, i) => `${(bth.psn + 2) & 0xff_ffff} ${all[i]}`)
      .filter((name) => !name.includes("READ"));
  };

  for (const flush of ["read", "none"] as const) {
    it(`P-28: leaves behind the reception ACK that a READ holds back, and costs no retry (flush: ${flush})`, () => {
      const b = { flow: 1, flush, noSnoop: false } as const;
      const p = persistentPair({ persistence: { b } }, { retryCnt: 0 });
      post(p, "read", { length: 16_384 });
      for (const at of [20_000, 20_100]) post(p, "write-persistence", { at, length: 8 });
      post(p, "read", { length: 8192 });
      post(p, "write-persistence", { at: 20_200, length: 8 });
      go(p);
      assert.deepEqual(statuses(p), Array(5).fill("SUCCESS"));
      const requests = names(p, "a").filter((name) => name === "RC RDMA READ REQUEST");
      assert.equal(requests.length, 2);
      const [ack, second] = ["RC ACKNOWLEDGE", "VENDOR PERSISTENCE ACKNOWLEDGE"];
      // The two writes behind one READ share a reception ACK.
      assert.deepEqual(answered(p), [
        ...[`17 ${ack}`, `16 ${second}`, `17 ${second}`],
        ...[`26 ${ack}`, `26 ${second}`],
      ]);
      assert.deepEqual(counter(p, "b", "persistAcksOut"), 3);
    });
  }

  it("P-28: leaves at once where its own reception ACK has left, whatever a READ holds back", () => {
    const p = persistentPair({ persistence: { b: FLOW_2 } }, { retryCnt: 0 });
    recvs(p, 2);
    post(p, "write-persistence", { at: 30_000, length: 8 });
    post(p, "read", { length: 30_000 });
    post(p, "write-persistence", { at: 30_100, length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    for (let i = 0; i < 200 && flushByCpu(p).length === 0; i++) p.rig.runFor(PS_PER_US / 20);
    for (let i = 0; i < 200; i++) {
      p.rig.runFor(PS_PER_US / 20);
      flushByCpu(p);
    }
    p.rig.run();
    const all = names(p, "b"), second = "VENDOR PERSISTENCE ACKNOWLEDGE";
    assert.equal(all[0], "RC ACKNOWLEDGE");
    assert.ok(all.indexOf(second) < all.indexOf("RC RDMA READ RESPONSE LAST"), all.join());
    assert.deepEqual(all.slice(-2), ["RC ACKNOWLEDGE", second]);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("P-28: leaves behind the reception ACK where its CPU has flushed meanwhile", () => {
    const p = persistentPair({ persistence: { b: FLOW_2 } }, { retryCnt: 0 });
    recvs(p, 1);
    post(p, "read", { length: 30_000 });
    post(p, "write-persistence", { at: 30_100, length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    for (let i = 0; i < 200 && flushByCpu(p).length === 0; i++) p.rig.runFor(PS_PER_US / 20);
    p.rig.run();
    const leaves = names(p, "b").filter((name) => !name.includes("READ"));
    assert.deepEqual(leaves, ["RC ACKNOWLEDGE", "VENDOR PERSISTENCE ACKNOWLEDGE"]);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });
});

describe("a promise of persistence", () => {
  it("waits for what was written by keys that are no more (P-31)", () => {
    const p = persistentPair();
    post(p, "write", { length: 4000 });
    go(p);
    assert.ok(p.rig.b.host.buffered.length > 0, "the data is in the IIO");
    assert.equal(p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key }).status, "ok");
    const reads = counter(p, "b", "lsbReads");
    post(p, "write-persistence");
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(counter(p, "b", "lsbReads"), reads + 1);
  });

  it("through a zero-based window names the host's own addresses to its CPU (P-26)", () => {
    const p = persistentPair({ persistence: { b: FLOW_2 } });
    recvs(p, 2);
    const free = allocateMw(p.rig, p.rig.b, 2);
    const rkey = free + 1;
    const access = ACCESS.remoteWrite | ACCESS.flushPersistent | ACCESS.zeroBased;
    const bind = { rkey, lkey: p.to.key, va: BigInt(p.to.va + 4000), length: 4096, access };
    p.rig.send(p.rig.b, p.b, { opcode: "bind-mw", bind });
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq).at(-1)?.status, "SUCCESS");
    post(p, "write-persistence", { length: 64, remote: { va: 100n, rkey } });
    flush(p, { va: 200n, rkey });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20 * PS_PER_US);
    const told = p.rig.poll(p.rig.b, p.b.recvCq).map(({ va }) => Number(va) - p.to.va);
    assert.deepEqual(told, [4100, 4200]);
  });
});

describe("a READ", () => {
  it("whose memory goes while it is answered fails with the NAK's status (§3.3)", () => {
    const p = pair();
    post(p, "read", { length: 16_384 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => names(p, "b").length === 2);
    p.rig.toRnic(p.rig.b, {
      kind: "command",
      id: 99,
      command: { op: "deregister-mr", key: p.to.key },
    });
    p.rig.run();
    assert.deepEqual(statuses(p), ["REM_OP_ERR"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
  });

  it("of no bytes is answered again whatever its address (§3.2)", () => {
    const p = pair();
    p.rig.fate = losing("RC RDMA READ RESPONSE ONLY");
    post(p, "read", { remote: { va: 0xffff_ffff_ffff_ffffn, rkey: 0 } });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });
});

describe("SQD", () => {
  it("retry counts that are changed there hold from then on", () => {
    const p = pair({}, { attributes: { retryCnt: 0 } });
    const { rig, a } = p;
    assert.equal(rig.modify(rig.a, a, { state: "sqd" }).status, "ok");
    assert.equal(rig.modify(rig.a, a, { state: "sqd", retryCnt: 3 }).status, "ok");
    assert.equal(rig.modify(rig.a, a, { state: "rts" }).status, "ok");
    rig.fate = losing("RC RDMA WRITE ONLY");
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  it("fewer slots for READs and atomics hold from then on (§3.5)", () => {
    const p = pair({}, { attributes: { maxRdAtomic: 4, maxDestRdAtomic: 4 } });
    const { rig, a, b } = p;
    for (let i = 0; i < 4; i++) post(p, "read", { length: 8 });
    go(p);
    for (const [side, qp] of [[rig.a, a], [rig.b, b]] as const) {
      assert.equal(rig.modify(side, qp, { state: "sqd" }).status, "ok");
      const fewer = { maxRdAtomic: 1, maxDestRdAtomic: 1 };
      assert.equal(rig.modify(side, qp, { state: "sqd", ...fewer }).status, "ok");
      assert.equal(rig.modify(side, qp, { state: "rts" }).status, "ok");
    }
    post(p, "read", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), new Array(5).fill("SUCCESS"));
  });
});

describe("queue pairs on a shared receive queue", () => {
  it("may be as many as there are queues: each has its timers", () => {
    const rig = new Rig();
    const srq = createSrq(rig, rig.b);
    const cq = rig.createCq(rig.b);
    const receivers = Array.from({ length: 50 }, () => createSrqQp(rig, rig.b, { srq, cq }));
    const sender = rig.createQp(rig.a);
    const receiver = receivers.at(-1)!;
    rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
    rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
    const source = rig.register(rig.b, { length: 4096 });
    const target = rig.register(rig.a, { length: 4096 });
    rig.fate = losing("RC RDMA WRITE ONLY");
    rig.send(rig.b, receiver, {
      opcode: "write",
      sges: [{ address: source.va, length: 8, lkey: source.key }],
      remote: { va: BigInt(target.va), rkey: target.key },
    });
    rig.run();
    assert.deepEqual(rig.poll(rig.b, cq).map(({ status }) => status), ["SUCCESS"]);
  });

  it("fail with it when nonsense lies in its space 2, the card does not: Q-04 (in part)", () => {
    const rig = new Rig({
      plans: { b: { queueCache: { entries: 1, evict: "oldest", amount: 1 } } },
    });
    const srq = createSrq(rig, rig.b);
    const cq = rig.createCq(rig.b);
    const receiver = createSrqQp(rig, rig.b, { srq, cq });
    const sender = rig.createQp(rig.a);
    rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
    rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
    const data = encodeSpace2({ depth: 64, unitBytes: 1 });
    const queue = srq.srqn;
    const reply = rig.command(rig.b, { op: "write-space2", queue, offset: 0, data });
    assert.equal(reply.status, "error");
    // Past the RNIC, which the host's memory does not prevent on this rig.
    rig.createCq(rig.b);
    rig.b.host.memory.set(data, rig.b.host.spaces.space2 + queue * SPACE2_BYTES);
    postShared(rig, rig.b, { srq, slot: 0, sges: [] });
    rig.send(rig.a, sender, { opcode: "send" });
    rig.run();
    const types = rig.b.host.events.map(({ type }) => type);
    assert.ok(types.includes("SRQ_ERR") && types.includes("QP_FATAL"), types.join(", "));
  });

  it("gives back the slot of a completion that was still on the chip when its queue pair is reset", () => {
    const rig = new Rig({
      plans: { b: { queueCache: { entries: 1, evict: "oldest", amount: 1 } } },
    });
    const srq = createSrq(rig, rig.b);
    const cq = rig.createCq(rig.b);
    const receiver = createSrqQp(rig, rig.b, { srq, cq });
    const sender = rig.createQp(rig.a);
    rig.bringUp(rig.a, sender, { qpn: receiver.qpn });
    rig.bringUp(rig.b, receiver, { qpn: sender.qpn });
    postShared(rig, rig.b, { srq, slot: 7, sges: [] });
    rig.run();
    rig.send(rig.a, sender, { opcode: "send" });
    // The reset comes while the completion queue's information is being read.
    rig.run(() => (rig.b.rnic.statistics()["cqes"] ?? 0) > 0);
    const reply = rig.modify(rig.b, receiver, { state: "reset" });
    assert.ok(reply.status === "ok" && reply.op === "qp-emptied");
    rig.run();
    const [cqe] = rig.poll(rig.b, cq);
    assert.equal(cqe?.wqeIndex, 7, "the driver learns whose slot is free");
    assert.equal(reply.written.recv, 1, "and that it is of the life that has ended");
  });
});

describe("a WQE that its service does not have", () => {
  const remote = { va: 0n, rkey: 0 };
  const word = new Uint8Array(8);
  const works: (Partial<SendWqe> & Pick<SendWqe, "opcode">)[] = [
    { opcode: "read", remote },
    { opcode: "fetch-add", remote, atomic: { swapAdd: 1n, compare: 0n } },
    { opcode: "compare-swap", remote, atomic: { swapAdd: 1n, compare: 0n } },
    { opcode: "atomic-write", remote, inline: word },
    { opcode: "flush", remote, flush: { select: 0, placement: 1, length: 8 } },
    { opcode: "send-invalidate" },
    { opcode: "write-persistence", remote },
    { opcode: "write-persist-address", remote },
  ];
  for (const work of works) {
    it(`UC: ${work.opcode}: LOC_QP_OP_ERR, nothing on the wire (§4.3)`, () => {
      const rig = new Rig();
      const { a } = connectUc(rig);
      rig.send(rig.a, a, work);
      rig.run();
      assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ status }) => status), ["LOC_QP_OP_ERR"]);
      assert.equal(rig.frames.length, 0);
    });

    it(`UD: ${work.opcode}: LOC_QP_OP_ERR, nothing on the wire (§4.3)`, () => {
      const rig = new Rig();
      const qp = createUd(rig, rig.a);
      rig.send(rig.a, qp, { ...work, ud: udAddress(rig.b.plan.address, 17) });
      rig.run();
      assert.deepEqual(rig.poll(rig.a, qp.sendCq).map(({ status }) => status), ["LOC_QP_OP_ERR"]);
      assert.equal(rig.frames.length, 0);
    });
  }

  it("RC: an address vector of its own is none: LOC_QP_OP_ERR, nothing on the wire", () => {
    const p = pair();
    post(p, "write", { length: 8, ud: udAddress(0x0a00_0009, 99) });
    go(p);
    assert.deepEqual(statuses(p), ["LOC_QP_OP_ERR"]);
    assert.equal(p.rig.frames.length, 0);
  });
});
