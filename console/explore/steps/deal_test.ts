import { deepStrictEqual as same, ok, rejects } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { AGAIN_COST } from "../protocol_judge.ts";
import { dealSteps, openWorkers, type StepWorker } from "./deal.ts";
import type { Opening } from "./exploration.ts";
import { isLast, NOTHING, type StepFound } from "./judge_steps.ts";

const INSTANT: StepFound = { ...NOTHING, instants: 1, crashPoints: 1 };

const OPENING = {
  sweeps: [
    { cut: "a", instants: 12, frames: [0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 3, 3] },
    { cut: "b", instants: 0, frames: [] },
    { cut: "a", instants: 30, frames: [] },
  ],
} as unknown as Opening;

/** A recovery at each step is cut again at so many instants, each at that cost, as long as the limit is not reached. */
function recovered(cost: number, spent: number): StepFound {
  let done = 0;
  while (done < 3 && spent + done * cost < AGAIN_COST.most) done++;
  const again = { recoveries: 1, cut: done === 3 ? 1 : 0, ways: done, cost: done * cost };
  return { ...INSTANT, again };
}

/** Turns without a result in which whatever is under way has long ended. */
const TURNS_MOST = 100;

type Judge = (step: { readonly sweep: number; readonly step: number }, spent: number) => StepFound;

/** What one process finds, step by step. */
function alone(judge: Judge): unknown[] {
  const found: unknown[] = [];
  let spent = 0;
  for (const [sweep, { instants }] of OPENING.sweeps.entries()) {
    for (let step = 0; step <= instants; step++) {
      const each = judge({ sweep, step }, spent);
      spent += each.again.cost;
      found.push({ sweep, step, found: each });
      if (isLast(each)) return found;
    }
  }
  return found;
}

/** What so many find, whichever is faster. */
async function together(judge: Judge, { workers, seed }: { workers: number; seed: number }) {
  const rng = rngFor(seed, "deal");
  const made = Array.from({ length: workers }, (): StepWorker => {
    let stopped = 0;
    return {
      open: () => Promise.resolve(OPENING),
      turn: () => Promise.reject(new Error("Found a run: expected steps")),
      disturb: () => Promise.reject(new Error("Found a run: expected steps")),
      async judge({ sweep, from, to, spent }) {
        const given = stopped, found: StepFound[] = [];
        let cost = spent;
        for (let step = from; step < to && stopped === given; step++) {
          await sleep(rng.below(3));
          const each = judge({ sweep, step }, cost);
          cost += each.again.cost;
          found.push(each);
          if (isLast(each)) break;
        }
        return found;
      },
      stop: () => void stopped++,
    };
  });
  const found: unknown[] = [];
  const steps = dealSteps(made, await openWorkers(made), {});
  for await (const step of steps) {
    if (step === undefined) continue;
    found.push(step);
    if (isLast(step.found)) break;
  }
  return found;
}

describe("dealSteps", () => {
  const seeds = [1, 2, 3];

  it("hands out what one process finds, for any number of processes", async () => {
    const judge: Judge = ({ sweep, step }) => ({ ...INSTANT, crashPoints: 100 * sweep + step });
    for (const seed of seeds) {
      for (const workers of [1, 2, 4]) {
        same(await together(judge, { workers, seed }), alone(judge));
      }
    }
  });

  it("judges again where second power failures reach their limit, and all behind that", async () => {
    for (const seed of seeds) {
      // The limit comes at the first step, in the middle, at the last step, never.
      for (const cost of [400_000, 9_000, 3_600, 100]) {
        const judge: Judge = ({ sweep, step }, spent) =>
          (sweep + step) % 3 === 0 ? recovered(cost, spent) : INSTANT;
        for (const workers of [2, 3]) {
          same(await together(judge, { workers, seed }), alone(judge), `${cost} ${workers}`);
        }
      }
    }
  });

  it("ends at the first step of the order that counts last, whichever is found first", async () => {
    const judge: Judge = ({ sweep, step }) => {
      const isEnd = sweep === 0 ? step === 9 : step % 2 === 1;
      return isEnd ? { ...INSTANT, unknown: `${sweep} ${step}` } : INSTANT;
    };
    for (const seed of seeds) {
      const found = await together(judge, { workers: 4, seed });
      same(found, alone(judge));
      ok(found.length === 10);
    }
  });

  it("fails where a process fails, behind what was found before it", async () => {
    const judge: Judge = ({ sweep }) => {
      if (sweep === 2) throw new Error("it has ended");
      return INSTANT;
    };
    await rejects(() => together(judge, { workers: 2, seed: 1 }), /it has ended/);
  });

  it("fails where the only process ends while its steps are dealt anew", async () => {
    const isThird = Promise.withResolvers<void>(), isLost = Promise.withResolvers<never>();
    let ranges = 0, isStopped = false;
    const worker: StepWorker = {
      open: () => Promise.resolve(OPENING),
      turn: () => Promise.reject(new Error("Found a run: expected steps")),
      disturb: () => Promise.reject(new Error("Found a run: expected steps")),
      // Second power failures reach their limit in the second range, of which the dealer has not heard the first.
      async judge({ from, to, spent }) {
        if (++ranges < 3) return Array.from({ length: to - from }, () => recovered(200_000, spent));
        isThird.resolve();
        return await isLost.promise;
      },
      stop() {
        isStopped = true;
        isLost.reject(new Error("it has ended"));
      },
    };
    const steps = dealSteps([worker], await openWorkers([worker]), {});
    let turns = 0;
    await rejects(async () => {
      for await (const step of steps) {
        // The second range is handed out only while the third is judged.
        if (step !== undefined) await isThird.promise;
        else ok(++turns < TURNS_MOST, "nothing is under way, and steps are waited for");
      }
    }, /it has ended/);
    same([ranges, isStopped], [3, true]);
  });
});
