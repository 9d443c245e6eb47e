/** States of a queue pair at work (`rocev2.md` §4.1); the table of transitions is in `fabric/wire`. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

let rig: Rig, qp: { a: RigQp; b: RigQp }, source: RigMr, target: RigMr;

beforeEach(() => {
  rig = new Rig();
  qp = rig.connect({ attributes: { maxRdAtomic: 12, maxDestRdAtomic: 12 } });
  source = rig.register(rig.a, { length: 1 << 16 });
  target = rig.register(rig.b, { length: 1 << 16 });
});

/** Puts a WRITE into the ring of `a`. @returns its position. */
function enqueueWrite(length = 64): number {
  return rig.enqueueSend(rig.a, qp.a, {
    opcode: "write",
    sges: [{ address: source.va, length, lkey: source.key }],
    remote: { va: BigInt(target.va), rkey: target.key },
  });
}

function post(count: number): number[] {
  const positions = Array.from({ length: count }, () => enqueueWrite());
  rig.ring(rig.a, qp.a.sq);
  return positions;
}

function completions(): [number, string][] {
  return rig.poll(rig.a, qp.a.sendCq).map(({ wqeIndex, status }) => [wqeIndex, status]);
}

function ofType(type: RnicEvent["type"]): RnicEvent[] {
  return rig.a.host.events.filter((event) => event.type === type);
}

describe("ERR", () => {
  it("§7 #11: flushes what is posted on both sides, in order, none lost or doubled", () => {
    const receives = [1, 2, 3].map(() => rig.recv(rig.a, qp.a, []));
    // Nothing gets through, so all of it is still posted.
    rig.fate = () => "drop";
    const sends = post(9);
    rig.runFor(1_500_000);
    rig.modify(rig.a, qp.a, { state: "err" });
    rig.run();
    const expected = (positions: number[]) => positions.map((at) => [at, "WR_FLUSH_ERR"]);
    const cqes = rig.poll(rig.a, qp.a.sendCq);
    const statusesOf = (opcode: string) =>
      cqes.filter((cqe) => cqe.opcode === opcode).map((cqe) => [cqe.wqeIndex, cqe.status]);
    assert.deepEqual(statusesOf("requester-error"), expected(sends));
    assert.deepEqual(statusesOf("responder-error"), expected(receives));
    assert.equal(cqes.length, 12);
  });

  it("§7 #13: what is posted in it completes with WR_FLUSH_ERR", () => {
    rig.modify(rig.a, qp.a, { state: "err" });
    const [send] = post(1);
    const receive = rig.recv(rig.a, qp.a, [], "pointer");
    rig.run();
    assert.deepEqual(
      completions().sort(),
      [[send, "WR_FLUSH_ERR"], [receive, "WR_FLUSH_ERR"]].sort(),
    );
  });

  it("§7 #12: RESET, then the way up with fresh PSNs: traffic works again, MSN from 0", () => {
    rig.send(rig.a, qp.a, {
      opcode: "write",
      sges: [{ address: source.va, length: 64, lkey: source.key }],
      remote: { va: BigInt(target.va), rkey: target.key + 1 },
    });
    rig.run();
    assert.deepEqual(completions().map(([, status]) => status), ["REM_ACCESS_ERR"]);
    const attributes = { sqPsn: 500, rqPsn: 500 };
    for (const side of ["a", "b"] as const) {
      assert.equal(rig.modify(rig[side], qp[side], { state: "reset" }).status, "ok");
      qp[side].sq.write = qp[side].sq.depth - 1;
      qp[side].rq.write = qp[side].rq.depth - 1;
    }
    rig.bringUp(rig.a, qp.a, { qpn: qp.b.qpn, attributes });
    rig.bringUp(rig.b, qp.b, { qpn: qp.a.qpn, attributes });
    post(2);
    rig.run();
    assert.deepEqual(completions(), [[0, "SUCCESS"], [1, "SUCCESS"]]);
    const ack = rig.frames.findLast(({ from }) => from === "b")!.bytes;
    // AETH: syndrome and MSN; two messages since RESET.
    assert.deepEqual([...ack.subarray(-7, -4)], [0, 0, 2]);
  });

  it("what is under way when it is reset never completes", () => {
    rig.fate = () => "drop";
    post(9);
    rig.runFor(1_500_000);
    const reply = rig.modify(rig.a, qp.a, { state: "reset" });
    assert.deepEqual(reply, {
      status: "ok",
      op: "qp-emptied",
      written: { send: 0, recv: 0 },
    });
    rig.run();
    assert.deepEqual(completions(), []);
  });
});

