/**
 * Random programs of verbs under random faults: within the retry limits a run ends as the one without
 * faults does, beyond them in an error, never in silence and never with a wrong byte. A seed is the whole
 * report of a failure: `runOne` of `program_seed_testing.ts` with it shows the same again.
 */
import { describe, it } from "@std/testing/bdd";
import { checkSeed } from "./program_seed_testing.ts";

/** Seeds that CI tries, in groups that are tests of their own: a group's name names its first seed. */
const GROUPS = 20;
const GROUP_SEEDS = 25;

describe("any program of verbs with loss, duplication, reordering, delay and corruption", () => {
  for (let group = 0; group < GROUPS; group++) {
    const first = 1 + group * GROUP_SEEDS;
    it(`P-28, P-30, P-31: ends as without faults, or in an error (seeds from ${first} on)`, () => {
      for (let seed = first; seed < first + GROUP_SEEDS; seed++) checkSeed(seed);
    });
  }
});

describe("seeds that failed once", () => {
  it("18: a CPU's persistence ACK was carried out again when its queue pair went back", () => {
    checkSeed(18);
  });
});
