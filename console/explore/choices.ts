/**
 * Bytes that a power failure may leave in one of several ways: lines that the cache may have
 * written back (P-04), and writes that are interrupted (P-41). Each way has the write-backs by
 * which a run leaves the same.
 */
import type { WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { assert } from "../../fabric/base/assert.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { IN_ORDER } from "../../nodes/host/memory/memory_log.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import type { CrashCursor, DirtyLine, DurableEntry, Range, Readable } from "./history.ts";

/** P-41: never torn below this. */
export const WORD_BYTES = 8;

export type Writeback = Omit<WritebackPlan, "node">;

export interface Cell {
  /** When the first of its bytes arrived that are not durable. */
  readonly at: Time;
  readonly from: number;
  readonly length: number;
  /** Distinct; the first is the durable one. */
  readonly alternatives: readonly Uint8Array[];
  writebacks(i: number): readonly Writeback[];
}

/**
 * A dirty line as a cell: not written back, or at any time since, with its bytes of that time. A core's stores to a
 * line keep their order, so of several words the first few are present.
 * @param interruptedAt the power failure comes in the middle of this instant, when the last versions do.
 * @returns undefined where there is one alternative only.
 */
export function lineCell(
  dirty: DirtyLine,
  image: Readable,
  interruptedAt = NEVER,
): Cell | undefined {
  const { line, versions } = dirty;
  const durable = image.read(line, line + LINE_BYTES);
  const alternatives: Uint8Array[] = [durable];
  let before: Uint8Array = durable;
  for (const { bytes, words } of versions) {
    for (const found of stages(before, { bytes, words })) {
      if (alternatives.some((known) => isSame(known, found))) continue;
      alternatives.push(found);
    }
    before = bytes;
  }
  if (alternatives.length === 1) return undefined;
  const known = [...versions];
  const writebacks = (i: number) =>
    writebacksToFind(alternatives[i]!, { line, durable, versions: known, interruptedAt });
  return { at: known[0]!.at, from: line, length: LINE_BYTES, alternatives, writebacks };
}

function* stages(
  before: Uint8Array,
  { bytes, words }: { readonly bytes: Uint8Array; readonly words: number },
): Generator<Uint8Array> {
  if (words !== 0) {
    const line = before.slice();
    for (let word = 0; word < LINE_BYTES / WORD_BYTES; word++) {
      if ((words & (1 << word)) === 0) continue;
      const at = word * WORD_BYTES;
      line.set(bytes.subarray(at, at + WORD_BYTES), at);
      yield line.slice();
    }
  }
  yield bytes;
}

/**
 * Each word that is not durable is written back at the end of the last instant at which the line
 * had it. Where the line had it only within an instant, between two stores, the write-back contains
 * the bytes.
 */
function writebacksToFind(
  found: Uint8Array,
  { line, durable, versions, interruptedAt }:
    & { readonly durable: Uint8Array; readonly interruptedAt: Time }
    & DirtyLine,
): readonly Writeback[] {
  const plan: { at: Time; from: number; to: number; buffered: boolean; data?: string }[] = [];
  for (let at = 0; at < LINE_BYTES; at += WORD_BYTES) {
    const word = found.subarray(at, at + WORD_BYTES);
    if (isSame(word, durable.subarray(at, at + WORD_BYTES))) continue;
    const had = ({ bytes }: DirtyLine["versions"][number]) =>
      isSame(word, bytes.subarray(at, at + WORD_BYTES));
    const ended = versions.findLast((version, i) =>
      version.at !== interruptedAt && versions[i + 1]?.at !== version.at && had(version)
    );
    const when = ended ?? versions.findLast(had);
    assert(when !== undefined, "A line is found as it never was");
    const time = when.at === interruptedAt ? when.at - 1 : when.at;
    const data = ended === undefined ? word.toHex() : undefined;
    const [from, to] = [line + at, line + at + WORD_BYTES];
    const last = plan.at(-1);
    if (
      last?.at === time && last.to === from && (last.data === undefined) === (ended !== undefined)
    ) {
      last.to = to;
      if (data !== undefined) last.data += data;
    } else plan.push({ at: time, from, to, buffered: false, ...(data !== undefined && { data }) });
  }
  return plan;
}

/**
 * A write that the power failure interrupts, as cells: each piece of `tear` bytes is present or not. None for a line
 * that leaves the cache, which is present as a whole or not at all.
 * @param fresh lines into which a core has stored these bytes at the same instant.
 */
export function tornCells(
  entry: DurableEntry,
  tear: number,
  image: Readable,
  fresh: { has(line: number): boolean } = NO_LINES,
): Cell[] {
  const { at, offset, bytes, unit } = entry;
  if (unit >= LINE_BYTES || unit === IN_ORDER) return [];
  const end = offset + bytes.length;
  const cells: Cell[] = [];
  for (let from = offset; from < end;) {
    const to = Math.min(from - from % tear + tear, end);
    const before = image.read(from, to);
    const after = bytes.subarray(from - offset, to - offset);
    if (!isSame(before, after)) {
      const words = wordsAround({ from, to });
      const data = fresh.has(from - from % LINE_BYTES)
        ? { data: wordsWith(image, words, { from, bytes: after }) }
        : {};
      const plan = [{ at: at - 1, ...words, buffered: true, ...data }];
      cells.push({
        at,
        from,
        length: to - from,
        alternatives: [before, after],
        writebacks: (i) => i === 0 ? [] : plan,
      });
    }
    from = to;
  }
  return cells;
}

const NO_LINES = new Set<number>();

export function wordsAround({ from, to }: Range): Range {
  return { from: from - from % WORD_BYTES, to: Math.ceil(to / WORD_BYTES) * WORD_BYTES };
}

/** Words of memory with other bytes over them, in hexadecimal digits. */
export function wordsWith(
  image: Readable,
  words: Range,
  other?: { readonly from: number; readonly bytes: Uint8Array },
): string {
  const found = image.read(words.from, words.to);
  if (other !== undefined) found.set(other.bytes, other.from - words.from);
  return found.toHex();
}

export function isSame(x: Uint8Array, y: Uint8Array): boolean {
  if (x.length !== y.length) return false;
  for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return false;
  return true;
}

/** Open cells at an instant; a cell is made when it is read, and kept until the cursor moves. */
export class Cells {
  readonly #cursor: CrashCursor;
  readonly #lines = new Map<number, Cell | undefined>();
  #steps = 0;
  readonly #torn = new Map<Cell, number>();
  readonly #tornIn = new Map<number, Cell[]>();
  readonly #whole = new Set<number>();

  constructor(cursor: CrashCursor) {
    this.#cursor = cursor;
  }

  /** Adds the cells of interrupted writes: one of a whole line replaces the line's. */
  interrupt(cells: readonly Cell[]): void {
    this.mend();
    for (const [order, cell] of cells.entries()) {
      const { from, length } = cell;
      this.#torn.set(cell, order);
      if (length === LINE_BYTES) this.#whole.add(from);
      for (const line of linesIn(from, from + length)) {
        const others = this.#tornIn.get(line);
        if (others === undefined) this.#tornIn.set(line, [cell]);
        else others.push(cell);
      }
    }
  }

  mend(): void {
    this.#torn.clear();
    this.#tornIn.clear();
    this.#whole.clear();
  }

  has(cell: Cell): boolean {
    return this.#torn.has(cell) || this.#lines.get(cell.from) === cell;
  }

  /** Cells that bytes [from, to) touch: lines by offset, then pieces. */
  in(from: number, to: number): Cell[] {
    const found: Cell[] = [];
    for (const line of this.#dirtyIn(from, to)) {
      const cell = this.#whole.has(line) ? undefined : this.#lineAt(line);
      if (cell !== undefined) found.push(cell);
    }
    return this.#torn.size === 0 ? found : [...found, ...this.#tornThere(from, to)];
  }

  #tornThere(from: number, to: number): Cell[] {
    const isThere = (cell: Cell) => cell.from < to && cell.from + cell.length > from;
    if (this.#torn.size < (to - from) / LINE_BYTES) return [...this.#torn.keys()].filter(isThere);
    const found = new Set<Cell>();
    for (const line of linesIn(from, to)) {
      for (const cell of this.#tornIn.get(line) ?? []) if (isThere(cell)) found.add(cell);
    }
    return [...found].sort((x, y) => this.#torn.get(x)! - this.#torn.get(y)!);
  }

  #dirtyIn(from: number, to: number): readonly number[] {
    const { dirty } = this.#cursor;
    const found: number[] = [];
    const first = from - from % LINE_BYTES;
    if (dirty.size < (to - first) / LINE_BYTES) {
      for (const line of dirty.keys()) if (line >= first && line < to) found.push(line);
      return found.sort((x, y) => x - y);
    }
    for (const line of linesIn(from, to)) if (dirty.has(line)) found.push(line);
    return found;
  }

  #lineAt(line: number): Cell | undefined {
    const dirty = this.#cursor.dirty.get(line);
    if (dirty === undefined) return undefined;
    if (this.#steps !== this.#cursor.steps) this.#lines.clear();
    this.#steps = this.#cursor.steps;
    if (this.#lines.has(line)) return this.#lines.get(line);
    const cell = lineCell(dirty, this.#cursor.image);
    this.#lines.set(line, cell);
    return cell;
  }
}

function* linesIn(from: number, to: number): Generator<number> {
  for (let line = from - from % LINE_BYTES; line < to; line += LINE_BYTES) yield line;
}

export type Picker = (cell: Cell) => number;

export interface OpenMemory {
  readonly image: Readable;
  readonly cells: Pick<Cells, "in">;
}

/** Memory after a power failure; calls `pick` each time that a cell is read. */
export function viewOf({ image, cells }: OpenMemory, pick: Picker): Readable {
  return {
    read(from, to) {
      const found = image.read(from, to);
      for (const cell of cells.in(from, to)) {
        const begin = Math.max(cell.from, from), end = Math.min(cell.from + cell.length, to);
        const bytes = cell.alternatives[pick(cell)]!;
        found.set(bytes.subarray(begin - cell.from, end - cell.from), begin - from);
      }
      return found;
    },
  };
}

export function remembering(pick: Picker, picked: Map<Cell, number>): Picker {
  return (cell) => {
    const alternative = pick(cell);
    picked.set(cell, alternative);
    return alternative;
  };
}

/**
 * `pickDurable`: nothing was written back early; `pickLast`: everything was, with its last bytes.
 */
export const pickDurable: Picker = () => 0;
export const pickLast: Picker = ({ alternatives }) => alternatives.length - 1;
