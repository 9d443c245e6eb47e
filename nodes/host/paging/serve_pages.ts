/**
 * The kernel thread that maps pages for the card and takes them back. Mapping: the page is brought in where
 * it is away, then the card is told. Taking back: the card is told and answers when it uses the page no
 * more; its last writes have left the I/O controller; only then the frame is another page's.
 */
import { PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import { DRAM_PAGE_BYTES, VIRTUAL_DRAM_BASE } from "../memory/address_map.ts";
import type { PageTable } from "../memory/page_table.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { AddressRange } from "../cpu/demand_paging.ts";
import type { DemandRegion, PageJob, Pager, PageRange } from "./pager.ts";

/** What the thread works on. */
export interface PageServer {
  readonly cpu: Pick<Cpu, "now" | "charge" | "settle" | "sleep" | "command" | "signal">;
  readonly pager: Pager;
  readonly table: PageTable;
  readonly timing: HostTiming;
  /** Physical address of a page of virtual memory that is there. */
  readonly physical: (address: number) => number;
  /** Whether a write of a device to this frame is on its way to memory. */
  readonly isComing: (frame: number) => boolean;
  /** [0114]: what the work's place adds to a page that is mapped, and to a command for the card. */
  readonly workPs?: { readonly page: Time; readonly command: Time };
  /** Tells the IOMMU that pages are there, of which the card has asked it (PRI); absent: it asks the driver. */
  readonly respond?: (
    pages: { readonly key: number; readonly first: number; readonly count: number },
  ) => void;
  /** Whether a program waits for a change in the frame, or streams into it: it is in use. */
  readonly isInUse: (frame: number) => boolean;
}

/** Does what is to be done, until nothing is. */
export function* servePages(server: PageServer): Steps<void> {
  const { pager, cpu } = server;
  for (let job = pager.nextJob(); job !== undefined; job = pager.nextJob()) {
    yield* serve(server, job);
    if ("done" in job) cpu.signal(job.done);
  }
}

function* serve(server: PageServer, job: PageJob): Steps<void> {
  const { pager } = server;
  switch (job.kind) {
    case "fault": {
      const { key, first, count, ahead } = job.event;
      const region = pager.regions.get(key);
      if (region === undefined) return pager.keepEarly(job.event);
      pager.faults++;
      const rights = region.writable ? 2 : 1;
      yield* mapPages(server, region, {
        range: { first, count },
        rights,
        fault: true,
        asked: true,
      });
      if (ahead === 0) return;
      const range = { first: first + count, count: ahead };
      return yield* mapPages(server, region, { range, rights, fault: true, asked: true });
    }
    case "prefetch": {
      const region = pager.regions.get(job.key);
      if (region === undefined) return;
      pager.prefetches++;
      const { range, fault } = job;
      return yield* mapPages(server, region, { range, rights: job.write ? 2 : 1, fault });
    }
    case "take":
      return yield* takeRange(server, job.range, job.keep);
    case "pressure":
      return yield* takeOldest(server, job.pages);
  }
}

/** Pages in one command: a mailbox has room for so many addresses (a choice). */
const PAGES_PER_COMMAND = 512;
/** A choice: pages that are there are not kept longer for others, which what waits for them need not wait for. */
const BATCH_PS: Time = 100 * PS_PER_US;

/** Maps pages that the card has not got with these rights, in runs. */
function* mapPages(
  server: PageServer,
  region: DemandRegion,
  wanted: {
    readonly range: PageRange;
    readonly rights: 1 | 2;
    readonly fault: boolean;
    /** The card has asked for them, not a program. */
    readonly asked?: true;
  },
): Steps<void> {
  const { range, rights, fault, asked = false } = wanted;
  const { pageBytes, address } = region;
  const end = Math.min(range.first + range.count, region.rights.length);
  const mayMap = (page: number) =>
    region.rights[page]! < rights && (fault || server.table.isThere(address + page * pageBytes));
  for (let page = range.first; page < end;) {
    if (!mayMap(page)) {
      page++;
      continue;
    }
    const first = page;
    const pages: number[] = [];
    const until = server.cpu.now + BATCH_PS;
    while (
      page < end && mayMap(page) && pages.length < PAGES_PER_COMMAND && server.cpu.now < until
    ) {
      pages.push(yield* bringIn(server, address + page * pageBytes));
      page++;
    }
    yield* tellCard(server, region, { first, pages, rights, asked });
  }
}

/** A page as the card is to have it. @returns its physical address. */
function* bringIn(server: PageServer, page: number): Steps<number> {
  const { cpu, table, timing, physical, workPs } = server;
  const cost: Time = table.isThere(page) ? timing.minorFaultPs : table.touch(page, DRAM_PAGE_BYTES);
  cpu.charge(cost + (workPs?.page ?? 0));
  yield* cpu.settle();
  return physical(page);
}

function* tellCard(
  { cpu, pager, timing, respond, workPs }: PageServer,
  region: DemandRegion,
  run: {
    readonly first: number;
    readonly pages: readonly number[];
    readonly rights: 1 | 2;
    readonly asked: boolean;
  },
): Steps<void> {
  const { key } = region;
  const { first, rights, asked } = run;
  // Time has passed: the region may be gone, and its memory another's.
  if (pager.regions.get(key) !== region) return;
  const writable = rights === 2;
  const pages = [...run.pages];
  for (const [i, frame] of pages.entries()) pager.map(region, first + i, { rights, frame });
  pager.pagesMapped += pages.length;
  if (respond !== undefined && asked) {
    // An entry of the IOMMU's queue and its doorbell, as Linux writes them (`iommu_page_response`).
    cpu.charge(timing.storePs + timing.mmioPs);
    yield* cpu.settle();
    if (pager.regions.get(key) === region) respond({ key, first, count: pages.length });
    return;
  }
  if (workPs !== undefined) cpu.charge(workPs.command);
  yield* cpu.command({ op: "map-pages", key, first, pages, writable });
}

/** Takes the DRAM pages of a range away from the card and from memory; SCM's from the card alone. */
function* takeRange(server: PageServer, range: AddressRange, keep: boolean): Steps<void> {
  const { pager } = server;
  for (const region of [...pager.regions.values()]) {
    const { address, pageBytes, rights } = region;
    const first = Math.max(0, Math.ceil((range.address - address) / pageBytes));
    const end = Math.min(
      rights.length,
      Math.floor((range.address + range.length - address) / pageBytes),
    );
    for (let page = first; page < end;) {
      if (rights[page] === 0) {
        page++;
        continue;
      }
      const from = page;
      while (page < end && rights[page]! > 0) page++;
      yield* invalidate(server, region, { first: from, count: page - from });
    }
  }
  const start = Math.ceil(range.address / DRAM_PAGE_BYTES) * DRAM_PAGE_BYTES;
  const end = range.address + range.length - DRAM_PAGE_BYTES;
  for (let page = start; page <= end; page += DRAM_PAGE_BYTES) {
    yield* takePage(server, page, keep);
  }
}

function* invalidate(
  { cpu, pager }: PageServer,
  region: DemandRegion,
  { first, count }: PageRange,
): Steps<void> {
  region.rights.fill(0, first, first + count);
  pager.invalidations++;
  yield* cpu.command({ op: "invalidate-pages", key: region.key, first, count });
  for (let page = first; page < first + count; page++) pager.unmapped(region, page);
}

/** The card does not use it any more: its frame is free when no write is on its way there. */
function* takePage(server: PageServer, page: number, keep: boolean): Steps<void> {
  const { cpu, pager, table, timing, physical } = server;
  if (page < VIRTUAL_DRAM_BASE || !table.isThere(page)) return;
  const frame = physical(page);
  while (server.isComing(frame)) yield* cpu.sleep(timing.iioPs);
  cpu.charge(timing.minorFaultPs);
  yield* cpu.settle();
  if (!mayTake(server, page)) return;
  pager.pagesTaken++;
  table.takeAway(page, keep);
}

/** Whether nothing needs the page where it is: pinned memory, a device's write, a core that waits for it. */
function mayTake({ pager, table, physical, isComing, isInUse }: PageServer, page: number): boolean {
  if (!table.isThere(page) || pager.isPinned({ address: page, length: DRAM_PAGE_BYTES })) {
    return false;
  }
  const frame = physical(page);
  const isMapped = [...pager.regions.values()].some(({ address, pageBytes, rights }) =>
    rights[Math.floor((page - address) / pageBytes)]! > 0
  );
  return !isMapped && !isComing(frame) && !isInUse(frame);
}

/** Takes back the pages that the card has had longest. */
function* takeOldest(server: PageServer, pages: number): Steps<void> {
  const oldest = [...server.pager.mapped.values()].slice(0, pages);
  for (const { region: { address: base, pageBytes }, page } of oldest) {
    yield* takeRange(server, { address: base + page * pageBytes, length: pageBytes }, true);
  }
}

/** Memory pressure of the scenario: comes again and again, so many times. */
export function* pressMemory(
  { cpu, pager }: Pick<PageServer, "cpu" | "pager">,
  pressure: { readonly everyPs: Time; readonly times: number; readonly pages: number },
): Steps<void> {
  for (let time = 0; time < pressure.times; time++) {
    if (time > 0) yield* cpu.sleep(pressure.everyPs);
    pager.submit({ kind: "pressure", pages: pressure.pages });
  }
}
