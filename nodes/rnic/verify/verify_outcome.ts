/** What is kept of a verified write that is answered: counters (V-10), and its sender's history (V-05). */
import { VERIFY_CHECKS, VERIFY_STATUS } from "../../../fabric/wire/roce/verify_eth.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { createHistory, recordOutcome } from "./verify_history.ts";
import type { VerifiedWrite } from "../state/responder_state.ts";

/** A verified write is about to be answered with `status`. */
export function countOutcome(
  device: Device,
  qp: QueuePair,
  outcome: { readonly verified: VerifiedWrite; readonly status: number },
): void {
  const { counters } = device;
  const { verified, status } = outcome;
  if (status === VERIFY_STATUS.crcMismatch) counters.verifyCrcFailures++;
  else if (status === VERIFY_STATUS.readBackDiffers) counters.verifyReadBackFailures++;
  else if (status === VERIFY_STATUS.readFailed) counters.verifyReadErrors++;
  countWait(device, verified);
  noteOutcome(device, qp, {
    isGood: status === VERIFY_STATUS.written,
    isReadBack: verified.readBack !== undefined && verified.opened.length > 0,
  });
}

/** What a look at memory costs, and what those have cost that history has saved. */
function countWait(
  { counters, now }: Device,
  { readBack, checks, settledAt }: VerifiedWrite,
): void {
  const waited = Math.max(0, now - settledAt);
  if (readBack !== undefined) counters.verifyReadBackPs += waited;
  else if ((checks & VERIFY_CHECKS.skipped) !== 0) counters.verifySkippedPs += waited;
}

/** The sender's history, which all of a host's queue pairs share. */
function noteOutcome(
  { plan, verify }: Device,
  qp: QueuePair,
  outcome: { readonly isGood: boolean; readonly isReadBack: boolean },
): void {
  if (plan.verifyHistory === undefined) return;
  const sender = qp.path.address;
  let history = verify.history.get(sender);
  if (history === undefined) {
    history = createHistory(plan.verifyHistory.samples);
    verify.history.set(sender, history);
  }
  recordOutcome(history, outcome);
}
