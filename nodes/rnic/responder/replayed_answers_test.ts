/** What a responder says again or too late: MSNs, NAKs and ACKs of duplicates (`rocev2.md` §3.4 to §3.6). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { parseSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import type { PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { fetchAdd } from "../testing/atomic_testing.ts";
import {
  counter,
  FIRST_PSN,
  go,
  losing,
  names,
  packetOf,
  packets,
  type Pair,
  pair,
  post,
  RECV_AT,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { psnDistance } from "../state/psn.ts";
import type { FrameFate } from "../testing/rig_parts_testing.ts";
import { FLOW_1 } from "../testing/pm_testing.ts";
import { postVerified, VERIFIED_ACCESS } from "../testing/verify_testing.ts";
import { wordOf } from "../state/memory.ts";

function readyPair(persistence: PersistencePlan = FLOW_1): Pair {
  const p = pair({ persistence: { b: persistence } }, {
    attributes: { accessFlags: VERIFIED_ACCESS, pathMtu: 4096 },
  });
  recvs(p, 2);
  return p;
}

function flush(p: Pair): void {
  const flush = { select: FLUSH_SELECT.range, placement: FLUSH_PLACEMENT.persistence, length: 512 };
  post(p, "flush", { flush });
}

/** MSNs of all that `b` sends. */
function msns(p: Pair): number[] {
  return packets(p, "b").flatMap(({ aeth }) => aeth === undefined ? [] : [aeth.msn]);
}

function assertMonotone(p: Pair): void {
  const all = msns(p);
  assert.ok(all.every((msn, i) => i === 0 || msn >= all[i - 1]!), all.join());
}

/** `ack 3`, `psn-sequence-error 4`: what `b` has sent with opcode ACKNOWLEDGE, PSNs from 0 on. */
function acks(p: Pair): string[] {
  return packets(p, "b").filter(({ bth }) => bth.opcode === 0x11).map(({ bth, aeth }) => {
    const syndrome = parseSyndrome(aeth!.syndrome);
    const name = syndrome.kind === "nak" ? syndrome.code : syndrome.kind;
    return `${name} ${psnDistance(FIRST_PSN, bth.psn)}`;
  });
}

/** Requests whose answer is replayed, and the opcode of that. */
const REPLAYED: readonly (readonly [string, (p: Pair) => void, Parameters<typeof losing>[0]])[] = [
  ["FETCH & ADD", (p) => void fetchAdd(p, 0, 1n), "RC ATOMIC ACKNOWLEDGE"],
  ["ATOMIC WRITE", (p) => void post(p, "atomic-write", { inline: wordOf(1n) }), READ_ONLY()],
  ["FLUSH", flush, READ_ONLY()],
  ["READ", (p) => void post(p, "read", { length: 64 }), READ_ONLY()],
  ["verified WRITE", (p) => postVerified(p, { level: "check", length: 64 }), READ_ONLY()],
];

function READ_ONLY(): "RC RDMA READ RESPONSE ONLY" {
  return "RC RDMA READ RESPONSE ONLY";
}

