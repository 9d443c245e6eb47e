import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { ATOMIC_WRITE, COMPARE_SWAP, FETCH_ADD } from "./atomic.ts";
import { fetchAdd, sge } from "../testing/atomic_testing.ts";
import {
  answerAt,
  changed,
  counter,
  EVERY_ACCESS,
  FIRST_PSN,
  go,
  inject,
  losing,
  names,
  packetOf,
  packets,
  type Pair,
  pair,
  post,
  recvs,
  setWord,
  statuses,
  word,
} from "../testing/pair_testing.ts";
import type { AtomicOperands, AtomicRule } from "../state/operation.ts";
import { wordOf } from "../state/memory.ts";

const MAX = 2n ** 64n - 1n;

function compareSwap(p: Pair, at: number, operands: { compare: bigint; swap: bigint }): number {
  const { compare, swap } = operands;
  return post(p, "compare-swap", { at, length: 8, atomic: { swapAdd: swap, compare } });
}

describe("AtomicRule.compute", () => {
  const swap = { compare: 42n, swapAdd: 99n };
  const cases: [string, AtomicRule, AtomicOperands, bigint, bigint | undefined][] = [
    ["FETCH & ADD adds", FETCH_ADD, { swapAdd: 5n, compare: 0n }, 37n, 42n],
    ["FETCH & ADD wraps at 2^64", FETCH_ADD, { swapAdd: 2n, compare: 0n }, MAX, 1n],
    ["COMPARE & SWAP stores where equal", COMPARE_SWAP, swap, 42n, 99n],
    ["COMPARE & SWAP leaves what differs", COMPARE_SWAP, swap, 41n, undefined],
    ["ATOMIC WRITE stores whatever was there", ATOMIC_WRITE, { swapAdd: 7n, compare: 0n }, 1n, 7n],
  ];
  for (const [name, rule, operands, original, result] of cases) {
    it(name, () => assert.equal(rule.compute(operands, original), result));
  }
});

describe("wordOf", () => {
  it("§1.3: the number's bytes in host order, little-endian", () => {
    assert.deepEqual(wordOf(0x0102n), Uint8Array.of(2, 1, 0, 0, 0, 0, 0, 0));
    assert.deepEqual(wordOf(MAX), new Uint8Array(8).fill(255));
  });
});

