/**
 * The buffer inside an SCM module, behind the controller: lines of one 256 B block gather here until
 * their place is needed, as the medium takes whole blocks only. A block of which a line is missing has
 * to be read first (read-modify-write). It counts what the medium is written by that; the bytes
 * themselves are in the medium already, which shares this buffer's fate: both survive (P-01).
 *
 * The one measured has 16 KiB (Yang et al., FAST'20, §5.1: XPBuffer); what it gives up first is not
 * published: here the block that was written to longest ago.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { LINE_BYTES } from "./llc.ts";

/** 16 KiB of blocks. */
export const XP_BLOCKS = 64;

export class XpBuffer {
  /** Lines that came in. */
  lines = 0;
  /** Blocks given to the medium, and those of them that had to be read first. */
  #blocks = 0;
  #partial = 0;
  readonly #capacity: number;
  readonly #blockBytes: number;
  readonly #whole: number;
  /** Block → which of its lines are here; in the order in which they were written last. */
  readonly #held = new Map<number, number>();
  /** The block of the last line: it is kept apart, as the next one is mostly of the same. */
  #last = -1;
  #lastLines = 0;

  constructor(blockBytes: number, capacity = XP_BLOCKS) {
    const linesOfBlock = blockBytes / LINE_BYTES;
    assert(Number.isInteger(linesOfBlock) && linesOfBlock <= 16, `A block of ${blockBytes} B`);
    this.#capacity = capacity;
    this.#blockBytes = blockBytes;
    this.#whole = (1 << linesOfBlock) - 1;
  }

  /** Takes the line at `offset`, a multiple of 64. */
  take(offset: number): void {
    this.lines++;
    const block = Math.floor(offset / this.#blockBytes);
    const line = 1 << (offset - block * this.#blockBytes) / LINE_BYTES;
    if (block === this.#last) {
      this.#lastLines |= line;
      return;
    }
    this.#putLast();
    this.#last = block;
    this.#lastLines = (this.#held.get(block) ?? 0) | line;
    this.#held.delete(block);
    if (this.#held.size === this.#capacity) this.#evictOldest();
  }

  /** Blocks that the medium is written: those it has had, and those that are still here. */
  get blocksOut(): number {
    return this.#blocks + this.#held.size + (this.#last < 0 ? 0 : 1);
  }

  /** Those of {@link blocksOut} that are read first, as a line of them is missing. */
  get readModifyWrites(): number {
    let partial = this.#partial + (this.#last >= 0 && this.#lastLines !== this.#whole ? 1 : 0);
    for (const lines of this.#held.values()) if (lines !== this.#whole) partial++;
    return partial;
  }

  /** Bytes that the medium is written. */
  get bytesOut(): number {
    return this.blocksOut * this.#blockBytes;
  }

  #putLast(): void {
    if (this.#last >= 0) this.#held.set(this.#last, this.#lastLines);
  }

  #evictOldest(): void {
    for (const [block, lines] of this.#held) {
      this.#held.delete(block);
      this.#blocks++;
      if (lines !== this.#whole) this.#partial++;
      return;
    }
  }
}
