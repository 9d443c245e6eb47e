import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type FlatRow, Samples } from "./samples.ts";

/** How a hundred samples of one measure are judged. */
function judged(what: FlatRow["what"], value: (i: number) => number): boolean {
  const samples = new Samples();
  for (let i = 0; i < 100; i++) {
    samples.add({ name: "x", what, transfers: 10 * i, value: value(i) });
  }
  return samples.rows()[0]!.isFlat;
}

describe("Samples", () => {
  it("lets the process of a replay grow with its run, up to what it may hold at all", () => {
    assert.ok(judged("replay MB", (i) => 300 + 8 * i));
    assert.ok(!judged("replay MB", (i) => i === 50 ? 1_300 : 600));
  });

  it("lets other processes grow by no more than V8 does by itself", () => {
    assert.ok(judged("resident MB", (i) => 2_000 + i / 10));
    assert.ok(!judged("resident MB", (i) => 50 + i));
  });
});
