/**
 * All ways in which code can find open memory: a read chooses. The code, which is short and pure, runs from its
 * beginning for each way (as in Jaaru, ASPLOS'21); cells that it does not read cost nothing. Where there are too many
 * ways, those of `ways.ts` are tried.
 */
import type { Cell, Picker } from "../choices.ts";
import { unitOf } from "./coverage.ts";
import type { Row } from "./covering_array.ts";
import { type Coverage, NOTHING_COVERED, phasesOf } from "./ways.ts";

export type Trail = ReadonlyMap<Cell, number>;

export interface PathsDone {
  readonly paths: number;
  /** Coverage, where there were more ways than could be tried; undefined: all ways were tried. */
  readonly coverage: Coverage | undefined;
  readonly ended: Trail | undefined;
}

type Run = (pick: Picker, trail: Trail) => boolean;

type LongRun = (pick: Picker, trail: Trail) => Generator<undefined, boolean>;

/**
 * Runs `run` for every way to decide its reads, or for those that cover them.
 * @param options.most number of ways up to which all are run; if there are more, the number of ways
 * that cover the reads.
 * @param run is called with the picker, and the choices that it makes; true ends it.
 */
export function forEachPath(options: { readonly most: number }, run: Run): PathsDone {
  // deno-lint-ignore require-yield
  return toItsEnd(stepsThroughPaths(options, function* (pick, trail) {
    return run(pick, trail);
  }));
}

/** Runs the steps to their end. */
export function toItsEnd<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** {@link forEachPath} that yields after each way: to give up the search, the caller does not resume it. */
export function* stepsThroughPaths(
  options: { readonly most: number },
  run: LongRun,
): Generator<undefined, PathsDone> {
  const { most } = options;
  const paths = new Paths(run);
  const found = (coverage?: Coverage): PathsDone => {
    return { paths: paths.count, coverage, ended: paths.ended };
  };
  const first = yield* paths.go(() => 0);
  if (paths.ended !== undefined) return found();
  let isFew = waysOf(first) <= most;
  if (!isFew) {
    // Code may read less where more is present.
    isFew = waysOf(yield* paths.go(({ alternatives }) => alternatives.length - 1)) <= most;
    if (paths.ended !== undefined) return found();
  }
  if (isFew) {
    // The run that found everything present recurs among these, so it does not count.
    for (let trail = first, tried = 1;; tried++) {
      const prefix = nextPrefix(trail);
      if (prefix === undefined) return found();
      if (tried >= most) break;
      trail = yield* paths.go((_cell, place) => prefix[place] ?? 0);
      if (paths.ended !== undefined) return found();
    }
  }
  return found(yield* cover(paths, most));
}

class Paths {
  readonly #run: LongRun;
  readonly seen = new Map<Cell, number>();
  count = 0;
  ended: Trail | undefined;

  constructor(run: LongRun) {
    this.#run = run;
  }

  *go(choose: (cell: Cell, place: number) => number): Generator<undefined, Trail> {
    const trail = new Map<Cell, number>();
    const ends = yield* this.#run((cell) => {
      const known = trail.get(cell);
      if (known !== undefined) return known;
      if (!this.seen.has(cell)) this.seen.set(cell, this.seen.size);
      const alternative = choose(cell, trail.size);
      trail.set(cell, alternative);
      return alternative;
    }, trail);
    this.count++;
    if (ends) this.ended = trail;
    else yield;
    return trail;
  }
}

/**
 * Tries the ways of `ways.ts` to find all cells that are read. Where a run reads others, it begins again with these
 * among them.
 * @returns the final coverage.
 */
function* cover(paths: Paths, most: number): Generator<undefined, Coverage> {
  const done = new Set<string>();
  for (;;) {
    const cells = [...paths.seen.keys()].sort(byArrival);
    const placing = placingOf(paths.seen, cells);
    let coverage: Coverage = { cells: cells.length, unit: unitOf(cells), ...NOTHING_COVERED };
    for (const { covers, rows } of phasesOf(cells)) {
      const left = most - done.size;
      const fitting = rows(left) ?? (areFew(rows(most), { done, placing, left }) && rows(most));
      // Rows are made one by one: that of much memory is long, and there may be many.
      for (const row of fitting || []) {
        const key = keyOf(row, placing);
        if (done.has(key)) continue;
        done.add(key);
        yield* paths.go((cell) => row[placing.columns.get(cell) ?? cells.length] ?? 0);
        if (paths.ended !== undefined) return coverage;
      }
      if (paths.seen.size > cells.length) break;
      if (fitting) coverage = { ...coverage, ...covers };
    }
    if (paths.seen.size === cells.length) return coverage;
  }
}

interface Placing {
  readonly columns: ReadonlyMap<Cell, number>;
  readonly columnAt: readonly number[];
  readonly bits: number;
}

function placingOf(seen: ReadonlyMap<Cell, number>, cells: readonly Cell[]): Placing {
  const columns = new Map(cells.map((cell, column) => [cell, column]));
  const columnAt = [...seen.keys()].map((cell) => columns.get(cell)!);
  const most = cells.reduce((most, { alternatives }) => Math.max(most, alternatives.length), 2);
  return { columns, columnAt, bits: 32 - Math.clz32(most - 1) };
}

function areFew(
  rows: Iterable<Row> = [],
  { done, placing, left }: {
    readonly done: ReadonlySet<string>;
    readonly placing: Placing;
    readonly left: number;
  },
): boolean {
  const fresh = new Set<string>();
  for (const row of rows) {
    const key = keyOf(row, placing);
    if (!done.has(key)) fresh.add(key);
    if (fresh.size > left) return false;
  }
  return true;
}

/** The engine's stack has room for so many arguments of a call. */
const CHUNK = 8192;
const UNIT_BITS = 16;

/**
 * A row in the order of {@link Paths.seen}. A cell that is seen later was found durable until then:
 * durable cells at the end are left out, so rows with and without it have one key.
 */
function keyOf(row: Row, { columnAt, bits }: Placing): string {
  const end = columnAt.findLastIndex((column) => row[column] !== 0) + 1;
  const inUnit = Math.floor(UNIT_BITS / bits);
  // With the number of bits in front: more alternatives make other texts.
  const units = new Uint16Array(1 + Math.ceil(end / inUnit));
  units[0] = bits;
  for (let place = 0; place < end; place++) {
    units[1 + Math.floor(place / inUnit)]! |= row[columnAt[place]!]! << (bits * (place % inUnit));
  }
  let key = "";
  for (let from = 0; from < units.length; from += CHUNK) {
    key += String.fromCharCode(...units.subarray(from, from + CHUNK));
  }
  return key;
}

function byArrival(x: Cell, y: Cell): number {
  return x.at - y.at || x.from - y.from;
}

function waysOf(trail: Trail): number {
  return [...trail.keys()].reduce((ways, { alternatives }) => ways * alternatives.length, 1);
}

function nextPrefix(trail: Trail): number[] | undefined {
  const picks = [...trail.values()];
  const last = [...trail].findLastIndex(([{ alternatives }, i]) => i + 1 < alternatives.length);
  return last < 0 ? undefined : [...picks.slice(0, last), picks[last]! + 1];
}
