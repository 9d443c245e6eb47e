/**
 * The frames that wait for one output port, first in first out, in a finite buffer. A frame waits
 * here until the port's transmitter can take it; one that finds the transmitter free never does.
 */
import { assert } from "../../fabric/assert.ts";
import type { Frame } from "../../fabric/node.ts";
import type { Time } from "../../fabric/time/time.ts";

export interface OutputQueue {
  readonly capacityBytes: number;
  /** Frames from `head` on wait; those before it have left. */
  frames: Frame[];
  head: number;
  /** Bytes that wait. Never more than `capacityBytes`. */
  bytes: number;
  /** The most that ever waited. */
  peakBytes: number;
  /** When the transmitter has sent all it was given. */
  freeAt: Time;
  /** Whether the cable has another end. */
  up: boolean;
}

/** Frames that have left are dropped from the list in batches of this, so that taking one is O(1). */
const COMPACT_AT = 64;

export function createOutputQueue(capacityBytes: number): OutputQueue {
  return { capacityBytes, frames: [], head: 0, bytes: 0, peakBytes: 0, freeAt: 0, up: true };
}

/** Frames that wait. */
export function queueLength(queue: OutputQueue): number {
  return queue.frames.length - queue.head;
}

/** Puts the frame last. False, with nothing changed, where the buffer has no room: drop tail. */
export function enqueue(queue: OutputQueue, frame: Frame): boolean {
  const bytes = queue.bytes + frame.bytes.length;
  if (bytes > queue.capacityBytes) return false;
  queue.frames.push(frame);
  queue.bytes = bytes;
  if (bytes > queue.peakBytes) queue.peakBytes = bytes;
  return true;
}

/** Takes the first frame out of a queue that has one. */
export function dequeue(queue: OutputQueue): Frame {
  const frame = queue.frames[queue.head];
  assert(frame !== undefined, "Cannot take a frame as the output queue is empty");
  queue.head++;
  queue.bytes -= frame.bytes.length;
  if (queue.head === queue.frames.length) {
    queue.frames = [];
    queue.head = 0;
  } else if (queue.head >= COMPACT_AT && 2 * queue.head >= queue.frames.length) {
    queue.frames = queue.frames.slice(queue.head);
    queue.head = 0;
  }
  return frame;
}

/** Empties the queue. @returns how many frames were in it. */
export function clear(queue: OutputQueue): number {
  const count = queueLength(queue);
  queue.frames = [];
  queue.head = 0;
  queue.bytes = 0;
  return count;
}
