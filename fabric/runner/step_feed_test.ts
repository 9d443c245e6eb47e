import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { BLOCK_STEPS_MAX, type StepBlockRow, StepFeed } from "./step_feed.ts";

describe("StepFeed", () => {
  let now: number;
  let published: [node: string, block: StepBlockRow][];
  let feed: StepFeed;

  beforeEach(() => {
    now = 0;
    published = [];
    feed = new StepFeed({
      nodes: ["a", "a-rnic"],
      wallMs: () => now,
      publish: (node, block) => published.push([node, block]),
    });
  });

  const step = { step: "S907", text: "" };

  it("publishes nothing unless it was asked to, and nothing of other devices", () => {
    feed.take(5, "a", step);
    feed.commit(1);
    assert.equal(feed.renew({ forMs: 100, nodes: ["a-rnic", "elsewhere"] }), true);
    feed.take(6, "a", step);
    feed.take(7, "a-rnic", step);
    feed.commit(2);
    assert.deepEqual(published, [["a-rnic", [2, 0, 0, [[7, step]]]]]);
  });

  it("numbers the blocks of a device, and publishes none for a span without steps", () => {
    feed.renew({ forMs: 100 });
    for (const span of [1, 2, 3]) {
      if (span !== 2) feed.take(span, "a", step);
      feed.commit(span);
    }
    assert.deepEqual(published.map(([, [span, number]]) => [span, number]), [[1, 0], [3, 1]]);
  });

  it("ends when the reader has not renewed its lease, and not before", () => {
    feed.renew({ forMs: 100 });
    now = 60;
    feed.renew({ forMs: 100 });
    now = 150;
    feed.commit(1);
    assert.equal(feed.isWanted, true);
    now = 161;
    feed.commit(2);
    assert.equal(feed.isWanted, false);
    feed.take(9, "a", step);
    feed.commit(3);
    assert.deepEqual(published, []);
  });

  it("keeps a lease for ten seconds at most", () => {
    feed.renew({ forMs: Infinity });
    now = 10_001;
    feed.commit(1);
    assert.equal(feed.isWanted, false);
  });

  it("has so many steps in a block, and says how many there were behind them", () => {
    feed.renew({ forMs: 100 });
    for (let i = 0; i < BLOCK_STEPS_MAX + 3; i++) feed.take(i, "a", step);
    feed.commit(1);
    feed.take(1, "a", step);
    feed.commit(2);
    const sizes = published.map(([, [, , dropped, steps]]) => [steps.length, dropped]);
    assert.deepEqual(sizes, [[BLOCK_STEPS_MAX, 3], [1, 0]]);
  });

  it("refuses what is no request", () => {
    for (
      const value of [null, 1, "x", {}, { forMs: 0 }, { forMs: "9" }, { forMs: 9, nodes: "a" }]
    ) {
      assert.equal(feed.renew(value), false, JSON.stringify(value));
    }
    assert.equal(feed.isWanted, false);
  });
});
