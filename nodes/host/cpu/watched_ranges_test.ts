import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { WatchedRanges, type Watcher } from "./watched_ranges.ts";

describe("WatchedRanges", () => {
  it("finds who watches a byte of a change, each once, however wide its ranges are", () => {
    const rng = rngFor(7, "watched ranges");
    const watched = new WatchedRanges<Watcher>(), all: Watcher[] = [];
    let found = 0;
    for (let step = 0; step < 2_000; step++) {
      if (all.length === 0 || rng.below(3) > 0) {
        const from = rng.below(400_000), length = 1 + rng.below(step % 7 === 0 ? 100_000 : 9_000);
        const second = rng.below(400_000);
        const watcher = { ranges: [from, from + length, second, second + 64] };
        all.push(watcher);
        watched.add(watcher);
      } else watched.remove(all.splice(rng.below(all.length), 1)[0]!);
      const from = rng.below(400_000), length = 1 + rng.below(10_000);
      const seen = watched.in(from, length);
      const expected = all.filter(({ ranges: [a, b, c, d] }) =>
        (a! < from + length && b! > from) || (c! < from + length && d! > from)
      );
      assert.deepEqual(new Set(seen), new Set(expected));
      assert.equal(seen.length, expected.length);
      assert.equal(watched.has(from, length), expected.length > 0);
      found += seen.length;
    }
    assert.ok(found > 1_000);
  });
});
