/** Runs with a disturbance each, behind the power failures of the plain run: one that breaks something decides. */
import { countOf } from "../../checks/finding.ts";
import { inOrderOf, type Lanes } from "../steps/lanes.ts";
import type { Counterexample, ExploreOptions, RunsTried } from "../types.ts";
import type { Disturbance, Disturbances } from "./disturbances.ts";
import type { Disturbed } from "./disturbed.ts";

export type Disturbing = Lanes<Disturbance, Disturbed>;

export interface FoundDisturbed {
  readonly counts: RunsTried;
  readonly counterexample: Counterexample | null;
  /** Absent: all that was asked for was tried and could be judged. */
  readonly why?: string;
}

/**
 * @param more.began when the exploration did, by `performance.now()`.
 * @throws what a run throws.
 */
export async function disturb(
  { count, chosen }: Disturbances,
  options: ExploreOptions,
  { disturbing, began, onProgress }: {
    readonly disturbing: Disturbing;
    readonly began: number;
    readonly onProgress: (
      progress: { readonly share: number; readonly crashPoints: number },
    ) => void;
  },
): Promise<FoundDisturbed> {
  const orders = new Set<string>();
  const sums = { tried: 0, instants: 0, crashPoints: 0 };
  const reasons = new Set<string>();
  const counts = (): RunsTried => ({
    ...sums,
    places: count,
    orders: orders.size,
    ps: options.stall ?? 0,
  });
  for await (const disturbed of inOrderOf(chosen, disturbing)) {
    const stopped = whyStop(options, began);
    if (stopped !== undefined) {
      const after = `${stopped} after ${sums.tried} of ${chosen.length} runs with a disturbance`;
      return { counts: counts(), counterexample: null, why: after };
    }
    if (disturbed === undefined) continue;
    sums.tried++;
    const { key, judged } = disturbed;
    // A lane judges an order anew that another lane has judged.
    if (judged !== null && !orders.has(key)) {
      orders.add(key);
      sums.instants += judged.instants;
      sums.crashPoints += judged.crashPoints;
      for (const why of whyUnsure(judged)) reasons.add(why);
      const { counterexample } = judged;
      if (counterexample !== null) return { counts: counts(), counterexample };
    }
    onProgress({ share: sums.tried / chosen.length, crashPoints: sums.crashPoints });
  }
  const [why] = reasons;
  return {
    counts: counts(),
    counterexample: null,
    ...(why !== undefined && { why: `of a run with a disturbance: ${why}` }),
  };
}

function whyUnsure(
  { bounded, isCutOff, endless, unknown }: NonNullable<Disturbed["judged"]>,
): string[] {
  return [
    ...(endless === null ? [] : [endless]),
    ...(unknown === null ? [] : [unknown]),
    ...(isCutOff ? ["the scenario's `until` ends it before it is over"] : []),
    ...(bounded > 0
      ? [`not every choice was tried at ${countOf(bounded, "instant")} (--choices)`]
      : []),
  ];
}

function whyStop(
  { stopped, forMs = Infinity }: ExploreOptions,
  began: number,
): string | undefined {
  if (stopped?.()) return "it was interrupted";
  if (performance.now() - began >= forMs) return `its time of ${forMs / 1_000} s is over`;
  return undefined;
}
