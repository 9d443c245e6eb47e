/**
 * All the ways in which code can find memory that is open: reading decides. The code is run again from the
 * beginning for each, which is cheap as it is short and pure; what it does not read costs nothing. (So does
 * Jaaru, ASPLOS'21, with programs on persistent memory.)
 */
import { rngFor } from "../../fabric/base/rng.ts";
import type { Cell, Picker } from "./choices.ts";

/** What a run decided, in the order of its reading. */
export type Trail = readonly { readonly cell: Cell; readonly alternative: number }[];

export interface PathsDone {
  readonly paths: number;
  /** There were more than `most`: a sample of them was run. */
  readonly isBounded: boolean;
  /** Of the run that ended it, undefined where none did. */
  readonly ended: Trail | undefined;
}

/**
 * Runs `run` for every way to decide what it reads, or for a sample of them.
 * @param options.most ways that are run one after the other before a sample is taken instead.
 * @param run is called with the picker that decides; true ends it.
 */
export function forEachPath(
  options: { readonly most: number; readonly seed: number },
  run: (pick: Picker) => boolean,
): PathsDone {
  let paths = 0;
  const go = (choose: (cell: Cell, place: number) => number) => {
    const trail: { cell: Cell; alternative: number }[] = [];
    const decided = new Map<Cell, number>();
    const ends = run((cell) => {
      let alternative = decided.get(cell);
      if (alternative === undefined) {
        alternative = choose(cell, trail.length);
        decided.set(cell, alternative);
        trail.push({ cell, alternative });
      }
      return alternative;
    });
    paths++;
    return { trail, ends };
  };
  const first = go(() => 0);
  if (first.ends) return { paths, isBounded: false, ended: first.trail };
  if (waysOf(first.trail) <= options.most) {
    for (let trail: Trail = first.trail; paths < options.most;) {
      const prefix = nextPrefix(trail);
      if (prefix === undefined) return { paths, isBounded: false, ended: undefined };
      const next = go((_cell, place) => prefix[place] ?? 0);
      if (next.ends) return { paths, isBounded: false, ended: next.trail };
      trail = next.trail;
    }
  }
  for (const choose of samples(first.trail.length, options)) {
    const next = go(choose);
    if (next.ends) return { paths, isBounded: true, ended: next.trail };
  }
  return { paths, isBounded: true, ended: undefined };
}

/** At least so many ways there are to decide what was read. */
function waysOf(trail: Trail): number {
  return trail.reduce((ways, { cell }) => ways * cell.alternatives.length, 1);
}

/** The next way after a trail, as its first decisions: those behind are 0. Undefined after the last. */
function nextPrefix(trail: Trail): number[] | undefined {
  const last = trail.findLastIndex(({ cell, alternative }) =>
    alternative + 1 < cell.alternatives.length
  );
  if (last < 0) return undefined;
  return trail.slice(0, last + 1).map(({ alternative }, i) =>
    i === last ? alternative + 1 : alternative
  );
}

/** What is most telling of many choices, then chance. */
function* samples(
  cells: number,
  { most, seed }: { readonly most: number; readonly seed: number },
): Generator<(cell: Cell, place: number) => number> {
  const last = ({ alternatives }: Cell) => alternatives.length - 1;
  yield last;
  for (let i = 0; i < cells && 2 * i < most; i++) {
    yield (cell, place) => place === i ? last(cell) : 0;
    yield (cell, place) => place === i ? 0 : last(cell);
  }
  const rng = rngFor(seed, "choices");
  for (let i = 2 * cells + 2; i < most; i++) {
    yield ({ alternatives }) => rng.below(alternatives.length);
  }
}
