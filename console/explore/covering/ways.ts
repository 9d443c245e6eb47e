/**
 * Which ways to find open cells are tried where all would be too many: all first and all last ones in the order
 * in which they arrived, each alone there and alone missing, then covering arrays (pairs, triples, quadruples
 * in every combination), and any two alone there and alone missing. That is where checksums miss what is
 * lost: two equal words of an XOR cancel each other only while all others are there. Failures come of few factors
 * together (Kuhn, Wallace, Gallo, IEEE TSE 2004); pairs, triples and quadruples of 512 words take 22, 108 and 532 rows.
 */
import type { Cell } from "../choices.ts";
import { coveringArray, type Row, type Strength, STRENGTHS } from "./covering_array.ts";

/** Which ways to find memory were tried, where not all were. */
export interface Coverage {
  /**
   * Cells that were read in any of them, and their kind: torn words, lines of the cache, or both.
   */
  readonly cells: number;
  readonly unit: "words" | "lines" | "pieces";
  /** Any so many cells were found in every combination of their contents; 0: not even each in each content. */
  readonly strength: 0 | 1 | Strength;
  /** The first k and the last k cells in the order of their arrival, for every k. */
  readonly inOrder: boolean;
  /** Any so many cells were found alone there, and alone missing. */
  readonly aside: 0 | 1 | 2;
}

type Extent = Omit<Coverage, "cells" | "unit">;

export const NOTHING_COVERED: Extent = { strength: 0, inOrder: false, aside: 0 };

export interface Phase {
  readonly covers: Partial<Extent>;
  /** @returns undefined where there are more than `most`. */
  rows(most: number): Iterable<Row> | undefined;
}

/**
 * The rows to try, the most telling first.
 * @param cells in the order of their arrival. A row has the alternative of each.
 */
export function phasesOf(cells: readonly Pick<Cell, "alternatives">[]): readonly Phase[] {
  const levels = cells.map(({ alternatives }) => alternatives.length);
  const arrays = STRENGTHS.filter((strength) => strength <= cells.length).map((
    strength,
  ): Phase => ({
    covers: { strength },
    rows: (most) => coveringArray(levels, { strength, most }),
  }));
  return [
    {
      covers: { inOrder: true },
      rows: (most) => rowsInOrder(levels) > most ? undefined : inOrder(levels),
    },
    {
      covers: { aside: 1, strength: 1 },
      rows: (most) => rowsAside(levels) > most ? undefined : aside(levels),
    },
    ...arrays,
    {
      covers: { aside: 2 },
      rows: (most) => pairsAside(levels) > most ? undefined : twoAside(levels),
    },
  ];
}

function* inOrder(levels: readonly number[]): Generator<Row> {
  for (let count = 0; count <= levels.length; count++) {
    yield levels.map((level, i) => i < count ? level - 1 : 0);
    yield levels.map((level, i) => i < count ? 0 : level - 1);
  }
}

/** Counts the rows of {@link inOrder} before any is made: a row of much memory is long. */
function rowsInOrder(levels: readonly number[]): number {
  return Math.max(1, 2 * levels.filter((level) => level > 1).length);
}

function* aside(levels: readonly number[]): Generator<Row> {
  for (const background of backgrounds(levels)) {
    for (const [i, level] of levels.entries()) {
      for (let value = 0; value < level; value++) yield background.with(i, value);
    }
  }
}

/** Number of different rows of {@link aside}, or less: the backgrounds of two cells share some. */
function rowsAside(levels: readonly number[]): number {
  const open = levels.filter((level) => level > 1);
  const rows = open.reduce((sum, level) => sum + level - 1, 1);
  return open.length > 2 ? 2 * rows : rows;
}

/** The same for any two cells: with all others present first, as a checksum misses two there. */
function* twoAside(levels: readonly number[]): Generator<Row> {
  for (const background of backgrounds(levels).toReversed()) {
    for (let i = 0; i < levels.length; i++) {
      for (let j = i + 1; j < levels.length; j++) {
        yield* pairRows(background, [i, j], levels);
      }
    }
  }
}

function* pairRows(
  background: readonly number[],
  [i, j]: [number, number],
  levels: readonly number[],
) {
  for (let x = 0; x < levels[i]!; x++) {
    for (let y = 0; y < levels[j]!; y++) {
      if (x !== background[i] && y !== background[j]) yield background.with(i, x).with(j, y);
    }
  }
}

function pairsAside(levels: readonly number[]): number {
  let sum = 0, squares = 0;
  for (const level of levels) {
    sum += level - 1;
    squares += (level - 1) ** 2;
  }
  return sum ** 2 - squares;
}

function backgrounds(levels: readonly number[]): readonly (readonly number[])[] {
  return [levels.map(() => 0), levels.map((level) => level - 1)];
}
