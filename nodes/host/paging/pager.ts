/**
 * The driver's side of on-demand paging, for all cards of a host: on-demand regions, rights of pages, and jobs: page
 * faults, advice, pages to be taken back. One kernel thread does them (`serve_pages.ts`), so that no job races with a
 * page that comes or goes. Ranges take turns, a batch each; pages are taken back when all pages requested before are
 * mapped. Jobs for hints only come last; their requesters take turns, and delay others by one batch at most (H-24).
 *
 * Source: Linux, mlx5 (`odp.c`): page fault events, `pagefault_mr`, `mlx5_ib_invalidate_range`.
 */
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { AddressRange, AdvisedPlace, DemandPaging } from "../cpu/demand_paging.ts";
import type { AddressMap, Buffer } from "../memory/address_map.ts";
import type { Iommu } from "../memory/iommu.ts";
import type { PageTable } from "../memory/page_table.ts";
import { FairQueue } from "./fair_queue.ts";

export interface DemandRegion {
  readonly card: number;
  readonly key: number;
  /** The virtual address of the first page, and the offset of the first byte in it. */
  readonly address: number;
  readonly offset: number;
  readonly pageBytes: number;
  readonly writable: boolean;
  /** The card's rights, per page: 0 none, 1 read, 2 write as well. */
  readonly rights: Uint8Array;
}

export interface PageRange {
  readonly first: number;
  readonly count: number;
}

export interface PagePart extends PageRange {
  readonly region: DemandRegion;
}

export interface RangeJob {
  readonly kind: "range";
  readonly parts: readonly PagePart[];
  readonly rights: 1 | 2;
  readonly fault: boolean;
  readonly asked?: true;
  readonly hintsOf?: number | undefined;
  readonly done?: string;
}

interface MappedPage {
  readonly region: DemandRegion;
  readonly page: number;
  readonly frame: number;
}

type PageFault = Extract<RnicEvent, { type: "PAGE_FAULT" }>;

export type PageJob =
  | { readonly kind: "fault"; readonly event: PageFault; readonly card: number }
  | RangeJob
  | {
    readonly kind: "take";
    readonly range: AddressRange;
    readonly keep: boolean;
    readonly done: string;
  }
  | { readonly kind: "pressure"; readonly pages: number };

const KEY_SPAN = 2 ** 32;

function idOf(card: number, key: number): number {
  return card * KEY_SPAN + key;
}

/** Without `card` the first card is meant. */
export class Pager implements DemandPaging {
  readonly regions = new Map<number, DemandRegion>();
  readonly pinned = new Map<number, AddressRange & { readonly frames: readonly number[] }>();
  readonly mapped = new Map<string, MappedPage>();
  readonly isPinnedByDefault: boolean;
  faults = 0;
  prefetches = 0;
  pagesMapped = 0;
  invalidations = 0;
  pagesTaken = 0;
  readonly #jobs: PageJob[] = [];
  readonly #hinted = new FairQueue<PageJob>();
  readonly #onWork: () => void;
  readonly #map: AddressMap;
  readonly #table: PageTable;
  readonly #iommu: Iommu | undefined;
  readonly #early = new Map<number, readonly PageFault[]>();
  #done = 0;

  constructor(options: {
    readonly pin: boolean;
    readonly map: AddressMap;
    readonly table: PageTable;
    readonly iommu?: Iommu | undefined;
    readonly onWork: () => void;
  }) {
    this.isPinnedByDefault = options.pin;
    this.#map = options.map;
    this.#table = options.table;
    this.#iommu = options.iommu;
    this.#onWork = options.onWork;
  }

  frames(buffer: Buffer, { address, length }: AddressRange): readonly number[] {
    this.#table.touch(address, length);
    return this.#map.framesOf(buffer);
  }

  allocateForCard(bytes: number, card = 0): Buffer {
    return this.#map.allocateContiguous(bytes, card);
  }

