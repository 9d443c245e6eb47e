/**
 * Asks the checker of promises (P-41) about what a power failure leaves, again and again as little of it
 * changes. A promise is about each eight bytes by themselves, so only those are asked about of which other
 * things may be found than before; and each choice is asked about alone, however many there are.
 */
import type { TimedNote, WritesNote } from "../../fabric/note.ts";
import { persistence } from "../../tests/checkers/persistence.ts";
import type { Finding, ImageView, RunRecord } from "../../tests/checkers/run_record.ts";
import { type Cell, type Cells, readCrashed, WORD_BYTES } from "./choices.ts";
import type { Bytes } from "./history.ts";

/** What a power failure leaves of one host's SCM: what is durable, and what is open. */
export interface CrashState {
  readonly host: string;
  readonly image: Pick<Bytes, "read">;
  readonly cells: Pick<Cells, "in">;
}

/** Which alternative of a cell is found, of those that are settled. */
export type Settled = ReadonlyMap<Cell, number>;

/** Bytes [from, to) of SCM. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** A write that somebody spoke of, with where in the list of notes that was. */
interface Spoken {
  readonly write: WritesNote;
  readonly at: number;
  readonly told: number[];
  /** It comes after another one, or another one after it. */
  isLinked: boolean;
}

type Run = Pick<RunRecord, "plan" | "lives" | "claims">;

/** What had been promised of one host's SCM, and whether it is kept. */
export class Judge {
  readonly #run: Run;
  readonly #host: string;
  readonly #notes: readonly TimedNote[];
  readonly #spoken: Spoken[] = [];
  readonly #most: number;
  #isBounded = false;

  /**
   * @param of.notes all that is said of a run, by time.
   * @param of.most ways to settle together what writes that come after others are in.
   */
  constructor(
    run: Run,
    of: { readonly host: string; readonly notes: readonly TimedNote[]; readonly most: number },
  ) {
    this.#most = of.most;
    this.#run = run;
    this.#host = of.host;
    this.#notes = of.notes;
    const byName = new Map<string, Spoken>();
    for (const [at, { node, by, note }] of of.notes.entries()) {
      const name = (id: number) => `${node} ${by} ${id}`;
      if (note.kind === "writes") {
        const spoken = { write: note, at, told: [], isLinked: (note.after?.length ?? 0) > 0 };
        for (const id of note.after ?? []) {
          const first = byName.get(name(id));
          if (first !== undefined) first.isLinked = true;
        }
        byName.set(name(note.id), spoken);
        if (note.on === of.host) this.#spoken.push(spoken);
      } else if (note.kind === "visible" || note.kind === "persistent") {
        byName.get(name(note.id))?.told.push(at);
      }
    }
  }

