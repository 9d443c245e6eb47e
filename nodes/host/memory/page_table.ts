/**
 * Pages in DRAM: all, unless memory is allocated when first touched (`pin: false`) or pages were
 * taken away. A page that comes back gets the frame that was given up last, so that a stale
 * translation shows another page's bytes. SCM is mapped directly (DAX): its pages are always there.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import { type AddressMap, type Buffer, DRAM_PAGE_BYTES, VIRTUAL_DRAM_BASE } from "./address_map.ts";
import type { MemorySystem } from "./memory_system.ts";

type Content = "untouched" | "zeros" | Uint8Array<ArrayBuffer>;

export class PageTable {
  minorFaults = 0;
  majorFaults = 0;
  takenAway = 0;
  readonly #map: AddressMap;
  readonly #memory: MemorySystem;
  readonly #timing: HostTiming;
  readonly #away = new Map<number, Content>();
  readonly #frames: number[] = [];

  constructor(map: AddressMap, memory: MemorySystem, timing: HostTiming) {
    this.#map = map;
    this.#memory = memory;
    this.#timing = timing;
  }

  get hasAway(): boolean {
    return this.#away.size > 0;
  }

  leaveUntouched({ address, length }: Buffer): void {
    for (const page of pagesOf(address, length)) this.#away.set(page, "untouched");
  }

  isThere(address: number): boolean {
    return !this.#away.has(pageOf(address));
  }

  /**
   * Brings pages in before an access of a core or the driver. @returns the cost. @param minorPs
   * cost of each page without kept bytes.
   */
  touch(address: number, length: number, minorPs: Time = this.#timing.minorFaultPs): Time {
    if (this.#away.size === 0 || address < VIRTUAL_DRAM_BASE) return 0;
    let cost = 0;
    for (const page of pagesOf(address, length)) cost += this.#bringIn(page, minorPs);
    return cost;
  }

  frameOf(page: number): number {
    assert(this.isThere(page), `Page 0x${page.toString(16)} has no frame: it is away`);
    return this.#map.physical(page);
  }

  /** The page's bytes are kept, or the next access finds zeros. */
  takeAway(page: number, keep: boolean): void {
    const frame = this.frameOf(page);
    const bytes = new Uint8Array(DRAM_PAGE_BYTES);
    // A load, so that no write-combining buffer writes to the frame later.
    this.#memory.load(frame, bytes);
    this.#away.set(page, keep ? bytes : "zeros");
    this.#frames.push(frame);
    this.takenAway++;
  }

  #bringIn(page: number, minorPs: Time): Time {
    const content = this.#away.get(page);
    if (content === undefined) return 0;
    this.#away.delete(page);
    if (content === "untouched") {
      this.minorFaults++;
      return minorPs;
    }
    const frame = this.#frames.pop();
    assert(frame !== undefined, "Each page that is away has given up a frame");
    this.#map.move(page, frame);
    const isKept = content !== "zeros";
    const bytes = isKept ? content : new Uint8Array(DRAM_PAGE_BYTES);
    const cost = this.#memory.store(frame, bytes);
    if (isKept) this.majorFaults++;
    else this.minorFaults++;
    return cost + (isKept ? this.#timing.majorFaultPs : minorPs);
  }

  forget({ address, length }: Buffer): void {
    if (this.#away.size === 0) return;
    for (const page of pagesOf(address, length)) {
      if (this.#away.get(page) instanceof Uint8Array) this.#away.set(page, "zeros");
    }
  }
}

function pageOf(address: number, pageBytes = DRAM_PAGE_BYTES): number {
  return address - address % pageBytes;
}

export function* pagesOf(
  address: number,
  length: number,
  pageBytes = DRAM_PAGE_BYTES,
): Generator<number> {
  for (let page = pageOf(address, pageBytes); page < address + length; page += pageBytes) {
    yield page;
  }
}
