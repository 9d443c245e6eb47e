import { strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { type FreedRange, LastFreed } from "./noted_writes.ts";
import { UNIT_BYTES } from "./values.ts";

describe("LastFreed", () => {
  it("has for each unit the last range that has a byte of it", () => {
    const rng = rngFor(22, "freed ranges");
    for (let round = 0; round < 300; round++) {
      const ranges = Array.from({ length: rng.below(12) }, (_, order): FreedRange => {
        const from = rng.below(200);
        return { from, to: from + rng.below(60), order };
      });
      const last = new LastFreed(ranges);
      for (let unit = 0; unit < 280; unit += UNIT_BYTES) {
        const found = ranges.findLast(({ from, to }) => from < unit + UNIT_BYTES && unit < to);
        equal(last.orderAt(unit), found?.order ?? -1, JSON.stringify({ ranges, unit }));
      }
    }
  });
});
