/**
 * A model of the driver's side of on-demand paging, from the host's README: jobs in turn, a batch each; what a card is
 * told, and what is taken back; what the IOMMU lets a card reach. Also of the IOMMU's own work for page requests and
 * translations.
 */
import { PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { type HintWork, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type {
  RnicCommand,
  RnicEvent,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { DRAM_PAGE_BYTES, VIRTUAL_DRAM_BASE } from "../memory/address_map.ts";

export const PAGE = DRAM_PAGE_BYTES;
const BATCH = 64, BATCH_PS = 100 * PS_PER_US;

type PageFault = Extract<RnicEvent, { type: "PAGE_FAULT" }>;

/** What the thread does, in order. */
export type Deed =
  | readonly ["charge", Time]
  | readonly ["settle"]
  | readonly ["sleep", Time]
  | readonly ["command", number, RnicCommand]
  | readonly ["signal", string]
  | readonly [
    "respond",
    number,
    { readonly key: number; readonly first: number; readonly count: number },
  ]
  | readonly ["map" | "unmap", number, readonly number[]]
  | readonly ["translated", AtsMessage];

/** The kernel's page table: pages come when they are touched, each time into another frame. */
export class PagesHere {
  readonly #frames = new Map<number, number>();
  readonly #kept = new Set<number>();
  #next = 0x1000_0000;

  isThere(page: number): boolean {
    return this.#frames.has(page);
  }

  touch(address: number, length: number, minorPs: Time = 1): Time {
    let ps = 0;
    const last = address + length - 1;
    for (let page = address - address % PAGE; page <= last; page += PAGE) {
      if (this.#frames.has(page)) continue;
      this.#frames.set(page, this.#next);
      this.#next += PAGE;
      ps += minorPs + (this.#kept.delete(page) ? 20 * PS_PER_US : 0);
    }
    return ps;
  }

  takeAway(page: number, keep: boolean): void {
    this.#frames.delete(page);
    if (keep) this.#kept.add(page);
  }

  physical(address: number): number {
    const page = address - address % PAGE;
    return (this.#frames.get(page) ?? 0) + address - page;
  }
}

export interface RegionModel {
  readonly card: number;
  readonly key: number;
  readonly address: number;
  readonly offset: number;
  readonly pageBytes: number;
  readonly writable: boolean;
  readonly rights: number[];
}

interface Part {
  readonly region: RegionModel;
  readonly first: number;
  readonly count: number;
}

export type JobModel =
  | { readonly kind: "fault"; readonly event: PageFault; readonly card: number }
  | {
    readonly kind: "range";
    readonly parts: readonly Part[];
    readonly rights: 1 | 2;
    readonly fault: boolean;
    readonly isAsked: boolean;
    readonly hintsOf?: number | undefined;
    readonly done?: string;
  }
  | {
    readonly kind: "take";
    readonly address: number;
    readonly length: number;
    readonly keep: boolean;
    readonly done: string;
  }
  | { readonly kind: "pressure"; readonly pages: number };

export interface HostOptions {
  readonly timing: HostTiming;
  readonly workPs?: { readonly page: Time; readonly command: Time };
  readonly responds: boolean;
  readonly atsWork: HintWork;
}

export class HostPagingModel {
  readonly pages = new PagesHere();
  readonly deeds: Deed[] = [];
  readonly regions = new Map<string, RegionModel>();
  readonly pinned = new Map<
    string,
    { card: number; key: number; address: number; length: number; frames: readonly number[] }
  >();
  readonly mapped = new Map<string, { region: RegionModel; page: number; frame: number }>();
  readonly early = new Map<string, PageFault[]>();
  readonly counters = { faults: 0, prefetches: 0, pagesMapped: 0, invalidations: 0, pagesTaken: 0 };
  jobs: JobModel[] = [];
  hinted: { readonly of: number; jobs: JobModel[] }[] = [];
  coming: ReadonlySet<number> = new Set();
  isInUse: (frame: number) => boolean = () => false;
  // Of the first card's IOMMU.
  readonly ats = { pageRequests: 0, translations: 0 };
  atsNow: { readonly message: AtsMessage; readonly until: Time } | undefined;
  atsWaiting: AtsMessage[] = [];
  atsHinted: { readonly of: number; jobs: AtsMessage[] }[] = [];
  #signals = 0;
  readonly #options: HostOptions;

  constructor(options: HostOptions) {
    this.#options = options;
  }

  // Regions.

  pin(card: number, key: number, address: number, length: number, frames: readonly number[]): void {
    const before = this.pinned.get(idOf(card, key));
    if (before !== undefined) this.deeds.push(["unmap", card, before.frames]);
    this.pinned.set(idOf(card, key), { card, key, address, length, frames });
    this.deeds.push(["map", card, frames]);
  }

  demand(
    card: number,
    key: number,
    { address: start, length, writable }: { address: number; length: number; writable: boolean },
  ): void {
    const offset = start % PAGE, id = idOf(card, key);
    const rights = new Array<number>(Math.ceil((offset + length) / PAGE)).fill(0);
    const place = { card, key, address: start - offset, offset, pageBytes: PAGE };
    this.regions.set(id, { ...place, writable, rights });
    for (const event of this.early.get(id) ?? []) this.submit({ kind: "fault", event, card });
    this.early.delete(id);
  }

  forget(card: number, key: number): void {
    const id = idOf(card, key), pinned = this.pinned.get(id), region = this.regions.get(id);
    this.early.delete(id);
    if (pinned !== undefined) this.deeds.push(["unmap", card, pinned.frames]);
    this.pinned.delete(id);
    this.regions.delete(id);
    for (const page of region?.rights.keys() ?? []) this.#unmap(region!, page);
  }

  /** The card begins anew: what it had asked for, and all that is its own, is void. */
  reset(card: number): void {
    for (const id of [...this.early.keys()]) if (id.startsWith(`${card}/`)) this.early.delete(id);
    const its = [...this.pinned.values(), ...this.regions.values()];
    for (const { key, card: of } of its) if (of === card) this.forget(card, key);
    const isIts = (job: JobModel) =>
      job.kind === "fault"
        ? job.card === card
        : job.kind === "range" && job.parts[0]?.region.card === card;
    for (const each of this.hinted) each.jobs = each.jobs.filter((job) => !isIts(job));
    this.hinted = this.hinted.filter(({ jobs }) => jobs.length > 0);
    // Programs wait for the end of advice.
    this.jobs = this.jobs.filter((job) => ("done" in job && true) || !isIts(job));
  }

  prefetch(
    card: number,
    places: readonly { key: number; offset: number; length: number }[],
    { write, fault }: { write: boolean; fault: boolean },
  ): string {
    const parts = places.map(({ key, offset, length }): Part => {
      const region = this.regions.get(idOf(card, key))!, start = region.offset + offset;
      const first = Math.floor(start / PAGE);
      return { region, first, count: Math.ceil((start + length) / PAGE) - first };
    });
    this.counters.prefetches += parts.length;
    const done = `paging-${this.#signals++}`;
    this.submit({ kind: "range", parts, rights: write ? 2 : 1, fault, isAsked: false, done });
    return done;
  }

  take(address: number, length: number, keep: boolean): string {
    const done = `paging-${this.#signals++}`;
    this.submit({ kind: "take", address, length, keep, done });
    return done;
  }

  submit(job: JobModel): void {
    const of = job.kind === "fault" ? job.event.hintsOf : undefined;
    if (of === undefined) this.jobs.push(job);
    else queue(this.hinted, of, job);
  }

  #next(): JobModel | undefined {
    return this.jobs.shift() ?? nextOf(this.hinted);
  }

  /** What is left of a range goes behind other ranges, and ahead of what takes pages. */
  #putBack(job: Extract<JobModel, { kind: "range" }>): void {
    if (job.hintsOf !== undefined) return queue(this.hinted, job.hintsOf, job);
    const ranges = this.jobs.findIndex(({ kind }) => kind === "take" || kind === "pressure");
    const at = ranges < 0 ? this.jobs.length : ranges;
    this.jobs = [...this.jobs.slice(0, at), job, ...this.jobs.slice(at)];
  }

  // The thread.

  *serve(): Generator<void, void, RnicReply> {
    for (let job = this.#next(); job !== undefined; job = this.#next()) {
      if (job.kind === "fault") {
        const { event: { key, first, count, ahead, hintsOf }, card } = job;
        const id = idOf(card, key), region = this.regions.get(id);
        if (region === undefined) {
          this.early.set(id, [...this.early.get(id) ?? [], job.event]);
          continue;
        }
        this.counters.faults++;
        const rights = region.writable ? 2 : 1;
        const parts = [{ region, first, count }, { region, first: first + count, count: ahead }];
        yield* this.#range({ kind: "range", parts, rights, fault: true, isAsked: true, hintsOf });
      } else if (job.kind === "range") yield* this.#range(job);
      else if (job.kind === "take") {
        yield* this.#takeRange(job.address, job.length, job.keep);
        this.deeds.push(["signal", job.done]);
      } else {
        for (const { region, page } of [...this.mapped.values()].slice(0, job.pages)) {
          yield* this.#takeRange(region.address + page * PAGE, PAGE, true);
        }
      }
    }
  }

  *#settle(): Generator<void, void, RnicReply> {
    this.deeds.push(["settle"]);
    yield;
  }

  #isThere(region: RegionModel): boolean {
    return this.regions.get(idOf(region.card, region.key)) === region;
  }

  /** A batch of a range: the next pages in a row that the card has not, with these rights. */
  *#range(job: Extract<JobModel, { kind: "range" }>): Generator<void, void, RnicReply> {
    const { rights, fault, isAsked, done } = job,
      { workPs: work, timing, responds } = this.#options;
    let parts = [...job.parts];
    for (; parts.length > 0; parts = parts.slice(1)) {
      const [{ region, first, count }, ...others] = parts as [Part, ...Part[]];
      const end = Math.min(first + count, region.rights.length);
      const isWanted = (page: number) =>
        page < end && region.rights[page]! < rights &&
        (fault || this.pages.isThere(region.address + page * PAGE));
      let page = first;
      while (page < end && !isWanted(page)) page++;
      if (isAsked && page > first && responds) {
        this.deeds.push(["respond", region.card, { key: region.key, first, count: page - first }]);
      }
      if (page >= end || !this.#isThere(region)) continue;
      const frames: number[] = [], from = page;
      let costPs = 0;
      while (isWanted(page) && frames.length < BATCH && costPs < BATCH_PS) {
        const address = region.address + page * PAGE;
        // The kernel is entered once.
        const minorPs = frames.length === 0 ? timing.minorFaultPs : timing.rangePagePs;
        costPs += this.pages.isThere(address) ? minorPs : this.pages.touch(address, PAGE, minorPs);
        costPs += work?.page ?? 0;
        frames.push(this.pages.physical(address));
        page++;
      }
      this.deeds.push(["charge", costPs]);
      yield* this.#settle();
      const again = yield* this.#tell(region, from, frames, { rights, isAsked });
      const left = page < end ? [{ region, first: page, count: end - page }] : [];
      const rest = [...again, ...left, ...others];
      if (rest.length > 0) return this.#putBack({ ...job, parts: rest });
      break;
    }
    if (done !== undefined) this.deeds.push(["signal", done]);
  }

  /** @returns pages to be tried one by one, as the card has refused one of them, and so all. */
  *#tell(
    region: RegionModel,
    first: number,
    frames: readonly number[],
    { rights, isAsked }: { rights: 1 | 2; isAsked: boolean },
  ): Generator<void, Part[], RnicReply> {
    const { timing, responds, workPs: work } = this.#options, { card, key } = region;
    if (!this.#isThere(region)) return [];
    const before = region.rights.slice(first, first + frames.length);
    for (const [i, frame] of frames.entries()) {
      const page = first + i;
      region.rights[page] = rights;
      this.#unmap(region, page);
      this.mapped.set(`${idOf(card, key)}/${page}`, { region, page, frame });
      this.deeds.push(["map", card, [frame]]);
    }
    if (responds && isAsked) {
      this.counters.pagesMapped += frames.length;
      this.deeds.push(["charge", timing.storePs + timing.mmioPs]);
      yield* this.#settle();
      if (this.#isThere(region)) {
        this.deeds.push(["respond", card, { key, first, count: frames.length }]);
      }
      return [];
    }
    if (work !== undefined) this.deeds.push(["charge", work.command]);
    const writable = rights === 2;
    this.deeds.push(["command", card, { op: "map-pages", key, first, pages: frames, writable }]);
    const reply = yield;
    if (reply.status === "ok") {
      this.counters.pagesMapped += frames.length;
      return [];
    }
    if (!this.#isThere(region)) return [];
    for (const [i, had] of before.entries()) {
      region.rights[first + i] = had;
      if (had === 0) this.#unmap(region, first + i);
    }
    if (reply.errno !== "EINVAL" || frames.length === 1) return [];
    return frames.map((_, i) => ({ region, first: first + i, count: 1 }));
  }

  #unmap({ card, key }: RegionModel, page: number): void {
    const name = `${idOf(card, key)}/${page}`, before = this.mapped.get(name);
    if (before === undefined) return;
    this.mapped.delete(name);
    this.deeds.push(["unmap", card, [before.frame]]);
  }

  /** Whole pages in the range leave the cards, then memory, where nobody needs them. */
  *#takeRange(address: number, length: number, keep: boolean): Generator<void, void, RnicReply> {
    const end = address + length;
    for (const region of [...this.regions.values()]) {
      const { rights, address: base, card, key } = region;
      const isIn = (page: number) =>
        page < rights.length && base + page * PAGE >= address && base + (page + 1) * PAGE <= end;
      for (let page = 0; page < rights.length; page++) {
        let count = 0;
        while (isIn(page + count) && rights[page + count]! > 0) count++;
        if (count === 0) continue;
        rights.fill(0, page, page + count);
        this.counters.invalidations++;
        this.deeds.push(["command", card, { op: "invalidate-pages", key, first: page, count }]);
        yield;
        for (let each = page; each < page + count; each++) this.#unmap(region, each);
        page += count - 1;
      }
    }
    for (let page = Math.ceil(address / PAGE) * PAGE; page + PAGE <= end; page += PAGE) {
      if (page >= VIRTUAL_DRAM_BASE && this.pages.isThere(page)) yield* this.#takePage(page, keep);
    }
  }

  *#takePage(page: number, keep: boolean): Generator<void, void, RnicReply> {
    const { timing } = this.#options, frame = this.pages.physical(page);
    while (this.coming.has(frame)) {
      this.deeds.push(["sleep", timing.iioPs]);
      yield;
    }
    this.deeds.push(["charge", timing.minorFaultPs]);
    yield* this.#settle();
    if (!this.pages.isThere(page)) return;
    const isPinned = [...this.pinned.values()].some((its) =>
      its.address < page + PAGE && its.address + its.length > page
    );
    const isMapped = [...this.regions.values()].some(({ address, rights }) =>
      (rights[(page - address) / PAGE] ?? 0) > 0
    );
    const now = this.pages.physical(page);
    if (isPinned || isMapped || this.coming.has(now) || this.isInUse(now)) return;
    this.counters.pagesTaken++;
    this.pages.takeAway(page, keep);
  }

  // The IOMMU.

  atsTake(message: AtsMessage, now: Time): void {
    if (message.hintsOf === undefined) this.atsWaiting.push(message);
    else queue(this.atsHinted, message.hintsOf, message);
    if (this.atsNow === undefined) this.#atsBegin(now);
  }

  #atsBegin(now: Time): void {
    const message = this.atsWaiting.shift() ?? nextOf(this.atsHinted);
    if (message === undefined) {
      this.atsNow = undefined;
      return;
    }
    const piece = message.step === "page-request" ? "request" : "translate";
    this.atsNow = { message, until: now + workPs(this.#options.atsWork, piece, message.count) };
  }

  atsRun(now: Time): void {
    while (this.atsNow !== undefined && this.atsNow.until <= now) {
      const { message, until } = this.atsNow;
      this.#atsBegin(until);
      const { step, key, first, count, ahead, write, hintsOf } = message;
      if (step === "page-request") {
        this.ats.pageRequests++;
        const event: PageFault = {
          ...{ type: "PAGE_FAULT", key, first, count, ahead, write },
          ...(hintsOf !== undefined && { hintsOf }),
        };
        this.submit({ kind: "fault", event, card: 0 });
        continue;
      }
      this.ats.translations++;
      const region = this.regions.get(idOf(0, key));
      const of = (page: number) => region?.rights[page] ?? 0;
      for (let page = first, next = first; page < first + count; page = next) {
        while (next < first + count && of(next) === of(page)) next++;
        const frames = Array.from(
          { length: of(page) === 0 ? 0 : next - page },
          (_, i) => this.mapped.get(`${idOf(0, key)}/${page + i}`)!.frame,
        );
        this.deeds.push(["translated", {
          ...{ kind: "ats", step: "translated", key, ahead: 0, first: page, count: next - page },
          ...{ write: of(page) === 2, frames },
        }]);
      }
    }
  }

  get atsHeld(): number {
    const hinted = this.atsHinted.reduce((sum, { jobs }) => sum + jobs.length, 0);
    return this.atsWaiting.length + hinted + (this.atsNow === undefined ? 0 : 1);
  }
}

export function idOf(card: number, key: number): string {
  return `${card}/${key}`;
}

/** Requesters take turns. */
function queue<T>(queues: { readonly of: number; jobs: T[] }[], of: number, job: T): void {
  const its = queues.find((each) => each.of === of);
  if (its === undefined) queues.push({ of, jobs: [job] });
  else its.jobs.push(job);
}

function nextOf<T>(queues: { readonly of: number; jobs: T[] }[]): T | undefined {
  const first = queues.shift();
  if (first === undefined) return undefined;
  const [job, ...others] = first.jobs as [T, ...T[]];
  if (others.length > 0) queues.push({ of: first.of, jobs: others });
  return job;
}
