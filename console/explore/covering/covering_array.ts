/**
 * Covering arrays (combinatorial testing; D. Cohen et al., IEEE TSE 1997): rows in which any `strength` factors show
 * every combination of their values. For 512 factors with two values each, all triples take some hundred rows, where
 * all rows would be 2⁵¹².
 *
 * Few factors are covered greedily, row by row (AETG). Many are folded onto few: a factor is a polynomial over a
 * prime field, and at each point it is assigned the column of its value there. Two polynomials of degree < d agree at
 * d − 1 points at most. With more points than the pairs of `strength` factors can spoil, one point tells these
 * factors apart, and a small array in its columns covers them (a perfect hash family of Reed–Solomon codes; Colbourn
 * and Martirosyan). That takes milliseconds for 512 factors, where a greedy search for triples alone goes through 180
 * million of them, and unlike random rows it proves its coverage.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { rngFor } from "../../../fabric/base/rng.ts";

export type Row = ArrayLike<number>;

export const STRENGTHS = [2, 3, 4] as const;
export type Strength = typeof STRENGTHS[number];

const UNFOLDED_MAX = 40_000;
/** Combinations × rows for which the greedy search takes a second or so. */
const WORK_MAX = 4_000_000;
const CANDIDATES = { least: 3, most: 24, combinations: 400_000 } as const;
const FOLDINGS_MAX = 3;

/**
 * Rows in which any `strength` factors show every combination of their values; deterministic.
 * @param levels the number of each factor's values, from 0 on: at least 1.
 * @param most the most rows wanted.
 * @returns undefined where it would take more rows, or more than a second to find them.
 */
export function coveringArray(
  levels: readonly number[],
  { strength, most }: { readonly strength: Strength; readonly most: number },
): readonly Row[] | undefined {
  // A factor with one value has no combinations of its own.
  const open = [...levels.keys()].filter((factor) => levels[factor]! > 1);
  const columns = open.map((factor) => levels[factor]!);
  if (leastRows(columns, strength) > most) return undefined;
  const rows = combinationsOf(columns, strength) <= UNFOLDED_MAX
    ? greedy(columns, strength, most)
    : folded(columns, strength, most);
  if (rows === undefined || rows.length > most) return undefined;
  return rows.map((row) => {
    const whole = new Uint16Array(levels.length);
    for (const [column, factor] of open.entries()) whole[factor] = row[column]!;
    return whole;
  });
}

/** A lower bound: the factors with the most values show all their combinations. */
function leastRows(levels: readonly number[], strength: number): number {
  const most = levels.toSorted((x, y) => y - x).slice(0, strength);
  return most.reduce((rows, count) => rows * count, 1);
}

/** Combinations of values of any `strength` factors: an elementary symmetric polynomial of the levels. */
function combinationsOf(levels: readonly number[], strength: number): number {
  const sums = [1, ...new Array<number>(strength).fill(0)];
  for (const count of levels) {
    for (let size = strength; size > 0; size--) sums[size]! += count * sums[size - 1]!;
  }
  return sums[Math.min(strength, levels.length)]!;
}

function folded(levels: readonly number[], strength: Strength, most: number) {
  const found = foldingsOf(levels, strength).flatMap((folding) => {
    const base = greedy(folding.columns, strength, Math.floor(most / folding.points));
    return base === undefined ? [] : [{ ...folding, base }];
  }).sort((x, y) => x.points * x.base.length - y.points * y.base.length);
  if (found[0] === undefined) return undefined;
  const { prime, points, base, narrow, wide } = found[0];
  const rows: Row[] = [];
  for (let point = 0; point < points; point++) {
    const columns = narrow.map((_, i) => valueAt(i, point, prime));
    for (const small of base) {
      const row = new Uint16Array(levels.length);
      // Where a factor has fewer values than its column, some of its values stand for several.
      for (const [i, factor] of narrow.entries()) {
        row[factor] = small[columns[i]!]! % levels[factor]!;
      }
      for (const [i, factor] of wide.entries()) row[factor] = small[prime + i]!;
      rows.push(row);
    }
  }
  return rows;
}

interface Folding {
  readonly prime: number;
  readonly points: number;
  readonly narrow: readonly number[];
  readonly wide: readonly number[];
  readonly columns: readonly number[];
}

/** Those likely to have the fewest rows: a factor with many values costs less in a column of its own. */
function foldingsOf(levels: readonly number[], strength: Strength): readonly Folding[] {
  const found: Folding[] = [];
  for (const count of new Set(levels)) {
    const wide = [...levels.keys()].filter((factor) => levels[factor]! > count);
    const narrow = [...levels.keys()].filter((factor) => levels[factor]! <= count);
    for (const degree of [2, 3]) {
      const points = strength * (strength - 1) / 2 * (degree - 1) + 1;
      const prime = primeFrom(Math.max(points, Math.ceil(narrow.length ** (1 / degree))));
      const own = wide.map((factor) => levels[factor]!);
      const columns = [...new Array<number>(prime).fill(count), ...own];
      if (workOf(columns, strength) <= WORK_MAX) {
        found.push({ prime, points, narrow, wide, columns });
      }
    }
  }
  const rows = ({ points, columns }: Folding) => points * leastRows(columns, strength);
  return found.sort((x, y) => rows(x) - rows(y)).slice(0, FOLDINGS_MAX);
}

function workOf(levels: readonly number[], strength: number): number {
  return combinationsOf(levels, strength) * leastRows(levels, strength);
}

