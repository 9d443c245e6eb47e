/**
 * One module of persistent memory (Optane) on its channel, as far as time goes: the bytes are the memory controller's,
 * and all that the module has received survives a power failure (P-01).
 *
 * The medium reads and writes blocks of 256 B. In front of it are two buffers of 16 KiB. A block is in one of four states:
 *
 *   filling   some of its lines were written, the medium does not have them yet. It waits for the other lines, as the
 *             medium writes whole blocks: with all of them it is queued for the medium, else when its room is needed,
 *             the least recently written first, after the medium has read the rest of it (read-modify-write).
 *   writing   the medium is at it. More lines wait, and so do reads: the stall of a read behind a persisted write.
 *   buffered  it is filling, queued, or was read; the latter stays until 64 others were.
 *   medium    anywhere else.
 *
 * A run of blocks that are read one after the other makes the module read ahead, as long as demanded reads leave the
 * medium idle. Reads go before queued writes but not before the one under way; all take the same medium's time.
 *
 * Nothing here is an event: every time is known when a line comes, as lines come in the order of the queue.
 *
 * Sources: Yang et al., FAST'20 (§5.1 the buffer, fig. 10 its size and that incomplete blocks wait in it, fig. 5 that a
 * line costs the medium's time of a block); VANS (Wang et al., MICRO'20): pages of 4 KiB in the module. Choices: which
 * block makes room, that a whole block does not wait, and how far the module reads ahead. The stall is known from Xiang et
 * al., EuroSys'22, which could not be opened; its length here is the medium's time of a write.
 */
import { fail } from "../../../fabric/base/assert.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { type Time, transferTime } from "../../../fabric/base/time.ts";
import { SCM_BLOCK_BYTES } from "./scm.ts";

/** FAST'20, fig. 10: up to 16 KiB, halves of blocks are combined. */
export const BUFFER_BLOCKS = 64;

/** A choice: twice the blocks of the run so far, up to a page of the module's, 4 KiB (MICRO'20). */
const AHEAD_BLOCKS = 16;

const LINES = SCM_BLOCK_BYTES / LINE_BYTES;
const WHOLE = (1 << LINES) - 1;

export interface ScmModulePlan {
  readonly readBitsPerSecond: number;
  readonly writeBitsPerSecond: number;
  /** Of one line from the controller. */
  readonly linePs: Time;
  /** What a read of a block on the medium takes beyond one of a buffered block. */
  readonly mediumPs: Time;
}

export class ScmModule {
  lines = 0;
  readonly #plan: ScmModulePlan;
  readonly #readPs: Time;
  readonly #writePs: Time;
  readonly #capacity: number;
  /** Lines of incomplete blocks; the block written last is the last one. */
  readonly #filling = new Map<number, number>();
  /** Blocks queued for the medium or under way, and when it has them; these times rise. */
  readonly #writing = new Map<number, Time>();
  /** When each block that was read is buffered, in the order of the reads. */
  readonly #buffered = new Map<number, Time>();
  #written = 0;
  #partial = 0;
  #lineFreeAt: Time = 0;
  #writeFreeAt: Time = 0;
  #readFreeAt: Time = 0;
  #aheadFreeAt: Time = 0;
  #lastRead = -1;
  #run = 0;

  constructor(plan: ScmModulePlan, capacity = BUFFER_BLOCKS) {
    this.#plan = plan;
    this.#capacity = capacity;
    this.#readPs = transferTime(SCM_BLOCK_BYTES, plan.readBitsPerSecond);
    this.#writePs = transferTime(SCM_BLOCK_BYTES, plan.writeBitsPerSecond);
  }

