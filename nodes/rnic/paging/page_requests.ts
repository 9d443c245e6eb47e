/**
 * Page requests: an event asks the driver for a range of an on-demand region, once for each page,
 * and `map-pages` tells the card that they are there. With an access it asks for the rest of its
 * message: the event of an RDMA operation names its whole length (Linux, mlx5, `odp.c`:
 * `rdma_op_len`), and that of a WQE makes the driver bring in all of the WQE's memory
 * (`pagefault_data_segments`).
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { workPs } from "../../../fabric/rack/plan/hint_work.ts";
import { sendBehindWrites } from "../state/coherent_port_state.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import type { Region } from "../state/memory.ts";
import type { DueEvent, PageFault, WantedPage } from "../state/paging_state.ts";
import { ABSENT, type HintRequest, type TranslationTable } from "../state/translation_table.ts";
import { traceMapped, tracePageRequest } from "../trace/page_trace.ts";
import { resumeMapped } from "./memory_waits.ts";
import { writeEntries } from "./translation_cache.ts";

/**
 * Pages ahead of an access; a choice, 4 MiB (mlx5: MAX_PREFETCH_LEN, for lengths that it is not
 * told).
 */
const AHEAD_PAGES_MAX = 1024;

/** `last` is in the span. */
export interface PageSpan {
  readonly table: TranslationTable;
  readonly first: number;
  readonly last: number;
}

/** Pages that are needed at once, and, behind them, those that the message goes on to. */
interface PageRequest {
  readonly table: TranslationTable;
  readonly first: number;
  count: number;
  ahead: number;
  readonly rights: 1 | 2;
  /** Hints have asked for all of it, so it is not needed where that was served meanwhile. */
  repeats: boolean;
  readonly hint?: HintRequest | undefined;
}

interface AskedFor {
  readonly beyond?: readonly PageSpan[];
  readonly hintsOf?: number;
  readonly byCore?: boolean;
}

/**
 * Asks for pages, each once, in order of tables and numbers, and for those `beyond`, to which the message goes on: a
 * range of each table, of which the driver maps the absent ones. The host serves page requests of hints last (H-24):
 * where a request needs a page of one, that page request becomes the request's; one that has left is repeated.
 *
 * @param why `hintsOf`: hints of this requester name the pages, no request needs them yet; `byCore`: a core has
 * decided on them, needs no event, and does not know which pages the card has asked for.
 */
export function askForPages(
  device: Device,
  pages: readonly WantedPage[],
  why: AskedFor = {},
): void {
  const { paging: { counters } } = device;
  const { beyond = [], hintsOf, byCore = false } = why;
  const requests: PageRequest[] = [];
  for (const { table, page, rights } of pages) {
    const last = requests.at(-1);
    const goesOn = last?.table === table && last.first + last.count === page &&
      last.rights === rights;
    const fresh = hintsOf === undefined ? undefined : { hintsOf, raised: false };
    const hint = goesOn ? last.hint : fresh;
    const need = claimPage(device, { table, page, rights }, { hint, byCore });
    if (need === "none") continue;
    const repeats = need === "repeat";
    if (goesOn) {
      last.count++;
      last.repeats &&= repeats;
    } else requests.push({ table, first: page, count: 1, ahead: 0, rights, repeats, hint });
  }
  if (requests.every(({ repeats }) => repeats)) counters.pageFaultsMerged++;
  if (requests.length === 0) return;
  askAhead(device, requests, beyond);
  for (const request of requests) sendRequest(device, request, byCore);
}

/**
 * @returns the page request that it needs: none, as one with these rights is under way; the first one; or a repetition of that of hints, which has left.
 */
function claimPage(
  device: Device,
  { table, page, rights }: WantedPage,
  { hint, byCore }: { readonly hint: HintRequest | undefined; readonly byCore: boolean },
): "none" | "first" | "repeat" {
  const { paging } = device;
  const entry = table.demand![page]!;
  const before = entry.hint;
  const isAsked = entry.asked >= rights;
  if (isAsked && hint === undefined && before !== undefined) {
    entry.hint = undefined;
    if (before.raised && before.hintsOf !== undefined) return "repeat";
    before.hintsOf = undefined;
    return "none";
  }
  if (isAsked && !byCore) return "none";
  // A page that a request has asked for stays the request's, even if a core asks too.
  if (!isAsked || before !== undefined) entry.hint = hint;
  entry.asked = rights;
  paging.counters.pagesAsked++;
  return "first";
}

