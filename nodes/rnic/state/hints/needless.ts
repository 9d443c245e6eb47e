/** As responder: hints of a queue pair's peer that needed nothing, and requests that met what none had announced. */
import type { QueuePair } from "../queue_pair.ts";
import type { Hints } from "./hint_state.ts";

/** [choice] Needless hints in a row after which the peer is told: as many as an adaptive batch begins with. */
export const NEEDLESS_HINTS = 8;

/** A request has met a page, translation or context that is not there: a peer that announces little is told. */
export function noteMiss(hints: Hints, qp: QueuePair): void {
  const end = hints.ends.get(qp);
  if (end === undefined || end.life !== qp.life) return;
  if (end.needless >= NEEDLESS_HINTS) hints.missed.push(qp);
  end.needless = 0;
}
