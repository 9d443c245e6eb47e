/**
 * Whose turn it is to begin frames: weighted round robin by bytes on the line (surplus round robin:
 * a deficit round robin, Shreedhar and Varghese, SIGCOMM'95, in which a turn may overdraw and pays
 * for it in the next). A turn is as many bytes on the line as the queue pair's weight times a DMA
 * read of 4 KiB and its headers, in frames, or the short ones of a message that share a DMA read
 * (`Gather`), so shares of the line are by weight, whatever the messages' size. mlx5's transmit
 * scheduling arbiter does the same (Linux, `mlx5_ifc.h`: TSAR_ELEMENT_TSAR_TYPE_DWRR). Queue pairs
 * with nothing to send are in no list, so a turn costs the same whatever their number.
 */
import { isHeldBack } from "./transmit/congestion.ts";
import { canRead } from "./dma/dma.ts";
import type { Device } from "./state/device.ts";
import { LIMITS } from "./state/limits.ts";
import { nextReadFrame } from "./answers/answers.ts";
import { releaseContexts } from "./queues/context.ts";
import type { QueuePair } from "./state/queue_pair.ts";
import { nextRequestFrame } from "./requester/requester.ts";

const HEADER_BYTES = 128;

/** A frame that leaves may make a turn possible. */
export function hasTurns(device: Device): boolean {
  return isWanted(device) && (canFetch(device) || hasCardTurn(device));
}

function isWanted({ turn, roundRobin }: Device): boolean {
  return turn.of !== undefined || roundRobin.length > 0;
}

function canFetch({ dma, transmitter }: Device): boolean {
  return canRead(dma.gather) && canRead(dma.responder) &&
    transmitter.bufferedBytes < LIMITS.transmitBufferBytes;
}

export function runTurns(device: Device): void {
  const { turn, roundRobin } = device;
  while (isWanted(device) && canFetch(device)) {
    takeTurn(device, turn.of ??= nextTurn(device, roundRobin.shift()!));
  }
  if (hasCardTurn(device)) runCardTurns(device);
}

function takeTurn(device: Device, qp: QueuePair): void {
  const { congestion, turn, roundRobin } = device;
  qp.scheduled = false;
  // A queue pair that is held back does not keep others from their turns.
  if (congestion !== undefined && isHeldBack(device, congestion, qp)) {
    turn.of = undefined;
    turn.isWanted = false;
    qp.surplus = Math.min(qp.surplus, 0);
    return;
  }
  const hasMore = qp.surplus <= 0 || beginFrames(device, qp);
  // It was scheduled meanwhile; it is in the list at most once.
  const isWanted = hasMore || turn.isWanted;
  turn.isWanted = false;
  if (hasMore && qp.surplus > 0) return;
  turn.of = undefined;
  // The rest of the share is lost; an overdraft is paid for in the next round.
  if (!hasMore) qp.surplus = Math.min(qp.surplus, 0);
  if (!isWanted) return;
  qp.scheduled = true;
  roundRobin.push(qp);
}

function hasCardTurn({ coherence, turn, roundRobin }: Device): boolean {
  if (coherence === undefined) return false;
  return turn.of?.card !== undefined || roundRobin.some(({ card }) => card !== undefined);
}

/**
 * Decision 9: a DMA read of a shared line waits for far cards, so messages that those cards wait
 * for go while all reads are under way. They are on the card: they need no read, and little room.
 */
function runCardTurns(device: Device): void {
  const { turn, roundRobin } = device;
  if (turn.of?.card !== undefined) {
    roundRobin.push(turn.of);
    turn.of = undefined;
    turn.isWanted = false;
  }
  for (let left = roundRobin.length; left > 0; left--) {
    const qp = roundRobin.shift()!;
    if (qp.card === undefined) roundRobin.push(qp);
    else runCardTurn(device, qp);
  }
}

function runCardTurn(device: Device, qp: QueuePair): void {
  const { congestion } = device;
  qp.scheduled = false;
  const isHeld = () => congestion !== undefined && isHeldBack(device, congestion, qp);
  while (!isHeld()) {
    if (qp.surplus <= 0) nextTurn(device, qp);
    else if (!beginFrames(device, qp)) break;
  }
  qp.surplus = Math.min(qp.surplus, 0);
}

function nextTurn({ timing }: Device, qp: QueuePair): QueuePair {
  qp.surplus += qp.weight * (timing.gatherReadBytes + HEADER_BYTES);
  return qp;
}

/**
 * Begins a frame, or the short ones of a message that share a DMA read. @returns whether there was
 * one.
 */
function beginFrames(device: Device, qp: QueuePair): boolean {
  qp.answersNext = !qp.answersNext;
  const isBegun = qp.answersNext
    ? nextReadFrame(device, qp) || nextRequestFrame(device, qp)
    : nextRequestFrame(device, qp) || nextReadFrame(device, qp);
  releaseContexts(device, qp);
  return isBegun;
}
