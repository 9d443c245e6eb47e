import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { PutResult, VerifiedResult } from "../../console/checks/survival.ts";
import { countVerified } from "../../console/checks/verified.ts";

const FILE = Uint8Array.from({ length: 40 }, (_, i) => i + 1);

/** Four messages of 10 B, all written; the first two were looked at. */
function resultOf(change: Partial<PutResult> = {}, verified: Partial<VerifiedResult> = {}) {
  return {
    messageBytes: 10,
    written: [[0, 40]],
    promises: false,
    flow: 1,
    verified: {
      level: "verify-crc",
      caught: { "crc-mismatch": 2, "read-back-differs": 1 },
      rewrites: 3,
      skipped: 2,
      looked: [[0, 20]],
      ...verified,
    },
    ...change,
  } as unknown as PutResult;
}

function damagedAt(...places: readonly number[]): Uint8Array {
  const survived = FILE.slice();
  for (const at of places) survived[at]! ^= 1;
  return survived;
}

describe("countVerified", () => {
  it("V-10: counts messages that are damaged, and those of which it was told that they are not", () => {
    const count = (...places: readonly number[]) => {
      const counts = countVerified(resultOf(), { file: FILE, survived: damagedAt(...places) })!;
      return [counts.missed, counts.overlooked];
    };
    assert.deepEqual(count(), [0, 0]);
    assert.deepEqual(count(25), [1, 0]);
    assert.deepEqual(count(9, 10, 11, 39), [3, 2]);
  });

  it("V-10: does not count what was not reported written", () => {
    const result = resultOf({ written: [[0, 10], [30, 40]] });
    assert.equal(countVerified(result, { file: FILE, survived: damagedAt(25) })!.missed, 0);
  });

  it("V-10: says nothing where an LLC that does not survive was between", () => {
    const of = { file: FILE, survived: damagedAt(5) };
    assert.equal(countVerified(resultOf({ flow: 2 }), of)!.missed, null);
    assert.equal(countVerified(resultOf({ flow: 2, promises: true }), of)!.missed, 1);
  });

  it("V-10: has the sum of what was caught", () => {
    const counts = countVerified(resultOf(), { file: FILE, survived: damagedAt(25) })!;
    assert.deepEqual([counts.caught, counts.rewrites, counts.skipped], [3, 3, 2]);
  });

  it("V-10: is nothing of a method that checks nothing", () => {
    const { verified: _, ...result } = resultOf();
    assert.equal(countVerified(result as PutResult, { file: FILE, survived: FILE }), undefined);
  });
});
