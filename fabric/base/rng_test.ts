import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { rngFor } from "./rng.ts";

function draw(seed: number, name: string): number[] {
  const rng = rngFor(seed, name);
  return Array.from({ length: 8 }, () => rng.next());
}

describe("rngFor", () => {
  it("repeats a stream for the same seed and name", () => {
    assert.deepEqual(draw(7, "loss"), draw(7, "loss"));
  });

  it("gives other streams for other seeds, high halves of seeds and names", () => {
    assert.notDeepEqual(draw(7, "loss"), draw(8, "loss"));
    assert.notDeepEqual(draw(7, "loss"), draw(7 + 2 ** 32, "loss"));
    assert.notDeepEqual(draw(7, "loss"), draw(7, "order"));
  });

  it("draws below a bound evenly", () => {
    const rng = rngFor(1, "even");
    const counts = new Array<number>(6).fill(0);
    for (let i = 0; i < 60_000; i++) counts[rng.below(6)]!++;
    for (const count of counts) assert(Math.abs(count - 10_000) < 500, String(counts));
  });
});
