/**
 * Answered verified writes: counters (V-10), and senders' histories (V-05), whose latest checks may
 * stand for a read-back. All integers.
 */
import type { VerifyHistoryPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { SenderHistory } from "../state/verify_state.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { VerifiedWrite } from "../state/responder_state.ts";
import { VERIFY_CHECKS, VERIFY_STATUS } from "../../../fabric/wire/roce/verify_eth.ts";

/**
 * @param samples number of checks that make a rate: > 0.
 */
export function createHistory(samples: number): SenderHistory {
  return {
    window: new Uint8Array(samples),
    filled: 0,
    next: 0,
    failed: 0,
  };
}

/** Every failure counts; a success only where memory was read back. */
export function recordOutcome(
  history: SenderHistory,
  outcome: { readonly isGood: boolean; readonly isReadBack: boolean },
): void {
  const { isGood, isReadBack } = outcome;
  if (isGood && !isReadBack) return;
  const { window, next } = history;
  history.failed += (isGood ? 0 : 1) - window[next]!;
  window[next] = isGood ? 0 : 1;
  history.next = (next + 1) % window.length;
  if (history.filled < window.length) history.filled++;
}

/**
 * There are enough samples, the share of good ones is above the threshold, and this is not one of
 * the checks that keep the estimate alive.
 */
export function maySkip(history: SenderHistory, plan: VerifyHistoryPlan, rng: Rng): boolean {
  return isTrusted(history, plan) && rng.below(plan.sampleOneIn) !== 0;
}

export function isTrusted(
  { window, filled, failed }: SenderHistory,
  { thresholdPpm }: VerifyHistoryPlan,
): boolean {
  if (filled < window.length) return false;
  return (filled - failed) * 1_000_000 > thresholdPpm * filled;
}

export function countOutcome(
  device: Device,
  qp: QueuePair,
  outcome: { readonly verified: VerifiedWrite; readonly status: number },
): void {
  const { counters } = device;
  const { verified, status } = outcome;
  if (status === VERIFY_STATUS["crc-mismatch"]) counters.verifyCrcFailures++;
  else if (status === VERIFY_STATUS["read-back-differs"]) counters.verifyReadBackFailures++;
  else if (status === VERIFY_STATUS["read-failed"]) counters.verifyReadErrors++;
  countWait(device, verified);
  if (device.plan.verifyHistory === undefined) return;
  const sender = qp.path.address;
  let history = device.verify.history.get(sender);
  if (history === undefined) {
    history = createHistory(device.plan.verifyHistory.samples);
    device.verify.history.set(sender, history);
  }
  recordOutcome(history, {
    isGood: status === VERIFY_STATUS.written,
    isReadBack: verified.readBack !== undefined && verified.opened.length > 0,
  });
}

function countWait(
  { counters, now }: Device,
  { readBack, checks, settledAt }: VerifiedWrite,
): void {
  const waited = Math.max(0, now - settledAt);
  if (readBack !== undefined) counters.verifyReadBackPs += waited;
  else if ((checks & VERIFY_CHECKS.skipped) !== 0) counters.verifySkippedPs += waited;
}
