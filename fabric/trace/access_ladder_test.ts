import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { accessesOf, accessLadderOf } from "./access_ladder.ts";
import type { Line, Trace } from "./trace.ts";

/** A load of line 0 at home, host a: its begin, or its end with what its core has paid. */
function line(time: number, step: "home-load" | "core-end", access: number): Line {
  const its = {
    time,
    node: "a",
    host: "a",
    card: undefined,
    peer: undefined,
    peerCard: undefined,
    step,
    text: step,
    access,
  };
  return step === "home-load"
    ? { ...its, shared: [1, 0] }
    : { ...its, spent: { untilPs: time, by: { LLC: 20 } } };
}

describe("accessLadderOf", () => {
  it("ends where the host begins again, which numbers its accesses anew", () => {
    const lines = [
      line(100, "home-load", 0),
      line(900, "home-load", 0),
      line(920, "core-end", 0),
    ];
    const trace: Trace = { lines, cards: new Map(), switches: [] };
    const [cut, whole] = accessesOf(trace).map((each) => accessLadderOf(trace, each));
    assert.deepEqual([cut!.conclusion.time, cut!.costs], [100, undefined]);
    assert.deepEqual([whole!.conclusion.time, whole!.costs], [920, [{ module: "LLC", ps: 20 }]]);
  });
});
