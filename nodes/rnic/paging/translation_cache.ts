/**
 * The card's cache of translations (MTT entries). Just written entries are on the chip; those without room lie in host
 * memory and are read a line at a time. While all tables fit, the card asks for no memory and misses nothing.
 *
 * Sources: an entry is 8 B with the rights to read and write in its lowest bits (Linux, mlx5: `umem_dma_to_mtt`);
 * the driver gives the firmware pages of host memory on demand (mlx5: MANAGE_PAGES), that tables lie there is a
 * choice; a miss is a dependent PCIe read (Monga et al., SOSP'21).
 */
import { assert } from "../../../fabric/base/assert.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import { dmaRead, dmaWrite } from "../dma/dma.ts";
import type { Device } from "../state/device.ts";
import type { Fill, MemoryWait, Paging } from "../state/paging_state.ts";
import {
  ABSENT,
  ENTRIES_PER_LINE,
  ENTRY_BYTES,
  LINE_BYTES,
  type TranslationTable,
} from "../state/translation_table.ts";
import { traceTranslations } from "../trace/page_trace.ts";
import { resumeWait } from "./memory_waits.ts";

const WRITE_BYTES = 4096;
const LINES_END = 2 ** 24;

function numberOf({ id }: TranslationTable, line: number): number {
  return id * LINES_END + line;
}

/** Contiguous bytes that the driver has to give before a table of `lines` fits. */
export function memoryNeeded(paging: Paging, lines: number): number {
  if (paging.lines + lines <= paging.capacityLines) return 0;
  const sizes = [lines];
  for (const table of paging.tables) if (table.address === undefined) sizes.push(table.lines);
  const { memory: { free, next, end } } = paging;
  const left = new Map([...free].map(([size, places]) => [size, places.length]));
  let needed = 0;
  for (const size of sizes) {
    const spare = left.get(size) ?? 0;
    if (spare > 0) left.set(size, spare - 1);
    else needed += size * LINE_BYTES;
  }
  return needed <= end - next ? 0 : needed;
}

export function holdTable(device: Device, table: TranslationTable): void {
  const { paging } = device;
  const spills = paging.lines + table.lines > paging.capacityLines;
  table.id = paging.nextTable++;
  paging.tables.add(table);
  paging.lines += table.lines;
  if (table.demand !== undefined) paging.onDemand++;
  if (spills) {
    for (const each of paging.tables) if (each.address === undefined) moveToMemory(device, each);
  }
  for (let line = 0; line < table.lines; line++) insert(paging, table, line);
}

function moveToMemory(device: Device, table: TranslationTable): void {
  const { memory } = device.paging;
  let address = memory.free.get(table.lines)?.pop();
  if (address === undefined) {
    address = memory.next;
    memory.next += table.lines * LINE_BYTES;
  }
  table.address = address;
  writeEntries(device, table, { first: 0, count: table.pages.length });
}

export function dropTable({ paging }: Device, table: TranslationTable): void {
  if (!paging.tables.delete(table)) return;
  paging.lines -= table.lines;
  if (table.demand !== undefined) paging.onDemand--;
  for (let line = 0; line < table.lines; line++) paging.cached.delete(numberOf(table, line));
  if (table.address === undefined) return;
  const places = paging.memory.free.get(table.lines) ?? [];
  places.push(table.address);
  paging.memory.free.set(table.lines, places);
  table.address = undefined;
}

export function writeEntries(
  device: Device,
  table: TranslationTable,
  { first, count }: { readonly first: number; readonly count: number },
): void {
  table.version++;
  if (table.address === undefined) return;
  const most = WRITE_BYTES / ENTRY_BYTES;
  for (let page = first; page < first + count; page += most) {
    const data = encodeEntries(table, { first: page, count: Math.min(most, first + count - page) });
    dmaWrite(device, { address: table.address + page * ENTRY_BYTES, data });
  }
}

function encodeEntries(
  { pages, demand }: TranslationTable,
  { first, count }: { readonly first: number; readonly count: number },
): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(count * ENTRY_BYTES);
  const view = viewOf(data);
  for (let i = 0; i < count; i++) {
    const page = pages[first + i]!;
    const rights = demand === undefined || demand[first + i]!.rights === 2 ? 3 : 1;
    view.setBigUint64(i * ENTRY_BYTES, page === ABSENT ? 0n : BigInt(page) + BigInt(rights));
  }
  return data;
}

function insert(paging: Paging, table: TranslationTable, line: number): void {
  const { cached, capacityLines, counters } = paging;
  const number = numberOf(table, line);
  if (cached.has(number)) return;
  if (cached.size >= capacityLines) {
    const [oldest] = cached.keys();
    cached.delete(oldest!);
    counters.translationEvictions++;
  }
  cached.set(number, { table, line });
}

/** The look counts as a use of the line. */
export function isOnChip(paging: Paging, table: TranslationTable, line: number): boolean {
  const { cached, counters, plan } = paging;
  const number = numberOf(table, line);
  const entry = cached.get(number);
  if (entry === undefined) {
    counters.translationMisses++;
    return false;
  }
  counters.translationHits++;
  if (plan.translations.evict === "lru") {
    cached.delete(number);
    cached.set(number, entry);
  }
  return true;
}

/** The look does not count as a use of the line. */
export function holdsLine({ cached }: Paging, table: TranslationTable, line: number): boolean {
  return cached.has(numberOf(table, line));
}

export function isComing({ fills }: Paging, table: TranslationTable, line: number): boolean {
  return fills.has(numberOf(table, line));
}

/** Asks once for each line. */
export function fetchLine(
  device: Device,
  { table, line }: Pick<Fill, "table" | "line">,
  wait: MemoryWait,
): void {
  const { fills } = device.paging;
  const number = numberOf(table, line);
  wait.missing++;
  const pending = fills.get(number);
  if (pending !== undefined) {
    pending.waits.push(wait);
    return;
  }
  const fill: Fill = { table, line, version: table.version, waits: [wait] };
  fills.set(number, fill);
  const first = line * ENTRIES_PER_LINE;
  const count = Math.min(ENTRIES_PER_LINE, table.pages.length - first);
  assert(table.address !== undefined, "A line that is not on the chip lies in memory");
  if (device.out.tracing) traceTranslations(device, "translation-read", { table, line });
  dmaRead(device, {
    address: table.address + first * ENTRY_BYTES,
    length: count * ENTRY_BYTES,
    continuation: { kind: "translation", fill },
  });
}

/**
 * Memory must hold the entries that the firmware has written. `data` is undefined where the host
 * refused the read: the accesses go on, and fail by their own DMA.
 */
export function takeLine(
  device: Device,
  { fill }: { readonly fill: Fill },
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { paging } = device;
  const { table, line, version, waits } = fill;
  paging.fills.delete(numberOf(table, line));
  if (device.out.tracing) traceTranslations(device, "translations-known", { table, line });
  if (paging.tables.has(table)) {
    if (data !== undefined && table.version === version) {
      const first = line * ENTRIES_PER_LINE;
      const expected = encodeEntries(table, { first, count: data.length / ENTRY_BYTES });
      assert(
        data.toHex() === expected.toHex(),
        `Line ${line} of table ${table.id} in memory is ${data.toHex()}, not ${expected.toHex()}`,
      );
    }
    insert(paging, table, line);
  }
  for (const wait of waits) {
    wait.missing--;
    if (wait.missing === 0) resumeWait(device, wait);
  }
}
