import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Buckets } from "./buckets.ts";

describe("Buckets", () => {
  it("gives so many at once, and then so many a second, to each by itself", () => {
    let now = 0;
    const buckets = new Buckets({ perSecond: 2, burst: 3 }, () => now);
    const taken = (who: string) => buckets.take(who) === 0;
    assert.deepEqual([1, 2, 3, 4].map(() => taken("a")), [true, true, true, false]);
    assert.equal(taken("b"), true);
    assert.equal(buckets.take("a"), 500);
    now += 500;
    assert.deepEqual([taken("a"), taken("a")], [true, false]);
    now += 60_000;
    assert.deepEqual([1, 2, 3, 4].map(() => taken("a")), [true, true, true, false]);
  });
});
