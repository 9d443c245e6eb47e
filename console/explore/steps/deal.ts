/**
 * Findings come out in the order of the steps: so a verdict is the same for any number of
 * processes.
 *
 * The finding of a step depends on the others in one respect: second power failures have a limit of
 * total cost (`AGAIN_COST`), beyond which none is tried. A process counts from the cost that was
 * known when its steps were dealt, which may be lower than the actual one. As long as the sum stays
 * below the limit this makes no difference. The step that reaches it is judged again, with the
 * actual cost, and so are all behind it.
 */
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { Planned, Turned } from "../interleavings/interleavings.ts";
import type { Turning } from "../interleavings/search.ts";
import type { Disturbance } from "../disturbed/disturbances.ts";
import type { Disturbed } from "../disturbed/disturbed.ts";
import type { Disturbing } from "../disturbed/search.ts";
import { AGAIN_COST } from "../protocol_judge.ts";
import type { Opening, SweepSize } from "./exploration.ts";
import type { ExploreOptions } from "../types.ts";
import { isLast, type StepFound, type StepRange } from "./judge_steps.ts";
import type { Step } from "./verdict.ts";

export interface StepWorker {
  open(): Promise<Opening>;
  turn(planned: Planned): Promise<Turned>;
  disturb(disturbance: Disturbance): Promise<Disturbed>;
  judge(range: StepRange): Promise<readonly StepFound[]>;
  stop(): void;
}

export interface Opened {
  readonly opening: Opening;
  /** By process: resolves when it is ready, rejects where it cannot record the run. */
  readonly ready: readonly Promise<unknown>[];
}

/** Much longer than dealing steps, and short enough for the wait at the end. */
const RANGE_MS = 100;
/** Their duration is not known. */
const FIRST_STEPS = 4;
const TURN_MS = 50;

/** @throws RackError where the first process that answers cannot record the run. */
export async function openWorkers(workers: readonly StepWorker[]): Promise<Opened> {
  const ready = workers.map((worker) => worker.open());
  for (const each of ready) each.catch(() => {});
  return { opening: await Promise.race(ready), ready };
}

/** A process is a lane. */
export function turningBy(workers: readonly StepWorker[], { ready }: Opened): Turning {
  return { ready, turn: (planned, lane) => workers[lane]!.turn(planned) };
}

/** A process is a lane. */
export function disturbingBy(workers: readonly StepWorker[], { ready }: Opened): Disturbing {
  return { ready, run: (disturbance, lane) => workers[lane]!.disturb(disturbance) };
}

/** Findings in the order of the steps; undefined where time has passed without one. */
export function dealSteps(
  workers: readonly StepWorker[],
  { opening, ready }: Opened,
  options: Pick<ExploreOptions, "cuts">,
): AsyncGenerator<Step | undefined> {
  const dealer = new Dealer(opening.sweeps, workers, options);
  for (const [i, worker] of workers.entries()) void dealer.serve(worker, ready[i]!);
  return dealer.steps();
}

interface Hand extends StepRange {
  found: readonly StepFound[] | undefined;
  failure: unknown;
}

class Dealer {
  readonly #sweeps: readonly SweepSize[];
  readonly #workers: readonly StepWorker[];
  #hands: Hand[] = [];
  #next: { readonly sweep: number; readonly step: number } | undefined;
  #spent = 0;
  readonly #isLimited: boolean;
  /**
   * `#isAgain`: the next step is judged again, and was not dealt. `#isSpent`: all behind it find
   * the limit reached.
   */
  #isAgain = false;
  #isSpent = false;
  readonly #pace = { ms: 0, steps: 0 };
  #isOver = false;
  #changed = Promise.withResolvers<void>();

  constructor(
    sweeps: readonly SweepSize[],
    workers: readonly StepWorker[],
    { cuts }: Pick<ExploreOptions, "cuts">,
  ) {
    this.#isLimited = cuts === undefined;
    this.#sweeps = sweeps;
    this.#workers = workers;
    this.#next = sweeps.length > 0 ? { sweep: 0, step: 0 } : undefined;
  }

