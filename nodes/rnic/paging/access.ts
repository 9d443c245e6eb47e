/**
 * Checks before an access: each page must be there with the rights that are needed, and its entry
 * on the chip.
 */
import type { Device } from "../state/device.ts";
import { bytesOf, type MemorySegment } from "../state/memory.ts";
import { mayMiss, type MemoryWaiter, type WantedPage } from "../state/paging_state.ts";
import { ENTRIES_PER_LINE, type TranslationTable } from "../state/translation_table.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { beginWait, takeAdmission } from "./memory_waits.ts";
import { askForPages, type PageSpan } from "./page_requests.ts";
import { fetchLine, isComing, isOnChip } from "./translation_cache.ts";
import { type Pages, pagesOfLine, rangesOf, traceMissing } from "../trace/page_trace.ts";

export interface MemoryAccess {
  readonly segments: readonly MemorySegment[];
  readonly offset: number;
  readonly length: number;
  readonly write: boolean;
  /** The message may go on behind this access: its other pages are asked for too. */
  readonly ahead?: boolean;
  readonly pagesOnly?: boolean;
}

export interface Accessor {
  readonly kind: MemoryWaiter;
  readonly qp: QueuePair;
  readonly psn?: number;
}

const OWN: ReadonlySet<MemoryWaiter> = new Set(["gather", "response"]);

const PEERS: ReadonlySet<MemoryWaiter> = new Set(["request", "read", "atomic"]);

export interface Fault {
  readonly pages: readonly WantedPage[];
}

/**
 * `miss`: the access waits as `by.kind`, and resumes when the lines are on the chip. A fault: pages
 * were asked for; the caller decides whether it waits.
 */
export function checkAccess(
  device: Device,
  access: MemoryAccess,
  by: Accessor,
): "ready" | "miss" | Fault {
  const { paging, now, up } = device;
  if (!mayMiss(paging)) return "ready";
  const pages: WantedPage[] = [];
  const lines: { readonly table: TranslationTable; readonly line: number }[] = [];
  const isAdmitted = takeAdmission(device, by) || access.pagesOnly === true;
  const rights = access.write ? 2 : 1;
  const hints = PEERS.has(by.kind) ? device.hints : undefined;
  for (const { table, first, last } of spansOf(access)) {
    if (table.demand !== undefined) {
      for (let page = first; page <= last; page++) {
        const isThere = table.demand[page]!.rights >= rights;
        if (!isThere) pages.push({ table, page, rights });
        if (hints !== undefined) up.redeemPage(hints, { table, page, now }, isThere);
      }
    }
    if (isAdmitted || pages.length > 0) continue;
    const end = Math.floor(last / ENTRIES_PER_LINE);
    for (let line = Math.floor(first / ENTRIES_PER_LINE); line <= end; line++) {
      const isThere = isOnChip(paging, table, line);
      if (!isThere) lines.push({ table, line });
      if (hints === undefined) continue;
      const found = isThere ? "there" : isComing(paging, table, line) ? "coming" : "gone";
      up.redeemLine(hints, { table, line, now }, found);
    }
  }
  if (hints !== undefined && pages.length + lines.length > 0) {
    up.noteMiss(hints, by.qp, [...pages, ...lines].map(({ table }) => table));
  }
  if (pages.length > 0) {
    if (device.out.tracing) traceMisses(device, by, { step: "page-fault", of: rangesOf(pages) });
    const beyond = access.ahead === true ? [...spansOf(behind(access))] : [];
    askForPages(device, pages, { beyond });
    return { pages };
  }
  if (lines.length === 0) return "ready";
  if (device.out.tracing) {
    traceMisses(device, by, { step: "translation-wait", of: lines.map(pagesOfLine) });
  }
  const wait = beginWait(device, { ...by, pages: [] });
  for (const each of lines) fetchLine(device, each, wait);
  return "miss";
}

function traceMisses(
  device: Device,
  { kind, qp, psn }: Accessor,
  { step, of }: {
    readonly step: "page-fault" | "translation-wait";
    readonly of: readonly Pages[];
  },
): void {
  const by = { qp, psn, inbound: !OWN.has(kind) };
  for (const pages of of) traceMissing(device, by, { step, pages });
}

/** Waits for pages, too. @returns whether the access may go on now. */
export function awaitAccess(device: Device, access: MemoryAccess, by: Accessor): boolean {
  const found = checkAccess(device, access, by);
  if (typeof found === "object") beginWait(device, { ...by, ...found });
  return found === "ready";
}

function* spansOf({ segments, offset, length }: MemoryAccess): Generator<PageSpan> {
  let skip = offset, left = length;
  for (const segment of segments) {
    if (left <= 0) return;
    if (skip >= segment.length) {
      skip -= segment.length;
      continue;
    }
    const bytes = Math.min(segment.length - skip, left);
    const { region: { table, pageBase, pageBytes, alive, isNull } } = segment;
    const from = segment.va + skip - pageBase;
    if (alive && !isNull) {
      const first = Math.floor(from / pageBytes);
      yield { table, first, last: Math.floor((from + bytes - 1) / pageBytes) };
    }
    left -= bytes;
    skip = 0;
  }
}

function behind(access: MemoryAccess): MemoryAccess {
  const { segments, offset, length } = access;
  const from = offset + length;
  return { segments, offset: from, length: bytesOf(segments) - from, write: access.write };
}
