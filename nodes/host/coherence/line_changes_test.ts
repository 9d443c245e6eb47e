import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import { LineChanges } from "./line_changes.ts";

const S = { id: 3 } as SharedRegion, T = { id: 4 } as SharedRegion;

describe("LineChanges", () => {
  it("decision 19: counts and signals a line's changes to those that wait for it, a region's to all", () => {
    const told: string[] = [];
    const changes = new LineChanges((name) => void told.push(name));
    const places = [[S, 0], [S, 1], [T, 0]] as const;
    /** Which of the places a change wakes, and is counted for. */
    const met = (change: () => void) => {
      const before = places.map(([region, line]) => changes.of(region, line));
      told.length = 0;
      change();
      return places.map(([region, line], i) => {
        const isWoken = changes.signalsOf(region, line).some((name) => told.includes(name));
        assert.equal(changes.of(region, line) - before[i]!, isWoken ? 1 : 0);
        return isWoken;
      });
    };
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(met(() => changes.add(S, 0)), [true, false, false]);
      assert.deepEqual(met(() => changes.add(S, 1)), [false, true, false]);
      assert.deepEqual(met(() => changes.add(S)), [true, true, false]);
      assert.deepEqual(met(() => changes.add(T)), [false, false, true]);
    }
  });
});
