/**
 * Integrated memory controller: the write pending queue (WPQ) in front of one memory. A line of SCM in the queue counts
 * as persistent (P-01); when it reaches the medium only determines when the queue has room.
 *
 * A later write to a pending line is merged; consecutive lines of one block of SCM's medium (256 B) share a write. An
 * evicted line never waits for room: it goes past a full queue onto the medium, and delays what follows, as the
 * write-back buffers of caches are not modelled.
 *
 * Draining needs no events: completion times are known, and lines are moved at the next access.
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import { type Time, transferTime } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { SparseBytes } from "./sparse_bytes.ts";
import type { XpBuffer } from "./xp_buffer.ts";

export interface ImcPlan {
  readonly medium: SparseBytes;
  readonly lines: number;
  readonly bitsPerSecond: number;
  readonly blockBytes: number;
  readonly buffer?: XpBuffer;
  /** The line is on the medium at `until`. */
  readonly onQueued?: ((at: Time, line: number, until: Time) => void) | undefined;
}

export class Imc {
  accepted = 0;
  combined = 0;
  acceptedBytes = 0;
  overflows = 0;
  pendingMax = 0;
  readonly #medium: SparseBytes;
  readonly #buffer: XpBuffer | undefined;
  readonly #onQueued: ImcPlan["onQueued"];
  readonly #blockBytes: number;
  readonly #blockPs: Time;
  readonly #capacity: number;
  readonly #offsets: Float64Array;
  readonly #drainAt: Float64Array;
  readonly #data: Uint8Array;
  readonly #scratch = new Uint8Array(LINE_BYTES);
  #head = 0;
  #count = 0;
  #now: Time = 0;
  #busyUntil: Time = 0;
  #lastBlock = -1;

  constructor(plan: ImcPlan) {
    assert(plan.lines >= 1, "A write pending queue holds at least one line");
    this.#medium = plan.medium;
    this.#buffer = plan.buffer;
    this.#onQueued = plan.onQueued;
    this.#blockBytes = plan.blockBytes;
    this.#blockPs = transferTime(plan.blockBytes, plan.bitsPerSecond);
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
    this.acceptedBytes += bytes.length;
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
   * A whole line from the LLC or a write-combining buffer, even if the queue is full: then it goes to the medium
   * directly and delays later lines.
   * @param bytes the number of new bytes in the line.
   */
  acceptEvicted(offset: number, line: Uint8Array, bytes: number = LINE_BYTES): void {
    this.acceptedBytes += bytes;
    if (this.#count < this.#capacity || this.#slotOf(offset) >= 0) {
      this.#write(offset, line, 0);
      return;
    }
    this.overflows++;
    this.accepted++;
    this.#medium.write(offset, line);
    this.#occupy(offset);
    this.#onQueued?.(this.#now, offset, this.#now);
  }

  read(offset: number, target: Uint8Array): void {
    this.#medium.read(offset, target);
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
    this.#buffer?.take(offset);
    const block = Math.floor(offset / this.#blockBytes);
    const cost = block === this.#lastBlock ? 0 : this.#blockPs;
    this.#lastBlock = block;
    this.#busyUntil = Math.max(this.#busyUntil, this.#now) + cost;
    return this.#busyUntil;
  }

  #drainOldest(): void {
    const at = this.#head * LINE_BYTES;
    this.#medium.write(this.#offsets[this.#head]!, this.#data.subarray(at, at + LINE_BYTES));
    this.#head = (this.#head + 1) % this.#capacity;
    this.#count--;
  }
}
