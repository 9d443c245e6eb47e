import { beforeEach, describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { decodeSealed, encodeSealed } from "../bus/codec.ts";
import { subjectOf } from "../bus/subjects.ts";
import { toyRack } from "./clock_testing.ts";
import { type Event, EVENT_KINDS } from "../partition/event_queue.ts";
import { EventExchange } from "./event_exchange.ts";

const RUN = "run1";
const WIRE = subjectOf({ kind: "wire", run: RUN, from: "p", to: "q" });
const AGAIN = subjectOf({ kind: "again", run: RUN, asker: "q", of: "p" });
const CABLE = { kind: "network", latencyPs: 1_000, bitsPerSecond: 1e11 } as const;
/** a is cabled to b, and b to c. */
const PLAN = toyRack(1, {
  names: ["a", "b", "c"],
  cables: [
    { ...CABLE, a: { node: "a", port: 0 }, b: { node: "b", port: 0 } },
    { ...CABLE, a: { node: "b", port: 1 }, b: { node: "c", port: 0 } },
  ],
});

function event(time: number): Event {
  return {
    time,
    kind: EVENT_KINDS.link,
    source: 0,
    counter: time,
    target: 1,
    sourceLife: 0,
    targetLife: 0,
    input: { kind: "link", port: 0, up: true },
  };
}

const departures = (...times: number[]) => times.map((at) => ({ to: "q", event: event(at) }));

describe("EventExchange", () => {
  let sent: { subject: string; payload: Uint8Array }[];
  let maxPayload: number;

  beforeEach(() => {
    sent = [];
    maxPayload = Infinity;
  });

  /** p is node a, q is node b, r is node c; what is published stands in `sent`. */
  function exchange(partition: "p" | "q" | "r"): EventExchange {
    return new EventExchange({
      run: RUN,
      partition,
      nodes: [{ p: "a", q: "b", r: "c" }[partition]],
      plan: PLAN,
      partitionOf: new Map([["a", "p"], ["b", "q"], ["c", "r"]]),
      bus: {
        maxPayload,
        publish: (subject, payload) => {
          sent.push({ subject, payload });
        },
      },
    });
  }

  /** What q has of incarnation 3 of p once all that p published has come. */
  function timesAtPeer(): number[] {
    const peer = exchange("q");
    for (const { subject, payload } of sent) assert.ok(peer.receive(payload, subject));
    return peer.buffer.take("p", 3, 100).map(({ time }) => time);
  }

  it("publishes a span as one batch, numbered on from the spans before it", () => {
    const wires = exchange("p");
    wires.publish(3, departures(10, 20));
    wires.publish(3, departures(30));
    assert.deepEqual(sent.map(({ subject }) => subject), [WIRE, WIRE]);
    assert.deepEqual(timesAtPeer(), [10, 20, 30]);
  });

  it("publishes nothing for a span that sent nothing", () => {
    exchange("p").publish(3, []);
    assert.equal(sent.length, 0);
  });

  it("cuts a batch up until each part fits the bus, but no event", () => {
    maxPayload = 50;
    const times = [10, 20, 30, 40, 50, 60, 70];
    exchange("p").publish(3, departures(...times));
    assert.ok(sent.length > 1 && sent.every(({ payload }) => payload.length <= maxPayload));
    assert.deepEqual(timesAtPeer(), times);
    sent = [];
    maxPayload = Infinity;
    exchange("p").publish(3, departures(10, 20));
    // One that fits to the byte is left whole.
    maxPayload = sent[0]!.payload.length;
    sent = [];
    exchange("p").publish(3, departures(10, 20));
    assert.equal(sent.length, 1);
    sent = [];
    maxPayload = 1;
    exchange("p").publish(3, departures(10, 20));
    assert.equal(sent.length, 2);
  });

  it("sends again what a peer misses, from the number that it names", () => {
    const wires = exchange("p");
    wires.publish(3, departures(10, 20, 30));
    const lost = sent.splice(0);
    assert.ok(wires.sendAgain([3, 0], { subject: AGAIN, incarnation: 3 }));
    assert.deepEqual(sent, lost);
    sent = [];
    assert.ok(wires.sendAgain([3, 2], { subject: AGAIN, incarnation: 3 }));
    assert.equal(sent.length, 1);
  });

  it("refuses a request for what was never sent, and ends where a peer goes on asking", () => {
    const wires = exchange("p");
    wires.publish(3, departures(10, 20, 30));
    sent = [];
    const ask = (from: number) => wires.sendAgain([3, from], { subject: AGAIN, incarnation: 3 });
    for (let i = 0; i < 9; i++) assert.equal(ask(3), false);
    assert.equal(ask(2), true);
    for (let i = 0; i < 9; i++) assert.equal(ask(7), false);
    assert.throws(() => ask(3), {
      name: "ForgeryError",
      message: "q asks on rack.run1.again.q.p for message 4 of p: found 3 sent, " +
        "so another process speaks for one of them",
    });
    assert.equal(sent.length, 1);
  });

  it("sends nothing again of another incarnation, or before it has begun", () => {
    const wires = exchange("p");
    wires.publish(3, departures(10));
    sent = [];
    assert.ok(wires.sendAgain([2, 0], { subject: AGAIN, incarnation: 3 }));
    assert.ok(wires.sendAgain([3, 0], { subject: AGAIN, incarnation: undefined }));
    assert.equal(sent.length, 0);
  });

  it("asks from the first event on that is not here", () => {
    const wires = exchange("p");
    wires.publish(3, departures(10, 20));
    const peer = exchange("q");
    for (const { subject, payload } of sent.splice(0)) peer.receive(payload, subject);
    peer.askFor([["p", 3, 5]]);
    assert.deepEqual(
      sent.map(({ subject, payload }) => [subject, decodeSealed(payload)]),
      [[AGAIN, [3, 2]]],
    );
  });

  it("takes frames of the neighbour that the subject names only, and from its end of the cable", () => {
    exchange("p").publish(3, departures(10));
    const { payload } = sent[0]!;
    const [incarnation, first, [row]] = decodeSealed(payload) as [number, number, unknown[][]];
    const changed = (at: number, to: unknown) =>
      encodeSealed([incarnation, first, [row!.with(at, to)]]);
    const [SOURCE, TARGET, PORT] = [2, 4, 7];
    const q = exchange("q");
    const fromR = subjectOf({ kind: "wire", run: RUN, from: "r", to: "q" });
    assert.equal(q.receive(changed(SOURCE, 2), WIRE), false, "c lives in r, not in p");
    assert.equal(q.receive(changed(PORT, 1), WIRE), false, "a is not at this end");
    assert.equal(q.receive(changed(TARGET, 2), WIRE), false, "c does not live here");
    assert.equal(q.receive(payload, fromR), false, "a does not live in r");
    const toR = subjectOf({ kind: "wire", run: RUN, from: "p", to: "r" });
    assert.equal(exchange("r").receive(changed(TARGET, 2), toR), false, "no cable joins them");
    assert.deepEqual([...q.subjects.wire], [WIRE, fromR]);
    assert.deepEqual([...exchange("p").subjects.again], [AGAIN]);
  });

  it("refuses what is no batch or request, comes from no partition, or is for a node elsewhere", () => {
    exchange("p").publish(3, departures(10));
    const { payload } = sent[0]!;
    assert.equal(exchange("q").receive(encodeSealed("batch"), WIRE), false);
    const fromNoPartition = subjectOf({ kind: "wire", run: RUN, from: "x", to: "q" });
    assert.equal(exchange("q").receive(payload, fromNoPartition), false);
    const toP = subjectOf({ kind: "wire", run: RUN, from: "q", to: "p" });
    assert.equal(exchange("p").receive(payload, toP), false);
    const [incarnation, first, [row]] = decodeSealed(payload) as [number, number, unknown[][]];
    const fromElsewhere = [incarnation, first, [row!.with(2, PLAN.nodes.length)]];
    assert.equal(exchange("q").receive(encodeSealed(fromElsewhere), WIRE), false);
    assert.equal(exchange("q").receive(payload, WIRE), true);
    assert.equal(exchange("p").sendAgain([3, "0"], { subject: AGAIN, incarnation: 3 }), false);
    assert.equal(exchange("p").sendAgain([3, 0], { subject: WIRE, incarnation: 3 }), false);
  });
});
