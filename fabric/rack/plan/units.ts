import { parseTime, type Time } from "../../base/time.ts";

const SIZE_UNITS: Readonly<Record<string, number>> = {
  "": 1,
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};
const RATE_UNITS: Readonly<Record<string, number>> = {
  bps: 1,
  kbps: 1e3,
  Mbps: 1e6,
  Gbps: 1e9,
  Tbps: 1e12,
};

function parseQuantity(
  value: unknown,
  units: Readonly<Record<string, number>>,
): number | undefined {
  const match = /^(\d+(?:\.\d+)?) ?([A-Za-z]*)$/.exec(String(value).trim());
  if (match === null || (typeof value !== "string" && typeof value !== "number")) return undefined;
  const unit = match[2]!;
  if (!Object.hasOwn(units, unit)) return undefined;
  const number = Number(match[1]) * units[unit]!;
  return Number.isSafeInteger(number) ? number : undefined;
}

/** `4096`, `64MiB`, `1.5KiB`: bytes, or undefined where they are not whole. */
export function parseSize(value: unknown): number | undefined {
  return parseQuantity(value, SIZE_UNITS);
}

/** `100Gbps`: whole bit/s, or undefined. */
export function parseRate(value: unknown): number | undefined {
  return parseQuantity(value, RATE_UNITS);
}

/** `10Gbps`: the largest unit that divides the rate; {@link parseRate} reads it. */
export function formatRate(bitsPerSecond: number): string {
  const [unit, size] = Object.entries(RATE_UNITS).findLast(([, size]) =>
    bitsPerSecond % size === 0
  )!;
  return `${bitsPerSecond / size}${unit}`;
}

/** `300ns`; a number without a unit only if it is 0. In ps, or undefined. */
export function parseDuration(value: unknown): Time | undefined {
  if (value === 0 || value === "0") return 0;
  return typeof value === "string" ? parseTime(value) : undefined;
}

/** `4 KiB`: the largest unit that divides the number. */
export function formatSize(bytes: number): string {
  for (const unit of ["GiB", "MiB", "KiB"]) {
    const size = SIZE_UNITS[unit]!;
    if (bytes >= size && bytes % size === 0) return `${bytes / size} ${unit}`;
  }
  return `${bytes} B`;
}
