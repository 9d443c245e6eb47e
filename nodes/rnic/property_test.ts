/**
 * Random programs of verbs under random faults: within the retry limits a run ends as the one without
 * faults does, beyond them in an error, never in silence and never with a wrong byte. A seed is the whole
 * report of a failure, which prints the command that tries it again. `program_testing.ts` makes programs,
 * `program_play_testing.ts` plays them, `program_check_testing.ts` judges, `wire_faults_testing.ts` spoils.
 * Here are the first seeds; the full run goes on with those of `tests/seeds/transport_full_test.ts`.
 *
 * What it has found also is a test of its own in `local_work_test.ts` and `congestion_test.ts`.
 */
import { describe, it } from "@std/testing/bdd";
import { checkSeed, QUICK_SEEDS } from "./testing/program_seed_testing.ts";
import { UNVERIFIED_VERBS } from "./testing/program_testing.ts";

describe("any program of verbs with loss, duplication, reordering, delay and corruption", () => {
  for (const { first, seeds } of QUICK_SEEDS) {
    it(`P-28, P-30, P-31, V-01, V-09: ends as without faults, or in an error (seeds from ${first} on)`, () => {
      for (const seed of seeds) checkSeed(seed);
    });
  }
});

describe("seeds that failed once", () => {
  const seeds: readonly [seed: number, why: string][] = [
    [252, "an ACK overtook a restart, whose cursor then stood on work that was gone"],
    [
      9008931,
      "work that crosses no wire completed in front of a restart's cursor, which stood still",
    ],
    [67, "a WRITE overtook an atomic that was still being executed"],
  ];
  for (const [seed, why] of seeds) {
    it(`${seed}: ${why}`, () => void checkSeed(seed, { verbs: UNVERIFIED_VERBS }));
  }
});
