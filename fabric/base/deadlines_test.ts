import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { Deadlines } from "./deadlines.ts";
import { NEVER } from "./time.ts";
import { seeded } from "./property_testing.ts";

describe("Deadlines", () => {
  it("has the least of all deadlines at hand, however they move", () => {
    const move = fc.record({ slot: fc.nat(9), time: fc.oneof(fc.nat(30), fc.constant(NEVER)) });
    fc.assert(
      fc.property(fc.array(move, { maxLength: 80 }), (moves) => {
        const deadlines = new Deadlines(10);
        const times = new Array<number>(10).fill(NEVER);
        for (const { slot, time } of moves) {
          deadlines.set(slot, time);
          times[slot] = time;
          const least = Math.min(...times);
          assert.equal(deadlines.earliest, least);
          assert.equal(deadlines.at(slot), time);
          for (const but of times.keys()) {
            const others = times.filter((_, other) => other !== but);
            assert.equal(deadlines.earliestBut(but), Math.min(...others));
          }
          if (least !== NEVER) assert.equal(deadlines.slot, times.indexOf(least));
        }
      }),
      seeded({ seed: 7, numRuns: 300 }),
    );
  });
});
