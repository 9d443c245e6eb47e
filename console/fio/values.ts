/** By the rules of fio's `parse.c`. Each function returns undefined for an invalid value. */
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";

const POWERS = "kmgtp";

/** Of a run of the rack; fio's own examples have `runtime=365d`. */
export const TIME_MAX_PS: Time = 9000 * 1e6 * PS_PER_US;

/**
 * A number of bytes. With `kb_base` 1000 units are those of SI and IEC; with 1024, fio's default,
 * they stand for each other: 4k is 4096, and 4KiB is 4000.
 */
export function bytesValue(text: string, kbBase: 1000 | 1024): number | undefined {
  const match = /^(0x[0-9a-f]+|\d+)\s*(?:([kmgtp])(ib|b)?|b)?$/i.exec(text);
  if (match === null) return undefined;
  const [, digits, letter, rest] = match;
  const power = letter === undefined ? 0 : POWERS.indexOf(letter.toLowerCase()) + 1;
  const isIec = rest?.toLowerCase() === "ib";
  const unit = isIec ? (kbBase === 1000 ? 1024 : 1000) : kbBase;
  const bytes = Number(digits) * unit ** power;
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** `20%`. */
export function percentValue(text: string): number | undefined {
  const match = /^(\d+)%$/.exec(text);
  const percent = match === null ? NaN : Number(match[1]);
  return percent >= 1 && percent <= 100 ? percent : undefined;
}

/** In µs. */
const TIME_UNITS: Readonly<Record<string, number>> = {
  us: 1,
  usec: 1,
  ms: 1e3,
  msec: 1e3,
  s: 1e6,
  m: 60e6,
  h: 3600e6,
  d: 86_400e6,
};

/** At most {@link TIME_MAX_PS}. @param bare the unit of a number without one. */
export function timeValue(text: string, bare: "s" | "ms" | "us"): Time | undefined {
  const match = /^(\d+)\s*([a-z]*)$/i.exec(text);
  if (match === null) return undefined;
  const unit = TIME_UNITS[match[2]!.toLowerCase() || bare];
  if (unit === undefined) return undefined;
  return Math.min(Number(match[1]) * unit * PS_PER_US, TIME_MAX_PS);
}

/** Alone it is set, else 0 or 1 (fio: other numbers are out of range). */
export function flagValue(text: string | undefined): boolean | undefined {
  if (text === undefined || text === "1") return true;
  return text === "0" ? false : undefined;
}

/** `4k-16k` or `4k:16k`, the ends in any order. */
export function rangeValue(
  text: string,
  kbBase: 1000 | 1024,
): { readonly least: number; readonly most: number } | undefined {
  const ends = text.split(/[-:]/).map((each) => bytesValue(each.trim(), kbBase));
  const [one, other] = ends;
  if (ends.length !== 2 || one === undefined || other === undefined) return undefined;
  const least = Math.min(one, other), most = Math.max(one, other);
  return least < 1 ? undefined : { least, most };
}

/** Ascending; `decimals` are shown. */
export interface Percentiles {
  readonly list: readonly number[];
  readonly decimals: number;
}

/**
 * `99.5:99.9`: at most 20 percentiles above 0 and at most 100; all have the decimals of the one
 * that is written with most.
 */
export function percentilesValue(text: string): Percentiles | undefined {
  const words = text.split(":");
  const list = words.map((each) => /^\d+(\.\d+)?$/.test(each) ? Number(each) : NaN);
  if (list.length > 20 || !list.every((each) => each > 0 && each <= 100)) return undefined;
  const decimals = Math.max(...words.map((each) => each.split(".")[1]?.length ?? 0));
  return { list: list.toSorted((x, y) => x - y), decimals };
}
