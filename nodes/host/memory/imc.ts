/**
 * Integrated memory controller: the write pending queue (WPQ) in front of one kind of memory. A line
 * of SCM that the queue has accepted counts as persistent (P-01); when it reaches the medium makes no
 * difference to a power failure, only to how soon there is room for the next.
 *
 * Draining needs no event: each line knows when it will be done, and is moved at the next access.
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import { type Time, transferTime } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "./llc.ts";
import type { SparseBytes } from "./sparse_bytes.ts";
import type { XpBuffer } from "./xp_buffer.ts";

export interface ImcPlan {
  readonly medium: SparseBytes;
  /** Lines that the queue holds. */
  readonly lines: number;
  /** How fast the medium takes blocks. */
  readonly bitsPerSecond: number;
  /** Bytes that the medium takes at once; lines of one block that follow each other share a write. */
  readonly blockBytes: number;
  /** Counts what the medium is written, where lines gather in front of it (SCM). */
  readonly buffer?: XpBuffer;
}

export class Imc {
  /** Lines accepted, and those of them that were written into a line still pending. */
  accepted = 0;
  combined = 0;
  /** Bytes of those lines that were given, the rest being as it was. */
  acceptedBytes = 0;
  /** Evictions that found the queue full and went past it. */
  overflows = 0;
  pendingMax = 0;
  readonly #medium: SparseBytes;
  readonly #buffer: XpBuffer | undefined;
  readonly #blockBytes: number;
  readonly #blockPs: Time;
  /** A ring of pending lines, oldest at `head`; an offset occurs at most once. */
  readonly #capacity: number;
  readonly #offsets: Float64Array;
  readonly #drainAt: Float64Array;
  readonly #data: Uint8Array;
  readonly #scratch = new Uint8Array(LINE_BYTES);
  #head = 0;
  #count = 0;
  #now: Time = 0;
  /** When the medium is done with all that it was given, and which block that ended with. */
  #busyUntil: Time = 0;
  #lastBlock = -1;

  constructor(plan: ImcPlan) {
    assert(plan.lines >= 1, "A write pending queue holds at least one line");
    this.#medium = plan.medium;
    this.#buffer = plan.buffer;
    this.#blockBytes = plan.blockBytes;
    this.#blockPs = transferTime(plan.blockBytes, plan.bitsPerSecond);
    this.#capacity = plan.lines;
    this.#offsets = new Float64Array(plan.lines);
    this.#drainAt = new Float64Array(plan.lines);
    this.#data = new Uint8Array(plan.lines * LINE_BYTES);
  }

  /** Says what time it is. */
  advance(now: Time): void {
    this.#now = now;
    while (this.#count > 0 && this.#drainAt[this.#head]! <= now) this.#drainOldest();
  }

  /** Lines that are accepted and not on the medium yet. */
  get pending(): number {
    return this.#count;
  }

  /** When the queue has room for `lines` more: not later than now if it has already. */
  freeAt(lines: number): Time {
    if (lines > this.#capacity) fail(`${lines} lines can never fit a queue of ${this.#capacity}`);
    // A line of the block that was written last may be done at the instant it came.
    this.advance(this.#now);
    const excess = this.#count + lines - this.#capacity;
    if (excess <= 0) return this.#now;
    return this.#drainAt[(this.#head + excess - 1) % this.#capacity]!;
  }

  /** Accepts bytes, in lines whose rest is as it was. The caller has asked {@link freeAt}. */
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
   * Takes a whole line from the LLC, at once even if the queue is full: the cache's own write-back
   * buffers are not modelled, so such a line is put on the medium and the time it takes delays those
   * after it. A write-combining buffer of a core that has to go is taken the same way.
   * @param bytes how many of the line are new.
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
  }

  /** Fills `target` with what memory holds from `offset`: pending lines first, then the medium. */
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

  /** When nothing of the range is pending any more: not later than now if nothing is (V-03). */
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
    for (let i = 0; i < this.#count; i++) {
      const slot = (this.#head + i) % this.#capacity;
      if (this.#offsets[slot] === offset) return slot;
    }
    return -1;
  }

  /** Bytes of one line, `inLine` bytes from its beginning. */
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
    this.#drainAt[slot] = this.#occupy(offset);
  }

  /** Gives the medium one more line. @returns when it is done with it. */
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
