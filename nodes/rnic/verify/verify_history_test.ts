import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { Rng } from "../../../fabric/base/rng.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import { createHistory, isTrusted, maySkip, recordOutcome } from "./verify_history.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const PLAN = { thresholdPpm: 999_000, samples: 64, sampleOneIn: 16 };
const GOOD = { isGood: true, isReadBack: true };
const BAD = { isGood: false, isReadBack: true };

/** Draws `value` for ever. */
function drawing(value: number): Rng {
  return { next: () => value, below: () => value, unit: () => 0 };
}

describe("V-05: verify_history", () => {
  it("trusts no sender before there are enough samples", () => {
    const history = createHistory(PLAN.samples);
    for (let i = 0; i < PLAN.samples; i++) {
      assert.equal(maySkip(history, PLAN, drawing(1)), false, `after ${i}`);
      recordOutcome(history, GOOD);
    }
    assert.equal(maySkip(history, PLAN, drawing(1)), true);
  });

  it("a success that was not read back is no sample, a failure is one", () => {
    const history = createHistory(4);
    for (let i = 0; i < 10; i++) recordOutcome(history, { isGood: true, isReadBack: false });
    assert.equal(history.filled, 0);
    recordOutcome(history, { isGood: false, isReadBack: false });
    assert.deepEqual([history.filled, history.failed], [1, 1]);
  });

  it("a failure makes it check again until the window is clean of it", () => {
    const history = createHistory(PLAN.samples);
    for (let i = 0; i < PLAN.samples; i++) recordOutcome(history, GOOD);
    recordOutcome(history, BAD);
    for (let i = 0; i < PLAN.samples; i++) {
      assert.equal(isTrusted(history, PLAN), false, `after ${i} good ones`);
      recordOutcome(history, GOOD);
    }
    assert.equal(isTrusted(history, PLAN), true);
  });

  it("the share has to be above the threshold: at it is not enough", () => {
    const history = createHistory(10);
    for (let i = 0; i < 9; i++) recordOutcome(history, GOOD);
    recordOutcome(history, BAD);
    assert.equal(isTrusted(history, { ...PLAN, thresholdPpm: 900_000 }), false);
    assert.equal(isTrusted(history, { ...PLAN, thresholdPpm: 899_999 }), true);
    const flawless = createHistory(1);
    recordOutcome(flawless, GOOD);
    assert.equal(isTrusted(flawless, { ...PLAN, thresholdPpm: 1_000_000 }), false);
  });

  it("one in so many is checked all the same, of a seeded stream", () => {
    const history = createHistory(PLAN.samples);
    for (let i = 0; i < PLAN.samples; i++) recordOutcome(history, GOOD);
    assert.equal(maySkip(history, PLAN, drawing(0)), false);
    const rng = rngFor(7, "b.rnic/verify");
    let checked = 0;
    for (let i = 0; i < 16_000; i++) if (!maySkip(history, PLAN, rng)) checked++;
    assert.ok(checked > 850 && checked < 1150, `${checked} of 16000, 1000 expected`);
    assert.equal(maySkip(history, { ...PLAN, sampleOneIn: 1 }, rng), false);
  });

  it("agrees with a list of all outcomes", () => {
    const outcome = fc.record({ isGood: fc.boolean(), isReadBack: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(outcome, { maxLength: 100 }),
        fc.integer({ min: 1, max: 20 }),
        fc.nat(1_000_000),
        (outcomes, samples, thresholdPpm) => {
          const history = createHistory(samples);
          const list: boolean[] = [];
          for (const one of outcomes) {
            recordOutcome(history, one);
            if (!one.isGood || one.isReadBack) list.push(one.isGood);
            const latest = list.slice(-samples);
            const good = latest.filter(Boolean).length;
            const expected = latest.length === samples &&
              BigInt(good) * 1_000_000n > BigInt(thresholdPpm) * BigInt(samples);
            assert.equal(isTrusted(history, { ...PLAN, thresholdPpm }), expected);
          }
        },
      ),
      seeded({ seed: 5, numRuns: 300 }),
    );
  });
});
