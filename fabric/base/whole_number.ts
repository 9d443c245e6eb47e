export interface WholeRange {
  readonly least: number;
  readonly most: number;
}

/** Both ends included. */
export function isWhole(value: unknown, { least, most }: WholeRange): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

/** `a whole number from 1 to 16`, or `a whole number ≥ 1, below 2^53`. */
export function wholeText({ least, most }: WholeRange): string {
  return most === Number.MAX_SAFE_INTEGER
    ? `a whole number ≥ ${least}, below 2^53`
    : `a whole number from ${least} to ${most}`;
}
