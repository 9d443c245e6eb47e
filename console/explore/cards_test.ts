import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { framesOf, writesOf } from "./cards.ts";
import type { RackRun } from "./rerun.ts";

const NONE = { frames: [], frameBytes: [], busWrites: [], lines: [], placed: [] };

function runOf(sendings: Record<string, object>): RackRun {
  const all = Object.entries(sendings).map(([rnic, own]) => [rnic, { ...NONE, ...own }] as const);
  return { sendings: new Map(all) } as unknown as RackRun;
}

it("framesOf: frames of all RNICs of a host by time, with their bytes, and at one instant RNIC by RNIC", () => {
  const run = runOf({
    x: { frames: [10, 30, 30], frameBytes: [1, 2, 3] },
    y: { frames: [5, 30], frameBytes: [4, 5] },
    other: { frames: [1], frameBytes: [6] },
  });
  same(framesOf(run, ["x", "y", "gone"]), {
    frames: [5, 10, 30, 30, 30],
    frameBytes: [4, 1, 2, 3, 5],
  });
  const { frames, frameBytes } = framesOf(run, ["gone", "y"]);
  same([frames, frameBytes], [[5, 30], [4, 5]]);
  same(framesOf(run, ["gone"]), { frames: [], frameBytes: [] });
});

it("writesOf: what was asked for of each RNIC, in their order", () => {
  const write = (at: number) => ({ at, arrivesAt: at + 1, offset: 0, bytes: new Uint8Array(1) });
  const run = runOf({
    x: { busWrites: [write(7)] },
    y: { busWrites: [write(2)], lines: [write(9)] },
  });
  const found = writesOf(run, ["x", "y", "gone"], "busWrites").map(({ rnic, at }) => [rnic, at]);
  same(found, [["x", 7], ["y", 2]]);
  same(writesOf(run, ["x", "y"], "lines"), [{ rnic: "y", ...write(9) }]);
});
