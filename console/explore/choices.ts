/**
 * What else a power failure may find than what is durable for sure: lines that the cache happened to have
 * written back (P-04), and a write that it interrupts (P-41). Each choice comes with the write-backs that
 * make a run of the rack find the same.
 */
import type { WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { assert } from "../../fabric/base/assert.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { IN_ORDER } from "../../nodes/host/memory/memory_log.ts";
import {
  type CrashCursor,
  type DirtyLine,
  type DurableEntry,
  LINE_BYTES,
  type Range,
  type Readable,
} from "./history.ts";

/** P-41: never torn below this. */
export const WORD_BYTES = 8;

/** A write-back of a host that is known otherwise. */
export type Writeback = Omit<WritebackPlan, "node">;

/** Bytes of which one of several things is found, whatever is found elsewhere. */
export interface Cell {
  /** Offset into SCM, and how many. */
  readonly from: number;
  readonly length: number;
  /** Each once; the first is what is durable. */
  readonly alternatives: readonly Uint8Array[];
  /** What makes a run find alternative `i`. */
  writebacks(i: number): readonly Writeback[];
}

/**
 * A dirty line as a choice: not written back, or at any time since, with the bytes of that time. A core's
 * stores to a line reach it in order, so of several words of one the first few.
 * @param interruptedAt the power failure comes in the middle of this instant, when the last versions do.
 * @returns undefined where all come to the same.
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
  // The versions are the cursor's, and go on.
  const known = [...versions];
  const writebacks = (i: number) =>
    writebacksToFind(alternatives[i]!, { line, durable, versions: known, interruptedAt });
  return { from: line, length: LINE_BYTES, alternatives, writebacks };
}

/** The line's contents while it was written to: the last is how it was left. */
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
 * Write-backs by which a run finds these bytes: each word that differs from what is durable, at the end of
 * the last instant at which the line had it. Where it had it within an instant only, between two stores,
 * the write-back itself has the bytes.
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
 * A write that the power failure interrupts, as choices: each piece of `tear` bytes is there or not. A
 * line that leaves the cache is there as a whole or not at all: no choice, other than that of the line.
 * @param fresh lines into which a core has stored what is written at the very instant.
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

/** The whole words that a range is in. */
export function wordsAround({ from, to }: Range): Range {
  return { from: from - from % WORD_BYTES, to: Math.ceil(to / WORD_BYTES) * WORD_BYTES };
}

/** Words of memory, with other bytes in them where these are, in hexadecimal digits. */
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

/** What is open at an instant: made when it is read, and kept until the cursor moves. */
export class Cells {
  readonly #cursor: CrashCursor;
  readonly #lines = new Map<number, Cell | undefined>();
  #steps = 0;
  /** Cells of interrupted writes; and lines that such a cell is all of. */
  #torn: readonly Cell[] = [];
  readonly #whole = new Set<number>();

  constructor(cursor: CrashCursor) {
    this.#cursor = cursor;
  }

  /** The power failure interrupts writes, which makes these cells: one of a whole line replaces the line's. */
  interrupt(cells: readonly Cell[]): void {
    this.#torn = cells;
    for (const { from, length } of cells) if (length === LINE_BYTES) this.#whole.add(from);
  }

  /** It does no more. */
  mend(): void {
    this.#torn = [];
    this.#whole.clear();
  }

  /** Whether it is one of these. */
  has(cell: Cell): boolean {
    return this.#torn.includes(cell) || this.#lines.get(cell.from) === cell;
  }

  /** Those that bytes [from, to) touch: lines by offset, then pieces. */
  in(from: number, to: number): Cell[] {
    const found: Cell[] = [];
    for (const line of this.#dirtyIn(from, to)) {
      const cell = this.#whole.has(line) ? undefined : this.#lineAt(line);
      if (cell !== undefined) found.push(cell);
    }
    for (const cell of this.#torn) {
      if (cell.from < to && cell.from + cell.length > from) found.push(cell);
    }
    return found;
  }

  /** Dirty lines that bytes [from, to) touch, by offset. */
  #dirtyIn(from: number, to: number): readonly number[] {
    const { dirty } = this.#cursor;
    const first = from - from % LINE_BYTES;
    const found: number[] = [];
    if (dirty.size < (to - first) / LINE_BYTES) {
      for (const line of dirty.keys()) if (line >= first && line < to) found.push(line);
      return found.sort((x, y) => x - y);
    }
    for (let line = first; line < to; line += LINE_BYTES) if (dirty.has(line)) found.push(line);
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

/** Decides which alternative of a cell is found. */
export type Picker = (cell: Cell) => number;

/** Memory of which some cells are open. */
export interface OpenMemory {
  readonly image: Readable;
  readonly cells: Pick<Cells, "in">;
}

/** What a power failure leaves, by the choices of `pick`: it is called each time that a cell is read. */
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

/** Picks as `pick` does, and keeps what was picked last of each cell. */
export function remembering(pick: Picker, picked: Map<Cell, number>): Picker {
  return (cell) => {
    const alternative = pick(cell);
    picked.set(cell, alternative);
    return alternative;
  };
}

/** Picks what was not written back early, and what was with its last bytes. */
export const pickDurable: Picker = () => 0;
export const pickLast: Picker = ({ alternatives }) => alternatives.length - 1;
