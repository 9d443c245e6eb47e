/**
 * The frames that wait for one output port, in a lane for each priority, first in first out within a
 * lane. A frame waits here until the port's transmitter can take it; one that finds the transmitter
 * free never does. Of several lanes the highest priority goes first (strict: 802.1Q's transmission
 * selection where nothing else is configured).
 */
import { assert } from "../../fabric/base/assert.ts";
import { isPaused, type Pauses } from "../../fabric/link/pause.ts";
import type { Frame } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { PRIORITIES } from "../../fabric/wire/roce/pfc.ts";

/** A frame that waits, and the port it came in by, whose share of the buffer it takes. */
export interface Waiting {
  readonly frame: Frame;
  readonly from: number;
}

interface Lane {
  /** Frames from `head` on wait; those before it have left. */
  waiting: Waiting[];
  head: number;
  bytes: number;
}

export interface OutputQueue {
  readonly lanes: readonly Lane[];
  /** Bit mask of the priorities of which a frame waits. */
  occupied: number;
  /** Frames that wait, of all priorities. */
  frames: number;
  /** Bytes that wait. */
  bytes: number;
  /** The most that ever waited. */
  peakBytes: number;
  /** When the transmitter has sent all it was given. */
  freeAt: Time;
  /** Whether the cable has another end. */
  up: boolean;
  /** What the other end has asked to hold back; undefined where PFC is off. */
  readonly pauses: Pauses | undefined;
}

/** Frames that have left are dropped from the list in batches of this, so that taking one is O(1). */
const COMPACT_AT = 64;

export function createOutputQueue(pauses?: Pauses): OutputQueue {
  const lanes = Array.from({ length: PRIORITIES }, () => ({ waiting: [], head: 0, bytes: 0 }));
  return { lanes, occupied: 0, frames: 0, bytes: 0, peakBytes: 0, freeAt: 0, up: true, pauses };
}

/** Bytes that wait with this priority: what a mark is decided by. */
export function laneBytes(queue: OutputQueue, priority: number): number {
  return queue.lanes[priority]!.bytes;
}

/** Puts the frame last in its lane. */
export function enqueue(queue: OutputQueue, priority: number, waiting: Waiting): void {
  const lane = queue.lanes[priority]!;
  const { length } = waiting.frame.bytes;
  lane.waiting.push(waiting);
  lane.bytes += length;
  queue.occupied |= 1 << priority;
  queue.frames++;
  queue.bytes += length;
  if (queue.bytes > queue.peakBytes) queue.peakBytes = queue.bytes;
}

/** The priority whose frame is next at `now`, −1 where none waits that may go. */
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

/** When a frame that waits may go, as far as pauses are concerned; NEVER where none waits. */
export function mayGoAt(queue: OutputQueue, now: Time): Time {
  if (nextPriority(queue, now) >= 0) return now;
  let at = NEVER;
  for (let priority = 0; priority < PRIORITIES; priority++) {
    if ((queue.occupied & (1 << priority)) === 0) continue;
    at = Math.min(at, queue.pauses!.until[priority]!);
  }
  return at;
}

/** Takes the first frame out of a lane that has one. */
export function dequeue(queue: OutputQueue, priority: number): Waiting {
  const lane = queue.lanes[priority]!;
  const waiting = lane.waiting[lane.head];
  assert(waiting !== undefined, "Cannot take a frame as the lane is empty");
  const { length } = waiting.frame.bytes;
  lane.head++;
  lane.bytes -= length;
  queue.frames--;
  queue.bytes -= length;
  if (lane.head === lane.waiting.length) {
    lane.waiting = [];
    lane.head = 0;
    queue.occupied &= ~(1 << priority);
  } else if (lane.head >= COMPACT_AT && 2 * lane.head >= lane.waiting.length) {
    lane.waiting = lane.waiting.slice(lane.head);
    lane.head = 0;
  }
  return waiting;
}
