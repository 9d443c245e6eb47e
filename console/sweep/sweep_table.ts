import { type Column, tableText } from "../reports/table.ts";
import { figureText, leadingOf, shortName } from "./figures.ts";
import { type Measured, type MeasuredPoint, medianOf } from "./measured.ts";

interface Row {
  readonly at: MeasuredPoint["at"];
  readonly points: readonly MeasuredPoint[];
}

const SEED = "seed";
const TITLES: Readonly<Record<string, string>> = {
  "latencyPs.median": "median",
  "latencyPs.p99": "p99",
  throughputBps: "throughput",
  requestsPerMessage: "requests",
  packetsPerMessage: "packets",
  bytesPerMessage: "bytes",
  "cpuPs.requester": "cpu req",
  "cpuPs.responder": "cpu resp",
};

/**
 * A row for each value of everything but the seed: medians over the seeds, with the least and the
 * greatest of `y`.
 * @param y the first of the figures.
 */
export function sweepTable(measured: Measured, y: string | undefined): string {
  const { dimensions, points, missing } = measured;
  const names = dimensions.map(({ name }) => name);
  const isOverSeeds = names.includes(SEED) && names.length > 1;
  const shown = isOverSeeds ? names.filter((name) => name !== SEED) : names;
  const keyOf = ({ at }: MeasuredPoint) => JSON.stringify(shown.map((name) => at[name]));
  const rows = [...Map.groupBy([...points, ...missing], keyOf).values()]
    .map((points): Row => ({ at: points[0]!.at, points }));
  const leading = leadingOf(points.map(({ at, ...rest }) => ({ keys: at, ...rest })));
  const figures = [...new Set([...(y === undefined ? [] : [y]), ...leading])];
  const columns: Column<Row>[] = [
    ...shown.map((name) => ({ title: name, value: ({ at }: Row) => at[name] })),
    ...figures.flatMap((figure, i) => [
      cell(TITLES[figure] ?? shortName(figure), figure, medianOf),
      ...(isOverSeeds && i === 0
        ? [
          cell("least", figure, (values) => Math.min(...values)),
          cell("greatest", figure, (values) => Math.max(...values)),
          { title: "of", value: ({ points }: Row) => valuesOf(points, figure).length },
        ]
        : []),
    ]),
    { title: "status", value: ({ points }) => statusOf(points, isOverSeeds) },
  ];
  return tableText(columns, rows);
}

function valuesOf(points: readonly MeasuredPoint[], figure: string): number[] {
  return points.flatMap(({ figures }) => figures[figure] ?? []);
}

function cell(
  title: string,
  figure: string,
  fold: (values: readonly number[]) => number,
): Column<Row> {
  const value = ({ points }: Row) => {
    const values = valuesOf(points, figure);
    return values.length === 0 ? null : fold(values);
  };
  const text = (row: Row) => {
    const found = value(row);
    return found === null ? "" : figureText(figure, found);
  };
  return { title, value, text };
}

function statusOf(points: readonly MeasuredPoint[], isOverSeeds: boolean): string {
  const notes = points.filter(({ note }) => note !== "").map(({ at, note }) =>
    isOverSeeds ? `seed ${at[SEED]}: ${note}` : note
  );
  return notes.length === 0 ? "ok" : [...new Set(notes)].join("; ");
}

/**
 * A line for each point, seeds apart; every figure under its name in the report, in that name's
 * unit.
 */
export function sweepCsv({ dimensions, points, missing }: Measured): string {
  const figures = [...new Set(points.flatMap(({ figures }) => Object.keys(figures)))];
  const names = dimensions.map(({ name }) => name);
  const rows = [...points, ...missing].map(({ at, figures: own, note }) => [
    ...names.map((name) => at[name] ?? ""),
    ...figures.map((figure) => own[figure] ?? ""),
    note === "" ? "ok" : note,
  ]);
  return [[...names, ...figures, "status"], ...rows]
    .map((row) => row.map(csvCell).join(",") + "\r\n").join("");
}

/** RFC 4180. */
function csvCell(value: string | number): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