  /**
   * A line that the controller has for the module from `from` on; `from` never decreases.
   * @param offset in the module. @returns when the module has it.
   */
  take(offset: number, from: Time): Time {
    this.lines++;
    const block = Math.floor(offset / SCM_BLOCK_BYTES);
    const line = 1 << (offset - block * SCM_BLOCK_BYTES) / LINE_BYTES;
    const writtenAt = this.#writing.get(block) ?? 0;
    let at = Math.max(from, this.#lineFreeAt);
    const isQueued = at < writtenAt - this.#writePs;
    if (!isQueued) {
      let lines = this.#filling.get(block);
      if (lines === undefined) {
        at = this.#roomAt(Math.max(at, writtenAt));
        this.#buffered.delete(block);
        lines = 0;
      }
      this.#put(block, lines | line, at + this.#plan.linePs);
    }
    return this.#lineFreeAt = at + this.#plan.linePs;
  }

  /** @returns when a read of that place finds its block in a buffer: `at`, unless it waits for the medium. */
  readableAt(offset: number, at: Time): Time {
    const block = Math.floor(offset / SCM_BLOCK_BYTES);
    const readable = this.#readable(block, at);
    if (block !== this.#lastRead) {
      this.#run = block === this.#lastRead + 1 ? this.#run + 1 : 1;
      this.#lastRead = block;
      if (this.#run > 1) this.#readAhead(block, at);
    }
    return readable;
  }

  /** @returns when the medium has what the module has taken of that place, which is written now if it still fills. */
  writtenAt(offset: number, at: Time): Time {
    const block = Math.floor(offset / SCM_BLOCK_BYTES);
    if (this.#filling.has(block)) this.#evict(block, at);
    return Math.max(at, this.#writing.get(block) ?? 0);
  }

  /** Blocks that the medium is written, with those that are still to be. */
  get blocksOut(): number {
    return this.#written + this.#filling.size;
  }

  get readModifyWrites(): number {
    return this.#partial + this.#filling.size;
  }

  #put(block: number, lines: number, at: Time): void {
    this.#filling.delete(block);
    if (lines === WHOLE) this.#write(block, at);
    else this.#filling.set(block, lines);
  }

  #readable(block: number, at: Time): Time {
    if (this.#filling.has(block)) return at;
    const writtenAt = this.#writing.get(block) ?? 0;
    if (writtenAt > at) return writtenAt - this.#writePs <= at ? writtenAt : at;
    // A write that the medium has begun is not given up.
    const begunPs = this.#writeFreeAt > at ? (this.#writeFreeAt - at) % this.#writePs : 0;
    const from = Math.max(at + begunPs, this.#readFreeAt);
    const readable = from + this.#plan.mediumPs;
    const buffered = this.#buffered.get(block);
    if (buffered !== undefined && buffered <= readable) return Math.max(at, buffered);
    this.#readFreeAt = from + this.#readPs;
    this.#writeFreeAt = Math.max(this.#writeFreeAt, at) + this.#readPs;
    this.#aheadFreeAt = Math.max(this.#aheadFreeAt + this.#readPs, this.#readFreeAt);
    this.#keep(block, readable);
    return readable;
  }

  #readAhead(block: number, at: Time): void {
    this.#aheadFreeAt = Math.max(this.#aheadFreeAt, this.#readFreeAt, at);
    const last = block + Math.min(2 * this.#run, AHEAD_BLOCKS);
    for (let next = block + 1; next <= last; next++) {
      if (this.#filling.has(next) || this.#writing.has(next) || this.#buffered.has(next)) continue;
      this.#keep(next, this.#aheadFreeAt + this.#plan.mediumPs);
      this.#aheadFreeAt += this.#readPs;
    }
  }

  #keep(block: number, readable: Time): void {
    this.#buffered.set(block, readable);
    if (this.#buffered.size <= BUFFER_BLOCKS) return;
    for (const oldest of this.#buffered.keys()) {
      this.#buffered.delete(oldest);
      return;
    }
  }

  /** When there is room for one block more. */
  #roomAt(at: Time): Time {
    for (const [block, doneAt] of this.#writing) {
      if (doneAt > at) break;
      this.#writing.delete(block);
    }
    if (this.#filling.size + this.#writing.size < this.#capacity) return at;
    if (this.#writing.size === 0) this.#evictOldest(at);
    for (const [block, doneAt] of this.#writing) {
      this.#writing.delete(block);
      return doneAt;
    }
    return fail("A full buffer has a block to write");
  }

  #evictOldest(at: Time): void {
    for (const block of this.#filling.keys()) return this.#evict(block, at);
  }

  #evict(block: number, at: Time): void {
    this.#filling.delete(block);
    this.#partial++;
    this.#write(block, at);
  }

  /** Incomplete blocks take no longer: lines of 64 B are written at a quarter of the rate (FAST'20, fig. 5). */
  #write(block: number, at: Time): void {
    this.#written++;
    this.#writeFreeAt = Math.max(this.#writeFreeAt, at) + this.#writePs;
    // Its place among those being written is the last, also where it was there before.
    this.#writing.delete(block);
    this.#writing.set(block, this.#writeFreeAt);
  }
}
