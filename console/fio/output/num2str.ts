/** Numbers as fio prints them (`lib/num2str.c`). */

const SI = ["", "k", "M", "G", "T", "P", "E"], IEC = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

export type Unit = "" | "B" | "B/s" | "bit/s";

/**
 * At most `figures` digits and the point, and a prefix: 4096 is `4096` with four figures, `4.0Ki`
 * with three.
 */
export function num2str(
  value: number,
  { figures, binary = false, unit = "" }: {
    readonly figures: number;
    /** Powers of 1024 (Ki), else of 1000 (k). */
    readonly binary?: boolean;
    readonly unit?: Unit;
  },
): string {
  const thousand = binary ? 1024 : 1000;
  const prefixes = binary ? IEC : SI;
  let whole = Math.floor(unit === "bit/s" ? 8 * value : value);
  let rest: number | undefined;
  let power = 0;
  while (power < prefixes.length - 1 && String(whole).length > figures) {
    rest = whole % thousand;
    whole = Math.floor(whole / thousand);
    power++;
  }
  if (rest === undefined) return `${whole}${prefixes[power]}${unit}`;
  const room = figures - String(whole).length;
  if (room <= 1) return `${rest >= thousand / 2 ? whole + 1 : whole}${prefixes[power]}${unit}`;
  const fraction = (rest / thousand).toFixed(room - 1);
  const carried = fraction.startsWith("1") ? whole + 1 : whole;
  return `${carried}.${fraction.slice(2)}${prefixes[power]}${unit}`;
}

/** By the job's `unit_base` and a power. */
export function rateText(
  bytesPerSecond: number,
  { figures, binary, unitBase }: {
    readonly figures: number;
    readonly binary: boolean;
    readonly unitBase: 1 | 8;
  },
): string {
  return num2str(bytesPerSecond, { figures, binary, unit: unitBase === 1 ? "bit/s" : "B/s" });
}
