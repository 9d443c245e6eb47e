/** The grant formula, against the formula as it is written; and how early a partition can have failed. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../base/property_testing.ts";
import { NEVER, type Time } from "../base/time.ts";
import { Distances } from "../rack/plan/distances.ts";
import { allDistances, graphs } from "../rack/plan/distances_testing.ts";
import { Horizons } from "./horizon.ts";
import type { Member } from "./member.ts";
import { members, plainHorizon } from "./timekeeper_testing.ts";

describe("Horizons", () => {
  /** What q does reaches p later than what p does reaches q. */
  const DISTANCES = new Distances(2, [
    { from: 0, to: 1, delayPs: 100 },
    { from: 1, to: 0, delayPs: 700 },
  ]);

  it("lets a partition begin where no other has passed the first thing that it can cause", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], DISTANCES);
    Object.assign(b, { bootAt: 300 });
    // b's first effect is at a at 1 000; what ran last there is the instant before, or that one.
    for (const [ran, may] of [[999, true], [1_000, false]] as const) {
      Object.assign(a, { ran });
      assert.equal(horizons.mayBegin(b), may);
    }
  });

  it("dates a failure behind all that a partition that still runs may do", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], DISTANCES);
    Object.assign(a, { status: "running", grant: { horizon: 5_000 }, ran: 10 });
    assert.equal(horizons.earliestFailure(b), 5_000 - 700);
  });

  it("are the least of next(q) + distance(q, p) over all q but p, whatever changes in which rack", () => {
    const time = fc.oneof({ arbitrary: fc.nat(60), weight: 4 }, fc.constant(NEVER));
    const change = fc.record({ at: fc.nat(), next: time, isIdle: fc.boolean() });
    // Several partitions change at once, as by a report and what it says was sent.
    const steps = fc.array(fc.array(change, { minLength: 1, maxLength: 3 }), { maxLength: 30 });
    fc.assert(
      fc.property(graphs(12), steps, fc.boolean(), (graph, steps, isWhole) => {
        const all = members(...Array.from({ length: graph.count }, (_, i) => `p${i}`));
        const horizons = new Horizons(all, new Distances(graph.count, graph.crossings));
        const distance = allDistances(graph);
        horizons.refresh();
        // Those that were named and not let run: they need not be named again.
        const known = new Set<Member>();
        for (const step of steps) {
          const changed = step.map(({ at }) => all[at % all.length]!);
          step.forEach(({ next, isIdle }, i) => {
            Object.assign(changed[i]!, { next, status: isIdle ? "idle" : "running" });
            known.delete(changed[i]!);
          });
          if (isWhole) {
            known.clear();
            horizons.refresh();
          } else horizons.note(changed);
          const next = all.map((member) => member.next);
          const may = all.filter((member, p) =>
            member.status === "idle" && next[p]! < plainHorizon(p, { next, distance })
          );
          const ready = horizons.takeReady();
          assert.deepEqual(
            ready.map(({ index }) => index),
            ready.map((m) => m.index).sort(byNumber),
          );
          for (const member of may) assert.ok(known.has(member) || ready.includes(member));
          for (const member of ready) assert.ok(may.includes(member));
          for (const member of ready) known.add(member);
          for (const [p, member] of all.entries()) {
            assert.equal(horizons.ofOthers(member), plainHorizon(p, { next, distance }));
            const others = next.filter((_, q) => q !== p);
            assert.equal(horizons.leastOfOthers(member), Math.min(...others));
          }
          assert.equal(horizons.least, Math.min(...next));
        }
      }),
      seeded({ numRuns: 1_000 }),
    );
  });
});

const byNumber = (x: Time, y: Time) => x - y;
