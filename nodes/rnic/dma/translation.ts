/** Virtual to physical: segments that one DMA request can take. */
import type { MemorySegment, Region } from "../state/memory.ts";

/** `va` lies in the region; negative where the page is absent. */
export function physicalAddress(region: Region, va: number): number {
  const offset = va - region.pageBase;
  const page = Math.floor(offset / region.pageBytes);
  return region.pages[page]! + (offset - page * region.pageBytes);
}

function contiguousBytes(region: Region, va: number, most: number): number {
  const { pageBytes, pages } = region;
  const offset = va - region.pageBase;
  let page = Math.floor(offset / pageBytes);
  let bytes = (page + 1) * pageBytes - offset;
  while (bytes < most && pages[page + 1] === pages[page]! + pageBytes) {
    bytes += pageBytes;
    page++;
  }
  return bytes < most ? bytes : most;
}

export function isLive(segments: readonly MemorySegment[]): boolean {
  for (const { region } of segments) if (!region.alive) return false;
  return true;
}

/**
 * Walks a range of concatenated segments as physical pieces, each for one DMA request: `start`,
 * then `next` until it returns false. `isNull`: no memory, no address; `offset`: of the piece in
 * the range. One walker serves all frames, so a frame costs no allocation.
 */
export class PieceWalker {
  address = 0;
  bytes = 0;
  offset = 0;
  persistent = false;
  isNull = false;
  #segments: readonly MemorySegment[] = [];
  #at = 0;
  #within = 0;
  #left = 0;
  #most = 0;

  start(
    segments: readonly MemorySegment[],
    range: { readonly offset: number; readonly length: number; readonly most: number },
  ): void {
    this.#segments = segments;
    this.#left = range.length;
    this.#most = range.most;
    this.bytes = 0;
    this.offset = 0;
    let at = 0, within = range.offset;
    while (at < segments.length && within >= segments[at]!.length) {
      within -= segments[at]!.length;
      at++;
    }
    this.#at = at;
    this.#within = within;
  }

  next(): boolean {
    if (this.#left === 0) return false;
    this.offset += this.bytes;
    while (this.#within === this.#segments[this.#at]!.length) {
      this.#at++;
      this.#within = 0;
    }
    const { region, va, length } = this.#segments[this.#at]!;
    const from = va + this.#within;
    const most = Math.min(length - this.#within, this.#left, this.#most);
    this.isNull = region.isNull;
    this.address = region.isNull ? 0 : physicalAddress(region, from);
    this.bytes = region.isNull ? most : contiguousBytes(region, from, most);
    this.persistent = region.persistent;
    this.#within += this.bytes;
    this.#left -= this.bytes;
    return true;
  }
}