/** The polynomial whose coefficients are the digits of `number`, at a point. */
function valueAt(number: number, point: number, prime: number): number {
  let value = 0, power = 1;
  for (let rest = number; rest > 0; rest = Math.floor(rest / prime)) {
    value = (value + rest % prime * power) % prime;
    power = power * point % prime;
  }
  return value;
}

function primeFrom(least: number): number {
  for (let number = Math.max(2, least);; number++) {
    let divisor = 2;
    while (divisor * divisor <= number && number % divisor !== 0) divisor++;
    if (divisor * divisor > number) return number;
  }
}

const known = new Map<string, readonly Row[]>();
const KNOWN_MAX = 256;

function greedy(levels: readonly number[], strength: Strength, most: number) {
  const key = `${strength} ${levels}`;
  let rows = known.get(key);
  if (workOf(levels, strength) > WORK_MAX || leastRows(levels, strength) > most) return undefined;
  if (rows === undefined) {
    rows = new Greedy(levels, Math.min(strength, levels.length)).rows();
    if (known.size >= KNOWN_MAX) known.clear();
    known.set(key, rows);
  }
  return rows.length <= most ? rows : undefined;
}

const NO_VALUE = -1;

/** AETG: each row is the best of several, which begin with a combination that is missing. */
class Greedy {
  readonly #levels: readonly number[];
  readonly #sets: readonly (readonly number[])[];
  readonly #begins: readonly number[];
  readonly #isMissing: Uint8Array;
  readonly #setsOf: readonly (readonly number[])[];
  readonly #rng = rngFor(1, "covering array");
  #missing: number;

  constructor(levels: readonly number[], strength: number) {
    this.#levels = levels;
    this.#sets = [...subsets(levels.length, strength)];
    const setsOf = levels.map((): number[] => []);
    const begins: number[] = [];
    let total = 0;
    for (const [id, set] of this.#sets.entries()) {
      begins.push(total);
      total += set.reduce((count, column) => count * levels[column]!, 1);
      for (const column of set) setsOf[column]!.push(id);
    }
    this.#begins = begins;
    this.#setsOf = setsOf;
    this.#isMissing = new Uint8Array(total).fill(1);
    this.#missing = total;
  }

  rows(): readonly Row[] {
    const rows: Row[] = [];
    const { least, most: tries, combinations } = CANDIDATES;
    const affordable = Math.floor(combinations / this.#isMissing.length);
    const candidates = Math.max(least, Math.min(tries, affordable));
    for (let set = 0; this.#missing > 0;) {
      while (this.#missingIn(set) < 0) set++;
      let best: Int32Array | undefined, most = 0;
      for (let i = 0; i < candidates; i++) {
        const row = this.#candidate(set);
        const gain = this.#sets.reduce(
          (sum, _, id) => sum + this.#isMissing[this.#at(id, row)]!,
          0,
        );
        if (gain > most) [best, most] = [row, gain];
      }
      assert(best !== undefined, "A row covers the combination that it begins with");
      for (const id of this.#sets.keys()) this.#isMissing[this.#at(id, best)] = 0;
      this.#missing -= most;
      rows.push(best);
    }
    return rows;
  }

  /** A row with a missing combination of this set; each further column has the value that covers most. */
  #candidate(set: number): Int32Array {
    const row = new Int32Array(this.#levels.length).fill(NO_VALUE);
    let rest = this.#missingIn(set);
    for (const column of this.#sets[set]!.toReversed()) {
      row[column] = rest % this.#levels[column]!;
      rest = Math.floor(rest / this.#levels[column]!);
    }
    for (const column of this.#shuffled()) if (row[column] === NO_VALUE) this.#choose(column, row);
    return row;
  }

  #choose(column: number, row: Int32Array): void {
    const count = this.#levels[column]!;
    const gains = new Float64Array(count);
    for (const id of this.#setsOf[column]!) {
      if (this.#sets[id]!.some((other) => other !== column && row[other] === NO_VALUE)) continue;
      for (let value = 0; value < count; value++) {
        row[column] = value;
        gains[value]! += this.#isMissing[this.#at(id, row)]!;
      }
    }
    // Ties are broken at random.
    const most = Math.max(...gains);
    const best = [...gains.keys()].filter((value) => gains[value] === most);
    row[column] = best[this.#rng.below(best.length)]!;
  }

  #at(set: number, row: ArrayLike<number>): number {
    let at = 0;
    for (const column of this.#sets[set]!) at = at * this.#levels[column]! + row[column]!;
    return this.#begins[set]! + at;
  }

  #missingIn(set: number): number {
    const begin = this.#begins[set]!, end = this.#begins[set + 1] ?? this.#isMissing.length;
    return this.#isMissing.subarray(begin, end).indexOf(1);
  }

  #shuffled(): number[] {
    const columns = [...this.#levels.keys()];
    for (let i = columns.length - 1; i > 0; i--) {
      const j = this.#rng.below(i + 1);
      [columns[i], columns[j]] = [columns[j]!, columns[i]!];
    }
    return columns;
  }
}

/** All sets of `size` of the numbers below `count`, ascending. */
export function* subsets(count: number, size: number, from = 0): Generator<number[]> {
  if (size === 0) return yield [];
  for (let first = from; first + size <= count; first++) {
    for (const rest of subsets(count, size - 1, first + 1)) yield [first, ...rest];
  }
}
