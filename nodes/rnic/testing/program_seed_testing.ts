/** One seed of the property test of the transport: a program, runs with faults, runs beyond the limits. */
import { assert } from "../../../fabric/base/assert.ts";
import { checkBeyondLimits, checkByModel, checkSame } from "./program_check_testing.ts";
import { type Fault, withFaults } from "./program_flush_testing.ts";
import { play } from "./program_play_testing.ts";
import { prepare, type Run } from "./program_rig_testing.ts";
import { type Program, randomProgram, type Verb, VERBS } from "./program_testing.ts";
import { faultsBeyondLimits, faultsWithinLimits, withCongestion } from "./wire_faults_testing.ts";

/** A test's share of seeds, which names its first one. */
interface SeedGroup {
  readonly first: number;
  readonly seeds: readonly number[];
}

const GROUP_SEEDS = 25;

function seedGroups(from: number, until: number): SeedGroup[] {
  return Array.from({ length: (until - from) / GROUP_SEEDS }, (_, i) => {
    const first = from + i * GROUP_SEEDS;
    return { first, seeds: Array.from({ length: GROUP_SEEDS }, (_, k) => first + k) };
  });
}

/** Seeds of the unit tests, and those with which the full run goes on: each seed is in one of them. */
export const QUICK_SEEDS = seedGroups(1, 201), FULL_SEEDS = seedGroups(201, 601);

/** Runs of one program with faults within the limits, and beyond them. */
const WITHIN = 3;
const BEYOND = 1;

/** Looks at a run that is to be played. @returns what is to be called when it has been. */
export type Watch = (run: Run) => () => void;

/**
 * @param verbs what its program is made of.
 * @param watch what every run is held to besides.
 * @returns how many runs there were. Throws where one is wrong, with the command that shows it again.
 */
export function checkSeed(
  seed: number,
  { verbs = VERBS, watch = () => () => {} }: {
    readonly verbs?: readonly Verb[];
    readonly watch?: Watch;
  } = {},
): number {
  try {
    const program = randomProgram(seed, verbs);
    const reference = runFaultless(program, watch);
    for (let i = 0; i < WITHIN; i++) {
      const run = prepare(program, 1 + i);
      withFaults(run, spoiled(run, faultsWithinLimits(WITHIN * seed + i)));
      playWatched(run, watch);
      checkSame(run, reference);
    }
    for (let i = 0; i < BEYOND; i++) {
      const run = prepare(program, 1 + WITHIN + i);
      withFaults(run, spoiled(run, faultsBeyondLimits(BEYOND * seed + i)));
      playWatched(run, watch);
      checkBeyondLimits(run);
    }
    return 1 + WITHIN + BEYOND;
  } catch (cause) {
    const command = `RACKMESH_TEST_SEED=${seed} deno test --no-check --allow-env --allow-read` +
      " tests/seeds/transport_test.ts";
    throw new Error(`Seed ${seed} fails; again: ${command}\n${String(cause)}`, { cause });
  }
}

function playWatched(run: Run, watch: Watch): void {
  const end = watch(run);
  play(run);
  end();
}

function spoiled(run: Run, fault: Fault): Fault {
  return run.program.congested ? withCongestion(run, fault) : fault;
}

/** The run that the others must end like; it is what the model says. */
export function runFaultless(program: Program, watch: Watch = () => () => {}): Run {
  const run = prepare(program);
  withFaults(run, () => "pass");
  playWatched(run, watch);
  assert(run.rig.frames.length > 0, "A program sends something");
  checkByModel(run);
  return run;
}
