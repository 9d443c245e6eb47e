/**
 * The history of one host's SCM in a run, with exact times; {@link CrashCursor} has what a power
 * failure leaves at any instant, without another run (P-05).
 */
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { assert } from "../../fabric/base/assert.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { ImageView } from "../checks/run_record.ts";
import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";

/** See {@link MemoryLog}; `lost`: a new life begins, without what was not durable. */
export type Entry =
  | DurableEntry
  | {
    readonly kind: "dirty";
    readonly at: Time;
    readonly line: number;
    readonly bytes: Uint8Array;
    readonly words: number;
  }
  | { readonly kind: "clean"; readonly at: Time; readonly line: number }
  | { readonly kind: "lost"; readonly at: Time };

export interface DurableEntry {
  readonly kind: "durable";
  readonly at: Time;
  readonly offset: number;
  readonly bytes: Uint8Array;
  readonly unit: number;
}

export class HistoryLog implements MemoryLog {
  readonly entries: Entry[] = [];

  durable(at: Time, offset: number, bytes: Uint8Array, unit: number): void {
    this.#push({ kind: "durable", at, offset, bytes, unit });
  }

  dirty(at: Time, line: number, bytes: Uint8Array, words: number): void {
    this.#push({ kind: "dirty", at, line, bytes: bytes.slice(), words });
  }

  clean(at: Time, line: number): void {
    this.#push({ kind: "clean", at, line });
  }

  beginLife(at: Time): void {
    this.#push({ kind: "lost", at });
  }

  #push(entry: Entry): void {
    const last = this.entries.at(-1);
    assert(last === undefined || last.at <= entry.at, "A memory's log goes back in time");
    this.entries.push(entry);
  }
}

export interface DirtyLine {
  readonly line: number;
  readonly versions: { readonly at: Time; readonly bytes: Uint8Array; readonly words: number }[];
}

/**
 * The first instant of a power failure that finds done what the RNIC does at `doneAt`: it goes on until it detects the
 * failure, `noticePs` later.
 */
export function edgeOf(doneAt: Time, noticePs: Time): Time {
  return Math.max(1, doneAt - noticePs + 1);
}

/** Bytes [from, to) of SCM. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

export function overlaps(x: Range, y: Range): boolean {
  return x.from < y.to && y.from < x.to;
}

/** As a copy. */
export type Readable = Pick<ImageView, "read">;

export interface Memory extends Readable {
  write(offset: number, bytes: Uint8Array): void;
}

/** Writes over memory that stays as it is, and that is read only where nothing is over it. */
export class Overlay implements Memory {
  readonly #below: Readable;
  readonly #written = new Pages();
  readonly #isSet = new Pages();

  constructor(below: Readable) {
    this.#below = below;
  }

  read(from: number, to: number): Uint8Array {
    // Most recoveries write nothing, and read much.
    if (!this.#isSet.touches(from, to)) return this.#below.read(from, to);
    const bytes = this.#written.read(from, to);
    for (let at = from; at < to;) {
      const end = Math.min(to, at - at % LINE_BYTES + LINE_BYTES);
      const isSet = this.#isSet.read(at, end);
      if (isSet.includes(0)) {
        const below = this.#below.read(at, end);
        for (const [i, byte] of below.entries()) if (isSet[i] === 0) bytes[at - from + i] = byte;
      }
      at = end;
    }
    return bytes;
  }

  write(offset: number, bytes: Uint8Array): void {
    this.#written.write(offset, bytes);
    this.#isSet.write(offset, new Uint8Array(bytes.length).fill(1));
  }
}

const PAGE_BYTES = 4096;
const NO_PAGE: Uint8Array = new Uint8Array(PAGE_BYTES);

export class Pages implements Memory {
  readonly #pages = new Map<number, Uint8Array>();

  read(from: number, to: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(to - from);
    for (const { index, at, done, length } of partsOf(from, to)) {
      const page = this.#pages.get(index);
      if (page !== undefined) bytes.set(page.subarray(at, at + length), done);
    }
    return bytes;
  }

  /** Something was written in a page that these bytes touch. */
  touches(from: number, to: number): boolean {
    if (this.#pages.size === 0) return false;
    for (let index = Math.floor(from / PAGE_BYTES); index * PAGE_BYTES < to; index++) {
      if (this.#pages.has(index)) return true;
    }
    return false;
  }

  write(offset: number, bytes: Uint8Array): void {
    for (const { index, at, done, length } of partsOf(offset, offset + bytes.length)) {
      let page = this.#pages.get(index);
      if (page === undefined) this.#pages.set(index, page = new Uint8Array(PAGE_BYTES));
      page.set(bytes.subarray(done, done + length), at);
    }
  }

  /** An offset at which `other` differs; undefined where it is equal. */
  firstDifference(other: Pages): number | undefined {
    for (const index of new Set([...this.#pages.keys(), ...other.#pages.keys()])) {
      const here = this.#pages.get(index) ?? NO_PAGE, there = other.#pages.get(index) ?? NO_PAGE;
      for (let at = 0; at < PAGE_BYTES; at++) {
        if (here[at] !== there[at]) return index * PAGE_BYTES + at;
      }
    }
    return undefined;
  }
}

function* partsOf(from: number, to: number) {
  for (let done = 0; done < to - from;) {
    const index = Math.floor((from + done) / PAGE_BYTES);
    const at = from + done - index * PAGE_BYTES;
    const length = Math.min(PAGE_BYTES - at, to - from - done);
    yield { index, at, done, length };
    done += length;
  }
}

export class CrashCursor<Image extends Memory = Memory> {
  readonly image: Image;
  readonly dirty = new Map<number, DirtyLine>();
  readonly #entries: readonly Entry[];
  #next = 0;

  /** @param image SCM before the first entry; the cursor changes it. */
  constructor(entries: readonly Entry[], image: Image) {
    this.#entries = entries;
    this.image = image;
  }

  get steps(): number {
    return this.#next;
  }

  /** Moves to a power failure at `at`, which comes before everything at `at`. */
  moveTo(at: Time): void {
    for (let entry = this.next; entry !== undefined && entry.at < at; entry = this.next) {
      this.step();
    }
  }

  get next(): Entry | undefined {
    return this.#entries[this.#next];
  }

  upcoming(at: Time): readonly Entry[] {
    let end = this.#next;
    while (this.#entries[end]?.at === at) end++;
    return this.#entries.slice(this.#next, end);
  }

  step(): void {
    const entry = this.#entries[this.#next++];
    assert(entry !== undefined, "A memory's history is over");
    switch (entry.kind) {
      case "durable":
        return this.#makeDurable(entry);
      case "dirty":
        return this.#change(entry);
      case "clean":
        return void this.dirty.delete(entry.line);
      case "lost":
        return this.dirty.clear();
    }
  }

  #makeDurable({ offset, bytes }: DurableEntry): void {
    this.image.write(offset, bytes);
    const end = offset + bytes.length;
    if (this.dirty.size === 0) return;
    // A line that was written back may stay dirty (`WritebackPlan`); no older bytes can come after it.
    for (let line = offset - offset % LINE_BYTES; line < end; line += LINE_BYTES) {
      const versions = this.dirty.get(line)?.versions;
      versions?.splice(0, versions.length - 1);
    }
  }

  #change(entry: Extract<Entry, { kind: "dirty" }>): void {
    const { at, line, bytes, words } = entry;
    let dirty = this.dirty.get(line);
    if (dirty === undefined) this.dirty.set(line, dirty = { line, versions: [] });
    dirty.versions.push({ at, bytes, words });
  }
}
