/**
 * All ways in which code can find open memory: a read chooses. The code, which is short and pure, runs from
 * its beginning for each way (as in Jaaru, ASPLOS'21); cells that it does not read cost nothing.
 */
import { rngFor } from "../../fabric/base/rng.ts";
import type { Cell, Picker } from "./choices.ts";

/** Choices of a run, in the order of its reads. */
export type Trail = ReadonlyMap<Cell, number>;

export interface PathsDone {
  readonly paths: number;
  /** There were more than `most`: a sample of them was run. */
  readonly isBounded: boolean;
  /** Choices of the run that returned true. */
  readonly ended: Trail | undefined;
}

/**
 * Runs `run` for every way to decide what it reads, or for a sample of them.
 * @param options.most ways that are run one after the other before a sample is taken instead.
 * @param run is called with the picker, and the choices that it makes; true ends it.
 */
export function forEachPath(
  options: { readonly most: number; readonly seed: number },
  run: (pick: Picker, trail: Trail) => boolean,
): PathsDone {
  let paths = 0;
  const go = (choose: (cell: Cell, place: number) => number) => {
    const trail = new Map<Cell, number>();
    const ends = run((cell) => {
      const alternative = trail.get(cell) ?? choose(cell, trail.size);
      trail.set(cell, alternative);
      return alternative;
    }, trail);
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
  for (const choose of samples(first.trail.size, options)) {
    const next = go(choose);
    if (next.ends) return { paths, isBounded: true, ended: next.trail };
  }
  return { paths, isBounded: true, ended: undefined };
}

/** A lower bound of the number of ways. */
function waysOf(trail: Trail): number {
  return [...trail.keys()].reduce((ways, { alternatives }) => ways * alternatives.length, 1);
}

/** The first choices of the next way after a trail; all others are 0. Undefined after the last way. */
function nextPrefix(trail: Trail): number[] | undefined {
  const picks = [...trail.values()];
  const last = [...trail].findLastIndex(([{ alternatives }, i]) => i + 1 < alternatives.length);
  return last < 0 ? undefined : [...picks.slice(0, last), picks[last]! + 1];
}

/** All, each alone, each missing; then random ones. */
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
