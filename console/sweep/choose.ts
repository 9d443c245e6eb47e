/** Which figure of what was measured is drawn against what. */
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { type Chart, type ChartPoint, type Series, withUnit, type XAxis } from "../plot/chart.ts";
import { figureNamed, labelOfFigure, leadingOf, unitOf } from "./figures.ts";
import { type Dimension, type Measured, type MeasuredPoint, medianOf } from "./measured.ts";

export interface Choice {
  /**
   * Default: the first thing that varies whose values are numbers, the seed only where there is no
   * other.
   */
  readonly x?: string | undefined;
  /** Default: the leading figure of the report. */
  readonly y?: string | undefined;
  /**
   * The dimensions that make a line, the rest is folded into medians; default: everything else but
   * the seed.
   */
  readonly by?: readonly string[] | undefined;
}

const LINES_MAX = 8;
const PANELS_MAX = 4;
const SEED = "seed";

/** Undefined where nothing was measured. @throws Refusal */
export function figureOf({ points }: Measured, y: string | undefined): string | undefined {
  const own = points.map(({ at, figures, note }) => ({ keys: at, figures, note }));
  return y === undefined ? leadingOf(own)[0] : figureNamed(y, own);
}

/** @throws Refusal for an unknown name or figure, and where there is nothing to draw. */
export function chartOf(
  measured: Measured,
  { choice, title, caption }: {
    readonly choice: Choice;
    readonly title: string;
    readonly caption: readonly string[];
  },
): Chart {
  const figure = figureOf(measured, choice.y);
  const points = measured.points.filter(({ figures }) =>
    figure !== undefined && figures[figure] !== undefined
  );
  if (figure === undefined || points.length === 0) {
    throw refusal("", { found: "There is nothing to draw: no run has such a figure" });
  }
  const { x, by, panel } = sidesOf(measured, choice);
  const styles = stylesOf(by, points);
  const groups = Map.groupBy(
    points,
    ({ at }) =>
      JSON.stringify(
        [...by, panel].map((dimension) => dimension === undefined ? "" : at[dimension.name] ?? ""),
      ),
  );
  const series = [...groups.values()].map((own): Series => {
    const { at } = own[0]!;
    return {
      name: seriesName(Object.fromEntries(by.map((each) => [each.name, shown(each, at)]))),
      panel: panel === undefined ? "" : shown(panel, at),
      ...styles(at),
      points: chartPoints(own, { x, figure }),
    };
  });
  const order = panel?.values.map((value) => shown(panel, { [panel.name]: value })) ?? [""];
  series.sort((one, other) =>
    order.indexOf(one.panel) - order.indexOf(other.panel) || one.dash - other.dash ||
    one.colour - other.colour
  );
  const counts = series.flatMap(({ points }) => points.map(({ count = 1 }) => count));
  const most = Math.max(...counts);
  const spread = most === 1
    ? []
    : [`Points are medians of ${most} values, bars reach from the least to the greatest.`];
  const axis = axisOf(x, points);
  return {
    title: `${labelOfFigure(figure)} by ${axis.label}: ${title}`,
    x: axis,
    y: { label: labelOfFigure(figure), unit: unitOf(figure) },
    panelLabel: panel === undefined ? "" : labelOf(panel.name),
    series,
    caption: [...spread, ...caption],
  };
}

function shown({ name, values, numbers, unit }: Dimension, at: MeasuredPoint["at"]): string {
  const value = at[name] ?? "–", number = numbers?.[values.indexOf(value)];
  return number === undefined || unit === "" ? value : withUnit(unit, number);
}

/** `depth 4, DDIO on`. */
export function seriesName(values: Readonly<Record<string, string>>): string {
  return Object.entries(values).map(([name, value]) => `${wordFor(name)}${value}`).join(", ");
}

/** `DDIO on`, but a method needs no word before its name. */
function wordFor(name: string): string {
  return /(^|\.)(method|program|run|scenario)$/.test(name) ? "" : `${labelOf(name)} `;
}

function labelOf(name: string): string {
  const word = name.replace(/^.*\./, "");
  return word === "ddio" ? "DDIO" : word;
}

