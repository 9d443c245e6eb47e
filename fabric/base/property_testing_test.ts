import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "./property_testing.ts";

/** The failure of a property that does not hold. */
function failure(given: fc.Parameters<[number]> = {}): string {
  try {
    fc.assert(fc.property(fc.nat(), (n) => n < 1_000), seeded(given));
  } catch (error) {
    return (error as Error).message;
  }
  return assert.fail("the property holds");
}

describe("seeded", () => {
  it("has the same examples each time, whatever else is asked for", () => {
    assert.equal(failure(), failure());
    assert.match(failure(), /seed: 24301/);
    const examples = (given: fc.Parameters<[number]>) => {
      const seen: number[] = [];
      fc.assert(fc.property(fc.nat(), (n) => void seen.push(n)), seeded(given));
      return seen;
    };
    assert.deepEqual(examples({ numRuns: 7 }), examples({ numRuns: 50 }).slice(0, 7));
    assert.notDeepEqual(examples({ seed: 7 }), examples({}));
  });

  it("reports in a failure the counterexample, the seed and the command that repeats it", () => {
    const text = failure({ seed: 7 });
    assert.match(text, /Property failed after \d+ tests/);
    assert.match(text, /seed: 7/);
    assert.match(text, /again by: deno test --no-prompt fabric\/base\/property_testing_test\.ts$/);
  });

  it("takes the seed that is drawn for all of them before its own", () => {
    const before = fc.readConfigureGlobal() ?? {};
    try {
      fc.configureGlobal({ ...before, seed: 12 });
      assert.match(failure({ seed: 7 }), /seed: 12,/);
      assert.match(
        failure(),
        /RACKMESH_TEST_SEED=12 deno test .* tests\/seeds\/properties_test\.ts$/,
      );
    } finally {
      fc.configureGlobal(before);
    }
  });

  it("reports an asynchronous property, and lets one that holds pass", async () => {
    await fc.assert(fc.asyncProperty(fc.nat(), () => Promise.resolve(true)), seeded());
    const wrong = fc.asyncProperty(fc.nat(), (n) => Promise.resolve(n < 1_000));
    await assert.rejects(async () => await fc.assert(wrong, seeded()), /fails again by/);
  });
});
