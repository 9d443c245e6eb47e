/** Tables as text. A column is defined once, for all outputs of its rows. */
import { formatTime, type Time } from "../../fabric/base/time.ts";

export interface Column<Row> {
  readonly title: string;
  /** Undefined and null are an empty cell. */
  readonly value: (row: Row) => string | number | null | undefined;
  readonly text?: (row: Row) => string;
}

/** Without columns whose condition is false. */
export function columnsOf<Row>(
  ...columns: readonly (Column<Row> | false)[]
): readonly Column<Row>[] {
  return columns.filter((column) => column !== false);
}

/** Of many operations, in ps. */
export interface Latencies {
  readonly median: Time;
  readonly p99: Time;
  readonly max: Time;
}

/** Three columns; empty in a row without latencies. */
export function latencyColumns<Row>(
  latencies: (row: Row) => Latencies | undefined,
): Column<Row>[] {
  return (["median", "p99", "max"] as const).map((title) =>
    timeColumn(title, (row) => latencies(row)?.[title])
  );
}

/** With its unit; empty where there is none. */
export function timeColumn<Row>(
  title: string,
  value: (row: Row) => Time | undefined,
): Column<Row> {
  const text = (row: Row) => {
    const ps = value(row);
    return ps === undefined ? "" : formatTime(ps);
  };
  return { title, value, text };
}

/**
 * Titles, a rule and a line for each row; each column is as wide as its widest cell, and aligned
 * right where every cell begins like a number.
 */
export function tableText<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cells = rows.map((row) =>
    columns.map(({ value, text }) => text === undefined ? `${value(row) ?? ""}` : text(row))
  );
  const layout = columns.map(({ title }, i) => {
    const own = cells.map((row) => row[i]!);
    const width = Math.max(title.length, ...own.map(({ length }) => length));
    return { width, isRight: own.every((cell) => /^[-\d.,]|^$/.test(cell)) };
  });
  const line = (row: readonly string[]) =>
    layout.map(({ width, isRight }, i) => isRight ? row[i]!.padStart(width) : row[i]!.padEnd(width))
      .join("  ").trimEnd();
  const rule = layout.map(({ width }) => "-".repeat(width)).join("  ");
  return [line(columns.map(({ title }) => title)), rule, ...cells.map(line)].join("\n");
}
