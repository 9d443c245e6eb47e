/** Runs with a stall each, behind the power failures of the plain run: one that breaks something decides. */
import { countOf } from "../../checks/finding.ts";
import { inOrderOf, type Lanes } from "../steps/lanes.ts";
import type { Counterexample, ExploreOptions, Stalls } from "../types.ts";
import type { StallPlace, StallPlaces } from "./places.ts";
import type { Stalled } from "./stalled.ts";

export type Stalling = Lanes<StallPlace, Stalled>;

export interface FoundByStalls {
  readonly counts: Stalls;
  readonly counterexample: Counterexample | null;
  /** Absent: all that was asked for was tried and could be judged. */
  readonly why?: string;
}

/**
 * @param more.began when the exploration did, by `performance.now()`.
 * @throws what a run throws.
 */
export async function tryStalls(
  { count, chosen }: StallPlaces,
  options: ExploreOptions,
  { stalling, began, onProgress }: {
    readonly stalling: Stalling;
    readonly began: number;
    readonly onProgress: (progress: { readonly share: number; readonly crashPoints: number }) => void;
  },
): Promise<FoundByStalls> {
  const orders = new Set<string>();
  const sums = { tried: 0, instants: 0, crashPoints: 0 };
  const reasons = new Set<string>();
  const counts = (): Stalls => ({
    ...sums,
    places: count,
    orders: orders.size,
    stallPs: options.stall ?? 0,
  });
  for await (const stalled of inOrderOf(chosen, stalling)) {
    const stopped = whyStop(options, began);
    if (stopped !== undefined) {
      const after = `${stopped} after ${sums.tried} of ${chosen.length} runs with a stall`;
      return { counts: counts(), counterexample: null, why: after };
    }
    if (stalled === undefined) continue;
    sums.tried++;
    const { key, judged } = stalled;
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
    ...(why !== undefined && { why: `of a run with a stall: ${why}` }),
  };
}

function whyUnsure(
  { bounded, isCutOff, endless, unknown }: NonNullable<Stalled["judged"]>,
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
