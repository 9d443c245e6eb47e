/**
 * Whose turn it is to begin frames: weighted round robin by bytes on the line (surplus round robin: a
 * deficit round robin, Shreedhar and Varghese, SIGCOMM'95, in which a turn may overdraw and pays for it
 * in the next). mlx5's transmit scheduling arbiter does the same by the name of DWRR, with a `bw_share`
 * for each element (Linux, `mlx5_ifc.h`: TSAR_ELEMENT_TSAR_TYPE_DWRR). A turn costs the same whatever
 * the number of queue pairs: those with nothing to send are in no list.
 */
import { isHeldBack } from "./transmit/congestion.ts";
import { canRead } from "./dma/dma.ts";
import type { Device } from "./state/device.ts";
import { LIMITS } from "./state/limits.ts";
import { nextReadFrame } from "./answers/answers.ts";
import { releaseContexts } from "./queues/context.ts";
import type { QueuePair } from "./state/queue_pair.ts";
import { nextRequestFrame } from "./requester/requester.ts";

/** Headers of a frame, on the line: what a queue pair gets beyond the payload of a turn. */
const HEADER_BYTES = 128;

/** Whether a queue pair can have its turn now: a frame that leaves may make it so. */
export function hasTurns({ dma, turn, roundRobin, transmitter }: Device): boolean {
  // Requests and answers have turns in common, so both engines must be able to take one.
  return (turn.of !== undefined || roundRobin.length > 0) && canRead(dma.gather) &&
    canRead(dma.responder) && transmitter.bufferedBytes < LIMITS.transmitBufferBytes;
}

/** Begins frames, while {@link hasTurns}. */
export function runTurns(device: Device): void {
  const { congestion, turn, roundRobin } = device;
  while (hasTurns(device)) {
    const qp = turn.of ??= nextTurn(device, roundRobin.shift()!);
    qp.scheduled = false;
    // A queue pair that is slowed down or paused does not keep the others from their turns.
    if (congestion !== undefined && isHeldBack(device, congestion, qp)) {
      turn.of = undefined;
      turn.isWanted = false;
      qp.surplus = Math.min(qp.surplus, 0);
      continue;
    }
    const hasMore = qp.surplus <= 0 || beginFrames(device, qp);
    // Whatever scheduled it meanwhile: it is in the list at most once.
    const isWanted = hasMore || turn.isWanted;
    turn.isWanted = false;
    if (hasMore && qp.surplus > 0) continue;
    turn.of = undefined;
    // The rest of its share is lost; what it has overdrawn, it pays for in the next round.
    if (!hasMore) qp.surplus = Math.min(qp.surplus, 0);
    if (!isWanted) continue;
    qp.scheduled = true;
    roundRobin.push(qp);
  }
}

/** A queue pair is first in the list: it gets its share of this round. */
function nextTurn({ timing }: Device, qp: QueuePair): QueuePair {
  qp.surplus += qp.weight * (timing.gatherReadBytes + HEADER_BYTES);
  return qp;
}

/**
 * Begins a frame, or the short ones of a message that share a DMA read.
 * @returns whether there was one: then the queue pair may have another.
 */
function beginFrames(device: Device, qp: QueuePair): boolean {
  qp.answersNext = !qp.answersNext;
  const isBegun = qp.answersNext
    ? nextReadFrame(device, qp) || nextRequestFrame(device, qp)
    : nextRequestFrame(device, qp) || nextReadFrame(device, qp);
  releaseContexts(device, qp);
  return isBegun;
}
