import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { growthOf } from "./growth.ts";

const samples = (value: (i: number) => number) =>
  Array.from({ length: 100 }, (_, i) => ({ transfers: 10 * i, value: value(i) }));

describe("growthOf", () => {
  it("is none where a measure goes up and down, and where it only warms up", () => {
    assert.equal(growthOf(samples((i) => 50 + i % 2))!.growth, 0);
    assert.equal(growthOf(samples((i) => Math.min(50, 10 * i)))!.growth, 0);
  });

  it("sees what grows a little with each transfer", () => {
    const { first, last, growth, perTransfer } = growthOf(samples((i) => 50 + i / 10))!;
    assert.ok(first < last && growth > 6, `${growth}`);
    assert.ok(Math.abs(perTransfer - 0.01) < 1e-9, `${perTransfer}`);
  });

  it("tells nothing of a few samples", () => {
    assert.equal(growthOf(samples((i) => i).slice(0, 40)), undefined);
  });
});
