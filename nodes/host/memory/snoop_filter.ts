/**
 * Lines of which the card keeps copies (H-23): when a core changes one, the card is told. The message is posted: a
 * core's store may fall between a copy's use and the write of its result, as between an atomic's DMA read and write
 * (IBV_ATOMIC_HCA).
 *
 * [choice] Plain PCIe has nothing of the kind. The coherent way is CXL.cache's, where the store waits for the
 * answer to the snoop.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";

const LINES = 64;

export class SnoopFilter {
  readonly #lines = new Set<number>();
  readonly #invalidate: (line: number) => void;

  constructor(invalidate: (line: number) => void) {
    this.#invalidate = invalidate;
  }

  track(address: number): void {
    const line = address - address % LINE_BYTES;
    this.#lines.delete(line);
    if (this.#lines.size === LINES) {
      const [oldest] = this.#lines;
      this.#lines.delete(oldest!);
      this.#invalidate(oldest!);
    }
    this.#lines.add(line);
  }

  stored(address: number, length: number): void {
    if (this.#lines.size === 0) return;
    for (const line of [...this.#lines]) {
      if (line >= address + length || line + LINE_BYTES <= address) continue;
      this.#lines.delete(line);
      this.#invalidate(line);
    }
  }

  clear(): void {
    this.#lines.clear();
  }
}
