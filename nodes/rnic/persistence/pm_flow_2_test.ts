/** Flow 2: a host's CPU is told what to flush, and its word is the persistence ACK (P-26 to P-30). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { decodeRecvWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { RECV_STRIDE } from "../testing/fake_host_testing.ts";
import { RECV_RETRY_PS } from "../state/limits.ts";
import {
  EVERY_ACCESS,
  go,
  losing,
  names,
  packetOf,
  type Pair,
  pair,
  post,
  RECV_AT,
  statuses,
} from "../testing/pair_testing.ts";
import { FLOW_2, flushByCpu, persistingPair } from "../testing/pm_testing.ts";

describe("PM module, flow 2", () => {
  it("P-26: consumes a RECV with VA, length and PSN; the CPU's SEND becomes the persistence ACK", () => {
    const p = persistingPair(FLOW_2);
    p.rig.recv(p.rig.b, p.b, []);
    p.rig.ring(p.rig.a, p.a.sq);
    post(p, "write-persistence", { length: 2500, at: 100 });
    go2(p, () => p.rig.b.rnic.statistics()["recvPersisted"] === 1);
    p.rig.runFor(5 * PS_PER_US);
    assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE"]);
    const [cqe] = p.rig.poll(p.rig.b, p.b.recvCq);
    assert.deepEqual([cqe?.opcode, cqe?.psn, cqe?.va, cqe?.byteCount, cqe?.wqeIndex], [
      "recv-persistence",
      0,
      BigInt(p.to.va + 100),
      2500,
      0,
    ]);
    assert.deepEqual(statuses(p), [], "P-29: received is not persisted");
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: cqe!.psn });
    p.rig.run();
    assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE", "VENDOR PERSISTENCE ACKNOWLEDGE"]);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq)[0]?.status, "SUCCESS", "S1017");
    assert.equal(p.rig.b.rnic.statistics()["lsbReads"], 0);
  });

  it("P-26: writes the RECV's WQE in the host's memory with VA, length and PSN, then clears it, then its CQE", () => {
    const p = persistingPair(FLOW_2);
    const wqe = { address: p.from.va + RECV_AT, length: 64, lkey: p.to.key };
    p.rig.recv(p.rig.b, p.b, [wqe]);
    const { address } = p.b.rq, { host } = p.rig.b;
    assert.ok(host.memory.subarray(address, address + 16).some((byte) => byte !== 0));
    post(p, "write-persistence", { length: 2500, at: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.b.rnic.statistics()["recvPersisted"] === 1);
    p.rig.runFor(5 * PS_PER_US);
    const [cqe] = p.rig.poll(p.rig.b, p.b.recvCq);
    assert.equal(cqe?.opcode, "recv-persistence");
    const ends = [address, p.b.recvCq.address];
    const writes = host.log.flatMap((message) =>
      message.kind === "memory-write" && ends.includes(message.address) ? [message] : []
    );
    const [first, second, third] = writes.map(({ address: at, data }) => ({ at, data }));
    assert.equal(writes.length, 3);
    const range = { address: p.to.va + 100, length: 2500, lkey: cqe.psn };
    assert.deepEqual(decodeRecvWqe(first!.data), [range]);
    assert.deepEqual([first!.at, second!.at, third!.at], [address, address, ends[1]]);
    assert.deepEqual(second!.data, new Uint8Array(RECV_STRIDE));
    assert.ok(host.memory.subarray(address, address + RECV_STRIDE).every((byte) => byte === 0));
  });

  it("P-27, P-29: policy reception completes the WRITE when received and a RECV when persisted", () => {
    const p = persistingPair(FLOW_2, { policy: "reception" });
    p.rig.recv(p.rig.b, p.b, []);
    p.rig.recv(p.rig.a, p.a, []);
    p.rig.tracing = true;
    post(p, "write-persistence", { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => flushByCpu(p).length === 1);
    const early = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(early.map(({ opcode, status }) => [opcode, status]), [[
      "requester",
      "SUCCESS",
    ]]);
    p.rig.run();
    const late = p.rig.poll(p.rig.a, p.a.recvCq);
    assert.deepEqual(late.map(({ opcode, psn, va }) => [opcode, psn, va]), [
      ["recv-persistence", 0xff_fffe, BigInt(p.to.va)],
    ]);
    assert.deepEqual(names(p, "a").length, 1, "P-27: no SEND of the requester crosses the wire");
    const steps = new Set(p.rig.traces.map(({ step }) => step.step));
    for (
      const step of [
        "S1002",
        "S1003",
        "S1004",
        "S1006",
        "S1007",
        "S1009",
        "S1010",
        "S1013",
        "S1015",
        "S1016",
        "S1017",
        "S1018",
      ]
    ) {
      assert.ok(steps.has(step), `${step} is in the ladder`);
    }
  });

  it("P-26: without a RECV the message is kept, never lost, and found when one is posted", () => {
    for (const bell of ["none", "number", "pointer"] as const) {
      const p = persistingPair(FLOW_2);
      post(p, "write-persistence", { length: 100 });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.runFor(30 * PS_PER_US);
      assert.equal(p.rig.b.rnic.statistics()["recvPersisted"], 0);
      assert.equal(p.rig.b.rnic.statistics()["rnrNaksOut"], 0);
      p.rig.recv(p.rig.b, p.b, [], bell);
      p.rig.run(() => flushByCpu(p).length === 1);
      p.rig.run();
      assert.deepEqual(statuses(p), ["SUCCESS"]);
    }
  });

  it("P-26: without a RECV it looks for one ever more rarely, 16 times; then a doorbell asks anew", () => {
    // Without a time-out the requester does not ask again either.
    const accessFlags = EVERY_ACCESS | ACCESS.remoteWritePersistence;
    const p = pair({ persistence: { b: FLOW_2 } }, { attributes: { accessFlags, timeout: 0 } });
    p.rig.leavesRequests = true;
    const looks: number[] = [];
    post(p, "write-persistence", { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => {
      const { log } = p.rig.b.host;
      if (log.length > 0 && log.at(-1)!.kind === "memory-read") looks.push(p.rig.now);
      log.length = 0;
      return false;
    });
    const gaps = looks.slice(1).map((at, i) => (at - looks[i]!) / RECV_RETRY_PS);
    assert.equal(gaps.length, 16);
    // The look itself takes less than a fifth of the first wait.
    assert.deepEqual(gaps.map((gap, i) => Math.floor(gap / 2 ** i)), new Array(16).fill(1));
    p.rig.recv(p.rig.b, p.b, [], "pointer");
    p.rig.run(() => flushByCpu(p).length === 1);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  it("P-29: what is received and not persisted is flushed when a later request is refused", () => {
    const p = persistingPair(FLOW_2);
    p.rig.recv(p.rig.b, p.b, []);
    post(p, "write-persistence", { length: 100 });
    post(p, "write", { length: 8, remote: { va: BigInt(p.to.va), rkey: p.to.key + 1 } });
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["WR_FLUSH_ERR", "REM_ACCESS_ERR", "WR_FLUSH_ERR"]);
  });

  it("P-30: if the CPU never answers, the requester gives up and reports nothing persisted", () => {
    const p = persistingPair(FLOW_2, { retryCnt: 2 });
    p.rig.recv(p.rig.b, p.b, []);
    post(p, "write-persistence", { length: 100 });
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    assert.equal(p.rig.b.rnic.statistics()["recvPersisted"], 1, "asked again, delivered once");
  });

  it("P-30: with policy reception that fails the queue pair and flushes the RECV", () => {
    const p = persistingPair(FLOW_2, { retryCnt: 2, policy: "reception" });
    // The responder's CPU learns of it when a receive is posted.
    p.rig.leavesRequests = true;
    p.rig.recv(p.rig.a, p.a, []);
    post(p, "write-persistence", { length: 100 });
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq).map(({ opcode, status }) => [opcode, status]);
    assert.deepEqual(cqes, [["requester", "SUCCESS"], ["responder-error", "WR_FLUSH_ERR"]]);
  });

  it("P-30: a lost persistence ACK of the CPU is answered again by the RNIC alone", () => {
    for (const policy of ["persistence", "reception"] as const) {
      const p = persistingPair(FLOW_2, { policy });
      p.rig.fate = losing("VENDOR PERSISTENCE ACKNOWLEDGE", 2);
      p.rig.recv(p.rig.b, p.b, []);
      p.rig.recv(p.rig.a, p.a, []);
      post(p, "write-persistence", { length: 100 });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run(() => flushByCpu(p).length === 1);
      p.rig.run();
      const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
      assert.deepEqual(
        cqes.map(({ status }) => status),
        new Array(policy === "reception" ? 2 : 1).fill("SUCCESS"),
      );
      assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 3);
      assert.equal(p.rig.b.rnic.statistics()["recvPersisted"], 1);
    }
  });

  it("P-30: a persistence ACK for what was never delivered is refused (LOC_QP_OP_ERR)", () => {
    const p = persistingPair(FLOW_2);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: 5 });
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq)[0]?.status, "LOC_QP_OP_ERR");
    assert.deepEqual(names(p, "b"), []);
  });

  it("P-27: the RECVs complete in order although a SEND of several packets holds one", () => {
    const p = persistingPair(FLOW_2, { policy: "reception" });
    for (let i = 0; i < 4; i++) p.rig.recv(p.rig.b, p.b, []);
    for (let i = 0; i < 4; i++) {
      p.rig.recv(p.rig.a, p.a, [{ address: p.from.va + RECV_AT, length: 8192, lkey: p.from.key }]);
    }
    for (let i = 0; i < 3; i++) post(p, "write-persistence", { length: 100, at: 100 * i });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.b.rnic.statistics()["recvPersisted"] === 3);
    p.rig.enqueueSend(p.rig.b, p.b, {
      opcode: "send",
      sges: [{ address: p.to.va, length: 8192, lkey: p.to.key }],
    });
    p.rig.ring(p.rig.b, p.b.sq);
    p.rig.runFor(PS_PER_US);
    flushByCpu(p);
    p.rig.run();
    flushByCpu(p);
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.recvCq).filter(({ opcode }) => opcode.startsWith("recv"));
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), [0, 1, 2, 3]);
  });

  it("P-30: nor one for a message that waits for a RECV: the CPU cannot have flushed it", () => {
    const p = persistingPair(FLOW_2);
    post(p, "write-persistence", { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(10 * PS_PER_US);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: 0xff_fffe });
    p.rig.runFor(10 * PS_PER_US);
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq)[0]?.status, "LOC_QP_OP_ERR");
    assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 0);
  });

  it("P-27: a RECV for a persistence ACK does not overtake that of a SEND that is still coming", () => {
    const p = persistingPair(FLOW_2, { policy: "reception" });
    p.rig.recv(p.rig.b, p.b, []);
    for (let i = 0; i < 2; i++) {
      p.rig.recv(p.rig.a, p.a, [{ address: p.from.va + RECV_AT, length: 8192, lkey: p.from.key }]);
    }
    post(p, "write-persistence", { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.b.rnic.statistics()["recvPersisted"] === 1);
    p.rig.runFor(5 * PS_PER_US);
    p.rig.fate = (_from, frame) => {
      const isEnd = packetOf(frame.bytes).bth.opcode === OPCODE["RC SEND LAST"];
      return isEnd ? { delayPs: 20 * PS_PER_US } : "pass";
    };
    const { psn } = p.rig.poll(p.rig.b, p.b.recvCq)[0]!;
    p.rig.enqueueSend(p.rig.b, p.b, {
      opcode: "send",
      sges: [{ address: p.to.va, length: 2000, lkey: p.to.key }],
    });
    p.rig.ring(p.rig.b, p.b.sq);
    // The SEND's first packet is there and has its RECV, the last one is on its way.
    p.rig.runFor(5 * PS_PER_US);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn });
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.recvCq).filter(({ opcode }) => opcode !== "requester");
    assert.deepEqual(cqes.map(({ opcode, wqeIndex }) => [opcode, wqeIndex]), [
      ["recv", 0],
      ["recv-persistence", 1],
    ]);
  });

  function go2(p: Pair, until: () => boolean): void {
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(until);
  }
});
