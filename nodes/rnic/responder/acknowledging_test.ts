/**
 * Acknowledging and retrying at both ends (`rocev2.md` §3.2, §3.3, §3.6), beyond what §7.4 asks for.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  FIRST_PSN,
  go,
  inject,
  losing,
  names,
  packets,
  type Pair,
  pair,
  post,
  RECV_AT,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";

function next(psn: number, count = 1): number {
  return (psn + count) & 0xff_ffff;
}

const HUGE_VA = 0x10_0000_0000;

/** 2 GiB for `a` behind its memory, in one page that nobody will touch. */
function registerHuge(p: Pair): number {
  const length = 2 ** 31;
  const region = {
    pd: 1,
    va: HUGE_VA,
    length,
    access: EVERY_ACCESS,
    pageBytes: length,
    pages: [2 ** 40],
    persistent: true,
  };
  const reply = p.rig.command(p.rig.a, { op: "register-mr", region });
  assert.ok(reply.status === "ok" && reply.op === "register-mr");
  return reply.lkey;
}

describe("acknowledging", () => {
  it("every packet of a long message asks now and then, its last one always (§3.2)", () => {
    const p = pair({}, { attributes: { pathMtu: 256 } });
    post(p, "write", { length: 32_000 });
    go(p);
    const asked = packets(p, "a").flatMap(({ bth }, i) => bth.ackReq ? [i] : []);
    assert.deepEqual(asked, [63, 124]);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  for (const pathMtu of [256, 512, 1024, 2048, 4096] as const) {
    it(`path MTU ${pathMtu}: WRITE, SEND and READ are cut by it`, () => {
      const p = pair({}, { attributes: { pathMtu } });
      recvs(p, 1, { length: 16_000 });
      post(p, "write", { length: 10_000 });
      post(p, "send", { length: 10_000 });
      post(p, "read", { length: 10_000 });
      go(p);
      const count = Math.ceil(10_000 / pathMtu);
      assert.equal(packets(p, "a").length, 2 * count + 1);
      assert.equal(packets(p, "b").filter(({ payload }) => payload.length > 0).length, count);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    });
  }

  it("the solicited mark is on the last packet of SENDs and WRITEs with immediate alone", () => {
    const p = pair();
    recvs(p, 3);
    const solicited = true;
    post(p, "send", { length: 2000, solicited });
    post(p, "write-immediate", { length: 2000, solicited });
    post(p, "write", { length: 2000, solicited });
    post(p, "read", { length: 8, solicited });
    go(p);
    assert.deepEqual(packets(p, "a").map(({ bth }) => bth.solicited), [
      false,
      true,
      false,
      true,
      false,
      false,
      false,
    ]);
  });

  it("the MSN counts requests of every kind, once each, and no duplicate", () => {
    const p = pair({ fate: (from, _frame, count) => from === "b" && count < 4 ? "drop" : "pass" });
    recvs(p, 1);
    post(p, "write", { length: 3000 });
    post(p, "read", { length: 3000, fence: true });
    post(p, "fetch-add", { length: 8, atomic: { swapAdd: 1n, compare: 0n }, fence: true });
    post(p, "send", { length: 8, fence: true });
    post(p, "write", { length: 8, fence: true });
    go(p);
    assert.equal(packets(p, "b").at(-1)!.aeth!.msn, 5);
    assert.ok(counter(p, "b", "duplicatesIn") > 0);
  });

  it("a READ response has the MSN of its READ, though what follows is executed before it leaves", () => {
    const p = pair();
    post(p, "write", { length: 8 });
    post(p, "read", { at: 64, length: 3000 });
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "read", { at: 64, length: 8 });
    go(p);
    const told = packets(p, "b").map(({ bth, aeth }) => [opcodeRow(bth.opcode)!.name, aeth?.msn]);
    assert.deepEqual(told, [
      ["RC ACKNOWLEDGE", 1],
      ["RC RDMA READ RESPONSE FIRST", 2],
      ["RC RDMA READ RESPONSE MIDDLE", undefined],
      ["RC RDMA READ RESPONSE LAST", 2],
      ["RC ACKNOWLEDGE", 3],
      ["RC RDMA READ RESPONSE ONLY", 4],
    ]);
  });

  it("a duplicate SEND or WRITE is acknowledged with the newest PSN and MSN (§3.5)", () => {
    for (const opcode of ["send", "write"] as const) {
      const p = pair();
      recvs(p, 3);
      for (let i = 0; i < 3; i++) post(p, opcode, { length: 8 });
      go(p);
      const [first, , last] = packets(p, "a");
      for (const sent of [first!, last!]) {
        const before = packets(p, "b").length;
        inject(p, "b", sent);
        p.rig.run();
        const answers = packets(p, "b").slice(before);
        assert.deepEqual(answers.map(({ bth, aeth }) => [bth.psn, aeth!.msn]), [[
          next(FIRST_PSN, 2),
          3,
        ]]);
      }
    }
  });

  it("an ACK of what was never sent, and a reserved syndrome, are ignored (§3.3)", () => {
    const p = pair();
    post(p, "write", { length: 8 });
    go(p);
    const [ack] = packets(p, "b");
    for (const ahead of [1, 5]) {
      inject(p, "a", changed(ack!, { bth: { psn: next(FIRST_PSN, ahead) } }));
    }
    inject(p, "a", changed(ack!, { aeth: { syndrome: 0x40, msn: 1 } }));
    p.rig.run();
    assert.equal(counter(p, "a", "ignoredResponsesIn"), 3);
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });

  it("an answer of the wrong kind ends the work with BAD_RESP_ERR (§3.3)", () => {
    for (const wrong of ["RC RDMA READ RESPONSE ONLY", "RC ATOMIC ACKNOWLEDGE"] as const) {
      const p = pair({ fate: (from) => from === "b" ? "drop" : "pass" });
      const isRead = wrong === "RC ATOMIC ACKNOWLEDGE";
      if (isRead) post(p, "read", { length: 8 });
      else post(p, "fetch-add", { length: 8, atomic: { swapAdd: 1n, compare: 0n } });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run(() => packets(p, "b").length > 0);
      const [answer] = packets(p, "b");
      const fields = { bth: { opcode: OPCODE[wrong] }, payload: new Uint8Array(isRead ? 0 : 8) };
      inject(p, "a", { ...changed(answer!, fields), atomicAckEth: { original: 0n } });
      p.rig.run();
      assert.deepEqual(statuses(p), ["BAD_RESP_ERR"]);
    }
  });

  it("a READ response of another length ends it with BAD_RESP_ERR, before memory changes", () => {
    const p = pair({ fate: (from) => from === "b" ? "drop" : "pass" });
    post(p, "read", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "b").length > 0);
    const before = p.rig.bytes(p.rig.a, p.from, 0, 64);
    inject(p, "a", { ...packets(p, "b")[0]!, payload: new Uint8Array(12) });
    p.rig.run();
    assert.deepEqual(statuses(p), ["BAD_RESP_ERR"]);
    assert.deepEqual(p.rig.bytes(p.rig.a, p.from, 0, 64), before);
  });

  it("a lost answer costs a retry: with retry_cnt 0 it ends the work (§3.3)", () => {
    const p = pair({ fate: losing("RC RDMA READ RESPONSE ONLY") }, {
      attributes: { retryCnt: 0 },
    });
    post(p, "read", { length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
  });

  it("a lost answer costs a retry once per progress, and the time-out the next", () => {
    const p = pair({ fate: losing("RC RDMA READ RESPONSE ONLY", 9) }, {
      attributes: { retryCnt: 1 },
    });
    post(p, "read", { length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
    const requests = names(p, "a").filter((name) => name === "RC RDMA READ REQUEST");
    assert.equal(requests.length, 2);
  });

  it("a NAK behind a lost answer is not taken for the answer's (§3.3)", () => {
    const p = pair({ fate: losing("RC RDMA READ RESPONSE ONLY") }, { attributes: { retryCnt: 2 } });
    post(p, "read", { length: 8 });
    post(p, "write", { length: 8, remote: { va: 0n, rkey: 1 } });
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
  });

  it("memory that fails in the middle of a READ is told at once, by the PSN it fails at", () => {
    const p = pair();
    post(p, "read", { length: 30_000 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "a", "readResponsesIn") === 3);
    p.rig.b.host.refuseReads = true;
    p.rig.run();
    assert.deepEqual(statuses(p), ["REM_OP_ERR"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
  });

  it("so is it where the responses before the NAK are lost: it is the answer, and costs no retry", () => {
    const p = pair({}, { attributes: { retryCnt: 0 } });
    post(p, "read", { length: 30_000 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "a", "readResponsesIn") === 3);
    p.rig.b.host.refuseReads = true;
    p.rig.fate = losing("RC RDMA READ RESPONSE MIDDLE", 30);
    p.rig.run();
    const nak = packets(p, "b").at(-1)!;
    assert.ok(nak.bth.psn > next(FIRST_PSN, 3), "some were under way");
    assert.deepEqual(statuses(p), ["REM_OP_ERR"]);
  });

  it("a READ that fails while the one before it is on its way takes nothing from that one", () => {
    // Data comes faster than the line takes it, with its headers: the first one's frames wait for it.
    const timing = { ...rnicPlan("b").timing, dmaReadsMax: 64 };
    const p = pair({ plans: { b: { timing } } }, { attributes: { pathMtu: 256 } });
    for (const length of [30_000, 8, 8]) post(p, "read", { length });
    p.rig.ring(p.rig.a, p.a.sq);
    const { host } = p.rig.b;
    const read = () => host.log.filter(({ kind }) => kind === "memory-read").length;
    p.rig.run(() => read() === Math.ceil(30_000 / 256));
    host.refuseReads = true;
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "REM_OP_ERR", "WR_FLUSH_ERR"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
    assert.equal(names(p, "b").filter((name) => name === "RC RDMA READ RESPONSE ONLY").length, 0);
  });

  it("READs of half of all PSNs are not outstanding at once; one alone cannot be (§3.1)", () => {
    for (
      const [count, length, sent, expected] of [
        [2, 2 ** 30, 1, []],
        [2, 2 ** 30 - 256, 2, []],
        [1, 2 ** 31, 0, ["LOC_LEN_ERR"]],
      ] as const
    ) {
      const p = pair({ fate: () => "drop" }, { attributes: { pathMtu: 256 } });
      const lkey = registerHuge(p);
      for (let i = 0; i < count; i++) {
        post(p, "read", { sges: [{ address: HUGE_VA, length, lkey }] });
      }
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.runFor(5_000_000);
      assert.equal(packets(p, "a").length, sent);
      assert.deepEqual(statuses(p), expected);
    }
  });

  it("retry_cnt 7 is seven (§8): eight transmissions", () => {
    const p = pair({ fate: (from) => from === "a" ? "drop" : "pass" }, {
      attributes: { retryCnt: 7 },
    });
    post(p, "write", { length: 8 });
    go(p);
    assert.equal(packets(p, "a").length, 8);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
  });
});
