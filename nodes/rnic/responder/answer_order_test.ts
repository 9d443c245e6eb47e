/** Answers of a queue pair leave in the order of their requests (`rocev2.md` §3.6). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { fetchAdd } from "../testing/atomic_testing.ts";
import {
  counter,
  EVERY_ACCESS,
  go,
  names,
  packets,
  type Pair,
  pair,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { postVerified, VERIFIED_ACCESS } from "../testing/verify_testing.ts";
import { wordOf } from "../state/memory.ts";

const READ = "RC RDMA READ RESPONSE ONLY";

function flush(p: Pair): void {
  const flush = { select: FLUSH_SELECT.range, placement: FLUSH_PLACEMENT.persistence, length: 512 };
  post(p, "flush", { flush });
}

/** Requests whose answer is a control frame that has to wait for the bus. */
const BEFORE: readonly (readonly [what: string, post: (p: Pair) => void, answer: string])[] = [
  ["FETCH & ADD", (p) => void fetchAdd(p, 0, 1n), "RC ATOMIC ACKNOWLEDGE"],
  ["ATOMIC WRITE", (p) => void post(p, "atomic-write", { inline: wordOf(1n) }), READ],
  ["FLUSH", flush, READ],
  ["WRITE", (p) => void post(p, "write", { length: 4096 }), "RC ACKNOWLEDGE"],
  ["SEND", (p) => void post(p, "send", { length: 4096 }), "RC ACKNOWLEDGE"],
  ["verified WRITE", (p) => postVerified(p, { level: "verify", length: 4096 }), READ],
];

/** A pair with one receive posted at `b`. */
function readyPair(retryCnt: number): Pair {
  const p = pair({}, { attributes: { accessFlags: VERIFIED_ACCESS, pathMtu: 4096, retryCnt } });
  recvs(p, 1);
  return p;
}

/** PSN and opcode of everything that `b` sends. */
function answers(p: Pair): string[] {
  const all = names(p, "b");
  return packets(p, "b").map(({ bth }, i) => `${(bth.psn + 2) & 0xff_ffff} ${all[i]}`);
}

describe("a READ of no bytes, which needs no DMA, is answered behind what was asked for before", () => {
  for (const [what, request, answer] of BEFORE) {
    it(`${what}: on a clean cable nothing is asked for twice`, () => {
      const p = readyPair(0);
      request(p);
      post(p, "read");
      go(p);
      assert.deepEqual(answers(p), [`0 ${answer}`, `1 ${READ}`]);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
      assert.equal(counter(p, "a", "retransmissions"), 0);
    });

    // What has no answer of its own is acknowledged anew with all that has come since (§3.5).
    if (answer === "RC ACKNOWLEDGE") continue;
    it(`${what}: its replay leaves in order, too`, () => {
      const p = readyPair(7);
      p.rig.fate = (from, _frame, count) => from === "b" && count < 2 ? "drop" : "pass";
      request(p);
      post(p, "read");
      go(p);
      const all = answers(p);
      assert.deepEqual(all.slice(0, 2), [`0 ${answer}`, `1 ${READ}`]);
      assert.deepEqual(all.slice(2).map((each) => each[0]), ["0", "1"]);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    });
  }

  it("a READ behind an ACK that waits for a slow bus waits for it, one of another queue pair does not", () => {
    const p = readyPair(0);
    const other = p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS } });
    Object.assign(p.rig.b.toHost, { bitsPerSecond: 10e9 });
    post(p, "write", { length: 4096 });
    post(p, "read");
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "requestsIn") === 2);
    p.rig.send(p.rig.a, other.a, {
      opcode: "read",
      remote: { va: BigInt(p.to.va), rkey: p.to.key },
    });
    p.rig.run();
    const own = packets(p, "b").map(({ bth }) => bth.destQpn === p.a.qpn);
    assert.deepEqual(own, [false, true, true]);
    assert.deepEqual(names(p, "b").slice(1), ["RC ACKNOWLEDGE", READ]);
    assert.equal(counter(p, "a", "retransmissions"), 0);
  });
});
