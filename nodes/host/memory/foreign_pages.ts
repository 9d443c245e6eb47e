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

/** Where a process has a page. */
interface ForeignPage {
  readonly memory: ForeignMemory;
  readonly address: number;
}

export class ForeignPages {
  /** Whether no page is foreign, as on most hosts: each access of memory asks it first. */
  isEmpty = true;
  readonly #pages = new Map<number, ForeignPage>();
  /** Of a page of SCM: a process may have it at several addresses, and several processes may have it. */
  readonly #mirrors = new Map<number, readonly ForeignPage[]>();

  /** @param frame the physical address of a page. @param address the process's, of its first byte. */
  map(frame: number, memory: ForeignMemory, address: number): void {
    this.#pages.set(frame / DRAM_PAGE_BYTES, { memory, address });
    this.isEmpty = false;
  }

  /** A page of SCM of which a process has a copy: the card's writes go there, too. */
  mirror(frame: number, memory: ForeignMemory, address: number): void {
    const page = frame / DRAM_PAGE_BYTES;
    this.#mirrors.set(page, [...this.#mirrors.get(page) ?? [], { memory, address }]);
    this.isEmpty = false;
  }

  /** Ends one {@link mirror}. */
  unmirror(frame: number, memory: ForeignMemory, address: number): void {
    const page = frame / DRAM_PAGE_BYTES;
    const others = (this.#mirrors.get(page) ?? []).filter((each) =>
      each.memory !== memory || each.address !== address
    );
    if (others.length === 0) this.#mirrors.delete(page);
    else this.#mirrors.set(page, others);
    this.#noteEmpty();
  }

  /** Ends {@link map}. */
  unmap(frame: number): void {
    this.#pages.delete(frame / DRAM_PAGE_BYTES);
    this.#noteEmpty();
  }

  /** Whether the content of a byte is a process's. */
  has(physical: number): boolean {
    return !this.isEmpty && this.#pages.has(Math.floor(physical / DRAM_PAGE_BYTES));
  }

  /** Whether the content of any byte of a range is a process's. */
  in(physical: number, length: number): boolean {
    if (this.isEmpty || length === 0) return false;
    const last = Math.floor((physical + length - 1) / DRAM_PAGE_BYTES);
    for (let page = Math.floor(physical / DRAM_PAGE_BYTES); page <= last; page++) {
      if (this.#pages.has(page)) return true;
    }
    return false;
  }

  /** Replaces the bytes that lie in foreign pages; those that their process has no more read 0. */
  read(physical: number, target: Uint8Array): void {
    if (this.isEmpty) return;
    eachPage(physical, target, (page, inPage, part) => {
      const place = this.#pages.get(page);
      if (place === undefined) return;
      const bytes = place.memory.read(place.address + inPage, part.length);
      if (bytes === undefined) part.fill(0);
      else part.set(bytes);
    });
  }

  write(physical: number, bytes: Uint8Array): void {
    if (this.isEmpty) return;
    eachPage(physical, bytes, (page, inPage, part) => {
      for (const { memory, address } of this.#placesOf(page)) memory.write(address + inPage, part);
    });
  }

  /** Whether a process waits for a write into this range. */
  isWatched(physical: number, length: number): boolean {
    if (this.isEmpty) return false;
    // No write of a card is longer than a page.
    return this.#isWatchedAt(physical) || this.#isWatchedAt(physical + length - 1);
  }

  #noteEmpty(): void {
    this.isEmpty = this.#pages.size === 0 && this.#mirrors.size === 0;
  }

  #isWatchedAt(physical: number): boolean {
    const places = this.#placesOf(Math.floor(physical / DRAM_PAGE_BYTES));
    return places.some(({ memory }) => memory.isWatched);
  }

  #placesOf(page: number): readonly ForeignPage[] {
    const place = this.#pages.get(page);
    return place === undefined ? this.#mirrors.get(page) ?? NONE : [place];
  }
}

const NONE: readonly ForeignPage[] = [];

function eachPage(
  physical: number,
  bytes: Uint8Array,
  use: (page: number, inPage: number, part: Uint8Array) => void,
): void {
  for (let done = 0; done < bytes.length;) {
    const inPage = (physical + done) % DRAM_PAGE_BYTES;
    const length = Math.min(DRAM_PAGE_BYTES - inPage, bytes.length - done);
    const page = (physical + done - inPage) / DRAM_PAGE_BYTES;
    use(page, inPage, bytes.subarray(done, done + length));
    done += length;
  }
}
