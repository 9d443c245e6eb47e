/** A picture of figures as data, which `svg.ts` draws. Values are in base units: ps, B, bit/s. */
import { PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US } from "../../fabric/base/time.ts";

export type Unit = "ps" | "b/s" | "B" | "B/s" | "/s" | "";

export interface Axis {
  readonly label: string;
  readonly unit: Unit;
}

export type XAxis =
  | (Axis & { readonly numbers: readonly number[] })
  | (Axis & { readonly words: readonly string[] });

export interface ChartPoint {
  readonly x: number | string;
  readonly y: number;
  /** Of several values, with `y` as their median. */
  readonly least?: number;
  readonly greatest?: number;
  readonly count?: number;
}

export interface Series {
  /** The legend's text; "" where there is only one. Series of the same name look alike. */
  readonly name: string;
  readonly panel: string;
  /** Colour and symbol, and which kind of line, each from 0. */
  readonly colour: number;
  readonly dash: number;
  readonly points: readonly ChartPoint[];
}

export interface Chart {
  readonly title: string;
  readonly x: XAxis;
  readonly y: Axis;
  readonly panelLabel: string;
  readonly series: readonly Series[];
  /** Points are many, and the line is the figure: a distribution. */
  readonly isCurve?: boolean;
  readonly caption: readonly string[];
}

export interface Measure {
  readonly size: number;
  /** "" for a number without a unit. */
  readonly suffix: string;
}

const KIB = 2 ** 10;
const MEASURES: Readonly<Record<Unit, readonly (readonly [suffix: string, size: number])[]>> = {
  ps: [["s", PS_PER_S], ["ms", PS_PER_MS], ["µs", PS_PER_US], ["ns", PS_PER_NS], ["ps", 1]],
  "b/s": [["Gb/s", 1e9], ["Mb/s", 1e6], ["kb/s", 1e3], ["b/s", 1]],
  B: [["GiB", KIB ** 3], ["MiB", KIB ** 2], ["KiB", KIB], ["B", 1]],
  "B/s": [["GiB/s", KIB ** 3], ["MiB/s", KIB ** 2], ["KiB/s", KIB], ["B/s", 1]],
  "/s": [["million/s", 1e6], ["thousand/s", 1e3], ["/s", 1]],
  "": [["", 1]],
};

/** The largest unit of which the greatest number has at least one. */
export function measureOf(unit: Unit, greatest: number): Measure {
  const measures = MEASURES[unit];
  const [suffix, size] = measures.find(([, size]) => greatest >= size) ?? measures.at(-1)!;
  return { suffix, size };
}

/** `4 KiB`, `2.5 µs`: at most four significant digits. */
export function withUnit(unit: Unit, value: number): string {
  const { suffix, size } = measureOf(unit, Math.abs(value));
  return `${shortNumber(value / size)}${suffix === "" ? "" : ` ${suffix}`}`;
}

/** At most four significant digits, and all of a whole number. */
export function shortNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
