import { sleep } from "../../../fabric/bus/wall_time.ts";
import { explain } from "../../rack/failure.ts";
import { confirm } from "../counterexample.ts";
import { CrashSweep, StepCounts } from "../crash_sweep.ts";
import type { Again, Counterexample } from "../types.ts";
import type { Covered } from "../covering/coverage.ts";
import type { Exploration } from "./exploration.ts";

/** Plain data. */
export interface StepFound {
  readonly instants: number;
  readonly crashPoints: number;
  readonly paths: number;
  readonly bounded: number;
  readonly covered: readonly Covered[];
  readonly again: Again & { readonly cost: number };
  /** Numbers of frames that identify the runs of survivors. */
  readonly runs: readonly number[];
  readonly isCutOff: boolean;
  readonly endless: string | null;
  /**
   * Robustness: words that were read and that the run had written, and those that no write
   * explains.
   */
  readonly words: number;
  readonly unexplained: number;
  readonly unknown: string | null;
  readonly counterexample: Counterexample | null;
  /** The message and exit code with which the command ends; null: it could be judged. */
  readonly failed: { readonly message: string; readonly code: number } | null;
}

/** [from, to). Plain data. */
export interface StepRange {
  readonly sweep: number;
  readonly from: number;
  readonly to: number;
  readonly spent: number;
}

/** No step behind this one counts. */
export function isLast({ counterexample, unknown, failed }: StepFound): boolean {
  return counterexample !== null || unknown !== null || failed !== null;
}

export class StepJudge {
  readonly #exploration: Exploration;
  #sweep: { readonly index: number; readonly sweep: CrashSweep } | undefined;

  constructor(exploration: Exploration) {
    this.#exploration = exploration;
  }

  /** Yields within a step, where it may be given up. */
  *judge(
    { sweep: index, step, spent }: {
      readonly sweep: number;
      readonly step: number;
      readonly spent: number;
    },
  ): Generator<undefined, StepFound> {
    const sweep = this.#sweepFor(index, step);
    // A step that fails or is given up leaves memory in the middle of an instant: no other step goes on from there.
    this.#sweep = undefined;
    const { rack, recording, options, robustness } = this.#exploration;
    const counts = new StepCounts(spent);
    const { words = 0, unexplained = 0 } = robustness ?? {};
    const judging = sweep.judge(step, counts);
    let next = judging.next();
    while (next.done !== true && sweep.unknown === undefined) {
      yield;
      next = judging.next();
    }
    if (next.done === true) this.#sweep = { index, sweep };
    const violation = next.done === true ? next.value : undefined;
    const { instants, crashPoints, paths, bounded, covered, again, runs } = counts;
    const { recoveries, cut, ways, cost } = again;
    const judged = {
      ...{ instants, crashPoints, paths, bounded },
      ...{ covered: covered.all(), again: { recoveries, cut, ways, cost }, runs: [...runs] },
      ...{ isCutOff: counts.isCutOff, endless: counts.endless ?? null },
      words: (robustness?.words ?? 0) - words,
      unexplained: (robustness?.unexplained ?? 0) - unexplained,
      ...{ unknown: sweep.unknown ?? null, counterexample: null, failed: null },
    };
    if (violation === undefined) return judged;
    const counterexample = confirm(rack, { violation, recording, options, robustness });
    return { ...judged, unknown: null, counterexample };
  }

  #sweepFor(index: number, step: number): CrashSweep {
    const known = this.#sweep;
    if (known?.index === index && known.sweep.done <= step) return known.sweep;
    const { rack, recording, options, robustness, sweeps } = this.#exploration;
    const { cut, ...turn } = sweeps[index]!;
    return new CrashSweep({ rack, recording, options, robustness, ...cut, ...turn });
  }
}

const TURN_MS = 50;

/** Judges steps, up to the last one that counts. @param stopped true if the rest is not wanted. */
export async function judgeRange(
  judge: StepJudge,
  { sweep, from, to, spent }: StepRange,
  stopped: () => boolean,
): Promise<StepFound[]> {
  const found: StepFound[] = [];
  let turnEnds = performance.now() + TURN_MS, cost = spent;
  for (let step = from; step < to && !stopped(); step++) {
    const judging = judge.judge({ sweep, step, spent: cost });
    for (;;) {
      const next = nextOf(judging);
      if (next.done === true) {
        found.push(next.value);
        cost += next.value.again.cost;
        if (isLast(next.value)) return found;
        break;
      }
      if (performance.now() < turnEnds) continue;
      await sleep(0);
      if (stopped()) return found;
      turnEnds = performance.now() + TURN_MS;
    }
  }
  return found;
}

/** A step that fails counts only where no step before it ends the exploration. */
function nextOf(judging: Generator<undefined, StepFound>): IteratorResult<undefined, StepFound> {
  try {
    return judging.next();
  } catch (error) {
    return { done: true, value: { ...NOTHING, failed: explain(error) } };
  }
}

export const NOTHING: StepFound = {
  ...{ instants: 0, crashPoints: 0, paths: 0, bounded: 0, covered: [], runs: [] },
  again: { recoveries: 0, cut: 0, ways: 0, cost: 0 },
  ...{ isCutOff: false, endless: null, words: 0, unexplained: 0 },
  ...{ unknown: null, counterexample: null, failed: null },
};
