/**
 * History of a sender (V-05): what became of its verified writes, and whether the latest of them stand
 * for a read-back. Counts and a window of the newest checks, all integers; nothing here knows a card.
 */
import type { VerifyHistoryPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { SenderHistory } from "../state/verify_state.ts";

/** Of a sender from whom nothing has come. @param samples how many checks make a rate: > 0. */
export function createHistory(samples: number): SenderHistory {
  return {
    successes: 0,
    failures: 0,
    window: new Uint8Array(samples),
    filled: 0,
    next: 0,
    failed: 0,
  };
}

/**
 * A verified write is answered. A failure is one however it was found; a success proves something only
 * where memory was read back.
 */
export function recordOutcome(
  history: SenderHistory,
  outcome: { readonly isGood: boolean; readonly isReadBack: boolean },
): void {
  const { isGood, isReadBack } = outcome;
  if (isGood) history.successes++;
  else history.failures++;
  if (isGood && !isReadBack) return;
  const { window, next } = history;
  history.failed += (isGood ? 0 : 1) - window[next]!;
  window[next] = isGood ? 0 : 1;
  history.next = (next + 1) % window.length;
  if (history.filled < window.length) history.filled++;
}

/**
 * Whether this sender's next write need not be read back: there are enough samples, the share of good
 * ones is above the threshold, and it is not one of those that keep the estimate alive.
 */
export function maySkip(history: SenderHistory, plan: VerifyHistoryPlan, rng: Rng): boolean {
  return isTrusted(history, plan) && rng.below(plan.sampleOneIn) !== 0;
}

/** Enough samples, and a share of good ones strictly above the threshold, in integers. */
export function isTrusted(
  { window, filled, failed }: SenderHistory,
  { thresholdPpm }: VerifyHistoryPlan,
): boolean {
  if (filled < window.length) return false;
  return (filled - failed) * 1_000_000 > thresholdPpm * filled;
}