/** Absent pages join the last request where they continue it. */
function askAhead(device: Device, requests: PageRequest[], beyond: readonly PageSpan[]): void {
  const { rights } = requests.at(-1)!;
  let left = AHEAD_PAGES_MAX;
  for (const { table, first, last } of beyond) {
    if (table.demand === undefined) continue;
    const end = Math.min(last + 1, first + left);
    left -= end - first;
    let from = end, until = end, repeats = true;
    for (let page = first; page < end; page++) {
      if (table.demand[page]!.rights >= rights) continue;
      const need = claimPage(device, { table, page, rights }, {
        hint: undefined,
        byCore: false,
      });
      if (need === "none") continue;
      repeats &&= need === "repeat";
      from = Math.min(from, page);
      until = page + 1;
    }
    if (from === end) continue;
    const before = requests.at(-1)!;
    const goesOnAt = before.first + before.count + before.ahead;
    if (before.table === table && first <= goesOnAt && from >= goesOnAt) {
      before.ahead = until - before.first - before.count;
      before.repeats &&= repeats;
    } else requests.push({ table, first: from, count: 0, ahead: until - from, rights, repeats });
  }
}

function sendRequest(
  device: Device,
  { table, first, count, ahead, rights, repeats, hint }: PageRequest,
  byCore: boolean,
): void {
  const { paging: { counters }, pageEvents, now } = device;
  if (!repeats) counters.pageFaults++;
  const write = rights === 2;
  const event = { type: "PAGE_FAULT", key: table.key, first, count, ahead, write } as const;
  const due: DueEvent = { at: now + (byCore ? 0 : requestPs(device)), table, event, hint, repeats };
  if (due.at === now) raisePageRequest(device, due);
  else pageEvents.push(due);
}

function requestPs({ plan: { hints }, timing }: Device): Time {
  const work = hints?.work;
  switch (work?.request) {
    case "hardware":
      return workPs(work!, "request", 1);
    case "iommu":
      return 0;
    default:
      return timing.pageFaultPs;
  }
}

function raisePageRequest(device: Device, { event: asked, hint, repeats, table }: DueEvent): void {
  if (repeats) {
    if (isHere(table, asked)) return;
    device.paging.counters.pageFaults++;
  }
  const hintsOf = hint?.hintsOf;
  if (hint !== undefined) hint.raised = true;
  const event = hintsOf === undefined ? asked : { ...asked, hintsOf };
  if (device.out.tracing) tracePageRequest(device, event);
  if (device.plan.hints?.work?.request !== "iommu") return raiseEvent(device, event);
  const { type: _, ...pages } = event;
  const message = { kind: "ats", step: "page-request", ...pages, frames: [] } as const;
  sendBehindWrites(device, message, device.stageAt);
}

function isHere({ demand }: TranslationTable, { first, count, ahead, write }: PageFault): boolean {
  const pages = demand!.slice(first, first + count + ahead);
  return pages.every(({ rights }) => rights >= (write ? 2 : 1));
}

export function raisePageFaults(device: Device): void {
  const { pageEvents, now, paging } = device;
  for (let first = pageEvents.peek(); first !== undefined; first = pageEvents.peek()) {
    if (first.at > now) return;
    pageEvents.shift();
    if (paging.tables.has(first.table)) raisePageRequest(device, first);
  }
}

export function pageFaultWakeAt({ pageEvents, now }: Device): Time {
  const first = pageEvents.peek();
  return first === undefined ? NEVER : Math.max(now, first.at);
}

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
  if (device.out.tracing) {
    traceMapped(device, "pages-mapped", { key: table.key, first, count: pages.length });
  }
  writeEntries(device, table, { first, count: pages.length });
  resumeMapped(device);
}

/** The pages may not be mapped: they stay absent, and may be asked for again. */
export function refusePages(
  device: Device,
  { table }: Pick<Region, "table">,
  { first, count }: { readonly first: number; readonly count: number },
): void {
  if (device.out.tracing) {
    traceMapped(device, "pages-refused", { key: table.key, first, count });
  }
  for (let page = first; page < first + count; page++) table.demand![page]!.asked = 0;
}

/** @returns frames to which accesses may still be under way. */
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
    table.demand![page] = { ...table.demand![page]!, rights: 0 };
  }
  device.paging.counters.pagesInvalidated += frames.size;
  if (frames.size > 0) writeEntries(device, table, range);
  return frames;
}
