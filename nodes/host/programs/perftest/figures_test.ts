import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { bandwidthFigures, latencyFigures } from "./figures.ts";

describe("latencyFigures", () => {
  it("measures between consecutive posts and leaves out the two longest, by hand", () => {
    // Latencies 10, 30, 20, 40, 90, 50.
    const figures = latencyFigures([0, 10, 40, 60, 100, 190, 240], 1);
    assert.equal(figures.minPs, 10);
    assert.equal(figures.maxPs, 50);
    assert.equal(figures.typicalPs, 25);
    assert.equal(figures.averagePs, 25);
    assert.equal(figures.stdevPs, Math.sqrt((225 + 25 + 25 + 225) / 4));
    assert.equal(figures.p99Ps, 50);
    assert.equal(figures.p999Ps, 50);
  });

  it("halves a round trip", () => {
    const figures = latencyFigures([0, 10, 20], 2);
    assert.deepEqual([figures.minPs, figures.maxPs, figures.typicalPs], [5, 5, 5]);
  });

  it("takes percentiles where perftest takes them", () => {
    let at = 0;
    const posts = [0, ...Array.from({ length: 1000 }, (_, i) => at += i + 1)];
    const { p99Ps, p999Ps, maxPs, typicalPs } = latencyFigures(posts, 1);
    // Of 998, number ⌈0.99 · 998⌉ counted from 0; number 998 is the longest that is shown.
    assert.deepEqual([p99Ps, p999Ps, maxPs, typicalPs], [990, 999, 999, 499.5]);
  });
});

describe("bandwidthFigures", () => {
  it("averages from the first post to the last completion", () => {
    const times = {
      posted: Float64Array.of(0, 0, 1e6, 1e6),
      completed: Float64Array.of(1e6, 2e6, 3e6, 4e6),
    };
    const figures = bandwidthFigures(times, 1000);
    // 4 messages of 1000 B in 4 µs.
    assert.equal(figures.averageBytesPerSecond, 1e9);
    assert.equal(figures.messagesPerSecond, 1e6);
    // From the third post to the last completion: two messages in 3 µs are worse than one in one.
    assert.equal(figures.peakBytesPerSecond, 1e9);
  });

  it("finds the best stretch", () => {
    const times = {
      posted: Float64Array.of(0, 9e6, 9e6),
      completed: Float64Array.of(5e6, 9.5e6, 10e6),
    };
    assert.equal(bandwidthFigures(times, 1000).peakBytesPerSecond, 2e9);
  });

  it("goes without the peak beyond 20 000 messages, as perftest does", () => {
    const times = {
      posted: new Float64Array(20_001),
      completed: new Float64Array(20_001).fill(1e6),
    };
    assert.equal(bandwidthFigures(times, 1).peakBytesPerSecond, null);
  });
});
