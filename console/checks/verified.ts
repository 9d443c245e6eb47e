/**
 * V-10: damage to the data of `put` that was caught, and that was missed. Judged from outside: the
 * responder's SCM at the end, the file, and the result of `put`.
 */
import type { PutResult, VerifiedResult } from "./survival.ts";

export interface VerifiedCounts {
  readonly level: string;
  readonly caught: number;
  readonly rewrites: number;
  readonly skipped: number;
  /**
   * Reported written and damaged; null where an LLC that does not survive was between, and the end
   * does not show what memory held.
   */
  readonly missed: number | null;
  /** Of those, messages that `put` reports as compared with memory. */
  readonly overlooked: number | null;
}

/**
 * Undefined for a method that checks nothing.
 * @param survived the object as the SCM holds it; undefined where others may be in its place.
 */
export function countVerified(
  result: PutResult,
  { file, survived }: { readonly file: Uint8Array; readonly survived: Uint8Array | undefined },
): VerifiedCounts | undefined {
  const { verified, written } = result;
  if (verified === undefined) return undefined;
  const { level, rewrites, skipped, looked } = verified;
  const caught = Object.values(verified.caught).reduce((sum, count) => sum + count, 0);
  const isShown = result.promises || result.flow === 1;
  const damaged = (ranges: VerifiedResult["looked"]) =>
    isShown && survived ? damagedMessages(result, { ranges, file, survived }) : null;
  return {
    level,
    caught,
    rewrites,
    skipped,
    missed: damaged(written),
    overlooked: damaged(looked),
  };
}

function damagedMessages(
  { messageBytes }: PutResult,
  { ranges, file, survived }: {
    readonly ranges: VerifiedResult["looked"];
    readonly file: Uint8Array;
    readonly survived: Uint8Array;
  },
): number {
  const damaged = new Set<number>();
  for (const [from, to] of ranges) {
    for (let i = from; i < to; i++) {
      if (file[i] !== survived[i]) damaged.add(Math.floor(i / messageBytes));
    }
  }
  return damaged.size;
}
