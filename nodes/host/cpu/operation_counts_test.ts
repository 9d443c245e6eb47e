import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { LATENCY_BOUNDS_PS } from "../../../fabric/inspection.ts";
import { PS_PER_S, PS_PER_US } from "../../../fabric/base/time.ts";
import type { Measurement } from "./program.ts";
import { OperationCounts } from "./operation_counts.ts";

describe("OperationCounts", () => {
  it("has a histogram for each operation and method, bounds included, and the promised bytes", () => {
    const counts = new OperationCounts();
    const put = { operation: "put", method: "write-flush" };
    counts.add({ ...put, latencyPs: PS_PER_US, promisedBytes: 64 });
    counts.add({ ...put, latencyPs: PS_PER_US + 1, promisedBytes: 64 });
    counts.add({ ...put, latencyPs: 3600 * PS_PER_S });
    counts.add({ operation: "get", method: "read", latencyPs: 1 });
    const [first, second] = counts.rows();
    const at = LATENCY_BOUNDS_PS.indexOf(PS_PER_US);
    assert.deepEqual([first!.operation, first!.method, first!.count], ["put", "write-flush", 3]);
    assert.equal(first!.promisedBytes, 128);
    assert.equal(first!.sumPs, 2 * PS_PER_US + 1 + 3600 * PS_PER_S);
    assert.deepEqual([first!.buckets[at], first!.buckets[at + 1], first!.buckets.at(-1)], [
      1,
      1,
      1,
    ]);
    assert.equal(second!.buckets[0], 1);
  });

  it("has figures for each size where it is told sizes", () => {
    const counts = new OperationCounts();
    const test = { operation: "perftest", method: "ib_write_lat" };
    for (const bytes of [2, 4, 2]) counts.add({ ...test, bytes, latencyPs: 1 });
    counts.add({ ...test, latencyPs: 1 });
    assert.deepEqual(counts.rows().map(({ bytes, count }) => [bytes, count]), [
      [2, 2],
      [4, 1],
      [undefined, 1],
    ]);
  });

  it("counts no more names than the host's answer has room for", () => {
    const counts = new OperationCounts();
    for (let i = 0; i < 200; i++) {
      counts.add({ operation: `mine ${i}`, method: "own", latencyPs: 1 });
    }
    assert.equal(counts.rows().length, 64);
  });

  it("refuses what is no measurement", () => {
    const counts = new OperationCounts();
    const put = { operation: "put", method: "write-flush", latencyPs: 1 };
    for (
      const wrong of [{ operation: 7 }, { method: "x".repeat(65) }, { latencyPs: NaN }, {
        latencyPs: -1,
      }, { bytes: -1 }]
    ) {
      assert.throws(() => counts.add({ ...put, ...wrong } as Measurement), TypeError);
    }
    assert.deepEqual(counts.rows(), []);
  });
});
