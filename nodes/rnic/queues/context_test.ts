/** the queue information is the queue pair's context, and packets need it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import {
  counter,
  EVERY_ACCESS,
  go,
  packets,
  type Pair,
  pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import { BUS, MEMORY_PS } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

type Layout = "areas" | "record";

/** A cache of so many entries, at one side. */
function planOf(entries: number, layout: Layout = "record") {
  const queuePlan = { ...QUEUE_PLAN, layout };
  return { queueCache: { entries, evict: "oldest", amount: 1 }, queuePlan } as const;
}

/** A pair whose responder has its context on the chip, or (another queue took its place) has not. */
function responderWith(layout: Layout, isCold: boolean): Pair {
  const p = pair({ plans: { b: planOf(isCold ? 1 : 64, layout) } });
  p.rig.createCq(p.rig.b);
  return p;
}

/** From the request at the responder to its answer, in ps. */
function answerTime(p: Pair): number {
  let received = 0;
  p.rig.watch = (side, kind) => {
    if (side === "b" && kind === "received") received = p.rig.now;
  };
  post(p, "write", { length: 8 });
  go(p);
  assert.deepEqual(statuses(p), ["SUCCESS"]);
  return p.rig.frames.filter(({ from }) => from === "b").at(-1)!.time - received;
}

/** Some pairs of queue pairs, in the order of their making; each reads or writes its own memory. */
function several(count: number, plans: { readonly a?: number; readonly b?: number }) {
  const { a = 64, b = 64 } = plans;
  const rig = new Rig({ plans: { a: planOf(a), b: planOf(b) } });
  const from = rig.register(rig.a, { length: 65_536, access: EVERY_ACCESS });
  const to = rig.register(rig.b, { length: 65_536, access: EVERY_ACCESS });
  rig.fill(rig.a, from, (i) => i * 3);
  rig.fill(rig.b, to, (i) => i * 5 + 1);
  const attributes = { accessFlags: EVERY_ACCESS };
  const qps = Array.from({ length: count }, () => rig.connect({ attributes }).a);
  /** One request of each, posted when the request before it has arrived. */
  const all = (opcode: "write" | "read", length: number, share: number) => {
    let arrived = 0;
    rig.watch = (side, kind) => {
      if (side === "b" && kind === "received") arrived++;
    };
    for (const [i, qp] of qps.entries()) {
      rig.run(() => arrived >= i);
      rig.send(rig.a, qp, {
        opcode,
        sges: [{ address: from.va + share * i, length, lkey: from.key }],
        remote: { va: BigInt(to.va + share * i), rkey: to.key },
      });
    }
    rig.run();
    for (const [i, qp] of qps.entries()) {
      assert.deepEqual(rig.poll(rig.a, qp.sendCq).map(({ status }) => status), ["SUCCESS"]);
      const at = share * i;
      assert.deepEqual(rig.bytes(rig.b, to, at, length), rig.bytes(rig.a, from, at, length));
    }
  };
  return { rig, qps, from, to, all };
}

/** Queues whose record the card has read. */
function queuesRead(rig: Rig, side: "a" | "b"): Set<number> {
  const { log, store, spaces } = rig[side].host;
  const end = spaces.space1 + spaces.queues * store.stride[1];
  const queues = log.flatMap((message) =>
    message.kind === "memory-read" && message.address >= spaces.space1 && message.address < end
      ? [Math.floor((message.address - spaces.space1) / store.stride[1])]
      : []
  );
  return new Set(queues);
}

const misses = (rig: Rig, side: "a" | "b") => rig[side].rnic.statistics()["contextMisses"] ?? 0;

