/**
 * The seeds of the transport's property test (`nodes/rnic/property_test.ts`, which see) that take longer than
 * `deno task ok` may: only the full run has them.
 */
import { describe, it } from "@std/testing/bdd";
import { checkSeed, FULL_SEEDS } from "../../nodes/rnic/testing/program_seed_testing.ts";

describe("more programs of verbs with loss, duplication, reordering, delay and corruption", () => {
  for (const { first, seeds } of FULL_SEEDS) {
    it(`P-28, P-30, P-31, V-01, V-09: end as without faults, or in an error (seeds from ${first} on)`, () => {
      for (const seed of seeds) checkSeed(seed);
    });
  }
});