  pin(key: number, range: AddressRange, frames: readonly number[], card = 0): void {
    this.#unmapPinned(key, card);
    this.pinned.set(idOf(card, key), { ...range, frames });
    this.#iommu?.map(frames, card);
  }

  #unmapPinned(key: number, card: number): void {
    const pinned = this.pinned.get(idOf(card, key));
    if (pinned !== undefined) this.#iommu?.unmap(pinned.frames, card);
  }

  demand(
    key: number,
    { pageBytes }: Buffer,
    { address: start, length, writable }: AddressRange & { readonly writable: boolean },
    card = 0,
  ): void {
    const offset = start % pageBytes;
    const address = start - offset;
    const rights = new Uint8Array(Math.ceil((offset + length) / pageBytes));
    const id = idOf(card, key);
    this.regions.set(id, { card, key, address, offset, pageBytes, writable, rights });
    const early = this.#early.get(id) ?? [];
    this.#early.delete(id);
    for (const event of early) this.fault(event, card);
  }

  regionOf(card: number, key: number): DemandRegion | undefined {
    return this.regions.get(idOf(card, key));
  }

  /** The region is registered, and its key was not reused. */
  isThere(region: DemandRegion): boolean {
    return this.regionOf(region.card, region.key) === region;
  }

  fault(event: PageFault, card = 0): void {
    this.submit({ kind: "fault", event, card });
  }

  /**
   * The card asks once, perhaps before the registration's reply reaches the program: kept until
   * then.
   */
  keepEarly(event: PageFault, card: number): void {
    const id = idOf(card, event.key);
    this.#early.set(id, [...this.#early.get(id) ?? [], event]);
  }

  prefetch(
    places: readonly AdvisedPlace[],
    { write, fault }: { readonly write: boolean; readonly fault: boolean },
    card = 0,
  ): string {
    const parts = places.map(({ key, offset, length }): PagePart => {
      const region = this.regionOf(card, key)!;
      const start = region.offset + offset;
      const first = Math.floor(start / region.pageBytes);
      const end = Math.ceil((start + length) / region.pageBytes);
      return { region, first, count: end - first };
    });
    this.prefetches += parts.length;
    const done = this.#nextSignal();
    this.submit({ kind: "range", parts, rights: write ? 2 : 1, fault, done });
    return done;
  }

  take(range: AddressRange, keep: boolean): string {
    const done = this.#nextSignal();
    this.submit({ kind: "take", range, keep, done });
    return done;
  }

  get hasWork(): boolean {
    return this.#jobs.length > 0 || !this.#hinted.isEmpty;
  }

  /** Jobs that were not begun, and pages of which the card's rights, or their region, say other than their mapping. */
  get held(): { readonly jobs: number; readonly misfiled: number } {
    let misfiled = 0, mapped = 0;
    for (const region of this.regions.values()) {
      for (const [page, rights] of region.rights.entries()) {
        const isMapped = this.mapped.has(nameOf(region, page));
        if (isMapped) mapped++;
        if (isMapped !== rights > 0) misfiled++;
      }
    }
    const ofGone = this.mapped.size - mapped;
    return { jobs: this.#jobs.length + this.#hinted.length, misfiled: misfiled + ofGone };
  }

  submit(job: PageJob): void {
    const hintsOf = job.kind === "fault" ? job.event.hintsOf : undefined;
    if (hintsOf === undefined) this.#jobs.push(job);
    else this.#hinted.push(job, hintsOf);
    this.#onWork();
  }

  nextJob(): PageJob | undefined {
    return this.#jobs.shift() ?? this.#hinted.shift();
  }

  /**
   * The rest waits behind other ranges, so that none waits longer than a batch, but ahead of jobs
   * that take pages back, which must find what was requested before.
   */
  putBack(rest: RangeJob): void {
    if (rest.hintsOf !== undefined) return this.#hinted.push(rest, rest.hintsOf);
    const at = this.#jobs.findIndex(({ kind }) => kind === "take" || kind === "pressure");
    this.#jobs.splice(at < 0 ? this.#jobs.length : at, 0, rest);
  }

  #nextSignal(): string {
    return `paging-${this.#done++}`;
  }

  forget(key: number, card = 0): void {
    const id = idOf(card, key);
    this.#early.delete(id);
    this.#unmapPinned(key, card);
    this.pinned.delete(id);
    const region = this.regions.get(id);
    if (region === undefined) return;
    this.regions.delete(id);
    for (let page = 0; page < region.rights.length; page++) this.unmapped(region, page);
  }

  reset(card = 0): void {
    const isIts = (id: number) => Math.floor(id / KEY_SPAN) === card;
    for (const id of [...this.#early.keys()]) if (isIts(id)) this.#early.delete(id);
    for (const id of [...this.pinned.keys(), ...this.regions.keys()]) {
      if (isIts(id)) this.forget(id % KEY_SPAN, card);
    }
    const isAsked = (job: PageJob) => cardOf(job) === card;
    this.#hinted.remove(isAsked);
    // A program may wait for the end of its advice, which comes as its regions are gone.
    const left = this.#jobs.filter((job) =>
      "done" in job || job.kind === "pressure" || !isAsked(job)
    );
    this.#jobs.splice(0, this.#jobs.length, ...left);
  }

  map(
    region: DemandRegion,
    page: number,
    to: { readonly rights: 1 | 2; readonly frame: number },
  ): void {
    const { rights, frame } = to;
    region.rights[page] = rights;
    this.unmapped(region, page);
    this.mapped.set(nameOf(region, page), { region, page, frame });
    this.#iommu?.map([frame], region.card);
  }

  framesOf(region: DemandRegion, { first, count }: PageRange): number[] {
    return Array.from(
      { length: count },
      (_, i) => this.mapped.get(nameOf(region, first + i))!.frame,
    );
  }

  unmapped(region: DemandRegion, page: number): void {
    const name = nameOf(region, page);
    const before = this.mapped.get(name);
    if (before === undefined) return;
    this.mapped.delete(name);
    this.#iommu?.unmap([before.frame], region.card);
  }

  isPinned({ address, length }: AddressRange): boolean {
    for (const range of this.pinned.values()) {
      if (range.address < address + length && range.address + range.length > address) return true;
    }
    return false;
  }
}

