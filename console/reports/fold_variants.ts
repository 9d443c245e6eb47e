/** Rows of several runs of one scenario that differ only in their counts become one. */
import { type Column, columnsOf, tableText } from "./table.ts";

interface Counted {
  readonly variant: string;
  readonly seen: number | null;
  readonly hit: number | null;
}

type Folded<Row> = Row & {
  readonly runs: string;
};

/** With a column for their runs where there are several. */
export function foldedTable<Row extends Counted>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
  columns: readonly Column<Row>[],
): string {
  const several = new Set(rows.map(({ variant }) => variant)).size > 1;
  return tableText(
    columnsOf<Folded<Row>>(...columns, several && { title: "in runs", value: ({ runs }) => runs }),
    foldVariants(rows, keyOf),
  );
}

/**
 * In the place of the first; equal rows of one run stay separate. @param keyOf the fields that must
 * be equal.
 */
function foldVariants<Row extends Counted>(
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