describe("context of a queue pair", () => {
  it("Q-07: on the chip, a request reads nothing; else it waits for one read as a record, three as areas", () => {
    const warm = answerTime(responderWith("record", false));
    for (const [layout, reads] of [["record", 1], ["areas", 3]] as const) {
      const hit = responderWith(layout, false), miss = responderWith(layout, true);
      const before = [counter(hit, "b", "queueReads"), counter(miss, "b", "queueReads")];
      assert.equal(answerTime(hit), warm);
      const waited = answerTime(miss) - warm;
      const trip = 2 * BUS.latencyPs + MEMORY_PS;
      assert.ok(waited > trip && waited < 1.5 * trip, `${waited} ps for a trip of ${trip}`);
      assert.equal(counter(hit, "b", "queueReads") - before[0]!, 0);
      assert.equal(counter(miss, "b", "queueReads") - before[1]!, reads);
      assert.deepEqual([misses(hit.rig, "b"), misses(miss.rig, "b")], [0, 1]);
    }
  });

  it("Q-07: packets that come meanwhile wait behind the first, in order, for the same read", () => {
    const p = responderWith("record", true);
    for (let i = 0; i < 10; i++) post(p, "write", { at: 8 * i, length: 8 });
    go(p);
    assert.deepEqual(statuses(p), Array(10).fill("SUCCESS"));
    assert.deepEqual(
      p.rig.bytes(p.rig.b, p.to, 0, 80),
      p.rig.bytes(p.rig.a, p.from, 0, 80),
    );
    assert.equal(misses(p.rig, "b"), 1);
    assert.equal(counter(p, "b", "drop-psn-ahead"), 0);
    assert.equal(counter(p, "a", "retransmissions"), 0);
  });

  it("Q-07: a requester needs it for ACKs, too: more queue pairs than the cache has room for", () => {
    const fits = several(4, { a: 64 }), exceeds = several(4, { a: 1 });
    for (const { rig, all } of [fits, exceeds]) {
      // Other requests are posted until an answer comes.
      rig.fate = (from) => from === "b" ? { delayPs: 3_000_000 } : "pass";
      all("write", 64, 64);
    }
    assert.equal(misses(fits.rig, "a"), 0);
    assert.ok(misses(exceeds.rig, "a") >= 3, `${misses(exceeds.rig, "a")}`);
    const read = queuesRead(exceeds.rig, "a");
    assert.ok(exceeds.qps.every(({ sq }) => read.has(sq.queue)));
    assert.ok(exceeds.qps.every(({ rq }) => !read.has(rq.queue)), "the other half is not needed");
    assert.equal(misses(exceeds.rig, "b"), 0, "the responder has room for all");
  });

  it("Q-07: a responder needs it for READ responses, a requester when they come", () => {
    const requests = several(4, { b: 1 });
    requests.all("write", 64, 64);
    const reads = several(4, { b: 1 });
    reads.all("read", 16_384, 16_384);
    const more = misses(reads.rig, "b") - misses(requests.rig, "b");
    assert.ok(more >= 4, `${more} more than requests alone`);
    const requester = several(4, { a: 1 });
    requester.all("read", 16_384, 16_384);
    assert.ok(misses(requester.rig, "a") >= 4);
  });

  it("Q-07: a requester needs it to send again what was lost", () => {
    const { rig, all, qps } = several(2, { a: 1 });
    rig.fate = (from, _, count) => from === "a" && count === 0 ? "drop" : "pass";
    const [lost, other] = qps;
    const read = () => rig.a.rnic.statistics()["contextMisses"] ?? 0;
    const wqe = { opcode: "write", sges: [], remote: { va: 0n, rkey: 0 } } as const;
    rig.send(rig.a, lost!, wqe);
    rig.run(() => rig.frames.some(({ from }) => from === "a"));
    rig.send(rig.a, other!, wqe);
    rig.run(() => rig.frames.filter(({ from }) => from === "a").length === 2);
    assert.equal(read(), 0, "doorbells have read both");
    rig.run(() => rig.frames.filter(({ from }) => from === "a").length === 3);
    assert.equal(read(), 1);
    rig.run();
    for (const qp of qps) {
      assert.deepEqual(rig.poll(rig.a, qp.sendCq).map(({ status }) => status), ["SUCCESS"]);
    }
    all("write", 64, 64);
  });

  it("Q-07: a responder needs it for an answer that comes later, too", () => {
    const { rig, qps, to, from } = several(2, { b: 1 });
    for (const [i, qp] of qps.entries()) {
      rig.send(rig.a, qp, {
        opcode: "fetch-add",
        sges: [{ address: from.va + 8 * i, length: 8, lkey: from.key }],
        remote: { va: BigInt(to.va + 8 * i), rkey: to.key },
        atomic: { swapAdd: 1n, compare: 0n },
      });
    }
    rig.run();
    for (const qp of qps) {
      assert.deepEqual(rig.poll(rig.a, qp.sendCq).map(({ status }) => status), ["SUCCESS"]);
    }
    assert.ok(misses(rig, "b") > 2, "one for each request, and for an answer behind the other");
  });

  it("Q-07: without a cache each packet reads it, unless another has it in hand", () => {
    const { rig, all } = several(1, { b: 0 });
    all("write", 64, 64);
    all("write", 64, 64);
    assert.equal(misses(rig, "b"), 2);
  });

  it("Q-07: no more wait than the card has room for; what is dropped comes again", () => {
    const p = responderWith("record", true);
    const first = packets(p, "a").length;
    post(p, "write", { length: 8 });
    let copies = 0;
    p.rig.watch = (side, kind, bytes) => {
      if (side !== "b" || kind !== "received" || copies > 0) return;
      for (copies = 0; copies < 200; copies++) p.rig.inject(p.rig.b, bytes.slice());
    };
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(packets(p, "a").length - first, 1);
    assert.equal(counter(p, "b", "drop-context-too-many"), 201 - 128);
    const nak = NAK_SYNDROMES["psn-sequence-error"];
    assert.ok(packets(p, "b").every(({ aeth }) => aeth?.syndrome !== nak));
  });

  it("Q-07: RESET ends the wait, and what waited is never taken", () => {
    const p = responderWith("record", true);
    post(p, "write", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => misses(p.rig, "b") === 1);
    assert.equal(p.rig.modify(p.rig.b, p.b, { state: "reset" }).status, "ok");
    p.rig.runFor(10_000_000);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 8), new Uint8Array(8).fill(0xee));
    assert.equal(counter(p, "b", "requestsIn"), 0);
    // Its next life is as good as any.
    assert.equal(p.rig.modify(p.rig.a, p.a, { state: "reset" }).status, "ok");
    const attributes = { accessFlags: EVERY_ACCESS };
    p.rig.bringUp(p.rig.a, p.a, { qpn: p.b.qpn, attributes });
    p.rig.bringUp(p.rig.b, p.b, { qpn: p.a.qpn, attributes });
    p.a.sq.write = p.a.sq.depth - 1;
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });
});
