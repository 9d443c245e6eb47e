import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { ACK_SYNDROME, ackSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { mayStart, mustPause, postedReceives, takeCredits } from "./credit.ts";
import { acknowledgeBefore } from "../state/requester_changes.ts";
import { grantReceive } from "../state/responder_changes.ts";
import { createQueuePair, type QueuePair } from "../state/queue_pair.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { createWork } from "../state/outstanding_wqe.ts";
import {
  changed,
  go,
  inject,
  packets,
  type Pair,
  pair,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { createDevice } from "../device.ts";

function queuePair(): QueuePair {
  const ring = { address: 0, units: 64 };
  return createQueuePair(
    {
      qpn: 17,
      type: "rc",
      pd: 1,
      sqQueue: 0,
      rqQueue: 1,
      rqStride: 64,
      rings: { sq: ring, rq: ring },
      sendCq: 0,
      recvCq: 0,
      persistCompletion: "persistence",
      slot: 0,
    } as Parameters<typeof createQueuePair>[0],
  );
}

describe("takeCredits", () => {
  const device = createDevice("a", rnicPlan("a"), { seed: 1 });
  const cases: [string, number | undefined, number, number, number | undefined][] = [
    ["the limit is MSN and credits", undefined, 7, 4, 11],
    ["code 5 stands for six", 3, 0, 5, 6],
    ["an older answer takes none back", 9, 6, 2, 9],
    ["a newer one without credits moves with the MSN", 9, 12, 0, 12],
    ["the limit wraps at 2^24", 0xff_fffe, 0xff_fffe, 4, 2],
    ["0x1F lifts it", 9, 6, ACK_SYNDROME, undefined],
    ["a NAK tells nothing", 9, 60, 0x60, 9],
    ["an RNR NAK tells nothing", 9, 60, 0x2c, 9],
  ];
  for (const [name, known, msn, syndrome, limit] of cases) {
    it(name, () => {
      const qp = queuePair();
      qp.requester.creditLimit = known;
      takeCredits(device, qp, { syndrome, msn });
      assert.equal(qp.requester.creditLimit, limit);
    });
  }
});

describe("postedReceives", () => {
  const entry = {
    queue: 1,
    kind: "rq",
    owner: 17,
    wqeAddress: 0,
    indexAddress: 0,
    depth: 64,
    unitBytes: 64,
    state: "rts",
    valid: true,
    own: 60,
    host: 2,
    stamp: 0,
    recycled: false,
    pins: 0,
    rung: false,
    dirty: false,
    told: 0,
    cachedAt: 0,
    place: 0,
  } as const;
  const recv = { position: 0, sges: [] };
  const cases: [string, (qp: QueuePair) => void, number][] = [
    ["what the ring holds, over its end", () => {}, 7],
    ["what has been fetched", ({ rq }) => rq.fetched.push(recv), 8],
    ["the one of the message that is coming in", (qp) => grantReceive(qp, recv), 8],
    ["not those that others wait for", ({ rq }) => rq.waiters.push({ kind: "packet" }), 6],
  ];
  for (const [name, change, expected] of cases) {
    it(`counts ${name}`, () => {
      const device = createDevice("a", rnicPlan("a"), { seed: 1 });
      device.cache.insert({ ...entry }, 0);
      const qp = queuePair();
      change(qp);
      assert.equal(postedReceives(device, qp), expected);
    });
  }

  it("is never below none", () => {
    const device = createDevice("a", rnicPlan("a"), { seed: 1 });
    device.cache.insert({ ...entry, host: 59 }, 0);
    const qp = queuePair();
    qp.rq.waiters.push({ kind: "packet" });
    assert.equal(postedReceives(device, qp), 0);
  });

  it("is undefined where the queue is not cached", () => {
    const device = createDevice("a", rnicPlan("a"), { seed: 1 });
    assert.equal(postedReceives(device, queuePair()), undefined);
  });
});

describe("mayStart", () => {
  const cases: [string, { limit?: number; ssn: number; acknowledged?: boolean }, boolean][] = [
    ["without a limit", { ssn: 99 }, true],
    ["up to the limit", { limit: 5, ssn: 5 }, true],
    ["one beyond", { limit: 5, ssn: 6 }, true],
    ["two beyond", { limit: 5, ssn: 7 }, false],
    ["two beyond, with all before acknowledged", { limit: 5, ssn: 7, acknowledged: true }, true],
    ["over the wrap", { limit: 0xff_ffff, ssn: 1 }, false],
  ];
  for (const [name, { limit, ssn, acknowledged = false }, expected] of cases) {
    it(`${name}: ${expected}`, () => {
      const qp = queuePair();
      qp.requester.creditLimit = limit;
      Object.assign(qp.requester, { nextSsn: ssn, cursor: acknowledged ? 0 : 3 });
      assert.equal(mayStart(qp), expected);
    });
  }
});

describe("mustPause", () => {
  const send = {
    opcode: "send",
    index: 0,
    qpn: 17,
    signaled: true,
    solicited: false,
    fence: false,
    immediate: 0,
    sges: [],
  } as const;
  const cases: [string, { limit?: number; packets: number; write?: true; past?: true }, boolean][] =
    [
      ["without a limit", { packets: 3 }, false],
      ["within it", { limit: 8, packets: 3 }, false],
      ["beyond it", { limit: 7, packets: 3 }, true],
      ["of one packet", { limit: 7, packets: 1 }, false],
      ["whose first packet is acknowledged", { limit: 7, packets: 3, past: true }, false],
      ["a WRITE", { limit: 7, packets: 3, write: true }, false],
    ];
  for (const [name, { limit, packets: count, write, past }, expected] of cases) {
    it(`a SEND ${name}: ${expected}`, () => {
      const qp = queuePair();
      const work = createWork(write ? { ...send, opcode: "write" } : send, 0);
      work.ssn = 8;
      work.packets = count;
      work.firstPsn = 100;
      qp.requester.creditLimit = limit;
      acknowledgeBefore(qp, past ? 101 : 100);
      assert.equal(mustPause(qp, work), expected);
    });
  }
});

describe("credits of a responder (§1.4)", () => {
  function syndromes(p: Pair): number[] {
    return packets(p, "b").map(({ aeth }) => aeth!.syndrome);
  }

  it("Q-07: a responder that answers has the receive queue's information on the chip, however small the cache", () => {
    const queueCache = { entries: 1, evict: "oldest", amount: 1 } as const;
    const p = pair({ plans: { b: { queueCache } } });
    recvs(p, 7, { bell: "pointer" });
    p.rig.run();
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(syndromes(p), [ackSyndrome(7)]);
  });

  it("posted receives count, rounded down to a code, in ACKs, READ responses and ATOMIC ACKs", () => {
    const p = pair();
    recvs(p, 7, { bell: "pointer" });
    p.rig.run();
    post(p, "write", { length: 8 });
    post(p, "read", { length: 8, fence: true });
    post(p, "fetch-add", { length: 8, atomic: { swapAdd: 1n, compare: 0n }, fence: true });
    post(p, "send", { length: 8, fence: true });
    post(p, "write", { length: 8, fence: true });
    go(p);
    // Seven are told as six (code 5); the SEND takes one.
    assert.deepEqual(syndromes(p), [5, 5, 5, 5, 5].slice(0, syndromes(p).length));
    assert.deepEqual(statuses(p), new Array(5).fill("SUCCESS"));
  });

  it("one that is used up is not told again", () => {
    const p = pair();
    recvs(p, 2, { bell: "pointer" });
    p.rig.run();
    for (let i = 0; i < 2; i++) {
      post(p, "send", { length: 8 });
      go(p);
    }
    assert.deepEqual(packets(p, "b").map(({ aeth }) => [aeth!.syndrome, aeth!.msn]), [
      [1, 1],
      [0, 2],
    ]);
  });
});

describe("credits at a requester (§3.2)", () => {
  /** Two receives are known to `b`, and `a` knows that. */
  function limited(count: number): Pair {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 14 } });
    recvs(p, count, { bell: "pointer" });
    p.rig.run();
    post(p, "write", { length: 8 });
    go(p);
    p.rig.frames.length = 0;
    statuses(p);
    return p;
  }

  it("a SEND beyond the limit waits for those within; none is refused", () => {
    const p = limited(2);
    for (let i = 0; i < 4; i++) post(p, "send", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "b").length > 0);
    assert.equal(packets(p, "a").length, 3, "two with credit and one beyond");
    recvs(p, 2, { bell: "pointer" });
    p.rig.run();
    assert.deepEqual(statuses(p), new Array(4).fill("SUCCESS"));
  });

  it("of a longer one only the first packet goes out, with AckReq, until it is acknowledged", () => {
    const p = limited(0);
    post(p, "send", { length: 4000 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20 * PS_PER_US);
    assert.deepEqual(packets(p, "a").map(({ bth }) => [bth.opcode, bth.ackReq]), [
      [OPCODE["RC SEND FIRST"], true],
    ]);
    recvs(p, 1, { bell: "pointer" });
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(packets(p, "a").length, 5, "the first twice, as it was refused once");
  });

  it("WRITEs need none, WRITE WITH IMM may go whole", () => {
    const p = limited(0);
    for (let i = 0; i < 3; i++) post(p, "write", { length: 2000 });
    post(p, "write-immediate", { length: 3000 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20 * PS_PER_US);
    assert.equal(packets(p, "a").length, 9);
  });

  it("new credits of a repeated ACK let a waiting SEND go (ghost ACK)", () => {
    const p = limited(1);
    let held = true;
    p.rig.fate = (from) => from === "b" && held ? "drop" : "pass";
    for (let i = 0; i < 3; i++) post(p, "send", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(5 * PS_PER_US);
    assert.equal(packets(p, "a").length, 2, "one with credit, one beyond");
    const ghost = changed(packets(p, "b")[0]!, {
      bth: { psn: 0xff_fffe },
      aeth: { syndrome: 5, msn: 1 },
    });
    inject(p, "a", ghost);
    p.rig.runFor(2 * PS_PER_US);
    assert.equal(packets(p, "a").length, 3);
    held = false;
    recvs(p, 2, { bell: "pointer" });
    p.rig.run();
    assert.deepEqual(statuses(p), new Array(3).fill("SUCCESS"));
  });

  it("a lost ACK that had credits does not stop the SENDs for ever", () => {
    const p = limited(1);
    let lost = 0;
    p.rig.fate = (from) => from === "b" && lost++ < 3 ? "drop" : "pass";
    for (let i = 0; i < 4; i++) post(p, "send", { length: 8 });
    recvs(p, 3, { bell: "none" });
    go(p);
    assert.deepEqual(statuses(p), new Array(4).fill("SUCCESS"));
  });
});
