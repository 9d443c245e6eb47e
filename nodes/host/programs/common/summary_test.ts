import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rangesOf, summarize } from "./summary.ts";

describe("summarize", () => {
  it("P-40 (in part): gives median, p99 and max of what was finished", () => {
    const samples = Float64Array.from({ length: 201 }, (_, i) => i === 0 ? -1 : 201 - i);
    same(summarize(samples), { count: 200, min: 1, median: 100, p99: 198, max: 200, mean: 101 });
    equal(summarize(Float64Array.of(-1, -1)), undefined);
    equal(summarize(Float64Array.of(7))!.p99, 7);
  });
});

describe("rangesOf", () => {
  it("joins neighbours and ends with the object", () => {
    const flags = Uint8Array.of(2, 3, 0, 1, 2);
    const size = { messageBytes: 100, totalBytes: 450 };
    same(rangesOf(flags, 2, size), [[0, 200], [400, 450]]);
    same(rangesOf(flags, 1, size), [[100, 200], [300, 400]]);
  });
});
