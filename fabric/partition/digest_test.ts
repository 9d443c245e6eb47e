import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { digestEvent, digestText, emptyDigest, rackDigest } from "./digest.ts";
import type { Input } from "../node.ts";
import { type Event, EVENT_KINDS } from "./event_queue.ts";

const frame = (...bytes: number[]): Input => ({
  kind: "message",
  port: 1,
  message: { kind: "frame", bytes: new Uint8Array(bytes) },
  tailPs: 0,
});

const EVENT: Event = {
  time: 2 ** 40 + 5,
  kind: EVENT_KINDS.message,
  source: 1,
  counter: 2,
  target: 3,
  sourceLife: 0,
  targetLife: 0,
  input: frame(1, 2, 3),
};

function digestOf(...events: Event[]): string {
  const digest = emptyDigest();
  for (const event of events) digestEvent(digest, event);
  assert.equal(digest.events, events.length);
  return digestText(digest);
}

describe("digestEvent", () => {
  it("changes with every part of an event", () => {
    const variations: Partial<Event>[] = [
      { time: EVENT.time + 1 },
      { time: EVENT.time - 2 ** 40 },
      { kind: EVENT_KINDS.wake },
      { source: 2 },
      { counter: 3 },
      { targetLife: 1 },
      { input: frame(1, 2, 4) },
      { input: frame(1, 2) },
      { input: { ...frame(1, 2, 3), port: 2 } as Input },
      { input: { ...frame(1, 2, 3), tailPs: 9 } as Input },
      { input: { kind: "wake" } },
    ];
    const digests = new Set([
      digestOf(EVENT),
      ...variations.map((v) => digestOf({ ...EVENT, ...v })),
    ]);
    assert.equal(digests.size, variations.length + 1);
  });

  it("changes with the order of events", () => {
    const other = { ...EVENT, counter: 3 };
    assert.notEqual(digestOf(EVENT, other), digestOf(other, EVENT));
  });
});

describe("rackDigest", () => {
  it("does not depend on the order in which nodes are named", () => {
    const a = ["a", digestOf(EVENT)] as const, b = ["b", digestOf()] as const;
    assert.equal(rackDigest([a, b]), rackDigest([b, a]));
  });

  it("depends on which node has which digest", () => {
    const x = digestOf(EVENT), y = digestOf();
    assert.notEqual(rackDigest([["a", x], ["b", y]]), rackDigest([["a", y], ["b", x]]));
  });
});
