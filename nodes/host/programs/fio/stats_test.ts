import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { bucketOf, BUCKETS, valueOf } from "./histogram.ts";
import { batchBucket, depthBucket, latencyClass, StatsMeter } from "./stats.ts";

const WINDOWS = { bwWindowPs: 1e9, iopsWindowPs: 1e9 };

describe("the histogram", () => {
  it("keeps small latencies exactly, and larger ones to 1/128", () => {
    for (const ns of [0, 1, 63, 64, 127]) assert.equal(valueOf(bucketOf(ns)), ns);
    for (let ns = 128; ns < 1e10; ns = Math.ceil(ns * 1.01)) {
      const value = valueOf(bucketOf(ns));
      assert.ok(Math.abs(value - ns) <= ns / 128, `${ns} ns is given as ${value}`);
    }
  });

  it("has buckets that ascend, each the bucket of its own value, up to the last", () => {
    let before = -1;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const value = valueOf(bucket);
      assert.ok(value > before, `bucket ${bucket}`);
      assert.equal(bucketOf(value), bucket);
      before = value;
    }
    assert.equal(bucketOf(1e15), BUCKETS - 1);
    for (let power = 7; power < 34; power++) {
      assert.equal(bucketOf(2 ** power), bucketOf(2 ** power - 1) + 1, `2^${power}`);
    }
  });
});

describe("StatsMeter", () => {
  it("has fio's moments of each latency, and the standard deviation of a sample", () => {
    const meter = new StatsMeter(0, 0, WINDOWS);
    for (const ns of [2, 4, 4, 4, 5, 5, 7, 9]) {
      const end = 1000 + ns * 1000;
      meter.completed("write", 10, {
        start: 500,
        issue: 1000,
        end,
        isSync: false,
        isRamping: false,
      });
    }
    const { write, read } = meter.result(20_000, 0);
    const { samples, min, max, mean, squares } = write.clat;
    assert.deepEqual({ samples, min, max, mean }, { samples: 8, min: 2, max: 9, mean: 5 });
    assert.ok(Math.abs(squares - 32) < 1e-9);
    assert.equal(write.slat.max, 0);
    assert.deepEqual([write.bytes, write.ios, write.runtimePs], [80, 8, 20_000]);
    assert.deepEqual([read.ios, read.runtimePs, read.clat.samples], [0, 0, 0]);
    assert.equal(write.clat.buckets.find(([bucket]) => bucket === 4)?.[1], 3);
  });

  it("has no submission latency where I/O is synchronous", () => {
    const meter = new StatsMeter(0, 0, WINDOWS);
    meter.completed("read", 1, {
      start: 0,
      issue: 5000,
      end: 9000,
      isSync: true,
      isRamping: false,
    });
    const { read } = meter.result(10_000, 0);
    assert.deepEqual([read.slat.samples, read.clat.max, read.lat.max], [0, 4, 9]);
  });

  it("samples bandwidth in KiB/s and I/O a second over whole windows", () => {
    const meter = new StatsMeter(0, 0, WINDOWS);
    for (let i = 0; i < 25; i++) {
      const end = i * 1e8;
      meter.completed("read", 1024, {
        start: end,
        issue: end,
        end,
        isSync: false,
        isRamping: false,
      });
    }
    const { read: { bw, iops } } = meter.result(25e8, 0);
    assert.deepEqual([bw.samples, bw.mean, iops.mean], [2, 10_000, 10_000]);
  });

  it("counts completion latencies in fio's classes", () => {
    const ns = [0, 1, 2, 999, 1000, 1999, 2000, 999_999, 1e6, 999e6, 1e9, 2e9 - 1, 2e9];
    assert.deepEqual(ns.map(latencyClass), [0, 0, 1, 9, 10, 10, 11, 19, 20, 29, 30, 30, 31]);
  });

  it("counts depths and batches in fio's classes", () => {
    assert.deepEqual([1, 2, 3, 4, 8, 31, 32, 64, 500].map(depthBucket), [
      0,
      1,
      1,
      2,
      3,
      4,
      5,
      6,
      6,
    ]);
    const batches = [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65].map(batchBucket);
    assert.deepEqual(batches, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
  });
});
