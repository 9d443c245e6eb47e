/**
 * The crash explorer: runs a rack once, and derives for every instant what a power failure leaves and what
 * the survivors do then. Read in this order: `history.ts`, `choices.ts`, `post_crash_run.ts`,
 * `crash_sweep.ts`, `judge.ts`, `protocol_judge.ts`, `counterexample.ts`; then `steps/`, by which several
 * processes do it.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { turnRound } from "./interleavings/interleavings.ts";
import type { Turning } from "./interleavings/search.ts";
import { verdictOfAll } from "./interleavings/verdict.ts";
import { type Exploration, openExploration, type Opening } from "./steps/exploration.ts";
import { DisturbedJudge } from "./disturbed/disturbed.ts";
import type { Disturbing } from "./disturbed/search.ts";
import { StepJudge } from "./steps/judge_steps.ts";
import type { Step } from "./steps/verdict.ts";
import type { ExploredRack, ExploreOptions, ExploreProgress, Verdict } from "./types.ts";

/**
 * Explores a rack, in this process.
 * @throws Error where a program keeps state from run to run, the rack has no such host to cut, or a
 * run does not show what was derived: a bug of ours.
 */
export async function explore(
  rack: ExploredRack,
  options: ExploreOptions,
  onProgress: (progress: ExploreProgress) => void = () => {},
): Promise<Verdict> {
  const began = performance.now();
  const { exploration, opening } = openExploration(rack, options);
  const steps = () => stepsOf(exploration, opening);
  const turning = turningOf(exploration), disturbing = disturbingOf(exploration);
  return await verdictOfAll(opening, { turning, disturbing, steps, options, began, onProgress });
}

function disturbingOf(exploration: Exploration): Disturbing {
  const judge = new DisturbedJudge(exploration);
  return {
    ready: [Promise.resolve()],
    async run(disturbance) {
      await sleep(0);
      return judge.judge(disturbance);
    },
  };
}

function turningOf(exploration: Exploration): Turning {
  return {
    ready: [Promise.resolve()],
    async turn(planned) {
      // Signals and a progress bar come between two runs.
      await sleep(0);
      return turnRound(planned, exploration);
    },
  };
}

async function* stepsOf(
  exploration: Exploration,
  { sweeps }: Opening,
): AsyncGenerator<Step | undefined> {
  const judge = new StepJudge(exploration);
  let spent = 0;
  for (const [sweep, { instants }] of sweeps.entries()) {
    for (let step = 0; step <= instants; step++) {
      const found = yield* judge.judge({ sweep, step, spent });
      spent += found.again.cost;
      yield { sweep, step, found };
    }
  }
}