describe("the MSN never runs back", () => {
  for (const [what, request, opcode] of REPLAYED) {
    it(`in the answer of a ${what} that is given again`, () => {
      const p = readyPair();
      p.rig.fate = losing(opcode);
      request(p);
      post(p, "write", { at: RECV_AT, length: 8 });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
      assert.ok(counter(p, "b", "duplicatesIn") > 0);
      assertMonotone(p);
    });
  }

  it("behind a persistence ACK that overtakes READ responses", () => {
    const p = readyPair();
    post(p, "write-persistence", { at: 20_000, length: 8 });
    post(p, "read", { length: 16_384 });
    go(p);
    assert.equal(counter(p, "b", "persistAcksOut"), 1);
    const all = names(p, "b");
    const second = all.indexOf("VENDOR PERSISTENCE ACKNOWLEDGE");
    assert.ok(second < all.indexOf("RC RDMA READ RESPONSE LAST"), all.join());
    assertMonotone(p);
  });

  it("in a persistence ACK behind an ACK that has taken a later one in", () => {
    // What the bus has taken is persistent, so that both ACKs of a message wait for it.
    const p = readyPair({ flow: 1, flush: "none", noSnoop: false });
    Object.assign(p.rig.b.toHost, { bitsPerSecond: 10e9 });
    post(p, "write-persistence", { length: 4096 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(msns(p), [2, 2]);
  });
});

describe("a READ that is asked for again", () => {
  it("is not taken for the READ right before it, of whatever length that is", () => {
    for (const length of [64, 4096, 2 * 4096, 2 * 4096 + 8]) {
      const p = readyPair();
      // The last answer of all is lost, twice.
      let lost = 0;
      p.rig.fate = (from, { bytes }) => {
        const { bth, payload } = packetOf(bytes);
        const isLast = from === "b" && bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"] &&
          payload.length === 24;
        return isLast && lost++ < 2 ? "drop" : "pass";
      };
      post(p, "read", { length });
      post(p, "read", { at: 20_000, length: 24 });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"], `${length} B`);
      assert.equal(lost, 3);
      assert.equal(counter(p, "a", "timeouts"), 2, "each loss is one");
    }
  });
});

/** Holds back the frame of `a` with this number. */
function late(number: number, delayPs: number, more: (count: number) => FrameFate = () => "pass") {
  return (from: "a" | "b", _frame: unknown, count: number): FrameFate =>
    from === "b" ? "pass" : count === number ? { delayPs } : more(count);
}

describe("a NAK that waits behind an answer", () => {
  it("is not sent for what has been received meanwhile, but for what was not", () => {
    const p = readyPair();
    p.rig.fate = late(1, 500_000);
    post(p, "read", { length: 16_384 });
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(acks(p), ["ack 4", "psn-sequence-error 5", "ack 5"]);
    assert.equal(counter(p, "a", "retransmissions"), 1);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("is not sent where all of it has come", () => {
    const p = readyPair();
    p.rig.fate = late(1, 500_000, (count) => count === 2 ? { againPs: 600_000 } : "pass");
    post(p, "read", { length: 16_384 });
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(acks(p), ["ack 4", "ack 5"]);
    assert.equal(counter(p, "a", "retransmissions"), 0);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("is sent for the last of what was dropped, where the first of it has come again", () => {
    const p = readyPair();
    p.rig.fate = late(1, 500_000, (count) => count === 2 ? { againPs: 600_000 } : "pass");
    post(p, "read", { length: 16_384 });
    for (let i = 0; i < 3; i++) post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(acks(p), ["ack 4", "ack 5", "psn-sequence-error 6", "ack 6"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
    assert.deepEqual(statuses(p), new Array(4).fill("SUCCESS"));
  });

  it("is not sent for what waits for an atomic meanwhile", () => {
    const p = readyPair();
    p.rig.fate = late(2, 500_000);
    post(p, "read", { length: 16_384 });
    fetchAdd(p, 0, 1n);
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(acks(p), ["ack 5", "psn-sequence-error 6", "ack 6"]);
    assert.equal(counter(p, "a", "retransmissions"), 1);
    assert.deepEqual(statuses(p), new Array(4).fill("SUCCESS"));
  });

  it("tells of no receive for a SEND that has got one meanwhile, and of those behind it", () => {
    const p = pair({}, { attributes: { pathMtu: 4096 } });
    // The READ's data takes so long that all of this happens before it has left.
    Object.assign(p.rig.b.toRnic, { bitsPerSecond: 1e9 });
    p.rig.fate = (from, _frame, count) =>
      from === "a" && count === 1 ? { againPs: 60_000_000 } : "pass";
    post(p, "read", { length: 16_384 });
    post(p, "send", { length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "requestsIn") === 3);
    p.rig.runFor(40_000_000);
    recvs(p, 1);
    p.rig.run();
    assert.deepEqual(acks(p), ["ack 4", "psn-sequence-error 5", "ack 5"]);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("is sent where nothing of it has come", () => {
    const p = readyPair();
    p.rig.fate = (from, _frame, count) => from === "a" && count === 1 ? "drop" : "pass";
    post(p, "read", { length: 16_384 });
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    go(p);
    assert.deepEqual(acks(p), ["psn-sequence-error 4", "ack 4", "ack 5"]);
    assert.equal(counter(p, "a", "timeouts"), 0);
  });
});

describe("the ACK of a duplicate", () => {
  for (const [what, request] of REPLAYED) {
    it(`does not confirm a ${what} that is asked for again: each packet is sent twice at most`, () => {
      const p = readyPair();
      p.rig.fate = (from, _frame, count) => from === "b" && count < 3 ? "drop" : "pass";
      post(p, "write", { at: RECV_AT, length: 8 });
      request(p);
      post(p, "write", { at: RECV_AT, length: 8 });
      go(p);
      assert.equal(counter(p, "a", "retransmissions"), 3);
      assert.equal(counter(p, "a", "timeouts"), 1);
      assert.deepEqual(acks(p), ["ack 0", "ack 2", "ack 0", "ack 2"]);
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    });
  }

  it("confirms all that has come where no answer lies between (§3.5)", () => {
    const p = readyPair();
    p.rig.fate = (from, _frame, count) => from === "b" && count < 3 ? "drop" : "pass";
    post(p, "read", { length: 8 });
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "send", { length: 8 });
    go(p);
    assert.deepEqual(acks(p).slice(0, 3), ["ack 1", "ack 2", "ack 2"]);
  });

  it("confirms all that has come behind answers that are still to leave", () => {
    const p = readyPair();
    post(p, "write", { at: RECV_AT, length: 8 });
    post(p, "read", { length: 16_384 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "requestsIn") === 2);
    p.rig.inject(p.rig.b, p.rig.frames.find(({ from }) => from === "a")!.bytes);
    p.rig.run();
    assert.equal(counter(p, "b", "duplicatesIn"), 1);
    assert.deepEqual(acks(p), ["ack 0", "ack 4"]);
  });

  it("neither takes back what a waiting ACK says nor lets it leave before its data", () => {
    const p = readyPair();
    post(p, "write", { at: RECV_AT, length: 8 });
    fetchAdd(p, 0, 1n);
    go(p);
    Object.assign(p.rig.b.toHost, { bitsPerSecond: 4e9 });
    post(p, "write", { at: RECV_AT, length: 4096 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "requestsIn") === 3);
    const busFreeAt = p.rig.b.toHost.freeAt;
    p.rig.inject(p.rig.b, p.rig.frames.find(({ from }) => from === "a")!.bytes);
    p.rig.run();
    assert.equal(counter(p, "b", "duplicatesIn"), 1);
    assert.deepEqual(acks(p), ["ack 0", "ack 2"]);
    assert.ok(p.rig.frames.at(-1)!.time >= busFreeAt);
  });
});
