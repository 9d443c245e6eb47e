import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { coveringArray, type Row, STRENGTHS, subsets } from "./covering_array.ts";

/** Any number of rows. */
const MANY = Number.MAX_SAFE_INTEGER;

/** Combinations of the factors' values that no row shows. */
function missing(rows: readonly Row[], levels: readonly number[], set: readonly number[]): number {
  const combinations = set.reduce((count, factor) => count * levels[factor]!, 1);
  const shown = new Uint8Array(combinations);
  for (const row of rows) {
    shown[set.reduce((key, factor) => key * levels[factor]! + row[factor]!, 0)] = 1;
  }
  return combinations - shown.reduce((sum, each) => sum + each, 0);
}

/**
 * A set of factors with two values of which no row shows some combination; undefined where there is none. All sets are
 * looked at: rows that have a combination of some of the factors are kept as bits, for all others that follow.
 */
function notShown(rows: readonly Row[], strength: number): number[] | undefined {
  const count = rows[0]!.length, length = Math.ceil(rows.length / 32);
  const bits = Array.from({ length: 2 * count }, (_, i) => {
    const found = new Uint32Array(length);
    for (const [j, row] of rows.entries()) {
      if (row[i >> 1] === (i & 1)) found[j >> 5]! |= 1 << (j & 31);
    }
    return found;
  });
  const all = new Uint32Array(length).fill(0xffff_ffff);
  const search = (
    from: number,
    left: number,
    having: readonly Uint32Array[],
  ): number[] | undefined => {
    for (let factor = from; factor + left <= count; factor++) {
      const values = [bits[2 * factor]!, bits[2 * factor + 1]!];
      if (having.some((each) => values.some((value) => !meet(each, value)))) return [factor];
      if (left === 1) continue;
      const more = having.flatMap((each) =>
        values.map((value) => each.map((x, i) => x & value[i]!))
      );
      const rest = search(factor + 1, left - 1, more);
      if (rest !== undefined) return [factor, ...rest];
    }
    return undefined;
  };
  return search(0, Math.min(strength, count), [all]);
}

function meet(x: Uint32Array, y: Uint32Array): boolean {
  for (let i = 0; i < x.length; i++) if ((x[i]! & y[i]!) !== 0) return true;
  return false;
}

/** Factors with two values each. */
function words(count: number): number[] {
  return new Array<number>(count).fill(2);
}

function assertValues(rows: readonly Row[], levels: readonly number[]): void {
  for (const row of rows) {
    for (const [factor, level] of levels.entries()) {
      assert.ok(row[factor]! >= 0 && row[factor]! < level);
    }
  }
}

describe("coveringArray", () => {
  // The numbers of rows are ours: more of them would cost every instant that is explored.
  for (
    const [count, most] of [
      [3, [4, 8, 0]],
      [8, [8, 17, 36]],
      [17, [11, 25, 60]],
      [33, [13, 64, 240]],
      [64, [16, 80, 360]],
    ] as const
  ) {
    it(`shows every combination of any two, three and four of ${count} words`, () => {
      for (const [i, strength] of STRENGTHS.entries()) {
        if (strength > count) continue;
        const levels = words(count);
        const rows = coveringArray(levels, { strength, most: MANY })!;
        assertValues(rows, levels);
        assert.equal(notShown(rows, strength), undefined, `${strength} of ${count}`);
        assert.notEqual(
          notShown(rows.slice(rows.length >> 1), strength),
          undefined,
          "half of them",
        );
        assert.ok(rows.length <= most[i]!, `${rows.length} rows for ${strength} of ${count}`);
      }
    });
  }

  it("shows them of 512 words, in a few hundred rows", () => {
    const levels = words(512), rng = rngFor(5, "sets");
    for (const [strength, most] of [[2, 24], [3, 112], [4, 540]] as const) {
      const rows = coveringArray(levels, { strength, most: MANY })!;
      assert.ok(rows.length <= most, `${rows.length} rows for ${strength}`);
      for (let i = 0; i < 1_500; i++) {
        const set = new Set<number>();
        while (set.size < strength) set.add(rng.below(512));
        assert.equal(missing(rows, levels, [...set]), 0, `${[...set]}`);
      }
      // Neighbours, and words that are folded onto the same column at the first point.
      for (let i = 0; i + 23 * strength < 512; i++) {
        for (const step of [1, 23]) {
          if (i % 3 > 0) continue;
          const set = Array.from({ length: strength }, (_, k) => i + step * k);
          assert.equal(missing(rows, levels, set), 0, `${set}`);
        }
      }
    }
  });

  it("shows them where factors have several values, one, or very many", () => {
    const levels = [3, 1, 2, 9, 4, 2, 2, 3, 1, 2];
    for (const strength of STRENGTHS) {
      const rows = coveringArray(levels, { strength, most: MANY })!;
      assertValues(rows, levels);
      for (const set of subsets(levels.length, strength)) {
        assert.equal(missing(rows, levels, set), 0, `${strength}: ${set}`);
      }
    }
    // Folded: a prime field of columns, and columns of their own.
    const folded = [...words(150), 3, 3, 7, 4, 5];
    for (const strength of [2, 3] as const) {
      const rows = coveringArray(folded, { strength, most: MANY })!;
      assertValues(rows, folded);
      const last = folded.length - 1, rng = rngFor(6, "sets");
      for (const set of subsets(strength === 2 ? folded.length : 9, strength)) {
        // Of any three, the ones with many values, and others.
        const seen = strength === 2 ? set : set.map((i) => i < 5 ? last - i : rng.below(150));
        if (new Set(seen).size < strength) continue;
        assert.equal(missing(rows, folded, seen), 0, `${strength}: ${seen}`);
      }
    }
  });

  it("shows any two of 64 lines that have nine contents each", () => {
    const levels = new Array<number>(64).fill(9);
    const rows = coveringArray(levels, { strength: 2, most: MANY })!;
    for (const set of subsets(64, 2)) assert.equal(missing(rows, levels, set), 0, `${set}`);
    assert.ok(rows.length < 4 * 81, `${rows.length}`);
    assert.equal(coveringArray(levels, { strength: 3, most: 4096 }), undefined);
  });

  it("has the same rows again, and none where they are more than are wanted", () => {
    const again = () => coveringArray(words(100), { strength: 3, most: MANY })!;
    const rows = again();
    assert.deepEqual(again(), rows);
    assert.equal(coveringArray(words(100), { strength: 3, most: rows.length - 1 }), undefined);
    assert.equal(
      coveringArray(words(100), { strength: 3, most: rows.length })!.length,
      rows.length,
    );
    assert.equal(coveringArray([65, 65, 2], { strength: 2, most: 4096 }), undefined);
  });
});
