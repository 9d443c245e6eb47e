/**
 * Pages of DRAM whose content is the memory of a native program's process: what the card writes goes
 * there as it becomes visible to the cores, and what it reads comes from there. Caches and
 * controllers see these accesses as all others, with their time; only the bytes are elsewhere.
 */
import { DRAM_PAGE_BYTES } from "./address_map.ts";

/** The memory of a process, by its own addresses. */
export interface ForeignMemory {
  /** Undefined where the process has no memory there. */
  read(address: number, length: number): Uint8Array | undefined;
  write(address: number, bytes: Uint8Array): void;
  /** A thread of the process waits for the next write: each piece is an event. */
  readonly isWatched: boolean;
}

interface ForeignPage {
  readonly memory: ForeignMemory;
  readonly address: number;
  readonly isMirror?: true;
}

export class ForeignPages {
  readonly #pages = new Map<number, ForeignPage>();

  /** @param frame the physical address of a page. @param address the process's, of its first byte. */
  map(frame: number, memory: ForeignMemory, address: number): void {
    this.#pages.set(frame / DRAM_PAGE_BYTES, { memory, address });
  }

  /** A page of SCM of which the process has a copy: the card's writes go there, too. */
  mirror(frame: number, memory: ForeignMemory, address: number): void {
    this.#pages.set(frame / DRAM_PAGE_BYTES, { memory, address, isMirror: true });
  }

  unmap(frame: number): void {
    this.#pages.delete(frame / DRAM_PAGE_BYTES);
  }

  /** Whether the content of a byte is a process's. */
  has(physical: number): boolean {
    const page = this.#pages.size === 0
      ? undefined
      : this.#pages.get(Math.floor(physical / DRAM_PAGE_BYTES));
    return page !== undefined && page.isMirror !== true;
  }

  /** Replaces the bytes that lie in foreign pages; those that their process has no more read 0. */
  read(physical: number, target: Uint8Array): void {
    this.#each(physical, target, ({ memory, address, isMirror }, part) => {
      if (isMirror) return;
      const bytes = memory.read(address, part.length);
      if (bytes === undefined) part.fill(0);
      else part.set(bytes);
    });
  }

  write(physical: number, bytes: Uint8Array): void {
    this.#each(physical, bytes, ({ memory, address }, part) => memory.write(address, part));
  }

  isWatched(physical: number, length: number): boolean {
    if (this.#pages.size === 0) return false;
    // No write of a card is longer than a page.
    return this.#memoryAt(physical)?.isWatched === true ||
      this.#memoryAt(physical + length - 1)?.isWatched === true;
  }

  #memoryAt(physical: number): ForeignMemory | undefined {
    return this.#pages.get(Math.floor(physical / DRAM_PAGE_BYTES))?.memory;
  }

  #each(
    physical: number,
    bytes: Uint8Array,
    use: (place: ForeignPage, part: Uint8Array) => void,
  ): void {
    if (this.#pages.size === 0) return;
    for (let done = 0; done < bytes.length;) {
      const inPage = (physical + done) % DRAM_PAGE_BYTES;
      const length = Math.min(DRAM_PAGE_BYTES - inPage, bytes.length - done);
      const page = this.#pages.get((physical + done - inPage) / DRAM_PAGE_BYTES);
      if (page !== undefined) {
        use({ ...page, address: page.address + inPage }, bytes.subarray(done, done + length));
      }
      done += length;
    }
  }
}
