/** Leases in racks with times (C-10, decision 13): delays, clocks that drift, cables that are cut, cards that die. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../base/rng.ts";
import { runTimed, type TimedResult, type TimedRun } from "./timed_testing.ts";

const TIMES = { lease: 50_000, grace: 500 };

function rack(seed: number): TimedRun {
  const rng = rngFor(seed, "size of a timed rack");
  const upTo = (bound: number) => 1 + rng.below(bound);
  const cache = () => ({ lines: upTo(2), writeBacks: upTo(3) });
  const home = { slots: upTo(3), entries: upTo(3), localCache: cache() };
  const size = { fars: upTo(3), lines: upTo(3), remoteCache: cache(), home };
  return { seed, size, times: TIMES, actions: 120, faults: true };
}

/** Runs seeds. @returns what was wrong, and the last of the results. */
function runs(count: number, change: Partial<TimedRun> = {}): TimedResult[] {
  return Array.from({ length: count }, (_, seed) => runTimed({ ...rack(seed), ...change }));
}

function wrongOf(results: readonly TimedResult[]): string[] {
  return results.flatMap(({ wrong }, seed) => wrong === null ? [] : [`seed ${seed}: ${wrong}`]);
}

describe("a rack of coherent cards with times", () => {
  it("C-10, C-12: cables, cards on either side: never old data, no second writer, each access answered in time", () => {
    const results = runs(100);
    assert.deepEqual(wrongOf(results), []);
    // One lease for what is cut off, one for home's card, and the messages of an access.
    const slowest = Math.max(...results.map((result) => result.slowest));
    assert.ok(slowest <= 3 * (TIMES.lease + TIMES.grace), `an access has taken ${slowest} ps`);
    assert.ok(results.some(({ fenced }) => fenced > 0) && results.some(({ lost }) => lost > 0));
  });

  it("C-10: without a fault nothing is fenced or lost, and at last no message goes", () => {
    const results = runs(40, { faults: false });
    assert.deepEqual(wrongOf(results), []);
    assert.deepEqual(results.filter(({ fenced, lost }) => fenced + lost > 0), []);
  });

  it("decision 13: a grace that is smaller than the drift of clocks is found out", () => {
    assert.notDeepEqual(wrongOf(runs(100, { drift: 60 })), []);
  });

  it("decision 13: home that waits for less than what the far card counts is found out", () => {
    const homeTimes = { lease: TIMES.lease * 0.8, grace: TIMES.grace };
    assert.notDeepEqual(wrongOf(runs(100, { homeTimes })), []);
  });
});
