/**
 * Page requests: the card asks the driver for pages of on-demand regions by an event, once for each page,
 * and is told by a command that they are there (`map-pages`). With an access the rest of its message is
 * asked for, as mlx5's driver brings it in behind the pages that are needed at once (`rdma_op_len`).
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import { asksAgain, asksIommu, pageRequestPs } from "../state/hints/work.ts";
import type { Region } from "../state/memory.ts";
import type { WantedPage } from "../state/paging_state.ts";
import { ABSENT, type TranslationTable } from "../state/translation_table.ts";
import { resumeMapped } from "./memory_waits.ts";
import { writeEntries } from "./translation_cache.ts";

/** Most pages that one event asks for ahead (mlx5: MAX_PREFETCH_LEN, 4 MiB). */
const AHEAD_PAGES_MAX = 1024;

type PageFault = Extract<RnicEvent, { type: "PAGE_FAULT" }>;

/** Pages that a message goes on to: of this table, up to `end`. */
export interface Ahead {
  readonly table: TranslationTable;
  readonly end: number;
}

/** Asks for pages in order of their tables and numbers, each once, and for those ahead of the last. */
export function askForPages(
  device: Device,
  pages: readonly WantedPage[],
  beyond?: Ahead,
): void {
  const { counters } = device.paging;
  const { pageEvents, now } = device;
  const isAgain = asksAgain(device);
  let at = 0;
  let isNew = false;
  while (at < pages.length) {
    const { table, page: first, rights } = pages[at]!;
    if (table.demand![first]!.asked >= rights && !isAgain) {
      at++;
      continue;
    }
    let count = 0;
    while (
      pages[at + count]?.table === table && pages[at + count]!.page === first + count &&
      (table.demand![first + count]!.asked < rights || isAgain)
    ) count++;
    at += count;
    const end = first + count;
    const ahead = at === pages.length && beyond?.table === table
      ? aheadPages(table, { from: end, aheadEnd: beyond.end, rights })
      : 0;
    for (let page = first; page < end + ahead; page++) table.demand![page]!.asked = rights;
    isNew = true;
    counters.pageFaults++;
    counters.pagesAsked += count + ahead;
    const write = rights === 2;
    const event = { type: "PAGE_FAULT", key: table.key, first, count, ahead, write } as const;
    const delayPs = pageRequestPs(device);
    if (delayPs === 0) raisePageRequest(device, event);
    else pageEvents.push({ at: now + delayPs, table, event });
  }
  if (!isNew) counters.pageFaultsMerged++;
}

/** How many pages from `from` on may be asked for as well: up to one that is there or was asked for. */
function aheadPages(
  { demand }: TranslationTable,
  ahead: { readonly from: number; readonly aheadEnd: number; readonly rights: 1 | 2 },
): number {
  const { from, aheadEnd, rights } = ahead;
  const end = Math.min(aheadEnd, from + AHEAD_PAGES_MAX);
  let page = from;
  while (page < end && demand![page]!.rights < rights && demand![page]!.asked < rights) page++;
  return page - from;
}

/** By PRI, where the IOMMU is asked and not the driver. */
function raisePageRequest(device: Device, event: PageFault): void {
  if (!asksIommu(device)) return raiseEvent(device, event);
  const { type: _, ...pages } = event;
  const message = { kind: "ats", step: "page-request", ...pages, frames: [] } as const;
  device.out.send(PORTS.rnicBus, message, device.stageAt);
}

/** Raises the events whose time has come. Called in every step. */
export function raisePageFaults(device: Device): void {
  const { pageEvents, now, paging } = device;
  for (let first = pageEvents.peek(); first !== undefined; first = pageEvents.peek()) {
    if (first.at > now) return;
    pageEvents.shift();
    if (!paging.tables.has(first.table)) continue;
    raiseEvent(device, first.event);
  }
}

/** When {@link raisePageFaults} has something to do. */
export function pageFaultWakeAt({ pageEvents, now }: Device): Time {
  const first = pageEvents.peek();
  return first === undefined ? NEVER : Math.max(now, first.at);
}

/** Pages are there: what waits for them goes on. */
export function mapPages(
  device: Device,
  { table }: Pick<Region, "table">,
  mapped: { readonly first: number; readonly pages: readonly number[]; readonly writable: boolean },
): void {
  const { first, pages, writable } = mapped;
  for (const [i, address] of pages.entries()) {
    table.pages[first + i] = address;
    table.demand![first + i] = { rights: writable ? 2 : 1, asked: 0 };
  }
  device.paging.counters.pagesMapped += pages.length;
  writeEntries(device, table, { first, count: pages.length });
  resumeMapped(device);
}

/** Pages are no more. @returns the frames that accesses may still be under way to. */
export function unmapPages(
  device: Device,
  { table }: Pick<Region, "table">,
  range: { readonly first: number; readonly count: number },
): Set<number> {
  const { first, count } = range;
  const frames = new Set<number>();
  for (let page = first; page < first + count; page++) {
    const address = table.pages[page]!;
    if (address === ABSENT) continue;
    frames.add(address);
    table.pages[page] = ABSENT;
    table.demand![page] = { rights: 0, asked: table.demand![page]!.asked };
  }
  device.paging.counters.pagesInvalidated += frames.size;
  if (frames.size > 0) writeEntries(device, table, range);
  return frames;
}