describe("FETCH & ADD and COMPARE & SWAP", () => {
  it("from the post over wire and DMA to the requester's memory and CQE", () => {
    const p = pair();
    setWord(p, 64, 37n);
    fetchAdd(p, 64, 5n);
    go(p);
    assert.equal(word(p, 64), 42n);
    assert.equal(answerAt(p, 64), 37n);
    const [cqe] = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual([cqe?.status, cqe?.byteCount], ["SUCCESS", 8]);
    assert.deepEqual(names(p, "a"), ["RC FETCH & ADD"]);
    assert.deepEqual(names(p, "b"), ["RC ATOMIC ACKNOWLEDGE"]);
    const [request] = packets(p, "a"), [answer] = packets(p, "b");
    assert.deepEqual(request!.atomicEth, {
      va: BigInt(p.to.va + 64),
      rkey: p.to.key,
      swapAdd: 5n,
      compare: 0n,
    });
    assert.deepEqual([answer!.bth.psn, answer!.aeth!.msn, answer!.atomicAckEth!.original], [
      FIRST_PSN,
      1,
      37n,
    ]);
  });

  it("COMPARE & SWAP swaps what is equal and answers with what was there", () => {
    const p = pair();
    setWord(p, 0, 42n);
    setWord(p, 8, 43n);
    compareSwap(p, 0, { compare: 42n, swap: 99n });
    compareSwap(p, 8, { compare: 42n, swap: 99n });
    go(p);
    assert.deepEqual([word(p, 0), word(p, 8)], [99n, 43n]);
    assert.deepEqual([answerAt(p, 0), answerAt(p, 8)], [42n, 43n]);
    assert.equal(counter(p, "b", "atomicsExecuted"), 2);
  });

  it("what is posted behind one takes effect behind it: READ, WRITE, atomic (§3.7)", () => {
    const p = pair();
    setWord(p, 0, 10n);
    post(p, "read", { at: 0, length: 8, sges: [sge(p, 1000)] });
    fetchAdd(p, 0, 1n, { sges: [sge(p, 1008)] });
    post(p, "read", { at: 0, length: 8, sges: [sge(p, 1016)] });
    post(p, "write", { at: 0, inline: wordOf(500n), fence: true });
    fetchAdd(p, 0, 7n, { sges: [sge(p, 1024)] });
    go(p);
    assert.deepEqual([1000, 1008, 1016, 1024].map((at) => answerAt(p, at)), [10n, 10n, 11n, 500n]);
    assert.equal(word(p, 0), 507n);
    assert.deepEqual(statuses(p), new Array(5).fill("SUCCESS"));
  });

  it("a WRITE behind one is not overwritten by its sum", () => {
    const p = pair();
    setWord(p, 0, 10n);
    fetchAdd(p, 0, 1n, { sges: [sge(p, 1000)] });
    post(p, "write", { at: 0, inline: wordOf(500n) });
    go(p);
    assert.deepEqual([answerAt(p, 1000), word(p, 0)], [10n, 500n]);
  });

  it("a SEND behind one is received behind it", () => {
    const p = pair();
    setWord(p, 0, 1n);
    recvs(p, 1);
    fetchAdd(p, 0, 1n);
    post(p, "send", { at: 100, length: 10 });
    let seen: bigint | undefined;
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => {
      if (p.rig.poll(p.rig.b, p.b.recvCq).length > 0) seen = word(p, 0);
      return seen !== undefined;
    });
    assert.equal(seen, 2n);
  });

  it("those of many queue pairs on one word are one after the other: none is lost", () => {
    const p = pair();
    setWord(p, 0, 0n);
    const others = Array.from({ length: 3 }, () => ({
      ...p,
      ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS } }),
    }));
    const all = [p, ...others];
    for (let round = 0; round < 10; round++) {
      all.forEach((each, i) => fetchAdd(each, 0, 1n, { sges: [sge(p, 8 * (round * 4 + i))] }));
    }
    for (const each of all) p.rig.ring(p.rig.a, each.a.sq);
    p.rig.run();
    assert.equal(word(p, 0), 40n);
    const seen = Array.from({ length: 40 }, (_, i) => Number(answerAt(p, 8 * i)));
    assert.deepEqual(seen.sort((x, y) => x - y), Array.from({ length: 40 }, (_, i) => i));
    assert.ok(counter(p, "b", "atomicsHeld") > 0, "some had to wait");
  });

  it("§7 #53: an executed one whose answer is lost is answered again, not executed again", () => {
    const p = pair({ fate: losing("RC ATOMIC ACKNOWLEDGE") });
    setWord(p, 0, 5n);
    fetchAdd(p, 0, 1n);
    go(p);
    assert.equal(word(p, 0), 6n);
    assert.equal(answerAt(p, 0), 5n);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(counter(p, "b", "atomicsExecuted"), 1);
    assert.deepEqual(packets(p, "b").map(({ atomicAckEth }) => atomicAckEth!.original), [5n, 5n]);
  });

  it("§7 #53: every one of a row is answered with its own value, whatever is lost", () => {
    const p = pair({ fate: losing("RC ATOMIC ACKNOWLEDGE", 7) });
    setWord(p, 0, 0n);
    for (let i = 0; i < 12; i++) fetchAdd(p, 0, 1n, { sges: [sge(p, 8 * i)] });
    go(p);
    assert.equal(word(p, 0), 12n);
    assert.deepEqual(
      Array.from({ length: 12 }, (_, i) => answerAt(p, 8 * i)),
      Array.from({ length: 12 }, (_, i) => BigInt(i)),
    );
  });

  it("§7 #54: a duplicate whose slot was recycled is dropped in silence", () => {
    const p = pair({}, { attributes: { maxDestRdAtomic: 2, maxRdAtomic: 2 } });
    setWord(p, 0, 0n);
    for (let i = 0; i < 3; i++) fetchAdd(p, 0, 1n);
    go(p);
    const sent = packets(p, "a");
    const answers = p.rig.frames.length;
    inject(p, "b", sent[0]!);
    p.rig.run();
    assert.equal(p.rig.frames.length, answers, "nothing is answered");
    assert.equal(counter(p, "b", "drop-stale-duplicate"), 1);
    inject(p, "b", sent[1]!);
    p.rig.run();
    assert.equal(packets(p, "b").at(-1)!.atomicAckEth!.original, 1n, "its slot is still there");
    assert.equal(word(p, 0), 3n);
  });

  it("§3.5: a duplicate with another opcode is dropped, one under way is not answered twice", () => {
    const p = pair();
    setWord(p, 0, 3n);
    fetchAdd(p, 0, 1n);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.frames.length === 1);
    inject(p, "b", packetOf(p.rig.frames[0]!.bytes));
    p.rig.run();
    assert.equal(packets(p, "b").length, 1);
    inject(p, "b", changed(packets(p, "a")[0]!, { bth: { opcode: OPCODE["RC COMPARE & SWAP"] } }));
    p.rig.run();
    assert.equal(packets(p, "b").length, 1);
    assert.equal(word(p, 0), 4n);
  });

  it("at most max_rd_atomic are outstanding, READs among them, and nothing overtakes", () => {
    const p = pair({}, { attributes: { maxRdAtomic: 2 } });
    setWord(p, 0, 0n);
    let outstanding = 0, most = 0;
    p.rig.fate = (from) => {
      outstanding += from === "a" ? 1 : -1;
      most = Math.max(most, outstanding);
      return "pass";
    };
    for (let i = 0; i < 3; i++) {
      fetchAdd(p, 0, 1n);
      post(p, "read", { at: 100, length: 8 });
    }
    go(p);
    assert.equal(most, 2);
    assert.deepEqual(statuses(p), new Array(6).fill("SUCCESS"));
  });

  it("more than max_dest_rd_atomic outstanding are refused with NAK 0x61 (§3.4, step 4)", () => {
    const p = pair({}, { attributes: { maxRdAtomic: 4, maxDestRdAtomic: 1 } });
    setWord(p, 0, 0n);
    fetchAdd(p, 0, 1n);
    fetchAdd(p, 0, 1n);
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "REM_INV_REQ_ERR"]);
    assert.equal(word(p, 0), 1n);
  });

  it("fenced work waits for it", () => {
    const p = pair();
    fetchAdd(p, 0, 1n);
    post(p, "write", { at: 64, length: 8, fence: true });
    go(p);
    const order = p.rig.frames.map(({ bytes }) => packetOf(bytes).bth.opcode);
    const answer = order.indexOf(OPCODE["RC ATOMIC ACKNOWLEDGE"]);
    assert.ok(answer >= 0 && answer < order.indexOf(OPCODE["RC RDMA WRITE ONLY"]));
  });

  it("memory that the host refuses: NAK 0x63, and the word is free for others", () => {
    const p = pair();
    fetchAdd(p, 0, 1n);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.frames.length === 1);
    p.rig.b.host.refuseReads = true;
    p.rig.run(() => counter(p, "b", "dmaErrors") > 0);
    p.rig.b.host.refuseReads = false;
    p.rig.run();
    assert.deepEqual(statuses(p), ["REM_OP_ERR"]);
    setWord(p, 0, 7n);
    const other = { ...p, ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS } }) };
    fetchAdd(other, 0, 1n);
    go(other);
    assert.equal(word(p, 0), 8n);
  });

  it("a bad request behind one is refused, but only after it has been executed", () => {
    const p = pair();
    setWord(p, 0, 1n);
    fetchAdd(p, 0, 1n);
    post(p, "write", { at: 0, length: 8, remote: { va: 0n, rkey: 1 } });
    go(p);
    assert.equal(word(p, 0), 2n);
    assert.deepEqual(statuses(p), ["SUCCESS", "REM_ACCESS_ERR"]);
  });

  it("a queue pair that is reset meanwhile leaves the word to others", () => {
    const p = pair();
    setWord(p, 0, 1n);
    const other = { ...p, ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS } }) };
    fetchAdd(p, 0, 1n);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.b.host.log.some(({ kind }) => kind === "memory-read"));
    p.rig.modify(p.rig.b, p.b, { state: "reset" });
    fetchAdd(other, 0, 10n);
    go(other);
    assert.ok([11n, 12n].includes(word(p, 0)));
    assert.deepEqual(p.rig.poll(p.rig.a, other.a.sendCq).map(({ status }) => status), ["SUCCESS"]);
  });

  it("one that waits for its word is not executed when its queue pair is reset and up again", () => {
    const p = pair();
    const { rig } = p;
    setWord(p, 0, 0n);
    const accessFlags = EVERY_ACCESS;
    const others = Array.from({ length: 16 }, () => ({
      ...p,
      ...rig.connect({ attributes: { accessFlags } }),
    }));
    others.forEach((each, i) => {
      fetchAdd(each, 0, 1n, { sges: [sge(p, 8 * i)] });
      rig.ring(rig.a, each.a.sq);
    });
    fetchAdd(p, 0, 1000n, { sges: [sge(p, 512)] });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => counter(p, "b", "requestsIn") === 17);
    // What the requester sends again would be a request of the new life.
    rig.fate = (from) => from === "a" ? "drop" : "pass";
    rig.modify(rig.b, p.b, { state: "reset" });
    rig.bringUp(rig.b, p.b, { qpn: p.a.qpn, attributes: { accessFlags } });
    assert.ok(counter(p, "b", "atomicsExecuted") < 16, "its turn is still to come");
    rig.run();
    assert.equal(word(p, 0), 16n);
    assert.equal(counter(p, "b", "atomicsExecuted"), 16);
  });
});
