/**
 * What was said of writes to one host's SCM, so that it is quickly found which of it a few bytes are about:
 * who wrote there, and which writes have to be there with others (`after` of a note).
 */
import type { TimedNote, WritesNote } from "../../fabric/audit.ts";
import { nameOf } from "../checks/noted_writes.ts";
import { wordsAround } from "./choices.ts";
import type { Range } from "./history.ts";

/** A write that somebody spoke of. */
export interface Spoken extends Range {
  readonly name: string;
  readonly write: WritesNote;
  /** Places in the list of notes: of its own, and of what was told of it. */
  readonly place: number;
  readonly told: number[];
  isPromised: boolean;
  /** Writes that have to be there where it is, and the other way round. */
  readonly behind: Spoken[];
  readonly ahead: Spoken[];
}

/** What a few bytes are about. */
export interface WriteGroup {
  /** Stretches of SCM that are to be looked at, by offset: each write that touches one touches no other. */
  readonly parts: readonly Range[];
  /** The notes about them, writes cut to them. */
  readonly notes: readonly TimedNote[];
  /** Writes that decide, by being there, whether others have to be. */
  readonly deciding: readonly Range[];
}

const BUCKET_BYTES = 4096;

export class SpokenWrites {
  readonly #all: Spoken[] = [];
  readonly #byBucket = new Map<number, Spoken[]>();
  readonly #notes: readonly TimedNote[];
  #groups: readonly WriteGroup[] | undefined;

  /**
   * @param notes all that is said of a run, by time.
   * @param of.claims what a method claims counts as promised.
   */
  constructor(
    notes: readonly TimedNote[],
    of: { readonly host: string; readonly claims: boolean },
  ) {
    this.#notes = notes;
    const byName = new Map<string, Spoken>();
    for (const [place, { by, note }] of notes.entries()) {
      if (note.kind === "writes") {
        const spoken = spokenOf(nameOf(by, note.id), note, place);
        byName.set(spoken.name, spoken);
        if (note.on !== of.host) continue;
        this.#add(spoken);
        const isOrdered = note.isOrderClaimed !== true || of.claims;
        for (const id of isOrdered ? note.after ?? [] : []) {
          const behind = byName.get(nameOf(by, id));
          if (behind?.write.on !== of.host) continue;
          behind.ahead.push(spoken);
          spoken.behind.push(behind);
        }
      } else if (note.kind === "visible" || note.kind === "persistent") {
        const spoken = byName.get(nameOf(by, note.id));
        if (spoken === undefined) continue;
        spoken.told.push(place);
        if (note.kind === "persistent" && (note.promised || of.claims)) spoken.isPromised = true;
      }
    }
  }

  /** The bytes that anybody spoke of; undefined where nobody did. */
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
    const grouped = new Set<Spoken>();
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

  /** What these bytes are about; undefined: nothing that was said. */
  about(ranges: readonly Range[]): WriteGroup | undefined {
    const touched = this.#touching(ranges);
    if (touched.length === 0) return undefined;
    const joined = joinedTo(touched);
    const parts = this.#bridged([
      ...touched.flatMap((spoken) => ranges.flatMap((range) => commonPart(spoken, range))),
      ...joined,
    ]);
    const notes: [place: number, note: TimedNote][] = [];
    for (const spoken of this.#touching(parts)) {
      const part = parts.find((each) => overlaps(each, spoken))!;
      notes.push([spoken.place, {
        ...this.#notes[spoken.place]!,
        note: clipped(spoken.write, part),
      }]);
      for (const place of spoken.told) notes.push([place, this.#notes[place]!]);
    }
    notes.sort(([x], [y]) => x - y);
    const deciding = [...joined].filter(({ behind }) => behind.length > 0);
    return { parts, notes: notes.map(([, note]) => note), deciding };
  }

  #add(spoken: Spoken): void {
    this.#all.push(spoken);
    for (const bucket of bucketsOf(spoken)) {
      const known = this.#byBucket.get(bucket);
      if (known === undefined) this.#byBucket.set(bucket, [spoken]);
      else known.push(spoken);
    }
  }

  /** Writes that touch a word of these ranges, each once. */
  #touching(ranges: readonly Range[]): Spoken[] {
    const found = new Set<Spoken>();
    for (const range of ranges) {
      const words = wordsAround(range);
      for (const bucket of bucketsOf(words)) {
        for (const spoken of this.#byBucket.get(bucket) ?? []) {
          if (overlaps(spoken, words)) found.add(spoken);
        }
      }
    }
    return [...found];
  }

  /** These ranges as parts of which no write touches two. */
  #bridged(ranges: readonly Range[]): Range[] {
    for (let parts = merged(ranges);;) {
      const bridges = this.#touching(parts).filter((spoken) =>
        parts.filter((part) => overlaps(part, spoken)).length > 1
      );
      if (bridges.length === 0) return parts;
      parts = merged([...parts, ...bridges]);
    }
  }
}

function spokenOf(name: string, write: WritesNote, place: number): Spoken {
  const { at: from, bytes } = write;
  const range = { from, to: from + bytes.length };
  return { ...range, name, write, place, told: [], isPromised: false, behind: [], ahead: [] };
}

/**
 * Writes that the being there of these has consequences for, or that have them for these: those ahead of
 * them decide, as long as nothing is promised anyway, and what is behind any of them follows.
 */
function joinedTo(touched: readonly Spoken[]): Set<Spoken> {
  const joined = new Set<Spoken>();
  const spread = (from: Spoken[], next: (spoken: Spoken) => readonly Spoken[]) => {
    for (let spoken = from.pop(); spoken !== undefined; spoken = from.pop()) {
      for (const other of next(spoken)) {
        joined.add(spoken);
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

export function overlaps(x: Range, y: Range): boolean {
  return x.from < y.to && x.to > y.from;
}

function commonPart(spoken: Range, range: Range): Range[] {
  const words = wordsAround(range);
  const from = Math.max(spoken.from, words.from), to = Math.min(spoken.to, words.to);
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

function clipped(write: WritesNote, { from, to }: Range): WritesNote {
  const begin = Math.max(from, write.at), end = Math.min(to, write.at + write.bytes.length);
  return { ...write, at: begin, bytes: write.bytes.subarray(begin - write.at, end - write.at) };
}