function nameOf({ card, key }: DemandRegion, page: number): string {
  return `${idOf(card, key)}/${page}`;
}

function cardOf(job: PageJob): number | undefined {
  if (job.kind === "fault") return job.card;
  return job.kind === "range" ? job.parts[0]?.region.card : undefined;
}

export class CardPaging implements DemandPaging {
  readonly #pager: Pager;
  readonly #card: number;

  constructor(pager: Pager, card: number) {
    this.#pager = pager;
    this.#card = card;
  }

  get isPinnedByDefault(): boolean {
    return this.#pager.isPinnedByDefault;
  }

  frames(buffer: Buffer, range: AddressRange): readonly number[] {
    return this.#pager.frames(buffer, range);
  }

  pin(key: number, range: AddressRange, frames: readonly number[]): void {
    this.#pager.pin(key, range, frames, this.#card);
  }

  demand(
    key: number,
    buffer: Buffer,
    range: AddressRange & { readonly writable: boolean },
  ): void {
    this.#pager.demand(key, buffer, range, this.#card);
  }

  forget(key: number): void {
    this.#pager.forget(key, this.#card);
  }

  prefetch(
    places: readonly AdvisedPlace[],
    how: { readonly write: boolean; readonly fault: boolean },
  ): string {
    return this.#pager.prefetch(places, how, this.#card);
  }

  take(range: AddressRange, keep: boolean): string {
    return this.#pager.take(range, keep);
  }

  isPinned(range: AddressRange): boolean {
    return this.#pager.isPinned(range);
  }

  fault(event: PageFault): void {
    this.#pager.fault(event, this.#card);
  }

  allocateForCard(bytes: number): Buffer {
    return this.#pager.allocateForCard(bytes, this.#card);
  }
}
