import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../../fabric/base/rng.ts";
import { extentsOf, type Io, IoPlan, type IoRules } from "./io_plan.ts";

const BLOCK = { least: 4096, most: 4096 };
const RULES: IoRules = {
  readPercent: 0,
  random: false,
  randomMap: true,
  blockSizes: { read: BLOCK, write: BLOCK },
  offset: 0,
  loops: 1,
  timeBased: false,
};

function issued(rules: Partial<IoRules>, workspace: number, most = 1000): Io[] {
  const all = { ...RULES, ...rules };
  const extents = extentsOf(all, workspace);
  assert.ok(typeof extents !== "string", String(extents));
  const plan = new IoPlan(all, extents, rngFor(1, "test"));
  const list: Io[] = [];
  for (let io = plan.next(); io !== undefined && list.length < most; io = plan.next()) {
    list.push(io);
  }
  return list;
}

function offsets(list: readonly Io[]): number[] {
  return list.map(({ offset }) => offset / 4096);
}

describe("IoPlan", () => {
  it("goes through the size once, from the offset on, without a rest that is no block", () => {
    assert.deepEqual(offsets(issued({ offset: 4096, size: { bytes: 3 * 4096 + 100 } }, 65_536)), [
      1,
      2,
      3,
    ]);
  });

  it("begins again for loops, for io_size, and while time is left", () => {
    assert.deepEqual(offsets(issued({ loops: 2 }, 8192)), [0, 1, 0, 1]);
    assert.deepEqual(offsets(issued({ ioBytes: 3 * 4096 }, 8192)), [0, 1, 0]);
    assert.deepEqual(offsets(issued({ timeBased: true }, 8192, 5)), [0, 1, 0, 1, 0]);
    assert.equal(issued({ ios: 3, timeBased: true }, 8192).length, 3);
  });

  it("takes each block once in random order, and then each once again", () => {
    const list = offsets(issued({ random: true, loops: 2 }, 64 * 4096));
    const all = Array.from({ length: 64 }, (_, i) => i);
    for (const half of [list.slice(0, 64), list.slice(64)]) {
      assert.deepEqual(half.toSorted((x, y) => x - y), all);
      assert.notDeepEqual(half, all);
    }
  });

  it("repeats blocks with norandommap", () => {
    const list = offsets(issued({ random: true, randomMap: false }, 64 * 4096));
    assert.equal(list.length, 64);
    assert.ok(new Set(list).size < 60);
  });

  it("mixes reads and writes by rwmixread, each with a position of its own", () => {
    const list = issued({ readPercent: 70, loops: 50 }, 20 * 4096);
    const reads = list.filter(({ direction }) => direction === "read");
    assert.ok(
      Math.abs(reads.length / list.length - 0.7) < 0.05,
      `${reads.length} of ${list.length}`,
    );
    assert.deepEqual(offsets(reads).slice(0, 25), [...Array(20).keys(), 0, 1, 2, 3, 4]);
  });

  it("draws sizes of a range in multiples of the least, inside the workspace", () => {
    const range = { least: 1024, most: 8192 };
    for (const random of [false, true]) {
      const list = issued({ random, blockSizes: { read: range, write: range } }, 100 * 1024);
      for (const { offset, bytes } of list) {
        assert.ok(
          bytes % 1024 === 0 && bytes >= 1024 && bytes <= 8192 && offset + bytes <= 102_400,
        );
      }
      assert.ok(new Set(list.map(({ bytes }) => bytes)).size > 3);
    }
  });

  it("takes each block once in random order, whatever the sizes", () => {
    const range = { least: 1024, most: 4096 };
    const list = issued({ random: true, blockSizes: { read: range, write: range } }, 40 * 1024);
    const sorted = list.toSorted((x, y) => x.offset - y.offset);
    let end = 0;
    for (const { offset, bytes } of sorted) {
      assert.equal(offset, end);
      end += bytes;
    }
    assert.equal(end, 40 * 1024);
  });

  it("says how much is issued", () => {
    const plan = new IoPlan(RULES, { offset: 0, bytes: 4 * 4096 }, rngFor(1, "test"));
    assert.equal(plan.share, 0);
    plan.next();
    assert.equal(plan.share, 0.25);
  });
});

describe("extentsOf", () => {
  it("takes all that is left of a workspace, a number of bytes, or a percentage", () => {
    assert.deepEqual(extentsOf({ ...RULES, offset: 4096 }, 16_384), {
      offset: 4096,
      bytes: 12_288,
    });
    assert.deepEqual(extentsOf({ ...RULES, size: { percent: 50 } }, 16_384), {
      offset: 0,
      bytes: 8192,
    });
    assert.deepEqual(extentsOf({ ...RULES, offset: 4096, size: { percent: 100 } }, 16_384), {
      offset: 4096,
      bytes: 12_288,
    });
  });

  it("says why a job does not fit", () => {
    const of = (rules: Partial<IoRules>, bytes: number) =>
      String(extentsOf({ ...RULES, ...rules }, bytes));
    assert.match(
      of({ size: { bytes: 8192 } }, 4096),
      /offset 0 and size 8192: the server's workspace has 4096 B/,
    );
    assert.match(of({ offset: 8192 }, 4096), /offset 8192: the server's workspace has 4096 B/);
    assert.match(of({ size: { bytes: 100 } }, 4096), /size 100: a block has 4096 B/);
  });
});
