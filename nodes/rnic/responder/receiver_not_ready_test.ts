/**
 * RNR waits of a requester (`rocev2.md` §3.3): how many, how long, and what comes meanwhile. The rows of
 * §7.4 are in `conformance_test.ts`.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS, PS_PER_US } from "../../../fabric/base/time.ts";
import { rnrDelayPs } from "../../../fabric/wire/roce/aeth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import {
  changed,
  counter,
  FIRST_PSN,
  inject,
  packets,
  type Pair,
  pair,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { FLOW_2, flushByCpu, persistingPair } from "../testing/pm_testing.ts";

function next(psn: number, count = 1): number {
  return (psn + count) & 0xff_ffff;
}

describe("an RNR wait", () => {
  it("rnr_retry 7 is endless (§3.3): after more RNR NAKs than seven a RECV still completes it", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 1 } });
    post(p, "send", { length: 10 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "a", "rnrNaksIn") === 20);
    recvs(p, 1);
    p.rig.run();
    assert.ok(counter(p, "a", "rnrNaksIn") >= 20);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  it("rnr_retry 7: a receive that is seconds late completes it, after ever rarer attempts", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 1 } });
    post(p, "send", { length: 10 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(9 * PS_PER_MS);
    const steady = counter(p, "a", "rnrNaksIn");
    assert.ok(steady >= 700, `each after its delay: ${steady}`);
    p.rig.runFor(2_000 * PS_PER_MS);
    assert.ok(counter(p, "a", "rnrNaksIn") < 1_500, "then after a part of the time gone by");
    recvs(p, 1);
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.warnings().length, 0);
  });

  it("rnr_retry 7: without a receive the requester rests after a minute, and a warning says so", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 20 } });
    p.rig.leavesRequests = true;
    post(p, "send", { length: 10 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run();
    assert.ok(p.rig.now >= 60_000 * PS_PER_MS && p.rig.now < 61_000 * PS_PER_MS);
    assert.deepEqual(statuses(p), [], "it has neither failed nor completed");
    const [warning, ...others] = p.rig.warnings();
    assert.match(
      warning!,
      /^queue pair \d+ retries for ever: RNR NAK \(rnrRetry 7\): queue pair \d+ of [\d.]+ has had no receive, or no page of its memory, for 60/,
    );
    assert.deepEqual(others, []);
  });

  it("the time without a receive begins anew with progress", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 20 } });
    const seen: string[] = [];
    for (let each = 0; each < 2; each++) {
      post(p, "send", { length: 10 });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.runFor(40_000 * PS_PER_MS);
      recvs(p, 1);
      p.rig.run();
      seen.push(...statuses(p));
    }
    assert.deepEqual(seen, ["SUCCESS", "SUCCESS"]);
    assert.deepEqual(p.rig.warnings(), []);
  });

  it("§3.3: progress gives all of rnr_retry back", () => {
    const p = pair({}, { attributes: { rnrRetry: 2, minRnrTimer: 1 } });
    for (const refused of [1, 2]) {
      post(p, "send", { length: 10 });
      p.rig.ring(p.rig.a, p.a.sq);
      const naks = counter(p, "a", "rnrNaksIn");
      p.rig.run(() => counter(p, "a", "rnrNaksIn") === naks + refused);
      recvs(p, 1);
      p.rig.run();
    }
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });

  it("a persistence ACK that comes while the requester waits leaves it its wait", () => {
    const p = persistingPair(FLOW_2);
    p.rig.modify(p.rig.b, p.b, { minRnrTimer: 14 });
    recvs(p, 1);
    post(p, "write-persistence", { length: 8 });
    post(p, "send", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "a", "rnrNaksIn") === 1);
    const nakAt = p.rig.now;
    flushByCpu(p);
    p.rig.run(() => counter(p, "a", "persistAcksIn") === 1);
    recvs(p, 1);
    p.rig.runFor(nakAt + rnrDelayPs(14) - 1 - p.rig.now);
    assert.equal(counter(p, "a", "sendFramesOut"), 1, "nothing is sent before");
    p.rig.runFor(PS_PER_US);
    assert.equal(counter(p, "a", "sendFramesOut"), 2);
  });

  /** The first answer of `b`, none of which gets through, with another PSN and syndrome. */
  function told(p: Pair, { psn, syndrome }: { psn: number; syndrome: number }): void {
    const [answer] = packets(p, "b");
    const bth = { psn, opcode: OPCODE["RC ACKNOWLEDGE"] };
    inject(p, "a", changed(answer!, { bth, aeth: { syndrome, msn: 1 } }));
    p.rig.runFor(PS_PER_US);
  }

  it("a late RNR NAK, then an ACK that passes a READ: no retry, all is sent again when it ends", () => {
    const p = pair({ fate: (from) => from === "b" ? "drop" : "pass" }, {
      attributes: { retryCnt: 0 },
    });
    recvs(p, 1);
    post(p, "send", { length: 8 });
    post(p, "read", { at: 64, length: 8 });
    post(p, "write", { at: 128, length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "b").length === 3);
    told(p, { psn: FIRST_PSN, syndrome: 0x21 });
    told(p, { psn: next(FIRST_PSN, 2), syndrome: 0x1f });
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    p.rig.fate = () => "pass";
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });

  it("P-30: behind a wait in which all was acknowledged, persistence is asked for in its time", () => {
    const p = persistingPair(FLOW_2);
    p.rig.fate = (from) => from === "b" ? "drop" : "pass";
    post(p, "write-persistence", { length: 8 });
    post(p, "send", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "b").length > 0);
    told(p, { psn: next(FIRST_PSN), syndrome: 0x21 });
    told(p, { psn: next(FIRST_PSN), syndrome: 0x1f });
    p.rig.run(() => counter(p, "a", "persistProbes") > 0);
    assert.equal(counter(p, "a", "persistProbes"), 1);
    assert.equal(counter(p, "a", "sendFramesOut"), 1, "nothing was left to be sent again");
  });
});
