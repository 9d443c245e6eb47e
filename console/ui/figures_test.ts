import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ticks } from "./figures.ts";

describe("ticks", () => {
  it("are round numbers within the span, at most as many steps as asked for", () => {
    assert.deepEqual(ticks(0, 554, 6), [0, 100, 200, 300, 400, 500]);
    assert.deepEqual(ticks(130, 290, 8), [140, 160, 180, 200, 220, 240, 260, 280]);
    assert.deepEqual(ticks(0, 2, 5), [0, 0.5, 1, 1.5, 2]);
    assert.deepEqual(ticks(7, 7, 8), []);
  });
});
