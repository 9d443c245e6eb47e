/**
 * The history of one host's SCM in a run, with exact times, and what a power failure at any instant of it
 * leaves: {@link CrashCursor} goes through it once, forwards. Nothing is run again for that (P-05).
 */
import { assert } from "../../fabric/base/assert.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";

export const LINE_BYTES = 64;

/** See {@link MemoryLog}; `lost`: a new life begins, and what was not durable before is gone. */
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

/** Keeps all that a host's memory logs, in order. */
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

  /** The host begins another life at `at`. */
  beginLife(at: Time): void {
    this.#push({ kind: "lost", at });
  }

  #push(entry: Entry): void {
    const last = this.entries.at(-1);
    assert(last === undefined || last.at <= entry.at, "A memory's log goes back in time");
    this.entries.push(entry);
  }
}

/** A line that was changed where a power failure loses it, since it was last durable as it is. */
export interface DirtyLine {
  /** Offset of the line. */
  readonly line: number;
  readonly versions: { readonly at: Time; readonly bytes: Uint8Array; readonly words: number }[];
}

/** Bytes [from, to) of SCM. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

export function overlaps(x: Range, y: Range): boolean {
  return x.from < y.to && y.from < x.to;
}

/** Bytes of SCM. */
export interface Bytes {
  read(offset: number, target: Uint8Array): void;
  write(offset: number, bytes: Uint8Array): void;
}

/** A copy of `length` bytes from `offset` on. */
export function bytesOf(
  memory: Pick<Bytes, "read">,
  offset: number,
  length: number,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  memory.read(offset, bytes);
  return bytes;
}

/** What was written over bytes that stay as they are, and of which only what a reader needs is read. */
export class Overlay implements Bytes {
  readonly #below: Pick<Bytes, "read">;
  readonly #lines = new Map<number, { readonly bytes: Uint8Array; readonly isSet: Uint8Array }>();

  constructor(below: Pick<Bytes, "read">) {
    this.#below = below;
  }

  read(offset: number, target: Uint8Array): void {
    if (this.#lines.size === 0) return this.#below.read(offset, target);
    for (const { line, inLine, done, length } of partsByLine(offset, target.length)) {
      const written = this.#lines.get(line);
      const part = target.subarray(done, done + length);
      const isSet = written?.isSet.subarray(inLine, inLine + length);
      if (isSet === undefined || isSet.includes(0)) this.#below.read(line + inLine, part);
      if (written === undefined) continue;
      for (let i = 0; i < length; i++) {
        if (isSet![i] === 1) part[i] = written.bytes[inLine + i]!;
      }
    }
  }

  write(offset: number, bytes: Uint8Array): void {
    for (const { line, inLine, done, length } of partsByLine(offset, bytes.length)) {
      let written = this.#lines.get(line);
      if (written === undefined) {
        written = { bytes: new Uint8Array(LINE_BYTES), isSet: new Uint8Array(LINE_BYTES) };
        this.#lines.set(line, written);
      }
      written.bytes.set(bytes.subarray(done, done + length), inLine);
      written.isSet.fill(1, inLine, inLine + length);
    }
  }
}

function* partsByLine(offset: number, bytes: number) {
  for (let done = 0; done < bytes;) {
    const inLine = (offset + done) % LINE_BYTES;
    const length = Math.min(LINE_BYTES - inLine, bytes - done);
    yield { line: offset + done - inLine, inLine, done, length };
    done += length;
  }
}

const PAGE_BYTES = 4096;

/** Bytes that are kept by pages, from zeros on. */
export class Pages implements Bytes {
  readonly #pages = new Map<number, Uint8Array>();

  read(offset: number, target: Uint8Array): void {
    for (let done = 0; done < target.length;) {
      const { page, at, length } = this.#part(offset + done, target.length - done);
      if (page === undefined) target.fill(0, done, done + length);
      else target.set(page.subarray(at, at + length), done);
      done += length;
    }
  }

  write(offset: number, bytes: Uint8Array): void {
    for (let done = 0; done < bytes.length;) {
      const { index, at, length } = this.#part(offset + done, bytes.length - done);
      let page = this.#pages.get(index);
      if (page === undefined) this.#pages.set(index, page = new Uint8Array(PAGE_BYTES));
      page.set(bytes.subarray(done, done + length), at);
      done += length;
    }
  }

  /** An offset at which other bytes are found in `other`; undefined where it is the same. */
  firstDifference(other: Pages): number | undefined {
    const here = new Uint8Array(PAGE_BYTES), there = new Uint8Array(PAGE_BYTES);
    for (const index of new Set([...this.#pages.keys(), ...other.#pages.keys()])) {
      this.read(index * PAGE_BYTES, here);
      other.read(index * PAGE_BYTES, there);
      const at = here.findIndex((byte, i) => byte !== there[i]);
      if (at >= 0) return index * PAGE_BYTES + at;
    }
    return undefined;
  }

  #part(offset: number, most: number) {
    const index = Math.floor(offset / PAGE_BYTES);
    const at = offset - index * PAGE_BYTES;
    const length = Math.min(PAGE_BYTES - at, most);
    return { index, page: this.#pages.get(index), at, length };
  }
}

/** What a power failure leaves of a host's SCM, at an instant that only moves forward. */
export class CrashCursor<Image extends Bytes = Bytes> {
  /** What is durable. */
  readonly image: Image;
  /** By offset. */
  readonly dirty = new Map<number, DirtyLine>();
  readonly #entries: readonly Entry[];
  #next = 0;

  /** @param image what is there before: changed from then on. */
  constructor(entries: readonly Entry[], image: Image) {
    this.#entries = entries;
    this.image = image;
  }

  /** Entries that have happened. */
  get steps(): number {
    return this.#next;
  }

  /** Moves to a power failure at `at`, which comes before everything at `at`. */
  moveTo(at: Time): void {
    for (let entry = this.next; entry !== undefined && entry.at < at; entry = this.next) {
      this.step();
    }
  }

  /** What happens next; undefined at the end. */
  get next(): Entry | undefined {
    return this.#entries[this.#next];
  }

  /** What is still to happen at an instant, in order. */
  upcoming(at: Time): readonly Entry[] {
    let end = this.#next;
    while (this.#entries[end]?.at === at) end++;
    return this.#entries.slice(this.#next, end);
  }

  /** Lets it happen. */
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
    // Written back, and in the cache all the same (`WritebackPlan`): no older bytes can come after it.
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
