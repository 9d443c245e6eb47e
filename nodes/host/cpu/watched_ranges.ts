/**
 * Waiting threads by watched bytes. The first few are in a list, as most hosts have no more; others
 * are indexed by page, so that a device's write finds its own among thousands.
 */

export interface Watcher {
  readonly ranges: readonly number[];
}

const PAGE_BYTES = 4096;
const LISTED_MAX = 16;
/** A watcher of more pages is checked at every change. */
const PAGES_MAX = 16;
const NONE: readonly never[] = [];

export class WatchedRanges<Of extends Watcher> {
  readonly #listed: Of[] = [];
  readonly #byPage = new Map<number, Set<Of>>();
  readonly #wide = new Set<Of>();

  /** @param watcher its ranges must not change until it is removed. */
  add(watcher: Of): void {
    if (this.#listed.length < LISTED_MAX) {
      this.#listed.push(watcher);
      return;
    }
    const pages = pagesOf(watcher.ranges);
    if (pages === undefined) {
      this.#wide.add(watcher);
      return;
    }
    for (const page of pages) {
      const known = this.#byPage.get(page);
      if (known === undefined) this.#byPage.set(page, new Set([watcher]));
      else known.add(watcher);
    }
  }

  remove(watcher: Of): void {
    const place = this.#listed.indexOf(watcher);
    if (place >= 0) {
      const last = this.#listed.pop()!;
      if (last !== watcher) this.#listed[place] = last;
      return;
    }
    if (this.#wide.delete(watcher)) return;
    for (const page of pagesOf(watcher.ranges)!) {
      const known = this.#byPage.get(page);
      known?.delete(watcher);
      if (known?.size === 0) this.#byPage.delete(page);
    }
  }

  has(from: number, length: number): boolean {
    if (this.#listed.length > 0 && hasOverlap(this.#listed, from, length)) return true;
    if (this.#wide.size > 0 && hasOverlap(this.#wide, from, length)) return true;
    if (this.#byPage.size === 0) return false;
    const last = Math.floor((from + length - 1) / PAGE_BYTES);
    for (let page = Math.floor(from / PAGE_BYTES); page <= last; page++) {
      const known = this.#byPage.get(page);
      if (known !== undefined && hasOverlap(known, from, length)) return true;
    }
    return false;
  }

  /**
   * @returns watchers of one of these bytes, in no order.
   */
  in(from: number, length: number): Of[] {
    const found = this.#listed.filter(({ ranges }) => overlaps(ranges, from, length));
    for (const each of this.#wide) if (overlaps(each.ranges, from, length)) found.push(each);
    if (this.#byPage.size === 0) return found;
    const first = Math.floor(from / PAGE_BYTES);
    const last = Math.floor((from + length - 1) / PAGE_BYTES);
    for (let page = first; page <= last; page++) {
      for (const each of this.#byPage.get(page) ?? NONE) {
        const isKnown = page > first && found.includes(each);
        if (!isKnown && overlaps(each.ranges, from, length)) found.push(each);
      }
    }
    return found;
  }
}

function pagesOf(ranges: readonly number[]): Set<number> | undefined {
  const pages = new Set<number>();
  for (let i = 0; i < ranges.length; i += 2) {
    const last = Math.floor((ranges[i + 1]! - 1) / PAGE_BYTES);
    for (let page = Math.floor(ranges[i]! / PAGE_BYTES); page <= last; page++) {
      pages.add(page);
      if (pages.size > PAGES_MAX) return undefined;
    }
  }
  return pages;
}

function hasOverlap(watchers: Iterable<Watcher>, from: number, length: number): boolean {
  for (const { ranges } of watchers) if (overlaps(ranges, from, length)) return true;
  return false;
}

function overlaps(ranges: readonly number[], from: number, length: number): boolean {
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i]! < from + length && ranges[i + 1]! > from) return true;
  }
  return false;
}
