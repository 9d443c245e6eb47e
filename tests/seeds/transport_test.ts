/**
 * The property test of the transport (`nodes/rnic/property_test.ts`) with seeds that no one has chosen:
 * drawn from the commit, so that every commit tries others. `RACKMESH_TEST_SEED` names one to try again.
 */
import { describe, it } from "@std/testing/bdd";
import type { Run } from "../../nodes/rnic/testing/program_rig_testing.ts";
import { checkSeed } from "../../nodes/rnic/testing/program_seed_testing.ts";
import { watchAnswers } from "../support/watched_answers.ts";
import { commitSeed, givenSeed } from "./commit_seed.ts";

/** Seeds that follow the one drawn. */
const SEEDS = 100;

describe("the transport with seeds drawn from the commit", () => {
  const first = commitSeed();
  const count = givenSeed() === undefined ? SEEDS : 1;
  it(`P-28, P-30, P-31: ${count} from ${first} on end as without faults, or in an error`, () => {
    const watch = ({ rig }: Run) => watchAnswers(rig);
    for (let i = 0; i < count; i++) checkSeed(first + i, { watch });
  });
});