function sidesOf({ dimensions }: Measured, choice: Choice): {
  readonly x: Dimension;
  readonly by: readonly Dimension[];
  readonly panel: Dimension | undefined;
} {
  const varying = dimensions.filter(({ values }) => values.length > 1);
  const others = varying.filter(({ name }) => name !== SEED);
  const x = choice.x === undefined
    ? others.find(({ numbers }) => numbers !== undefined) ?? others[0] ?? varying[0] ??
      dimensions[0]
    : named("x", choice.x, dimensions);
  if (x === undefined) {
    throw refusal("", { found: "There is nothing to draw: nothing differs between the runs" });
  }
  const wanted = choice.by?.map((name) => named("by", name, dimensions)) ?? others;
  const by = wanted.filter(({ name }) => name !== x.name);
  const lines = by.reduce((product, { values }) => product * values.length, 1);
  const fewest = by.toSorted((one, other) => one.values.length - other.values.length)[0];
  const panel = by.length > 1 && lines > LINES_MAX && fewest!.values.length <= PANELS_MAX
    ? fewest
    : undefined;
  return { x, by: by.filter((each) => each !== panel), panel };
}

function named(option: string, name: string, dimensions: readonly Dimension[]): Dimension {
  const found = dimensions.find((each) => each.name === name) ??
    dimensions.find((each) => each.name.endsWith(`.${name}`));
  if (found !== undefined) return found;
  const names = dimensions.map(({ name }) => name);
  throw refusal((named) => named(option), {
    found: JSON.stringify(name),
    expected: oneOf(names, name),
  });
}

/**
 * The first dimension has colour and symbol, the rest the kind of line. A symbol alone shows two
 * values only: a dimension with more, and few lines in all, has a colour for each.
 */
function stylesOf(
  by: readonly Dimension[],
  points: readonly MeasuredPoint[],
): (at: MeasuredPoint["at"]) => Pick<Series, "colour" | "dash"> {
  const keyOf = (at: MeasuredPoint["at"]) => by.map(({ name }) => at[name] ?? "").join("\n");
  const lines = [...new Set(points.map(({ at }) => keyOf(at)))];
  if (by.length > 2 && lines.length <= LINES_MAX) {
    return (at) => ({ colour: lines.indexOf(keyOf(at)), dash: 0 });
  }
  const sorted = by.toSorted((one, other) => other.values.length - one.values.length);
  const indexIn = (dimensions: readonly Dimension[], at: MeasuredPoint["at"]) =>
    dimensions.reduce(
      (index, { name, values }) =>
        index * values.length + Math.max(0, values.indexOf(at[name] ?? "")),
      0,
    );
  return (at) => {
    const colour = indexIn(sorted.slice(0, 1), at), dash = indexIn(sorted.slice(1), at);
    return { colour: colour % LINES_MAX, dash: dash + Math.floor(colour / LINES_MAX) };
  };
}

function axisOf(x: Dimension, points: readonly MeasuredPoint[]): XAxis {
  const label = labelOf(x.name), { unit, numbers, values } = x;
  const seen = new Set(points.map(({ at }) => at[x.name]));
  const isSeen = (_: unknown, i: number) => seen.has(values[i]);
  return numbers === undefined
    ? { label, unit, words: values.filter(isSeen) }
    : { label, unit, numbers: numbers.filter(isSeen) };
}

function chartPoints(
  points: readonly MeasuredPoint[],
  { x, figure }: { readonly x: Dimension; readonly figure: string },
): ChartPoint[] {
  return x.values.flatMap((value, i): ChartPoint[] => {
    const own = points.filter(({ at }) => at[x.name] === value)
      .map(({ figures }) => figures[figure]!);
    if (own.length === 0) return [];
    const range = own.length === 1
      ? {}
      : { least: Math.min(...own), greatest: Math.max(...own), count: own.length };
    return [{ x: x.numbers?.[i] ?? value, y: medianOf(own), ...range }];
  }).sort((one, other) =>
    typeof one.x === "number" && typeof other.x === "number" ? one.x - other.x : 0
  );
}