  /** The bytes that anybody spoke of; undefined where nobody did. */
  get whole(): Range | undefined {
    return hull(this.#spoken.map(rangeOf));
  }

  /** Whether there were more ways than that since this was last asked. */
  takeBounded(): boolean {
    const was = this.#isBounded;
    this.#isBounded = false;
    return was;
  }

  get checker(): string {
    return persistence.name;
  }

  /** Whether there are writes in a range that come after others, or others after them. */
  hasLinks(range: Range): boolean {
    return this.#spoken.some((each) => each.isLinked && overlaps(range, rangeOf(each)));
  }

  /** The part of a range that promises may be about. */
  concerned({ from, to }: Range): Range | undefined {
    return hull(
      this.#spoken.map(rangeOf).filter((range) => range.from < to && range.to > from)
        .map((range) => ({ from: Math.max(range.from, from), to: Math.min(range.to, to) })),
    );
  }

  /**
   * What is wrong with what is found in a range, for any of its choices.
   * @param settled choices that are made.
   */
  judge(state: CrashState, range: Range, settled: Settled = NOTHING): Finding[] {
    const { notes, linked } = this.#about(range);
    if (notes.length === 0) return [];
    const findings: Finding[] = [];
    // Whether one write is found decides what is asked of those that it comes after.
    const open = openIn(state, linked, settled);
    const joint = jointly(open, this.#most);
    if (joint.length < open.length) this.#isBounded = true;
    for (const choice of combinations(joint, settled)) {
      findings.push(...persistence.check({
        ...this.#run,
        reports: [],
        notes,
        scm: (host) => host === this.#host ? viewOf(state, choice) : undefined,
      }));
      if (findings.length > 0) break;
    }
    return findings;
  }

  /** Notes about a range, their writes cut to it, and the writes that come after others. */
  #about(range: Range): { notes: TimedNote[]; linked: Range[] } {
    const links = this.#spoken.filter(({ isLinked }) => isLinked);
    const meets = links.some(({ write }) => overlaps(range, rangeOf({ write })));
    const wide = meets ? hull([range, ...links.map(rangeOf)])! : range;
    const first = wide.from - wide.from % WORD_BYTES;
    const end = Math.ceil(wide.to / WORD_BYTES) * WORD_BYTES;
    const clip = { from: first, to: end };
    const places: [at: number, note: TimedNote][] = [];
    for (const { write, at, told } of this.#spoken) {
      if (!overlaps(clip, rangeOf({ write }))) continue;
      places.push([at, { ...this.#notes[at]!, note: clipped(write, clip) }]);
      for (const each of told) places.push([each, this.#notes[each]!]);
    }
    places.sort(([x], [y]) => x - y);
    const linked = meets
      ? links.filter(({ write }) => (write.after?.length ?? 0) > 0).map(rangeOf)
      : [];
    return { notes: places.map(([, note]) => note), linked };
  }
}

const NOTHING: Settled = new Map();

function rangeOf({ write }: Pick<Spoken, "write">): Range {
  return { from: write.at, to: write.at + write.bytes.length };
}

function overlaps(x: Range, y: Range): boolean {
  return x.from < y.to && x.to > y.from;
}

/** The least range that has all of them. */
export function hull(ranges: readonly Range[]): Range | undefined {
  if (ranges.length === 0) return undefined;
  let { from, to } = ranges[0]!;
  for (const range of ranges) {
    from = Math.min(from, range.from);
    to = Math.max(to, range.to);
  }
  return { from, to };
}

function clipped(write: WritesNote, { from, to }: Range): WritesNote {
  const begin = Math.max(from, write.at), end = Math.min(to, write.at + write.bytes.length);
  return { ...write, at: begin, bytes: write.bytes.subarray(begin - write.at, end - write.at) };
}

/** The cells of these ranges that are not settled. */
function openIn(state: CrashState, ranges: readonly Range[], settled: Settled): Cell[] {
  const cells = new Set(ranges.flatMap(({ from, to }) => state.cells.in(from, to)));
  return [...cells].filter((cell) => !settled.has(cell));
}

/** The first of them, as many as have no more than `most` ways to be settled together. */
function jointly(cells: readonly Cell[], most: number): readonly Cell[] {
  let ways = 1;
  const end = cells.findIndex(({ alternatives }) => (ways *= alternatives.length) > most);
  return end < 0 ? cells : cells.slice(0, end);
}

/** Ways to settle these cells, on top of what is settled. */
function* combinations(cells: readonly Cell[], settled: Settled): Generator<Settled> {
  const counts = cells.map(({ alternatives }) => alternatives.length);
  const picks = counts.map(() => 0);
  for (;;) {
    yield new Map([...settled, ...cells.map((cell, i) => [cell, picks[i]!] as const)]);
    let i = 0;
    while (i < picks.length && picks[i]! + 1 === counts[i]) picks[i++] = 0;
    if (i === picks.length) return;
    picks[i]!++;
  }
}

/** What a checker sees of it. */
export function viewOf(state: CrashState, settled: Settled): ImageView {
  const pick = (cell: Cell) => settled.get(cell) ?? 0;
  const read = (from: number, to: number) => {
    const bytes = new Uint8Array(to - from);
    readCrashed({ ...state, pick }, from, bytes);
    return bytes;
  };
  const possible = (unit: number) => {
    const end = unit + WORD_BYTES;
    let found: Uint8Array[] = [read(unit, end)];
    for (const cell of state.cells.in(unit, end)) {
      if (!settled.has(cell)) found = found.flatMap((bytes) => withEach(cell, unit, bytes));
    }
    return found.length === 1 ? undefined : found;
  };
  return { read, possible };
}

function withEach(cell: Cell, unit: number, bytes: Uint8Array): Uint8Array[] {
  return cell.alternatives.map((alternative) => {
    const from = Math.max(cell.from, unit);
    const to = Math.min(cell.from + cell.length, unit + WORD_BYTES);
    const found = bytes.slice();
    found.set(alternative.subarray(from - cell.from, to - cell.from), from - unit);
    return found;
  });
}

/**
 * The fewest choices with which something is wrong: none, one, or two of them together.
 * @returns undefined where none of them is enough: what was found for each line apart cannot be at once.
 */
export function witnessOf(
  judge: Judge,
  state: CrashState,
  range: Range,
): { readonly settled: Settled; readonly finding: Finding } | undefined {
  const cells = state.cells.in(range.from, range.to);
  const none = new Map<Cell, number>(cells.map((cell) => [cell, 0]));
  const picks = cells.flatMap((cell) =>
    cell.alternatives.map((_, i) => [cell, i] as const).filter(([, i]) => i > 0)
  );
  const tries = [
    none,
    ...picks.map(([cell, i]) => new Map(none).set(cell, i)),
    ...picks.flatMap(([cell, i], at) =>
      picks.slice(at + 1).filter(([other]) => other !== cell)
        .map(([other, j]) => new Map(none).set(cell, i).set(other, j))
    ),
  ];
  for (const settled of tries) {
    const [finding] = judge.judge(state, range, settled);
    if (finding !== undefined) return { settled, finding };
  }
  return undefined;
}
