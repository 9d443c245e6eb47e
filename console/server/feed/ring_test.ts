import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Change } from "../../api/feed.ts";
import { changedCounters, withChanged } from "./counter_changes.ts";
import { Ring } from "./ring.ts";

function report(atPs: number, value: unknown = null): Change {
  return { type: "report", node: "a", topic: "progress", value, atPs };
}

function counters(nodes: Record<string, Record<string, number>>): Change {
  return { type: "counters", atPs: 0, overMs: 100, nodes, traffic: [] };
}

/** When each change happened that a reader gets; or how many it has missed. */
function timesAfter(ring: Ring, seq: number): readonly number[] | number {
  const read = ring.after(seq);
  return "missed" in read
    ? read.missed
    : read.changes.map((each) => each.type === "report" ? each.atPs : -1);
}

describe("Ring", () => {
  it("gives each reader what is behind its place, in order, once", () => {
    const ring = new Ring(100);
    for (let i = 1; i <= 5; i++) ring.push(report(i));
    assert.deepEqual(timesAfter(ring, 100), [1, 2, 3, 4, 5]);
    assert.deepEqual(timesAfter(ring, 103), [4, 5]);
    assert.deepEqual(timesAfter(ring, ring.seq), []);
  });

  it("says how much a slow reader has missed, and holds no more for it", () => {
    const ring = new Ring(0, { messages: 10 });
    for (let i = 1; i <= 1_000; i++) ring.push(report(i));
    assert.equal(timesAfter(ring, 0), 990);
    assert.equal(timesAfter(ring, 989), 1);
    assert.deepEqual(timesAfter(ring, 990), [991, 992, 993, 994, 995, 996, 997, 998, 999, 1_000]);
  });

  it("is bounded in letters, too: a report may have a long value", () => {
    const ring = new Ring(0, { letters: 10_000 });
    for (let i = 1; i <= 100; i++) ring.push(report(i, "x".repeat(1_000)));
    const times = timesAfter(ring, 95);
    assert.deepEqual(times, [96, 97, 98, 99, 100]);
    assert.equal(timesAfter(ring, 50), 41);
    const usual = new Ring(0);
    for (let i = 1; i <= 2_000; i++) usual.push(report(i, "x".repeat(1_000)));
    assert.ok((timesAfter(usual, 0) as number) > 900, "some megabyte is kept, and no more");
  });

  it("takes a number of another server, older or newer, for one that has missed something", () => {
    const ring = new Ring(5_000_000);
    ring.push(report(1));
    assert.equal(typeof timesAfter(ring, 12), "number");
    assert.equal(typeof timesAfter(ring, 9_000_000), "number");
    const { seq } = ring;
    ring.forget();
    assert.equal(typeof timesAfter(ring, seq), "number");
  });

  it("gives the last clock only, and all counters that changed meanwhile", () => {
    const ring = new Ring(0);
    ring.push(counters({ a: { x: 1, y: 1 }, b: { x: 1 } }));
    ring.push(report(7));
    ring.push(counters({ a: { x: 2 } }));
    const read = ring.after(0);
    assert.ok("changes" in read);
    assert.deepEqual(read.changes, [
      report(7),
      { ...counters({ a: { x: 2, y: 1 }, b: { x: 1 } }), overMs: 200 },
    ]);
  });
});

describe("changedCounters", () => {
  const before = { a: { x: 1, y: 2, z: 0 }, b: { x: 1 } };

  it("names what has another value, and nothing of a device that stands", () => {
    const now = { a: { x: 1, y: 3, z: 0, new: 0 }, b: { x: 1 } };
    assert.deepEqual(changedCounters(before, now), { a: { y: 3, new: 0 } });
    assert.deepEqual(withChanged(before, changedCounters(before, now)), now);
  });

  it("says 0 for a counter that is gone, and keeps those of a device that does not answer", () => {
    const after = withChanged(before, changedCounters(before, { a: { x: 0, z: 0 } }));
    assert.deepEqual(after, { a: { x: 0, y: 0, z: 0 }, b: { x: 1 } });
  });
});
