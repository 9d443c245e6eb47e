/** which of two host pointers of a queue is the newer one. */
import {
  filledUnits,
  type StampedPointer,
} from "../../../fabric/wire/host_bus/queue_information.ts";

/** What the rule must know of the queue. */
export interface RingView {
  /** The RNIC's read pointer. */
  readonly read: number;
  /** Units in the ring. */
  readonly depth: number;
  /** Whether a unit may have held two different WQEs already. */
  readonly recycled: boolean;
}

/**
 * Whether `candidate` (pointer 1: from a doorbell or from space 3) is newer than `cached` (pointer 2).
 * While no unit has been used twice the one farther from the read pointer is newer; from then on
 * distances mislead, and the one stored later is. (The claim's "earlier" is a slip: queues.md, Q-08.)
 */
export function isNewer(
  candidate: StampedPointer,
  cached: StampedPointer,
  ring: RingView,
): boolean {
  if (mayHaveWrapped(candidate.pointer, ring) || mayHaveWrapped(cached.pointer, ring)) {
    return candidate.stamp > cached.stamp;
  }
  return filledUnits(ring.read, candidate.pointer, ring.depth) >
    filledUnits(ring.read, cached.pointer, ring.depth);
}

/**
 * A pointer behind the read pointer is of the next pass or a stale one. The ring's last unit is also
 * what the pointer of a queue never used stands at.
 */
function mayHaveWrapped(pointer: number, { read, depth, recycled }: RingView): boolean {
  return recycled || pointer === depth - 1 || (pointer < read && pointer + 1 !== read);
}
