/**
 * The RNIC's lines about absent memory, with the names of `fabric/trace/mechanism_steps.ts`. Lines
 * of waiting accesses have their message's PSN; lines about pages name the pages, by which a ladder
 * joins both.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import type { MechanismWord } from "../../../fabric/trace/mechanism_steps.ts";
import type { Device } from "../state/device.ts";
import type { PageFault, WantedPage } from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { ENTRIES_PER_LINE, type TranslationTable } from "../state/translation_table.ts";
import { trace } from "./trace.ts";

export interface AccessedBy {
  readonly qp: QueuePair;
  readonly psn: number | undefined;
  readonly inbound: boolean;
}

export interface Pages {
  readonly key: number;
  readonly from: number;
  readonly to: number;
}

export function pagesText({ key, from, to }: Pages): string {
  const which = to - from === 1 ? `page ${from}` : `pages ${from} to ${to - 1}`;
  return `${which} of rkey 0x${key.toString(16)}`;
}

/** A ladder waits for all pages of a range. */
export function rangesOf(pages: readonly Pick<WantedPage, "table" | "page">[]): Pages[] {
  const ranges: { key: number; from: number; to: number }[] = [];
  const sorted = pages.toSorted((x, y) => x.table.key - y.table.key || x.page - y.page);
  for (const { table: { key }, page } of sorted) {
    const last = ranges.at(-1);
    // Several objects may need it.
    if (last?.key === key && page <= last.to) last.to = Math.max(last.to, page + 1);
    else ranges.push({ key, from: page, to: page + 1 });
  }
  return ranges;
}

function line(
  step: MechanismWord,
  { pages: { key, from, to }, text = "" }: { readonly pages: Pages; readonly text?: string },
): TraceStep {
  return { step, text: `${pagesText({ key, from, to })}${text}`, pages: [key, from, to] };
}

export function traceMissing(
  device: Device,
  { qp, psn, inbound }: AccessedBy,
  missing: { readonly step: "page-fault" | "translation-wait"; readonly pages: Pages },
): void {
  const { step, pages } = missing;
  const keys = { ...(psn !== undefined && { psn }), ...(inbound && { inbound }) };
  trace(device, qp, { ...line(step, { pages }), ...keys });
}

export function tracePageRequest(device: Device, event: PageFault): void {
  const { key, first, count, ahead, write, hintsOf } = event;
  const step = hintsOf === undefined ? "page-request" : "hint-page-request";
  const goesOn = ahead > 0 ? `, ${ahead} of them as the message goes on` : "";
  const text = `, ${write ? "writable" : "readable"}${goesOn}`;
  const pages = { key, from: first, to: first + count + ahead };
  device.out.trace(line(step, { pages, text }));
}

export function traceMapped(
  device: Device,
  step: "pages-mapped" | "pages-refused",
  { key, first, count }: { readonly key: number; readonly first: number; readonly count: number },
): void {
  device.out.trace(line(step, { pages: { key, from: first, to: first + count } }));
}

export function traceTranslations(
  device: Device,
  step: "translation-read" | "translations-known",
  { table, line: number }: { readonly table: TranslationTable; readonly line: number },
): void {
  device.out.trace(line(step, { pages: pagesOfLine({ table, line: number }) }));
}

export function pagesOfLine(
  { table, line }: { readonly table: TranslationTable; readonly line: number },
): Pages {
  const from = line * ENTRIES_PER_LINE;
  const to = Math.min(from + ENTRIES_PER_LINE, table.pages.length);
  return { key: table.key, from, to };
}
