/**
 * Integrated memory controller: the channels of one memory, over which its addresses are interleaved, each with its own
 * write pending queue and module. What waits for one channel's queue does not wait for another's.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { SparseBytes } from "./sparse_bytes.ts";
import { type MemoryModule, Wpq, type WpqPlan } from "./wpq.ts";

export interface ImcPlan {
  readonly medium: SparseBytes;
  /** One for each channel. */
  readonly modules: readonly MemoryModule[];
  readonly interleaveBytes: number;
  /** Of each channel's queue. */
  readonly lines: number;
  readonly onQueued?: WpqPlan["onQueued"];
}

export class Imc {
  acceptedBytes = 0;
  readonly #medium: SparseBytes;
  readonly #queues: readonly Wpq[];
  readonly #interleave: number;
  #now: Time = 0;
  #nextAt: Time = NEVER;

  constructor({ medium, modules, interleaveBytes, lines, onQueued }: ImcPlan) {
    assert(
      modules.length >= 1 && interleaveBytes % LINE_BYTES === 0,
      `${modules.length} channels, interleaved by ${interleaveBytes} B`,
    );
    this.#medium = medium;
    this.#interleave = interleaveBytes;
    const inModule = (offset: number) => this.#inModule(offset);
    this.#queues = modules.map((module) => new Wpq({ medium, lines, module, inModule, onQueued }));
  }

  advance(now: Time): void {
    this.#now = now;
    if (now < this.#nextAt) return;
    this.#nextAt = NEVER;
    for (const queue of this.#queues) {
      queue.advance(now);
      this.#nextAt = Math.min(this.#nextAt, queue.nextAt);
    }
  }

  get accepted(): number {
    return this.#sum(({ accepted }) => accepted);
  }

  get combined(): number {
    return this.#sum(({ combined }) => combined);
  }

  get overflows(): number {
    return this.#sum(({ overflows }) => overflows);
  }

  get pending(): number {
    return this.#sum(({ pending }) => pending);
  }

  /** Most lines in one channel's queue. */
  get pendingMax(): number {
    return Math.max(...this.#queues.map(({ pendingMax }) => pendingMax));
  }

  /** When there is room for all lines of the range: not later than now if there is room already. */
  freeAt(offset: number, length: number): Time {
    const first = offset - offset % LINE_BYTES, end = offset + length;
    if (this.#isInOne(offset, length)) {
      return this.#queueOf(offset).freeAt(Math.ceil((end - first) / LINE_BYTES));
    }
    const lines = new Map<Wpq, number>();
    for (let at = first; at < end; at += LINE_BYTES) {
      const queue = this.#queueOf(at);
      lines.set(queue, (lines.get(queue) ?? 0) + 1);
    }
    return Math.max(...[...lines].map(([queue, count]) => queue.freeAt(count)));
  }

  /** The caller has called {@link freeAt}. */
  accept(offset: number, bytes: Uint8Array): void {
    this.acceptedBytes += bytes.length;
    for (let done = 0; done < bytes.length;) {
      const at = offset + done;
      const length = Math.min(this.#interleave - at % this.#interleave, bytes.length - done);
      const part = length === bytes.length ? bytes : bytes.subarray(done, done + length);
      const queue = this.#queueOf(at);
      queue.accept(at, part);
      this.#noteNext(queue);
      done += length;
    }
  }

  /** See {@link Wpq.acceptEvicted}. @param bytes the number of new bytes in the line. */
  acceptEvicted(offset: number, line: Uint8Array, bytes: number = LINE_BYTES): void {
    this.acceptedBytes += bytes;
    const queue = this.#queueOf(offset);
    queue.acceptEvicted(offset, line);
    this.#noteNext(queue);
  }

  /** When every evicted line so far has, or would have had, room in its queue. */
  get evictedRoomAt(): Time {
    let at = 0;
    for (const { overflowRoomAt } of this.#queues) at = Math.max(at, overflowRoomAt);
    return at;
  }

  read(offset: number, target: Uint8Array): void {
    this.#medium.read(offset, target);
    if (this.#nextAt === NEVER || target.length === 0) return;
    if (this.#isInOne(offset, target.length)) {
      return this.#queueOf(offset).overlay(offset, target);
    }
    for (const queue of this.#queues) if (queue.pending > 0) queue.overlay(offset, target);
  }

  /** When no line of the range is pending: not later than now if none is (V-03). */
  drainedAt(offset: number, length: number): Time {
    if (this.#nextAt === NEVER) return this.#now;
    if (this.#isInOne(offset, length)) return this.#queueOf(offset).drainedAt(offset, length);
    return Math.max(
      ...this.#queues.map((queue) => {
        queue.advance(this.#now);
        return queue.drainedAt(offset, length);
      }),
    );
  }

  /** The channel of a place, and where that is in the channel's module. */
  placeOf(offset: number): { readonly channel: number; readonly inModule: number } {
    return { channel: this.#channelOf(offset), inModule: this.#inModule(offset) };
  }

  #channelOf(offset: number): number {
    return Math.floor(offset / this.#interleave) % this.#queues.length;
  }

  #inModule(offset: number): number {
    const unit = Math.floor(offset / this.#interleave);
    return Math.floor(unit / this.#queues.length) * this.#interleave + offset % this.#interleave;
  }

  #isInOne(offset: number, length: number): boolean {
    return offset % this.#interleave + length <= this.#interleave;
  }

  #queueOf(offset: number): Wpq {
    const queue = this.#queues[this.#channelOf(offset)]!;
    queue.advance(this.#now);
    return queue;
  }

  #noteNext(queue: Wpq): void {
    this.#nextAt = Math.min(this.#nextAt, queue.nextAt);
  }

  #sum(countOf: (queue: Wpq) => number): number {
    return this.#queues.reduce((sum, queue) => sum + countOf(queue), 0);
  }
}
