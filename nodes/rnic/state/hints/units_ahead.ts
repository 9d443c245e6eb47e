/** H-02: what of a list is read ahead, so that it can be announced together. */
import { LIMITS } from "../limits.ts";
import type { QueuePair } from "../queue_pair.ts";
import type { Hints } from "./hint_state.ts";

/** What one read of WQEs brings at most: a page of them. */
const AHEAD_UNITS_MAX = 64;

/**
 * H-02: units of the send queue that the next read should bring, as what follows announced work in its list is
 * announced together; undefined where none is. What comes first is read, and begun, as without hints.
 */
export function unitsAhead(hints: Hints, qp: QueuePair): number | undefined {
  const end = hints.ends.get(qp);
  const { work } = qp.requester;
  if (end?.life !== qp.life || !end.isAnnouncing || work.length === 0) return undefined;
  const last = work.at(work.end - 1)!, before = work.at(work.end - 2);
  const distance = before === undefined ? 1 : last.position - before.position;
  // At the ring's end it is another one.
  const unitsOfWqe = distance > 0 ? distance : 1;
  const room = LIMITS.workPerQueuePair - work.length;
  return Math.min(end.batch * unitsOfWqe, AHEAD_UNITS_MAX, Math.max(room, 0));
}
