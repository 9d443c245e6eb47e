/**
 * Hostile frames as in `nodes/rnic/fuzz_test.ts`, in numbers that take longer than `deno task ok` may, of other
 * seeds: of the same ones, the first frames would be those of that file again.
 */
import { describe, it } from "@std/testing/bdd";
import {
  checkHostileFrames,
  HOSTILE_SEEDS,
} from "../../nodes/rnic/testing/hostile_frames_testing.ts";

const SEEDS = HOSTILE_SEEDS.map((seed) => seed + HOSTILE_SEEDS.length);
const FRAMES = 10_000;

describe("many hostile frames", () => {
  for (const seed of SEEDS) {
    it(`crash no RNIC, change nothing that was not granted, are counted (seed ${seed})`, () => {
      checkHostileFrames(seed, FRAMES);
    });

    it(`do no more to cards of RoCEv1 (seed ${seed})`, () => {
      checkHostileFrames(seed, FRAMES, "v1");
    });
  }
});
