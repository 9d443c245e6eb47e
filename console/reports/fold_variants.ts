/** What several runs of one scenario have in common, as one row of a table for people. */

interface Counted {
  readonly variant: string;
  /** Of how many things, and how many it was; null where nobody counts. */
  readonly seen: number | null;
  readonly hit: number | null;
}

/** The first of the rows that are alike, with the sums of all. */
export type Folded<Row> = Row & {
  /** For people: in how many of the runs that have it there was a hit. */
  readonly runs: string;
};

/**
 * Rows that are alike but for the run and what was counted in it become one, in the place of the first. Of
 * several that are alike in one run, each stays by itself.
 * @param keyOf what has to be the same.
 */
export function foldVariants<Row extends Counted>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
): Folded<Row>[] {
  const known = new Map<string, number>();
  const numbered = (row: Row) => {
    const key = keyOf(row), own = `${row.variant} ${key}`;
    const number = known.get(own) ?? 0;
    known.set(own, number + 1);
    return `${number} ${key}`;
  };
  return [...Map.groupBy(rows, numbered).values()].map((alike) => {
    const sum = (count: (row: Row) => number | null) =>
      alike.reduce<number | null>((all, row) => {
        const own = count(row);
        return all === null || own === null ? null : all + own;
      }, 0);
    const hitIn = alike.filter(({ hit }) => hit !== null && hit > 0).length;
    const seen = sum((row) => row.seen), hit = sum((row) => row.hit);
    const runs = hit === null ? `${alike.length}` : `${hitIn} of ${alike.length}`;
    return { ...alike[0]!, seen, hit, runs };
  });
}
