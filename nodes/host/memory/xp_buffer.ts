/**
 * The buffer inside an SCM module combines lines of a 256 B block until eviction, as the medium writes whole blocks; an
 * incomplete one is read first (read-modify-write). It only counts writes: the bytes are in the medium at once, as both
 * survive a power failure (P-01).
 *
 * The measured buffer has 16 KiB (Yang et al., FAST'20, §5.1: XPBuffer); its replacement policy is
 * not published: this model evicts the least recently written block.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";

export const XP_BLOCKS = 64;

export class XpBuffer {
  lines = 0;
  #blocks = 0;
  #partial = 0;
  readonly #capacity: number;
  readonly #blockBytes: number;
  readonly #whole: number;
  readonly #held = new Map<number, number>();
  #last = -1;
  #lastLines = 0;

  constructor(blockBytes: number, capacity = XP_BLOCKS) {
    const linesOfBlock = blockBytes / LINE_BYTES;
    assert(Number.isInteger(linesOfBlock) && linesOfBlock <= 16, `A block of ${blockBytes} B`);
    this.#capacity = capacity;
    this.#blockBytes = blockBytes;
    this.#whole = (1 << linesOfBlock) - 1;
  }

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

  get blocksOut(): number {
    return this.#blocks + this.#held.size + (this.#last < 0 ? 0 : 1);
  }

  get readModifyWrites(): number {
    let partial = this.#partial + (this.#last >= 0 && this.#lastLines !== this.#whole ? 1 : 0);
    for (const lines of this.#held.values()) if (lines !== this.#whole) partial++;
    return partial;
  }

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
