/**
 * Virtual time: integer picoseconds since the run began. A JavaScript number represents 2.5 hours
 * of it exactly. `fabric/` and `nodes/` use no other time.
 */

/** A point in, or a span of, virtual time in picoseconds. Always an integer, or {@link NEVER}. */
export type Time = number;

/** Picoseconds of a nanosecond. */
export const PS_PER_NS = 1_000;
/** Picoseconds of a microsecond. */
export const PS_PER_US = 1_000_000;
/** Picoseconds of a millisecond. */
export const PS_PER_MS = 1_000_000_000;
/** Picoseconds of a second. */
export const PS_PER_S = 1_000_000_000_000;

/** Later picoseconds are not exact: nothing happens. */
export const TIME_END: Time = Number.MAX_SAFE_INTEGER;

/** The time of an event that will not happen. */
export const NEVER: Time = Number.POSITIVE_INFINITY;

const UNITS: ReadonlyArray<readonly [suffix: string, ps: number]> = [
  ["s", PS_PER_S],
  ["ms", PS_PER_MS],
  ["us", PS_PER_US],
  ["ns", PS_PER_NS],
  ["ps", 1],
];

/** `40us`, `1.5ms`. @returns undefined where the text is not a whole number of ps. */
export function parseTime(text: string): Time | undefined {
  const match = /^(\d+)(?:\.(\d+))?\s*(s|ms|us|ns|ps)$/.exec(text.trim());
  if (match === null) return undefined;
  const [, whole, fraction = "", suffix] = match;
  const unit = UNITS.find(([name]) => name === suffix)![1];
  const decimals = fraction.replace(/0+$/, "");
  // A fraction of a picosecond would become another time.
  if (10 ** decimals.length > unit) return undefined;
  const ps = Number(whole) * unit + Number(decimals) * unit / 10 ** decimals.length;
  return Number.isSafeInteger(ps) ? ps : undefined;
}

/** `1.234 us`: the largest unit in which the number is at least one, at most three decimals. */
export function formatTime(ps: Time): string {
  if (ps === NEVER) return "never";
  const [suffix, size] = UNITS.find(([, size]) => Math.abs(ps) >= size) ?? ["ps", 1];
  return `${Number((ps / size).toFixed(3))} ${suffix}`;
}

/** `457.552182us`: exact, as {@link parseTime} reads it. */
export function formatExact(ps: Time): string {
  const digits = String(ps % PS_PER_US).padStart(6, "0").replace(/0+$/, "");
  return `${Math.floor(ps / PS_PER_US)}${digits === "" ? "" : `.${digits}`}us`;
}

/** Rounded up so that no link is faster than its rate. */
export function transferTime(bytes: number, bitsPerSecond: number): Time {
  return Math.ceil((bytes * 8 * PS_PER_S) / bitsPerSecond);
}
