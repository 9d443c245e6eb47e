/**
 * The kernel thread that maps pages for the card and takes them back. Mapping: a batch is brought
 * in, then the card is told. Taking back: the card is told, answers when it does not use the page,
 * and its last writes leave the I/O controller; only then the frame is reused.
 */
import { formatTime, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { DRAM_PAGE_BYTES, VIRTUAL_DRAM_BASE } from "../memory/address_map.ts";
import type { PageTable } from "../memory/page_table.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { AddressRange } from "../cpu/demand_paging.ts";
import type { DemandRegion, PageJob, PagePart, Pager, PageRange, RangeJob } from "./pager.ts";

export interface PageServer {
  readonly cpu: Pick<
    Cpu,
    "now" | "charge" | "settle" | "sleep" | "command" | "signal" | "tracing" | "trace"
  >;
  /** Absent: `cpu` sends it to the only card. */
  readonly commandTo?: (card: number, command: RnicCommand) => Steps<RnicReply>;
  readonly pager: Pager;
  readonly table: PageTable;
  readonly timing: HostTiming;
  readonly physical: (address: number) => number;
  readonly isComing: (frame: number) => boolean;
  /** [0114]: time added, by the place of the work. */
  readonly workPs?: { readonly page: Time; readonly command: Time };
  /** PRI; absent: the card asks the driver. */
  readonly respond?: (
    pages: { readonly key: number; readonly first: number; readonly count: number },
    card: number,
  ) => void;
  /** A program waits for a change in the frame, or streams into it. */
  readonly isInUse: (frame: number) => boolean;
}

export function* servePages(server: PageServer): Steps<void> {
  const { pager, cpu } = server;
  for (let job = pager.nextJob(); job !== undefined; job = pager.nextJob()) {
    const rest = yield* serve(server, job);
    if (rest !== undefined) pager.putBack(rest);
    else if ("done" in job && job.done !== undefined) cpu.signal(job.done);
  }
}

function* serve(server: PageServer, job: PageJob): Steps<RangeJob | undefined> {
  const { pager } = server;
  switch (job.kind) {
    case "fault": {
      const { event: { key, first, count, ahead, hintsOf }, card } = job;
      const region = pager.regionOf(card, key);
      if (region === undefined) {
        pager.keepEarly(job.event, card);
        return undefined;
      }
      pager.faults++;
      // An access waits for these: the rest of its message must not delay them.
      const parts = [{ region, first, count }, { region, first: first + count, count: ahead }];
      const rights = region.writable ? 2 : 1;
      const how = { rights, fault: true, asked: true, hintsOf } as const;
      return yield* mapBatch(server, { kind: "range", parts, ...how });
    }
    case "range":
      return yield* mapBatch(server, job);
    case "take":
      yield* takeRange(server, job.range, job.keep);
      return undefined;
    case "pressure":
      yield* takeOldest(server, job.pages);
      return undefined;
  }
}

/**
 * A choice, also per update of translations. mlx5 waits for one UMR for all of a range
 * (`mlx5r_umr_post_send_wait`, of MLX5_MAX_UMR_CHUNK at most). A batch of untouched pages takes 26
 * us; 100 Gb/s bring its bytes in 22 us. Of a cold WRITE of 1 MiB whose hint is sent one page
 * request's round trip ahead, 475 us, batches of 64 leave 32 us of stall, as those of 48 and 96 do;
 * with 32 it is 45 us, with one batch 77 us.
 */
export const PAGES_PER_BATCH = 64;
/** A choice: so long a batch's pages wait for each other. */
const BATCH_PS: Time = 100 * PS_PER_US;

/**
 * Maps the next consecutive pages that the card does not have with these rights: the kernel is entered once
 * (`hmm_range_fault`), each page has its cost, the card gets one command.
 * @returns the rest of the range.
 */
function* mapBatch(server: PageServer, job: RangeJob): Steps<RangeJob | undefined> {
  const { rights, fault, asked = false } = job;
  const [part, ...others] = job.parts;
  if (part === undefined) return undefined;
  const { region, first, count } = part;
  const { pager, cpu, table, physical, workPs } = server;
  const { pageBytes, address } = region;
  const rest = (parts: readonly PagePart[]) => parts.length > 0 ? { ...job, parts } : undefined;
  const end = Math.min(first + count, region.rights.length);
  const mayMap = (page: number) =>
    region.rights[page]! < rights && (fault || table.isThere(address + page * pageBytes));
  let page = first;
  while (page < end && !mayMap(page)) page++;
  // PRI: answered also where pages were mapped before.
  if (page > first && asked) {
    server.respond?.({ key: region.key, first, count: page - first }, region.card);
  }
  // The region may be gone, and its key reused.
  if (page >= end || !pager.isThere(region)) {
    return yield* mapBatch(server, { ...job, parts: others });
  }
  const run: { first: number; frames: number[] } = { first: page, frames: [] };
  let costPs = 0;
  while (
    page < end && mayMap(page) && run.frames.length < PAGES_PER_BATCH && costPs < BATCH_PS
  ) {
    costPs += bringIn(server, address + page * pageBytes, run.frames.length === 0);
    costPs += workPs?.page ?? 0;
    run.frames.push(physical(address + page * pageBytes));
    page++;
  }
  cpu.charge(costPs);
  yield* cpu.settle();
  if (cpu.tracing) traceIn(server, region, { ...run, costPs });
  const again = yield* tellCard(server, region, { ...run, rights, asked });
  const left = page < end ? [{ region, first: page, count: end - page }] : [];
  return rest([...again, ...left, ...others]);
}

function traceIn(
  { cpu }: PageServer,
  { key }: DemandRegion,
  batch: { readonly first: number; readonly frames: readonly number[]; readonly costPs: Time },
): void {
  const { first, frames: { length: count }, costPs } = batch;
  const which = count === 1 ? `page ${first}` : `pages ${first} to ${first + count - 1}`;
  const text = `${which} of rkey 0x${key.toString(16)} in ${formatTime(costPs)}`;
  cpu.trace({ step: "pages-in", text, pages: [key, first, first + count] });
}

function bringIn({ table, timing }: PageServer, page: number, isFirst: boolean): Time {
  const minorPs = isFirst ? timing.minorFaultPs : timing.rangePagePs;
  return table.isThere(page) ? minorPs : table.touch(page, DRAM_PAGE_BYTES, minorPs);
}

/** @returns pages to retry: where the card refuses one page, it takes none of the command. */
function* tellCard(
  server: PageServer,
  region: DemandRegion,
  run: {
    readonly first: number;
    readonly frames: readonly number[];
    readonly rights: 1 | 2;
    readonly asked: boolean;
  },
): Steps<readonly PagePart[]> {
  const { cpu, pager, timing, respond, workPs } = server;
  const { card, key } = region;
  const { first, frames: pages, rights, asked } = run;
  // Time has passed: the region may be gone, and its memory reused.
  if (!pager.isThere(region)) return [];
  const writable = rights === 2;
  const before = region.rights.slice(first, first + pages.length);
  for (const [i, frame] of pages.entries()) pager.map(region, first + i, { rights, frame });
  if (respond !== undefined && asked) {
    pager.pagesMapped += pages.length;
    // Linux writes an entry of the IOMMU's queue and its doorbell (`iommu_page_response`).
    cpu.charge(timing.storePs + timing.mmioPs);
    yield* cpu.settle();
    if (pager.isThere(region)) respond({ key, first, count: pages.length }, card);
    return [];
  }
  if (workPs !== undefined) cpu.charge(workPs.command);
  const reply = yield* send(server, region, { op: "map-pages", key, first, pages, writable });
  if (reply.status === "ok") {
    pager.pagesMapped += pages.length;
    return [];
  }
  if (!pager.isThere(region)) return [];
  for (const [i, had] of before.entries()) {
    region.rights[first + i] = had;
    if (had === 0) pager.unmapped(region, first + i);
  }
  if (pages.length === 1 || reply.errno !== "EINVAL") return [];
  return pages.map((_, i) => ({ region, first: first + i, count: 1 }));
}

/** Pages of SCM are taken back from the card only. */
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

function send(
  { cpu, commandTo }: PageServer,
  { card }: DemandRegion,
  command: RnicCommand,
): Steps<RnicReply> {
  return commandTo === undefined ? cpu.command(command) : commandTo(card, command);
}

function* invalidate(
  server: PageServer,
  region: DemandRegion,
  { first, count }: PageRange,
): Steps<void> {
  const { pager } = server;
  region.rights.fill(0, first, first + count);
  pager.invalidations++;
  yield* send(server, region, { op: "invalidate-pages", key: region.key, first, count });
  for (let page = first; page < first + count; page++) pager.unmapped(region, page);
}

/** The card does not use it: its frame is free when no write to it is on its way. */
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

/** A page may go if it is not pinned, and no device's write and no core waits for it. */
function mayTake({ pager, physical, isComing, isInUse }: PageServer, page: number): boolean {
  if (pager.isPinned({ address: page, length: DRAM_PAGE_BYTES })) return false;
  const frame = physical(page);
  const isMapped = [...pager.regions.values()].some(({ address, pageBytes, rights }) =>
    rights[Math.floor((page - address) / pageBytes)]! > 0
  );
  return !isMapped && !isComing(frame) && !isInUse(frame);
}

function* takeOldest(server: PageServer, pages: number): Steps<void> {
  const oldest = [...server.pager.mapped.values()].slice(0, pages);
  for (const { region: { address: base, pageBytes }, page } of oldest) {
    yield* takeRange(server, { address: base + page * pageBytes, length: pageBytes }, true);
  }
}

export function* pressMemory(
  { cpu, pager }: Pick<PageServer, "cpu" | "pager">,
  pressure: { readonly everyPs: Time; readonly times: number; readonly pages: number },
): Steps<void> {
  for (let time = 0; time < pressure.times; time++) {
    if (time > 0) yield* cpu.sleep(pressure.everyPs);
    pager.submit({ kind: "pressure", pages: pressure.pages });
  }
}