  async serve(worker: StepWorker, opened: Promise<unknown>): Promise<void> {
    try {
      await opened;
    } catch {
      // Another one has recorded the run; if none is left, the first failure has ended the exploration.
      return;
    }
    while (!this.#isOver) {
      const hand = this.#deal();
      if (hand === undefined) {
        await this.#changed.promise;
        continue;
      }
      const began = performance.now();
      try {
        hand.found = await worker.judge(hand);
      } catch (error) {
        hand.failure = error;
        hand.found = [];
      }
      this.#pace.ms += performance.now() - began;
      this.#pace.steps += hand.found.length;
      // The process is lost, even if its steps are dealt anew.
      if (hand.failure !== undefined && !this.#hands.includes(hand)) this.#hands.push(hand);
      const isEnd = hand.failure !== undefined || hand.found.some(isLast);
      if (isEnd && this.#hands.includes(hand)) this.#next = undefined;
      this.#change();
      if (hand.failure !== undefined) return;
    }
  }

  async *steps(): AsyncGenerator<Step | undefined> {
    try {
      for (;;) {
        const [hand] = this.#hands;
        if (hand?.found === undefined) {
          if (hand === undefined && this.#next === undefined) return;
          await Promise.race([this.#changed.promise, sleep(TURN_MS)]);
          yield undefined;
          continue;
        }
        yield* this.#handOut(hand);
      }
    } finally {
      this.#isOver = true;
      this.#change();
    }
  }

  *#handOut(hand: Hand): Generator<Step> {
    const { sweep, from, found = [] } = hand;
    let spent = hand.spent;
    for (const [i, each] of found.entries()) {
      if (!this.#isSame(spent, each)) return this.#restart({ sweep, step: from + i });
      spent += each.again.cost;
      this.#spent += each.again.cost;
      yield { sweep, step: from + i, found: each };
    }
    if (hand.failure !== undefined) throw hand.failure;
    this.#hands.shift();
  }

  /** True if the finding does not depend on what second power failures have cost. */
  #isSame(spent: number, { again: { cost } }: StepFound): boolean {
    return !this.#isLimited || cost === 0 || spent === this.#spent ||
      this.#spent + cost < AGAIN_COST.most;
  }

  #restart(next: { readonly sweep: number; readonly step: number }): void {
    this.#hands = [];
    this.#next = next;
    this.#isAgain = true;
    this.#isSpent = false;
    for (const worker of this.#workers) worker.stop();
    this.#change();
  }

  #deal(): Hand | undefined {
    if (this.#next === undefined) return undefined;
    const { sweep, step } = this.#next;
    const to = this.#isAgain ? step + 1 : this.#endOf(sweep, step);
    const spent = this.#isSpent ? Math.max(this.#spent, AGAIN_COST.most) : this.#spent;
    const hand: Hand = { sweep, from: step, to, spent, found: undefined, failure: undefined };
    this.#isSpent ||= this.#isAgain;
    this.#isAgain = false;
    this.#next = this.#behind(sweep, to);
    this.#hands.push(hand);
    return hand;
  }

  #behind(sweep: number, to: number) {
    if (to <= this.#sweeps[sweep]!.instants) return { sweep, step: to };
    return sweep + 1 < this.#sweeps.length ? { sweep: sweep + 1, step: 0 } : undefined;
  }

  #endOf(sweep: number, from: number): number {
    const { instants, frames } = this.#sweeps[sweep]!, { ms, steps } = this.#pace;
    const wanted = steps === 0 ? FIRST_STEPS : Math.floor(RANGE_MS * steps / ms);
    const most = Math.max(1, Math.ceil((instants + 1 - from) / (2 * this.#workers.length)));
    const to = Math.min(from + Math.max(1, Math.min(wanted, most)), instants + 1);
    for (let end = to; end > from; end--) if (frames[end] !== frames[end - 1]) return end;
    return to;
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
