import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  bandwidthFigures,
  decodeFigures,
  encodeFigures,
  FIGURES_BYTES,
  latencyFigures,
  latencyRate,
  sampledBandwidth,
  sumOfEnds,
} from "./figures.ts";
import { Sampling } from "./sampling.ts";

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

describe("Figures of a test by time", () => {
  it("count from the first batch between the margins, which is not counted, to the last, by hand", () => {
    const sampling = new Sampling(1000, { ps: 100, marginPs: 20 });
    for (const now of [1010, 1019, 1030, 1030, 1050, 1050, 1070, 1080, 1090]) {
      sampling.finished(now);
    }
    assert.deepEqual(sampling.sampled, { count: 3, ps: 40 });
    assert.deepEqual([1099, 1100].map((now) => sampling.isOver(now)), [false, true]);
  });

  it("are none where there is one batch alone", () => {
    const sampling = new Sampling(0, { ps: 100, marginPs: 20 });
    for (const now of [10, 50, 50, 90]) sampling.finished(now);
    assert.equal(sampling.sampled, undefined);
  });

  it("are rates, without a peak; of a ping-pong half a round trip", () => {
    const sampled = { count: 4, ps: 2e6 };
    assert.deepEqual(sampledBandwidth(sampled, 10), {
      peakBytesPerSecond: null,
      averageBytesPerSecond: 2e7,
      messagesPerSecond: 2e6,
    });
    assert.deepEqual(latencyRate(sampled, 2), { averagePs: 250_000, transactionsPerSecond: 2e6 });
  });
});

describe("Figures of a bidirectional test", () => {
  const one = { peakBytesPerSecond: 5, averageBytesPerSecond: 4, messagesPerSecond: 0.5 };
  const other = { peakBytesPerSecond: 7, averageBytesPerSecond: 6, messagesPerSecond: 0.25 };

  it("are those of both ends; without a peak where one has none", () => {
    assert.deepEqual(sumOfEnds(one, other), {
      peakBytesPerSecond: 12,
      averageBytesPerSecond: 10,
      messagesPerSecond: 0.75,
    });
    assert.equal(sumOfEnds(one, { ...other, peakBytesPerSecond: null }).peakBytesPerSecond, null);
  });

  it("come back as they went, with a last byte that is not 0", () => {
    for (const figures of [one, { ...one, peakBytesPerSecond: null }]) {
      const bytes = encodeFigures(figures, 12);
      assert.equal(bytes.length, FIGURES_BYTES);
      assert.notEqual(bytes.at(-1), 0);
      assert.deepEqual(decodeFigures(bytes), { figures, messages: 12 });
    }
  });
});
