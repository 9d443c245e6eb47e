/** The grant formula, against the formula as it is written; and how early a partition can have failed. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../base/property_testing.ts";
import { NEVER } from "../base/time.ts";
import { Horizons } from "./horizon.ts";
import type { Member } from "./member.ts";
import { members } from "./timekeeper_testing.ts";

describe("Horizons", () => {
  /** What q does reaches p later than what p does reaches q. */
  const LOOKAHEAD = [[NEVER, 100], [700, NEVER]];

  it("lets a partition begin where no other has passed the first thing that it can cause", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], LOOKAHEAD);
    Object.assign(b, { bootAt: 300 });
    // b's first effect is at a at 1 000; what ran last there is the instant before, or that one.
    for (const [ran, may] of [[999, true], [1_000, false]] as const) {
      Object.assign(a, { ran });
      assert.equal(horizons.mayBegin(b), may);
    }
  });

  it("dates a failure behind all that a partition that still runs may do", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], LOOKAHEAD);
    Object.assign(a, { status: "running", grant: { horizon: 5_000 }, ran: 10 });
    assert.equal(horizons.earliestFailure(b), 5_000 - 700);
  });

  it("are the least of next(q) + distance(q, p) over all q but p, whatever the times and distances", () => {
    const time = fc.oneof({ arbitrary: fc.nat(50), weight: 4 }, fc.constant(NEVER));
    const racks = fc.integer({ min: 1, max: 9 }).chain((size) => {
      const times = fc.array(time, { minLength: size, maxLength: size });
      return fc.tuple(times, fc.array(times, { minLength: size, maxLength: size }));
    });
    fc.assert(
      fc.property(racks, ([next, distance]) => {
        const all = members(...next.map((_, index) => `p${index}`));
        all.forEach((member, index) => Object.assign(member, { next: next[index] }));
        const horizons = new Horizons(all, distance);
        horizons.refresh();
        for (const [p, member] of all.entries()) {
          const bounds = next.map((at, q) => q === p ? NEVER : at + distance[q]![p]!);
          const horizon = Math.min(...bounds);
          assert.equal(horizons.ofOthers(member), horizon);
          // What cannot run needs no exact horizon.
          const mayRun = next[p]! < horizon;
          assert.equal(next[p]! < horizons.of(member), mayRun);
          if (mayRun) assert.equal(horizons.of(member), horizon);
        }
        assert.equal(horizons.least, Math.min(...next));
      }),
      seeded({ numRuns: 500 }),
    );
  });
});
