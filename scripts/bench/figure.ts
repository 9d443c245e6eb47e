import { columnsOf, tableText } from "../../console/reports/table.ts";

/** By letter. `README.md` has more. */
export const GROUPS = {
  a: "one process",
  b: "hops",
  c: "start",
  d: "growth",
  e: "packets",
  f: "the codec, with e",
  g: "line",
  h: "queue pairs",
  i: "crash explorer",
  j: "timekeeper",
  k: "100 hosts as processes",
  l: "replicated log, exact",
  m: "methods, exact",
  n: "cost of watching",
  o: "the page",
  p: "the card's caches, exact",
  q: "queues, exact",
  r: "hints",
  s: "shared memory, exact",
  t: "messages",
  u: "published figures and constants, exact",
  v: "the main job as processes",
  w: "commands with two workers",
  x: "checks by the length of a run",
  y: "native programs",
  z: "messages by the servers between",
} as const;
export type Group = keyof typeof GROUPS;

export interface Figure {
  readonly group: Group;
  readonly what: string;
  readonly unit: string;
  readonly values: readonly number[];
  readonly target?: Target;
}

export interface Target {
  readonly is: "at least" | "at most";
  readonly value: number;
}

export interface Measured {
  readonly seed: number;
  readonly quick: boolean;
}

/** Without the first three, in which V8 compiles. */
export function repeat<Run>(count: number, run: () => Run): Run[] {
  return Array.from({ length: 3 + count }, run).slice(3);
}

export function median(values: ArrayLike<number>): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

function isReached({ values, target }: Figure): boolean | null {
  if (target === undefined) return null;
  const value = median(values);
  return target.is === "at least" ? value >= target.value : value <= target.value;
}

export function figureRow(figure: Figure): Record<string, unknown> {
  const { group, what, unit, values, target } = figure;
  return {
    group,
    what,
    unit,
    median: median(values),
    least: Math.min(...values),
    most: Math.max(...values),
    values,
    target: target ?? null,
    reached: isReached(figure),
  };
}

const VERDICTS = { null: "", true: "reached", false: "missed" } as const;

export function figureTable(figures: readonly Figure[]): string {
  return tableText(
    columnsOf<Figure>(
      { title: "", value: ({ group }) => group },
      { title: "measure", value: ({ what }) => what },
      { title: "median", value: ({ values }) => short(median(values)) },
      { title: "unit", value: ({ unit }) => unit },
      {
        title: "spread",
        value: ({ values }) =>
          values.length === 1
            ? ""
            : `${short(Math.min(...values))} – ${short(Math.max(...values))}`,
      },
      {
        title: "target",
        value: ({ target }) => target && `${target.is} ${short(target.value)}`,
      },
      { title: "", value: (figure) => VERDICTS[`${isReached(figure)}`] },
    ),
    figures,
  );
}

/** Three significant digits: 0.914, 1.48, 57.2, 412, 20 300. */
function short(value: number): string {
  if (Math.abs(value) >= 1_000) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, " ");
  return String(Number(value.toPrecision(3)));
}
