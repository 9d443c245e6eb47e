/**
 * The write pending queue (WPQ) of one memory channel. A line of SCM in the queue counts as persistent (P-01); when the
 * module behind the queue has it only determines when there is room.
 *
 * A later write to a pending line is merged. An evicted line never waits for room: it goes past a full queue into the
 * module, and delays what follows, as the write-back buffers of caches are not modelled.
 *
 * Draining needs no events: the module says at once when it will have a line, and lines are moved at the next access.
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { SparseBytes } from "./sparse_bytes.ts";

export interface WpqPlan {
  readonly medium: SparseBytes;
  readonly lines: number;
  readonly module: MemoryModule;
  /** A line's offset in the module. */
  readonly inModule: (offset: number) => number;
  /** The module has the line at `until`. */
  readonly onQueued?: ((at: Time, line: number, until: Time) => void) | undefined;
}

export interface MemoryModule {
  /** @returns when the module has the line that is there for it from `from` on. */
  take(offset: number, from: Time): Time;
}

export class Wpq {
  accepted = 0;
  combined = 0;
  overflows = 0;
  pendingMax = 0;
  /** When the last line that went past the full queue would have had room in it. */
  overflowRoomAt: Time = 0;
  readonly #medium: SparseBytes;
  readonly #module: MemoryModule;
  readonly #inModule: (offset: number) => number;
  readonly #onQueued: WpqPlan["onQueued"];
  readonly #capacity: number;
  readonly #offsets: Float64Array;
  readonly #drainAt: Float64Array;
  readonly #data: Uint8Array;
  readonly #scratch = new Uint8Array(LINE_BYTES);
  #head = 0;
  #count = 0;
  #now: Time = 0;
  #drainedAt: Time = 0;

  constructor(plan: WpqPlan) {
    assert(plan.lines >= 1, "A write pending queue holds at least one line");
    this.#medium = plan.medium;
    this.#module = plan.module;
    this.#inModule = plan.inModule;
    this.#onQueued = plan.onQueued;
    this.#capacity = plan.lines;
    this.#offsets = new Float64Array(plan.lines);
    this.#drainAt = new Float64Array(plan.lines);
    this.#data = new Uint8Array(plan.lines * LINE_BYTES);
  }

  advance(now: Time): void {
    this.#now = now;
    while (this.#count > 0 && this.#drainAt[this.#head]! <= now) this.#drainOldest();
  }

  get pending(): number {
    return this.#count;
  }

  /** When the oldest line leaves; NEVER without one. */
  get nextAt(): Time {
    return this.#count > 0 ? this.#drainAt[this.#head]! : NEVER;
  }

  /** When there is room for `lines` more: not later than now if there is room already. */
  freeAt(lines: number): Time {
    if (lines > this.#capacity) fail(`${lines} lines can never fit a queue of ${this.#capacity}`);
    this.advance(this.#now);
    const excess = this.#count + lines - this.#capacity;
    if (excess <= 0) return this.#now;
    return this.#drainAt[(this.#head + excess - 1) % this.#capacity]!;
  }

  /**
   * Merges the bytes into pending lines, or queues new ones. The caller has called {@link freeAt}.
   */
  accept(offset: number, bytes: Uint8Array): void {
    let done = 0;
    while (done < bytes.length) {
      const from = offset + done;
      const inLine = from % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, bytes.length - done);
      const part = length === bytes.length ? bytes : bytes.subarray(done, done + length);
      this.#write(from - inLine, part, inLine);
      done += length;
    }
  }

  /**
   * A whole line from the LLC or a write-combining buffer, even if the queue is full: then it goes to the module
   * directly and delays later lines.
   */
  acceptEvicted(offset: number, line: Uint8Array): void {
    if (this.#count < this.#capacity || this.#slotOf(offset) >= 0) {
      this.#write(offset, line, 0);
      return;
    }
    this.overflows++;
    this.accepted++;
    this.#medium.write(offset, line);
    const aheadPs = this.#drainedAt - this.#drainAt[this.#head]!;
    this.overflowRoomAt = this.#occupy(offset) - aheadPs;
    this.#onQueued?.(this.#now, offset, this.#now);
  }

  /** Puts pending bytes over those of the medium. */
  overlay(offset: number, target: Uint8Array): void {
    const end = offset + target.length;
    for (let i = 0; i < this.#count; i++) {
      const slot = (this.#head + i) % this.#capacity;
      const line = this.#offsets[slot]!;
      const from = Math.max(line, offset), to = Math.min(line + LINE_BYTES, end);
      if (from >= to) continue;
      const at = slot * LINE_BYTES - line;
      target.set(this.#data.subarray(at + from, at + to), from - offset);
    }
  }

  /** When no line of the range is pending: not later than now if none is (V-03). */
  drainedAt(offset: number, length: number): Time {
    let at = this.#now;
    for (let i = 0; i < this.#count; i++) {
      const slot = (this.#head + i) % this.#capacity;
      const line = this.#offsets[slot]!;
      if (line < offset + length && line + LINE_BYTES > offset) {
        at = Math.max(at, this.#drainAt[slot]!);
      }
    }
    return at;
  }

  #slotOf(offset: number): number {
    // Each line that leaves a cache asks: the ring's two parts, without a division for each place.
    const offsets = this.#offsets, end = this.#head + this.#count;
    const wrapped = end - this.#capacity;
    for (let slot = this.#head; slot < Math.min(end, this.#capacity); slot++) {
      if (offsets[slot] === offset) return slot;
    }
    for (let slot = 0; slot < wrapped; slot++) if (offsets[slot] === offset) return slot;
    return -1;
  }

  #write(offset: number, bytes: Uint8Array, inLine: number): void {
    this.accepted++;
    let slot = this.#slotOf(offset);
    if (slot >= 0) {
      this.combined++;
      this.#data.set(bytes, slot * LINE_BYTES + inLine);
      return;
    }
    assert(this.#count < this.#capacity, "The write pending queue is full");
    slot = (this.#head + this.#count++) % this.#capacity;
    this.pendingMax = Math.max(this.pendingMax, this.#count);
    if (bytes.length < LINE_BYTES) {
      this.#medium.read(offset, this.#scratch);
      this.#data.set(this.#scratch, slot * LINE_BYTES);
    }
    this.#data.set(bytes, slot * LINE_BYTES + inLine);
    this.#offsets[slot] = offset;
    const drainAt = this.#occupy(offset);
    this.#drainAt[slot] = drainAt;
    this.#onQueued?.(this.#now, offset, drainAt);
  }

  #occupy(offset: number): Time {
    const from = Math.max(this.#drainedAt, this.#now);
    this.#drainedAt = this.#module.take(this.#inModule(offset), from);
    return this.#drainedAt;
  }

  #drainOldest(): void {
    const at = this.#head * LINE_BYTES;
    this.#medium.write(this.#offsets[this.#head]!, this.#data.subarray(at, at + LINE_BYTES));
    this.#head = (this.#head + 1) % this.#capacity;
    this.#count--;
  }
}
