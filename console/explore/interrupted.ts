/**
 * Power failures in the middle of an instant: pieces of a DMA write, or of buffers that go to
 * memory, become durable in any order; a core's stores that are durable at once do so one after the
 * other.
 */
import type { Time } from "../../fabric/base/time.ts";
import { IN_ORDER } from "../../nodes/host/memory/memory_log.ts";
import {
  type Cell,
  type Cells,
  isSame,
  lineCell,
  tornCells,
  wordsAround,
  wordsWith,
  type Writeback,
} from "./choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import {
  type CrashCursor,
  type DirtyLine,
  type DurableEntry,
  type Entry,
  overlaps,
  type Range,
  type Readable,
} from "./history.ts";

export interface Interruption {
  readonly at: Time;
  readonly ranges: readonly Range[];
  readonly early: readonly Range[];
}

/**
 * Moves a cursor to `until`, and stops wherever a power failure leaves a content that none between two instants
 * leaves: `cells` are the open cells then.
 * @param options.tear bytes of a write that are present as a whole or not at all.
 * @param options.matters true if these bytes are judged.
 */
export function* interruptions(
  cursor: CrashCursor,
  cells: Pick<Cells, "interrupt" | "mend">,
  options: {
    readonly until: Time;
    readonly tear: number;
    readonly matters?: (ranges: readonly Range[], at: Time) => boolean;
  },
): Generator<Interruption> {
  for (let next = cursor.next; next !== undefined && next.at < options.until; next = cursor.next) {
    const { at } = next;
    const early: Range[] = [];
    for (let rest = cursor.upcoming(at); rest.length > 0; rest = cursor.upcoming(at)) {
      const together = firstTogether(rest);
      const ranges = [...together.flatMap(rangesOf), ...early];
      if (options.matters?.(ranges, at) !== false) {
        const open = openedBy(together, cursor, { at, tear: options.tear });
        cells.interrupt(open);
        if (early.length > 0 || waysOf(open) > 2) yield { at, ranges, early: [...early] };
        cells.mend();
      }
      for (const entry of together) {
        if (entry.kind === "durable") early.push(rangeOf(entry));
        cursor.step();
      }
    }
  }
}

/** Write-backs by which a run has the early bytes before their instant. */
export function writebacksOf(
  { at, early }: Pick<Interruption, "at" | "early">,
  image: Readable,
): Writeback[] {
  return early.map((range) => {
    const words = wordsAround(range);
    return { at: at - 1, ...words, buffered: false, data: wordsWith(image, words) };
  });
}

function waysOf(cells: readonly Cell[]): number {
  return cells.reduce((ways, { alternatives }) => ways * alternatives.length, 1);
}

function rangeOf({ offset, bytes }: DurableEntry): Range {
  return { from: offset, to: offset + bytes.length };
}

function rangesOf(entry: Entry): Range[] {
  if (entry.kind === "durable") return [rangeOf(entry)];
  return entry.kind === "dirty" ? [{ from: entry.line, to: entry.line + LINE_BYTES }] : [];
}

function isInTurn(entry: Entry): boolean {
  return entry.kind === "durable" && (entry.unit === IN_ORDER || entry.unit > LINE_BYTES);
}

function firstTogether(entries: readonly Entry[]): readonly Entry[] {
  const [first] = entries;
  if (first === undefined || isInTurn(first)) return entries.slice(0, 1);
  const written: DurableEntry[] = [];
  const end = entries.findIndex((entry) => {
    if (isInTurn(entry)) return true;
    if (entry.kind !== "durable" || entry.unit === LINE_BYTES) return false;
    if (written.some((other) => overlaps(rangeOf(other), rangeOf(entry)))) return true;
    written.push(entry);
    return false;
  });
  return end < 0 ? entries : entries.slice(0, end);
}

function openedBy(
  entries: readonly Entry[],
  cursor: CrashCursor,
  { at, tear }: { readonly at: Time; readonly tear: number },
): Cell[] {
  if (!entries.some(({ kind }) => kind === "durable")) return [];
  const lines = new Map<number, DirtyLine["versions"]>();
  const pieces: Cell[] = [];
  for (const entry of entries) {
    if (entry.kind === "dirty") versionsOf(lines, entry.line).push(entry);
    if (entry.kind !== "durable") continue;
    const { offset, bytes, unit } = entry;
    if (unit === LINE_BYTES) versionsOf(lines, offset).push({ at, bytes, words: 0 });
    else if (unit === IN_ORDER) pieces.push(...firstWords(entry, tear, cursor.image));
    else pieces.push(...tornCells(entry, tear, cursor.image, lines));
  }
  const changed = [...lines].flatMap(([line, versions]) => {
    const before = cursor.dirty.get(line)?.versions ?? [];
    const known = lineCell({ line, versions: before }, cursor.image)?.alternatives.length ?? 1;
    const cell = lineCell({ line, versions: [...before, ...versions] }, cursor.image, at);
    return cell === undefined || cell.alternatives.length === known ? [] : [cell];
  });
  return [...changed, ...pieces];
}

function versionsOf(lines: Map<number, DirtyLine["versions"]>, line: number) {
  let versions = lines.get(line);
  if (versions === undefined) lines.set(line, versions = []);
  return versions;
}

function firstWords(
  { at, offset, bytes }: DurableEntry,
  tear: number,
  image: Readable,
): Cell[] {
  const before = image.read(offset, offset + bytes.length);
  const alternatives = [before];
  for (let end = 0; end < bytes.length;) {
    end = Math.min(bytes.length, end + tear - (offset + end) % tear);
    const found = before.slice();
    found.set(bytes.subarray(0, end));
    if (!isSame(found, alternatives.at(-1)!)) alternatives.push(found);
  }
  if (alternatives.length === 1) return [];
  const words = wordsAround({ from: offset, to: offset + bytes.length });
  const writebacks = (i: number): Writeback[] => {
    const data = wordsWith(image, words, { from: offset, bytes: alternatives[i]! });
    return i === 0 ? [] : [{ at: at - 1, ...words, buffered: false, data }];
  };
  return [{ at, from: offset, length: bytes.length, alternatives, writebacks }];
}
