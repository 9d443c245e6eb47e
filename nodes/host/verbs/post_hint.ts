/** A program's own hints (H-09): it may know its next operations before it posts them. */
import { encodeHint, type HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { perform, refuseStale } from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Qp, VerbError } from "./objects.ts";

/**
 * Has the RNIC send a hint as it stands; the responder does what the queue pair has rights to (H-24). EINVAL where
 * the queue pair sends no hints, its peer has not said what it wants, or the hint is longer than a packet.
 */
export function* postHint(qp: Qp, hint: HintMessage): Steps<VerbError | undefined> {
  const { device, qpn } = qp;
  const stale = refuseStale(device, qp.pd.epoch);
  if (stale !== undefined) return stale;
  return yield* perform(device.cpu, { op: "send-hint", qpn, message: encodeHint(hint) });
}