describe("SQD", () => {
  const sqd = { state: "sqd", enSqdAsyncNotify: true } as const;

  it("§7 #14: a message that is half sent is finished, none is begun, SQ_DRAINED once; RTS resumes", () => {
    const long = enqueueWrite(1 << 16);
    const later = [enqueueWrite(), enqueueWrite()];
    const before = rig.a.framesSent;
    rig.ring(rig.a, qp.a.sq);
    rig.run(() => rig.a.framesSent >= before + 2);
    assert.equal(rig.modify(rig.a, qp.a, sqd).status, "ok");
    rig.run();
    assert.deepEqual(completions(), [[long, "SUCCESS"]]);
    assert.equal(rig.a.framesSent, before + 64);
    const drained = { type: "SQ_DRAINED", qpn: qp.a.qpn };
    assert.deepEqual(ofType("SQ_DRAINED"), [drained]);
    // What is posted meanwhile waits as well.
    later.push(...post(1));
    rig.run();
    assert.deepEqual(completions(), []);
    assert.equal(rig.modify(rig.a, qp.a, { state: "rts" }).status, "ok");
    rig.run();
    assert.deepEqual(completions(), later.map((at) => [at, "SUCCESS"]));
    assert.deepEqual(ofType("SQ_DRAINED"), [drained]);
  });

  it("§7 #14: SQ_DRAINED comes behind the CQE of what was half sent, not before", () => {
    const long = enqueueWrite(1 << 16);
    enqueueWrite();
    const before = rig.a.framesSent;
    rig.ring(rig.a, qp.a.sq);
    rig.run(() => rig.a.framesSent >= before + 2);
    assert.equal(rig.modify(rig.a, qp.a, sqd).status, "ok");
    rig.run(() => ofType("SQ_DRAINED").length > 0);
    assert.equal(rig.a.framesSent, before + 64);
    assert.deepEqual(completions(), [[long, "SUCCESS"]]);
  });

  it("§7 #14, #30: events come behind CQEs that wait for their queue's information, too", () => {
    const queueCache = { entries: 1, evict: "oldest", amount: 1 } as const;
    rig = new Rig({ plans: { a: { queueCache } } });
    qp = rig.connect();
    source = rig.register(rig.a, { length: 1 << 16 });
    target = rig.register(rig.b, { length: 1 << 16 });
    const long = enqueueWrite(1 << 16);
    rig.ring(rig.a, qp.a.sq);
    const before = rig.a.framesSent;
    rig.run(() => rig.a.framesSent >= before + 2);
    assert.equal(rig.modify(rig.a, qp.a, sqd).status, "ok");
    rig.run(() => ofType("SQ_DRAINED").length > 0);
    assert.deepEqual(completions(), [[long, "SUCCESS"]]);
  });

  it("an idle queue is drained at once; without the flag nobody is told", () => {
    rig.modify(rig.a, qp.a, { state: "sqd" });
    rig.run();
    assert.deepEqual(ofType("SQ_DRAINED"), []);
    rig.modify(rig.a, qp.a, { state: "rts", curState: "sqd" });
    rig.modify(rig.a, qp.a, sqd);
    rig.run();
    assert.equal(ofType("SQ_DRAINED").length, 1);
  });

  it("takes what can only change there, and CUR_STATE must be true", () => {
    assert.equal(rig.modify(rig.a, qp.a, { timeout: 9 }).status, "error");
    rig.modify(rig.a, qp.a, { state: "sqd" });
    assert.equal(rig.modify(rig.a, qp.a, { timeout: 9, maxRdAtomic: 3 }).status, "ok");
    assert.equal(rig.modify(rig.a, qp.a, { state: "rts", curState: "rts" }).status, "error");
    assert.equal(rig.modify(rig.a, qp.a, { state: "rts", curState: "sqd" }).status, "ok");
    post(1);
    rig.run();
    assert.deepEqual(completions(), [[0, "SUCCESS"]]);
  });
});

describe("SQE", () => {
  it("a UD send that fails here: the rest is flushed, receives go on, RTS resumes", () => {
    const [ud, peer] = [rig.a, rig.b].map((side) => {
      const made = rig.createQp(side, { type: "ud" });
      for (
        const attributes of [
          { state: "init", qKey: 7 },
          { state: "rtr" },
          { state: "rts", sqPsn: 1 },
        ] as const
      ) {
        assert.equal(rig.modify(side, made, attributes).status, "ok");
      }
      return made;
    }) as [RigQp, RigQp];
    const address = (to: RigQp, ip: number) => ({
      qKey: 7,
      qpn: to.qpn,
      address: ip,
      trafficClass: 0,
      hopLimit: 64,
      udpSourcePort: 0,
    });
    const out = address(peer, rig.b.plan.address), back = address(ud, rig.a.plan.address);
    const bad = [{ address: source.va, length: 8, lkey: 0x9900 }];
    rig.enqueueSend(rig.a, ud, { opcode: "send", sges: bad, ud: out });
    for (let i = 0; i < 6; i++) rig.enqueueSend(rig.a, ud, { opcode: "send", ud: out });
    rig.ring(rig.a, ud.sq);
    rig.run();
    const statuses = () => rig.poll(rig.a, ud.sendCq).map(({ status }) => status);
    assert.deepEqual(statuses(), ["LOC_PROT_ERR", ...new Array(6).fill("WR_FLUSH_ERR")]);
    rig.recv(rig.a, ud, [{ address: source.va, length: 64, lkey: source.key }]);
    rig.send(rig.b, peer, { opcode: "send", ud: back });
    rig.run();
    assert.deepEqual(statuses(), ["SUCCESS"]);
    rig.send(rig.a, ud, { opcode: "send", ud: out });
    rig.run();
    assert.deepEqual(statuses(), ["WR_FLUSH_ERR"]);
    assert.equal(rig.modify(rig.a, ud, { state: "rts" }).status, "ok");
    rig.poll(rig.b, peer.sendCq);
    rig.recv(rig.b, peer, [{ address: target.va, length: 64, lkey: target.key }]);
    rig.send(rig.a, ud, { opcode: "send", ud: out });
    rig.run();
    assert.deepEqual(statuses(), ["SUCCESS"]);
    assert.deepEqual(rig.poll(rig.b, peer.recvCq).map(({ status }) => status), ["SUCCESS"]);
  });
});

describe("work without a doorbell", () => {
  it("§7 #89: a WQE in the ring and its pointer in space 3; the next one's doorbell runs both", () => {
    const first = enqueueWrite();
    rig.ring(rig.a, qp.a.sq, "none");
    rig.runFor(5_000_000);
    assert.deepEqual(completions(), []);
    const second = enqueueWrite();
    rig.ring(rig.a, qp.a.sq);
    rig.run();
    assert.deepEqual(completions(), [[first, "SUCCESS"], [second, "SUCCESS"]]);
  });
});
