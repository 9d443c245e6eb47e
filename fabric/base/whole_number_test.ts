import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { isWhole, wholeText } from "./whole_number.ts";

describe("isWhole", () => {
  it("takes whole numbers of the range, ends included", () => {
    const range = { least: 1, most: 3 };
    assert.deepEqual([0, 1, 1.5, 3, 4, "2", NaN].map((each) => isWhole(each, range)), [
      ...[false, true, false, true, false, false, false],
    ]);
  });

  it("takes no number from 2^53 on, which a double does not tell from its neighbours", () => {
    const range = { least: 0, most: Number.MAX_SAFE_INTEGER };
    assert.deepEqual([2 ** 53 - 1, 2 ** 53].map((each) => isWhole(each, range)), [true, false]);
  });
});

describe("wholeText", () => {
  it("names the range, and no limit that is none", () => {
    assert.equal(wholeText({ least: 1, most: 16 }), "a whole number from 1 to 16");
    const most = Number.MAX_SAFE_INTEGER;
    assert.equal(wholeText({ least: 0, most }), "a whole number ≥ 0, below 2^53");
  });
});
