/**
 * The frames queued at one output port, in a lane for each priority, FIFO within a lane. A frame
 * waits here until the port's transmitter can accept it; at an idle transmitter it is sent at once.
 * The highest priority is sent first (strict priority: 802.1Q's default transmission selection).
 */
import { assert } from "../../fabric/base/assert.ts";
import { Fifo } from "../../fabric/base/fifo.ts";
import { isPaused, type Pauses } from "../../fabric/link/pause.ts";
import type { Frame } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { lengthOf } from "../../fabric/wire/roce/packet.ts";
import { PRIORITIES } from "../../fabric/wire/roce/pfc.ts";

/** A queued frame, and its input port, whose share of the buffer it uses. */
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
  /** Bit mask of the priorities with queued frames. */
  occupied: number;
  frames: number;
  bytes: number;
  /** Maximum of {@link bytes} so far. */
  peakBytes: number;
  /** When the transmitter has sent all accepted frames. */
  freeAt: Time;
  /** Frames that the transmitter has accepted so far, the switch's own included. */
  sentFrames: number;
  sentBytes: number;
  /** Whether the link is up. */
  up: boolean;
  /** Pauses requested by the other end; undefined where PFC is off. */
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

/** Queued bytes of this priority, on which marking depends. */
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

/** The priority whose frame is next at `now`; −1 where no queued frame may be sent. */
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

/** When a queued frame may be sent, given the pauses; NEVER without queued frames. */
export function mayGoAt(queue: OutputQueue, now: Time): Time {
  if (nextPriority(queue, now) >= 0) return now;
  let at = NEVER;
  for (let priority = 0; priority < PRIORITIES; priority++) {
    if ((queue.occupied & (1 << priority)) === 0) continue;
    at = Math.min(at, queue.pauses!.until[priority]!);
  }
  return at;
}

/** Removes the first frame of a lane that is not empty. */
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
