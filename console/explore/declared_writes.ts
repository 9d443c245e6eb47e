/**
 * Writes that programs declare to one host's SCM by notes, found by the bytes that they are of, with those
 * that have to be there with them (`after` of a note).
 */
import type { TimedRecord, WritesRecord } from "../../fabric/audit.ts";
import { nameOf } from "../checks/noted_writes.ts";
import { wordsAround } from "./choices.ts";
import { overlaps, type Range } from "./history.ts";

/** A write that a program declared. */
export interface DeclaredWrite extends Range {
  readonly name: string;
  readonly note: WritesRecord;
  /** Places in the list of notes: of its own, and of those that say it is visible or persistent. */
  readonly place: number;
  readonly later: number[];
  isPromised: boolean;
  /** Writes that have to be there where it is, and the other way round. */
  readonly behind: DeclaredWrite[];
  readonly ahead: DeclaredWrite[];
}

/** Writes that are judged together. */
export interface WriteGroup {
  /** Bytes to be looked at, by offset: each write that touches one of these ranges touches no other. */
  readonly parts: readonly Range[];
  /** The notes of the writes, cut to these ranges. */
  readonly notes: readonly TimedRecord[];
  /** Writes that decide, by being there, whether others have to be. */
  readonly deciding: readonly Range[];
}

const BUCKET_BYTES = 4096;

export class DeclaredWrites {
  readonly #all: DeclaredWrite[] = [];
  readonly #byBucket = new Map<number, DeclaredWrite[]>();
  readonly #notes: readonly TimedRecord[];
  #groups: readonly WriteGroup[] | undefined;

  /**
   * @param notes of a run, by time.
   * @param options.claims what a method claims counts as promised.
   */
  constructor(
    notes: readonly TimedRecord[],
    { host, claims }: { readonly host: string; readonly claims: boolean },
  ) {
    this.#notes = notes;
    const byName = new Map<string, DeclaredWrite>();
    for (const [place, { by, note }] of notes.entries()) {
      if (note.kind === "writes") {
        const write = declaredWrite(nameOf(by, note.id), note, place);
        byName.set(write.name, write);
        if (note.on !== host) continue;
        this.#add(write);
        const isOrdered = note.isOrderClaimed !== true || claims;
        for (const id of isOrdered ? note.after ?? [] : []) {
          const behind = byName.get(nameOf(by, id));
          if (behind?.note.on !== host) continue;
          behind.ahead.push(write);
          write.behind.push(behind);
        }
      } else if (note.kind === "visible" || note.kind === "persistent") {
        const write = byName.get(nameOf(by, note.id));
        if (write === undefined) continue;
        write.later.push(place);
        if (note.kind === "persistent" && (note.promised || claims)) write.isPromised = true;
      }
    }
  }

