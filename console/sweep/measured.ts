/**
 * The points of several runs with what tells them apart: by the values that varied, and within a
 * run.
 */
import { parseTime } from "../../fabric/base/time.ts";
import { parseRate, parseSize } from "../../fabric/rack/plan/units.ts";
import type { Unit } from "../plot/chart.ts";
import { pointsOf, type ReportPoint } from "./figures.ts";
import type { RunReport } from "../reports/method_report.ts";

export interface Dimension {
  readonly name: string;
  /** As text, in the order in which they were given, or came. */
  readonly values: readonly string[];
  /** Of the same values, where all of them are numbers of one unit. */
  readonly numbers?: readonly number[];
  readonly unit: Unit;
}

export interface MeasuredPoint extends Omit<ReportPoint, "keys"> {
  /** By the names of all dimensions that it has. */
  readonly at: Readonly<Record<string, string>>;
}

export interface Measurement {
  readonly values: Readonly<Record<string, string>>;
  readonly report: RunReport | null;
  /** Why it counts as failed; else empty. */
  readonly error: string;
}

export interface Measured {
  readonly dimensions: readonly Dimension[];
  readonly points: readonly MeasuredPoint[];
  readonly missing: readonly MeasuredPoint[];
}

/** @param varied the names of values, and those that each has, in their order. */
export function measuredOf(
  measurements: readonly Measurement[],
  varied: readonly { readonly name: string; readonly values: readonly string[] }[],
): Measured {
  const points = measurements.flatMap(({ values, report, error }): MeasuredPoint[] =>
    (report === null ? [] : pointsOf(report)).map(({ keys, figures, note }) => ({
      at: { ...values, ...keys },
      figures,
      note: [note, error].filter((text) => text !== "").join("; "),
    }))
  );
  const missing = measurements.filter(({ report }) => report === null)
    .map(({ values, error }) => ({ at: values, figures: {}, note: error }));
  const names = varied.map(({ name }) => name);
  const keys = [...new Set(points.flatMap(({ at }) => Object.keys(at)))]
    .filter((name) => !names.includes(name));
  // `ddio` of a row says what `hosts.b.ddio` has said.
  const isSaid = (key: string) =>
    names.some((name) => points.every(({ at }) => at[key] === undefined || at[key] === at[name]));
  const isAlike = (one: string, other: string) => {
    const pairs = new Set(points.map(({ at }) => JSON.stringify([at[one], at[other]])));
    const values = (name: string) => new Set(points.map(({ at }) => at[name])).size;
    return pairs.size === values(one) && pairs.size === values(other);
  };
  const within = keys.filter((key) => !isSaid(key))
    .map((name) => ({
      name,
      values: inOrder(new Set(points.map(({ at }) => at[name] ?? "")), name),
    }))
    .filter(({ values }) => values.length > 1)
    // Dimensions may have equal values, as where each host writes to the next one: the first
    // counts.
    .filter(({ name }, i, all) => !all.slice(0, i).some((other) => isAlike(other.name, name)));
  const dimensions = [...varied, ...within].map(dimensionOf);
  const places = dimensions.map(({ name, values }) =>
    [name, new Map(values.map((value, i) => [value, i]))] as const
  );
  points.sort((one, other) => {
    for (const [name, place] of places) {
      const apart = (place.get(one.at[name] ?? "") ?? 0) - (place.get(other.at[name] ?? "") ?? 0);
      if (apart !== 0) return apart;
    }
    return 0;
  });
  return { dimensions, points, missing };
}

/** Hosts by name, numbers in them as numbers; other values in their original order. */
function inOrder(values: ReadonlySet<string>, name: string): string[] {
  if (name !== "from" && name !== "to") return [...values];
  const keyOf = (host: string) => host.replace(/\d+/g, (digits) => digits.padStart(6, "0"));
  return [...values].sort((one, other) => keyOf(one) < keyOf(other) ? -1 : 1);
}

function dimensionOf(
  { name, values }: { readonly name: string; readonly values: readonly string[] },
): Dimension {
  const asSize = /size|bytes/i.test(name);
  const kinds: readonly (readonly [Unit, (text: string) => number | undefined])[] = [
    [asSize ? "B" : "", (text) => /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined],
    ["B", parseSize],
    ["ps", (text) => text === "0" ? 0 : parseTime(text)],
    ["b/s", parseRate],
    ["", (text) => /^\d+(\.\d+)? ?%$/.test(text) ? parseFloat(text) : undefined],
  ];
  for (const [unit, parse] of kinds) {
    const numbers = values.map(parse);
    if (numbers.every((number) => number !== undefined)) return { name, values, numbers, unit };
  }
  return { name, values, unit: "" };
}

/** Of an even number of values: the mean of the two in the middle. */
export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((x, y) => x - y), half = sorted.length / 2;
  return (sorted[Math.ceil(half) - 1]! + sorted[Math.floor(half)]!) / 2;
}
