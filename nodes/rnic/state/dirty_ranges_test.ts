import { deepEqual, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import {
  type Bytes,
  createDirtyRanges,
  noteDirty,
  reduceTo,
  type Span,
  takeDirty,
} from "./dirty_ranges.ts";
import { LIMITS } from "./limits.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const FC = { seed: 0x5031, numRuns: 300 } as const;
/** Far above 32 bits, so that nothing relies on them. */
const BASE = 2 ** 40;

function bytesWithin(room: number): fc.Arbitrary<Bytes> {
  return fc.record({
    va: fc.integer({ min: 0, max: room }).map((at) => BASE + at),
    length: fc.integer({ min: 0, max: 300 }),
  });
}

/** The lines, by their number, that the bytes are in. */
function linesOf({ va, length }: Bytes): number[] {
  const lines: number[] = [];
  for (let at = 0; at < length; at++) lines.push(Math.floor((va + at - BASE) / 64));
  return [...new Set(lines)];
}

function linesIn(spans: readonly Span[]): number[] {
  return spans.flatMap(({ from, to }) => linesOf({ va: from, length: to - from }));
}

function assertWellFormed(spans: readonly Span[]): void {
  spans.forEach(({ from, to }, i) => {
    ok(from < to && from % 64 === 0 && to % 64 === 0, `${from} to ${to} are lines`);
    ok(i === 0 || spans[i - 1]!.to < from, "in order, with clean lines between");
  });
}

describe("DirtyRanges", () => {
  it("P-31: is exactly the lines that were written, while there is room for them", () => {
    fc.assert(
      fc.property(fc.array(bytesWithin(16_384), { maxLength: 30 }), (writes) => {
        const ranges = createDirtyRanges();
        const dirty = new Set<number>();
        for (const written of writes) {
          noteDirty(ranges, written);
          for (const line of linesOf(written)) dirty.add(line);
          assertWellFormed(ranges.spans);
        }
        deepEqual(linesIn(ranges.spans), [...dirty].sort((x, y) => x - y));
      }),
      seeded(FC),
    );
  });

  it("P-31: forgets nothing where there is room for less, and stays within the limit", () => {
    fc.assert(
      fc.property(
        fc.array(bytesWithin(1 << 20), { minLength: LIMITS.dirtySpans + 20, maxLength: 150 }),
        (writes) => {
          const ranges = createDirtyRanges();
          for (const written of writes) noteDirty(ranges, written);
          assertWellFormed(ranges.spans);
          ok(ranges.spans.length <= LIMITS.dirtySpans);
          const kept = new Set(linesIn(ranges.spans));
          for (const written of writes) for (const line of linesOf(written)) ok(kept.has(line));
        },
      ),
      seeded({ ...FC, numRuns: 50 }),
    );
  });

  it("P-31: what is taken within a range and what is left are all, and nothing twice", () => {
    fc.assert(
      fc.property(
        fc.array(bytesWithin(8192), { maxLength: 20 }),
        bytesWithin(8192).map(({ va, length }) => ({ va, length: length * 8 })),
        (writes, within) => {
          const ranges = createDirtyRanges();
          for (const written of writes) noteDirty(ranges, written);
          const before = linesIn(ranges.spans);
          const taken = linesIn(takeDirty(ranges, within));
          const left = linesIn(ranges.spans);
          const inside = new Set(linesOf(within));
          deepEqual(taken, before.filter((line) => inside.has(line)));
          deepEqual(left, before.filter((line) => !inside.has(line)));
          deepEqual(linesIn(takeDirty(ranges)), left);
          deepEqual(ranges.spans, []);
        },
      ),
      seeded(FC),
    );
  });
});

describe("reduceTo", () => {
  it("joins where the gap is least, so that the fewest clean lines are flushed with it", () => {
    const spans = [[0, 64], [640, 704], [768, 832], [4096, 4160]].map(([from, to]) => {
      return { from: from!, to: to! };
    });
    deepEqual(reduceTo(spans, 4), spans);
    deepEqual(reduceTo(spans, 3), [spans[0], { from: 640, to: 832 }, spans[3]]);
    deepEqual(reduceTo(spans, 2), [{ from: 0, to: 832 }, spans[3]]);
    deepEqual(reduceTo(spans, 1), [{ from: 0, to: 4160 }]);
    equal(reduceTo([], 1).length, 0);
  });
});