  /** The bytes from the first to the last write; undefined where there is none. */
  get whole(): Range | undefined {
    if (this.#all.length === 0) return undefined;
    let { from, to } = this.#all[0]!;
    for (const each of this.#all) {
      from = Math.min(from, each.from);
      to = Math.max(to, each.to);
    }
    return { from, to };
  }

  /** Whether some write there comes after another, or another after it. */
  hasLinks(ranges: readonly Range[]): boolean {
    return this.#touching(ranges).some(({ behind, ahead }) => behind.length + ahead.length > 0);
  }

  /** All writes, those together that are judged together. */
  get groups(): readonly WriteGroup[] {
    if (this.#groups !== undefined) return this.#groups;
    const groups: WriteGroup[] = [];
    const grouped = new Set<DeclaredWrite>();
    for (const write of this.#all.toSorted((x, y) => x.from - y.from)) {
      const group = grouped.has(write) ? undefined : this.about([write]);
      if (group === undefined) continue;
      groups.push(group);
      for (const part of group.parts) {
        const inside = this.#touching([part])
          .filter(({ from, to }) => part.from <= from && to <= part.to);
        for (const each of inside) grouped.add(each);
      }
    }
    return this.#groups = groups;
  }

  /** The writes that these bytes are of, with those that they are linked to; undefined where there is none. */
  about(ranges: readonly Range[]): WriteGroup | undefined {
    const touched = this.#touching(ranges);
    if (touched.length === 0) return undefined;
    const joined = joinedTo(touched);
    const parts = this.#bridged([
      ...touched.flatMap((write) => ranges.flatMap((range) => commonPart(write, range))),
      ...joined,
    ]);
    const notes: [place: number, note: TimedRecord][] = [];
    for (const write of this.#touching(parts)) {
      const part = parts.find((each) => overlaps(each, write))!;
      notes.push([write.place, {
        ...this.#notes[write.place]!,
        note: clipped(write.note, part),
      }]);
      for (const place of write.later) notes.push([place, this.#notes[place]!]);
    }
    notes.sort(([x], [y]) => x - y);
    const deciding = [...joined].filter(({ behind }) => behind.length > 0);
    return { parts, notes: notes.map(([, note]) => note), deciding };
  }

  #add(write: DeclaredWrite): void {
    this.#all.push(write);
    for (const bucket of bucketsOf(write)) {
      const known = this.#byBucket.get(bucket);
      if (known === undefined) this.#byBucket.set(bucket, [write]);
      else known.push(write);
    }
  }

  /** Writes that touch a word of these ranges, each once. */
  #touching(ranges: readonly Range[]): DeclaredWrite[] {
    const found = new Set<DeclaredWrite>();
    for (const range of ranges) {
      const words = wordsAround(range);
      for (const bucket of bucketsOf(words)) {
        for (const write of this.#byBucket.get(bucket) ?? []) {
          if (overlaps(write, words)) found.add(write);
        }
      }
    }
    return [...found];
  }

  /** These ranges as parts of which no write touches two. */
  #bridged(ranges: readonly Range[]): Range[] {
    for (let parts = merged(ranges);;) {
      const bridges = this.#touching(parts).filter((write) =>
        parts.filter((part) => overlaps(part, write)).length > 1
      );
      if (bridges.length === 0) return parts;
      parts = merged([...parts, ...bridges]);
    }
  }
}

function declaredWrite(name: string, note: WritesRecord, place: number): DeclaredWrite {
  const { at: from, bytes } = note;
  const range = { from, to: from + bytes.length };
  return { ...range, name, note, place, later: [], isPromised: false, behind: [], ahead: [] };
}

/**
 * Writes linked to these, unless a promise settles them: whether those ahead are found decides whether
 * these have to be, and those behind have to be where any of them is.
 */
function joinedTo(touched: readonly DeclaredWrite[]): Set<DeclaredWrite> {
  const joined = new Set<DeclaredWrite>();
  const spread = (
    from: DeclaredWrite[],
    next: (write: DeclaredWrite) => readonly DeclaredWrite[],
  ) => {
    for (let write = from.pop(); write !== undefined; write = from.pop()) {
      for (const other of next(write)) {
        joined.add(write);
        if (joined.has(other)) continue;
        joined.add(other);
        from.push(other);
      }
    }
  };
  spread([...touched], ({ isPromised, ahead }) => isPromised ? [] : ahead);
  spread(
    [...new Set([...touched, ...joined])],
    ({ behind }) => behind.filter(({ isPromised }) => !isPromised),
  );
  return joined;
}

function* bucketsOf({ from, to }: Range): Generator<number> {
  for (let bucket = Math.floor(from / BUCKET_BYTES); bucket * BUCKET_BYTES < to; bucket++) {
    yield bucket;
  }
}

function commonPart(write: Range, range: Range): Range[] {
  const words = wordsAround(range);
  const from = Math.max(write.from, words.from), to = Math.min(write.to, words.to);
  return from < to ? [{ from, to }] : [];
}

/** Ranges of whole words that are apart from each other, by offset. */
function merged(ranges: readonly Range[]): Range[] {
  const all: { from: number; to: number }[] = [];
  for (const { from, to } of ranges.map(wordsAround).sort((x, y) => x.from - y.from)) {
    const last = all.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else all.push({ from, to });
  }
  return all;
}

function clipped(write: WritesRecord, { from, to }: Range): WritesRecord {
  const begin = Math.max(from, write.at), end = Math.min(to, write.at + write.bytes.length);
  return { ...write, at: begin, bytes: write.bytes.subarray(begin - write.at, end - write.at) };
}
