/** Random racks of the coherent card's protocol (C-12), and that their judges see what is wrong. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { seeded } from "../base/property_testing.ts";
import { type ByteAccess, judgeByte } from "./history_testing.ts";
import { MUTATIONS } from "./mutations_testing.ts";
import { type RandomRun, runRandomly } from "./random_testing.ts";

const few = fc.integer({ min: 1, max: 3 });
const cache = fc.record({ lines: fc.integer({ min: 1, max: 2 }), writeBacks: few });
const size = fc.record({
  fars: fc.integer({ min: 1, max: 4 }),
  lines: few,
  remoteCache: cache,
  home: fc.record({ slots: few, entries: few, localCache: cache }),
});

function racks(losses: boolean, steps: number): fc.Arbitrary<RandomRun> {
  const choices = fc.array(fc.nat(), { minLength: steps >> 1, maxLength: steps, size: "max" });
  const slow = fc.constantFrom("req", "snp", "up", "down", "toHost", "toHome");
  return fc.record({ size, choices, losses: fc.constant(losses), slow }, {
    requiredKeys: ["size", "choices", "losses"],
  });
}

describe("a random rack of coherent cards", () => {
  it("C-09, C-12: many agents, few lines, false sharing: loads return the last store", () => {
    fc.assert(
      fc.property(racks(false, 600), (run) => assert.equal(runRandomly(run).wrong, null)),
      seeded({ numRuns: 80 }),
    );
  });

  it("C-10 (in part), C-12: leases end at any time: never old data, every access is answered", () => {
    fc.assert(
      fc.property(racks(true, 600), (run) => assert.equal(runRandomly(run).wrong, null)),
      seeded({ numRuns: 40 }),
    );
  });

  it("C-12: finds a lost invalidation, and shrinks it to a few steps", () => {
    const broken = MUTATIONS.find(({ name }) => /acknowledged, and S stays/.test(name));
    const tables = broken?.exploration.tables;
    assert.ok(tables !== undefined);
    const found = fc.check(
      fc.property(racks(false, 200), (run) => runRandomly({ ...run, tables }).wrong === null),
      seeded({ numRuns: 30 }),
    );
    assert.ok(found.failed);
    const [smallest] = found.counterexample ?? [];
    assert.ok((smallest?.choices.length ?? Infinity) < 200);
  });
});

describe("the judge of a byte's values", () => {
  const load = (value: number, began: number, ended: number): ByteAccess => ({
    kind: "load",
    value,
    began,
    ended,
  });
  const store = (value: number, began: number, ended: number): ByteAccess => ({
    ...load(value, began, ended),
    kind: "store",
  });

  it("allows either order of what is under way at one time", () => {
    assert.equal(judgeByte([store(1, 0, 9), load(0, 1, 2), load(1, 3, 4)]), null);
    assert.equal(judgeByte([store(1, 0, 9), store(2, 0, 9), load(2, 10, 11)]), null);
    assert.equal(judgeByte([store(1, 0, 9), store(2, 0, 9), load(1, 10, 11)]), null);
  });

  it("refuses old values, values that come and go, and values from nowhere", () => {
    assert.match(judgeByte([store(1, 0, 1), load(0, 2, 3)]) ?? "", /was stored|was seen/);
    assert.match(
      judgeByte([store(1, 0, 9), load(1, 1, 2), load(0, 3, 4)]) ?? "",
      /was seen until|was stored/,
    );
    assert.match(judgeByte([load(7, 0, 1)]) ?? "", /no store/);
    assert.match(judgeByte([load(1, 0, 1), store(1, 2, 3)]) ?? "", /before its store/);
  });

  it("takes a store without an answer for done only where a load has seen it", () => {
    assert.equal(judgeByte([store(1, 0, Infinity), store(2, 3, 4), load(2, 5, 6)]), null);
    assert.equal(judgeByte([store(1, 0, Infinity), store(2, 3, 4), load(1, 5, 6)]), null);
    assert.notEqual(
      judgeByte([store(1, 0, Infinity), store(2, 3, 4), load(1, 5, 6), load(2, 7, 8)]),
      null,
    );
  });
});
