/** Null: infinity, which JSON lacks, as "never". */
export function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** A replacer for `JSON.stringify`: bytes in hex, bigints as numbers where they are exact. */
export function plainly(_key: string, value: unknown): unknown {
  if (value instanceof Uint8Array) return value.toHex();
  if (typeof value !== "bigint") return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : `${value}`;
}
