import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Deadlines } from "../base/deadlines.ts";
import { NEVER, type Time } from "../base/time.ts";
import type { Input, Message, Sight } from "../node.ts";
import type { CablePlan, RackPlan } from "../rack/plan/plan.ts";
import { EVENT_KINDS, EventQueue, ownEvent } from "./event_queue.ts";
import { LATENCY_PS, leastPs, PROCESSING_PS, threeInARow } from "./partition_testing.ts";
import { Quiet } from "./quiet.ts";

const LIMIT: Time = 1e9;
const [A, B, C] = [0, 1, 2];

const UNSEEN: Sight = { sendsAt: NEVER, seenAfter: () => NEVER };

interface Happens {
  readonly plan?: RackPlan;
  /** What is queued: a node, and when. */
  readonly events?: readonly (readonly [node: number, at: Time])[];
  /** When nodes wake, by their indexes. */
  readonly wakes?: Readonly<Record<number, Time>>;
  readonly limit?: Time;
  /** Messages that are on their way, as {@link events}. */
  readonly messages?: readonly (readonly [node: number, at: Time])[];
  readonly sight?: Sight;
  /** The partition's nodes; all, where it does not say. */
  readonly here?: readonly number[];
}

/** Until when `node` is left alone. */
function untilOf(node: number, happens: Happens): Time {
  const { plan = threeInARow(), events = [], wakes = {}, limit = LIMIT } = happens;
  const { messages = [], sight = UNSEEN } = happens;
  const queue = new EventQueue();
  events.forEach(([target, time], counter) => {
    const event = { time, kind: EVENT_KINDS.run, counter, input: { kind: "wake" } } as const;
    queue.push(ownEvent(target, 0, event));
  });
  messages.forEach(([target, time], counter) => {
    const message: Message = { kind: "snoop-invalidate", address: counter };
    const input: Input = { kind: "message", port: 0, message, tailPs: 0 };
    queue.push(ownEvent(target, 0, { time, kind: EVENT_KINDS.message, counter, input }));
  });
  // A slot is a node's place in its partition, and no index.
  const here = (happens.here ?? plan.nodes.map((_, i) => i)).toReversed();
  const slots = here.map((index, slot) => ({ index, slot }));
  const deadlines = new Deadlines(slots.length);
  for (const { index, slot } of slots) deadlines.set(slot, wakes[index] ?? NEVER);
  return new Quiet(plan).until(node, { queue, deadlines, slots, limit, sight });
}

/** a, and `others` nodes around it; the first of them is behind the second. */
function star(others: number): RackPlan {
  const plan = threeInARow();
  const first = { ...plan.nodes[0]!, name: "a" };
  const around = Array.from({ length: others }, (_, i) => ({ ...plan.nodes[0]!, name: `n${i}` }));
  const cables = around.map(({ name }, i): CablePlan => ({
    ...plan.cables[0]!,
    a: { node: i === 0 ? "n1" : "a", port: i === 0 ? 1 : i },
    b: { node: name, port: 0 },
  }));
  return { ...plan, nodes: [first, ...around], cables };
}

describe("Quiet", () => {
  it("is bounded by the partition's horizon", () => {
    assert.equal(untilOf(A, {}), LIMIT);
    assert.equal(untilOf(A, { events: [[C, LIMIT]], wakes: { [B]: LIMIT } }), LIMIT);
  });

  it("ends where the cause of another node can reach it: at its time and the way's least delay", () => {
    assert.equal(untilOf(A, { events: [[B, 100]] }), 100 + leastPs("b"));
    assert.equal(untilOf(A, { wakes: { [B]: 100 } }), 100 + leastPs("b"));
    assert.equal(untilOf(A, { wakes: { [C]: 100 } }), 100 + leastPs("c") + leastPs("b"));
    // The way back has the other ends' delays.
    assert.equal(untilOf(C, { wakes: { [A]: 100 } }), 100 + leastPs("a") + leastPs("b"));
  });

  it("ends at its own next event, but not at its own deadline", () => {
    assert.equal(untilOf(B, { events: [[B, 7_000]] }), 7_000);
    assert.equal(untilOf(B, { wakes: { [B]: 7_000 } }), LIMIT);
  });

  it("ends where its thread sees a message to it, or what a neighbour does for its answer", () => {
    const echo = leastPs("b") + leastPs("a");
    const seen = (
      seenAfter: Time,
    ) => ({ messages: [[A, 700]], sight: { ...UNSEEN, seenAfter: () => seenAfter } } as const);
    assert.equal(untilOf(A, seen(0)), 700);
    assert.equal(untilOf(A, seen(11)), 711);
    assert.equal(untilOf(A, seen(NEVER)), 700 + echo);
    assert.equal(untilOf(A, { ...seen(NEVER), limit: 701 }), 701);
    // Of one to another node nothing is known.
    assert.equal(untilOf(A, { ...seen(NEVER), messages: [[B, 700]] }), 700 + leastPs("b"));
  });

  it("ends where a neighbour can answer what the node sends by itself", () => {
    const sends = (sendsAt: Time) => ({ sight: { ...UNSEEN, sendsAt } });
    assert.equal(untilOf(A, sends(300)), 300 + leastPs("a") + leastPs("b"));
    // b has two neighbours: the nearer one counts.
    const nearer = Math.min(leastPs("a"), leastPs("c"));
    assert.equal(untilOf(B, sends(300)), 300 + leastPs("b") + nearer);
  });

  it("takes the earliest of all, which need not be that of the first event", () => {
    const both = { events: [[C, 100], [B, 900]] } as const;
    assert.equal(untilOf(A, both), 900 + leastPs("b"));
    assert.equal(untilOf(A, { ...both, wakes: { [B]: 800 } }), 800 + leastPs("b"));
    assert.equal(untilOf(A, { ...both, limit: 901 }), 901);
  });

  it("is the horizon where another node has no way to it", () => {
    const plan = { ...threeInARow(), cables: [] };
    assert.equal(untilOf(A, { plan, events: [[B, 0]], wakes: { [C]: 0 } }), LIMIT);
  });

  it("with many nodes: takes the least delay of any for that of the earliest", () => {
    const plan = star(70), least = PROCESSING_PS.a! + 1 + LATENCY_PS;
    // n0 is two cables away, and is counted as a neighbour.
    assert.equal(untilOf(A, { plan, wakes: { 1: 500 } }), 500 + least);
    assert.equal(untilOf(A, { plan, wakes: { [A]: 3, 1: 500, 40: 400 } }), 400 + least);
    const here = [0, 1, 2];
    assert.equal(untilOf(A, { plan, wakes: { 1: 500 }, here }), 500 + 2 * least, "few are here");
  });

  it("with many events: ends at the first of them, whose node may be its own", () => {
    const events = (count: number) => Array.from({ length: count }, (_, i) => [B, 50 + i] as const);
    assert.equal(untilOf(A, { events: events(64) }), 50 + leastPs("b"));
    assert.equal(untilOf(A, { events: events(65) }), 50);
  });
});
