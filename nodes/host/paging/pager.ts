/**
 * The driver's side of on-demand paging, for all cards of a host: regions whose pages a card asks for, what each page may be used
 * for, and a queue of what is to be done: page faults of the card, advice, pages to be taken back. One
 * kernel thread does it (`serve_pages.ts`), so that nothing races with a page that comes or goes. Ranges take
 * turns, a batch each; what is to be taken back is taken when all that was asked for before it is there. All of that
 * goes ahead of what hints alone have named, whose requesters take turns: it holds others up for one batch (H-24).
 *
 * Source: Linux, mlx5 (`odp.c`): page fault events, `pagefault_mr`, `mlx5_ib_invalidate_range`.
 */
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { AddressRange, AdvisedPlace, DemandPaging } from "../cpu/demand_paging.ts";
import type { AddressMap, Buffer } from "../memory/address_map.ts";
import type { Iommu } from "../memory/iommu.ts";
import type { PageTable } from "../memory/page_table.ts";
import { FairQueue } from "./fair_queue.ts";

/** A region that is registered for on-demand paging. */
export interface DemandRegion {
  /** The number of its card, which knows it by its key. */
  readonly card: number;
  readonly key: number;
  /** Virtual address at which its first page begins, and its own first byte in it. */
  readonly address: number;
  readonly offset: number;
  readonly pageBytes: number;
  /** Its pages may be written by the card. */
  readonly writable: boolean;
  /** What the card may do with each page: 0 nothing, 1 read, 2 write as well. */
  readonly rights: Uint8Array;
}

export interface PageRange {
  readonly first: number;
  readonly count: number;
}

/** Pages of one region that are wanted together: mapped in batches, none of which goes beyond. */
export interface PagePart extends PageRange {
  readonly region: DemandRegion;
}

/** Pages that the card is to have, or what is left of them. */
export interface RangeJob {
  readonly kind: "range";
  readonly parts: readonly PagePart[];
  readonly rights: 1 | 2;
  /** Pages that are away are brought in; else only what is there is mapped. */
  readonly fault: boolean;
  /** The card has asked for them, not a program. */
  readonly asked?: true;
  /** Of the requester with this address, whose hints alone have named them. */
  readonly hintsOf?: number | undefined;
  readonly done?: string;
}

interface MappedPage {
  readonly region: DemandRegion;
  readonly page: number;
  /** Physical address. */
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

/** Keys are numbers of 32 bits, of which each card gives its own. */
const KEY_SPAN = 2 ** 32;

function idOf(card: number, key: number): number {
  return card * KEY_SPAN + key;
}

/** Methods about regions take the number of the card; the first one's is 0. */
export class Pager implements DemandPaging {
  /** By card and key, see {@link regionOf}. */
  readonly regions = new Map<number, DemandRegion>();
  /** Memory of other regions: it stays where it is. */
  readonly pinned = new Map<number, AddressRange & { readonly frames: readonly number[] }>();
  /** Pages that the card has, the one mapped longest first: region and page. */
  readonly mapped = new Map<string, MappedPage>();
  readonly isPinnedByDefault: boolean;
  faults = 0;
  prefetches = 0;
  pagesMapped = 0;
  invalidations = 0;
  pagesTaken = 0;
  readonly #jobs: PageJob[] = [];
  /** Pages that no request needs: they wait for all other jobs. */
  readonly #hinted = new FairQueue<PageJob>();
  readonly #onWork: () => void;
  readonly #map: AddressMap;
  readonly #table: PageTable;
  readonly #iommu: Iommu | undefined;
  /** Page faults of regions that are not known yet, by key. */
  readonly #early = new Map<number, readonly PageFault[]>();
  #done = 0;

  constructor(options: {
    readonly pin: boolean;
    readonly map: AddressMap;
    readonly table: PageTable;
    /** Where there is one, the card reaches registered memory alone. */
    readonly iommu?: Iommu | undefined;
    /** There is something to be done: a thread is to run `servePages`. */
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

  /** A card's region with this key. */
  regionOf(card: number, key: number): DemandRegion | undefined {
    return this.regions.get(idOf(card, key));
  }

  /** Whether it is registered still, and not another one by its key. */
  isThere(region: DemandRegion): boolean {
    return this.regionOf(region.card, region.key) === region;
  }

  fault(event: PageFault, card = 0): void {
    this.submit({ kind: "fault", event, card });
  }

  /**
   * The card may ask for pages of a region before its registration has come back to the program: the card
   * asks once, so what it asked for is kept until then.
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
   * What is left of a range waits behind the other ranges, so that none holds them up for longer than a batch,
   * but ahead of what is to be taken back: it was asked for before that, and must not come in behind it.
   */
  putBack(rest: RangeJob): void {
    if (rest.hintsOf !== undefined) return this.#hinted.push(rest, rest.hintsOf);
    const at = this.#jobs.findIndex(({ kind }) => kind === "take" || kind === "pressure");
    this.#jobs.splice(at < 0 ? this.#jobs.length : at, 0, rest);
  }

  /** A signal that no other job raises. */
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

  /** A card has failed: its regions are gone, and what it has asked for. */
  reset(card = 0): void {
    const isIts = (id: number) => Math.floor(id / KEY_SPAN) === card;
    for (const id of [...this.#early.keys()]) if (isIts(id)) this.#early.delete(id);
    for (const id of [...this.pinned.keys(), ...this.regions.keys()]) {
      if (isIts(id)) this.forget(id % KEY_SPAN, card);
    }
    const isAsked = (job: PageJob) => cardOf(job) === card;
    this.#hinted.remove(isAsked);
    // A program may wait for what it has advised: that ends, as its regions are gone.
    const left = this.#jobs.filter((job) =>
      "done" in job || job.kind === "pressure" || !isAsked(job)
    );
    this.#jobs.splice(0, this.#jobs.length, ...left);
  }

  /** The card is about to have the page, which lies in this frame. */
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

  /** Frames of pages that the card may have. */
  framesOf(region: DemandRegion, { first, count }: PageRange): number[] {
    return Array.from(
      { length: count },
      (_, i) => this.mapped.get(nameOf(region, first + i))!.frame,
    );
  }

  /** The card has let go of the page. */
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

/** The card that has asked for it; undefined where no single one has. */
function cardOf(job: PageJob): number | undefined {
  if (job.kind === "fault") return job.card;
  return job.kind === "range" ? job.parts[0]?.region.card : undefined;
}

/** The pager as the verbs of one card's device see it. */
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
