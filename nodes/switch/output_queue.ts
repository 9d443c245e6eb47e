/**
 * Frames of one output port, a FIFO lane for each priority; strict priority, 802.1Q's default. At
 * an idle transmitter a frame is sent at once.
 */
import { assert } from "../../fabric/base/assert.ts";
import { Fifo } from "../../fabric/base/fifo.ts";
import { isPaused, type Pauses } from "../../fabric/link/pause.ts";
import type { Frame } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { lengthOf } from "../../fabric/wire/roce/packet.ts";
import { PRIORITIES } from "../../fabric/wire/roce/pfc.ts";

export interface Waiting {
  readonly frame: Frame;
  readonly from: number;
}

interface Lane {
  readonly waiting: Fifo<Waiting>;
  bytes: number;
}

export interface OutputQueue {
  readonly lanes: readonly Lane[];
  /** Bit mask of priorities. */
  occupied: number;
  frames: number;
  bytes: number;
  peakBytes: number;
  freeAt: Time;
  /** Frames accepted by the transmitter, with the switch's own. */
  sentFrames: number;
  sentBytes: number;
  up: boolean;
  /** The pauses that the other end has requested; undefined where PFC is off. */
  readonly pauses: Pauses | undefined;
}

export function createOutputQueue(pauses?: Pauses): OutputQueue {
  const lanes = Array.from(
    { length: PRIORITIES },
    () => ({ waiting: new Fifo<Waiting>(), bytes: 0 }),
  );
  return {
    lanes,
    occupied: 0,
    frames: 0,
    bytes: 0,
    peakBytes: 0,
    freeAt: 0,
    sentFrames: 0,
    sentBytes: 0,
    up: true,
    pauses,
  };
}

export function laneBytes(queue: OutputQueue, priority: number): number {
  return queue.lanes[priority]!.bytes;
}

export function enqueue(queue: OutputQueue, priority: number, waiting: Waiting): void {
  const lane = queue.lanes[priority]!;
  const length = lengthOf(waiting.frame);
  lane.waiting.push(waiting);
  lane.bytes += length;
  queue.occupied |= 1 << priority;
  queue.frames++;
  queue.bytes += length;
  if (queue.bytes > queue.peakBytes) queue.peakBytes = queue.bytes;
}

/** @returns −1 where no queued frame may be sent. */
export function nextPriority(queue: OutputQueue, now: Time): number {
  const { pauses } = queue;
  let rest = queue.occupied;
  while (rest !== 0) {
    const priority = 31 - Math.clz32(rest);
    if (pauses === undefined || !isPaused(pauses, priority, now)) return priority;
    rest &= ~(1 << priority);
  }
  return -1;
}

/** @returns NEVER without queued frames. */
export function mayGoAt(queue: OutputQueue, now: Time): Time {
  if (nextPriority(queue, now) >= 0) return now;
  let at = NEVER;
  for (let priority = 0; priority < PRIORITIES; priority++) {
    if ((queue.occupied & (1 << priority)) === 0) continue;
    at = Math.min(at, queue.pauses!.until[priority]!);
  }
  return at;
}

export function dequeue(queue: OutputQueue, priority: number): Waiting {
  const lane = queue.lanes[priority]!;
  const waiting = lane.waiting.shift();
  assert(waiting !== undefined, "Cannot take a frame as the lane is empty");
  const length = lengthOf(waiting.frame);
  lane.bytes -= length;
  queue.frames--;
  queue.bytes -= length;
  if (lane.waiting.length === 0) queue.occupied &= ~(1 << priority);
  return waiting;
}
