/**
 * P-41: *everything reported persisted survives*, judged by the results of `put` and the SCM of its
 * responder alone.
 */
import type { Ends } from "../../nodes/host/programs/common/ends.ts";
import { areEqual } from "../base/bytes.ts";

export interface PutResult extends Ends {
  readonly program: "put";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly method: string;
  readonly file: string;
  readonly messages: number;
  readonly messageBytes: number;
  readonly bytes: number;
  /** P-02 */
  readonly flow: 1 | 2;
  /** By the method's last completion, at this responder. */
  readonly promises: boolean;
  /** Byte ranges [from, to) of the file. */
  readonly confirmed: ReadonlyArray<readonly [from: number, to: number]>;
  readonly confirmedMessages: number;
  /** Completed writes, as byte ranges: no promise (P-12). */
  readonly written: ReadonlyArray<readonly [from: number, to: number]>;
  /** Completions of no outstanding request. */
  readonly unexpected: number;
  readonly object: { readonly name: string; readonly scmOffset: number; readonly length: number };
  /** As the object of its name; absent where it has not become that. */
  readonly stored?: "complete" | "incomplete";
  readonly requests: Readonly<Record<string, number>>;
  readonly verified?: VerifiedResult;
  readonly latencyPs:
    | { readonly median: number; readonly p99: number; readonly max: number }
    | undefined;
  readonly wire?: { readonly frames: number; readonly bytes: number };
  readonly cpuPs: number;
  readonly startPs: number;
  readonly endPs: number;
}

/** True for the value of a `result` report by `put`. */
export function isPutResult(value: unknown): value is PutResult {
  return (value as Partial<PutResult> | null)?.program === "put" &&
    (value as Partial<PutResult>).object !== undefined;
}

export interface Loss {
  readonly host: string;
  readonly object: string;
  readonly offset: number;
  readonly found: number;
  readonly expected: number;
}

/**
 * The first reported byte that did not survive, undefined if all did.
 * @param survived the SCM's content at the object's place, as many bytes as the file has.
 */
export function firstLoss(
  result: PutResult,
  file: Uint8Array,
  survived: Uint8Array,
): Loss | undefined {
  for (const [from, to] of result.confirmed) {
    for (let offset = from; offset < to; offset++) {
      if (file[offset] === survived[offset]) continue;
      const found = survived[offset]!, expected = file[offset]!;
      return { host: result.to, object: result.object.name, offset, found, expected };
    }
  }
  return undefined;
}

/** P-41, last part: *a message reported once is not reported twice*, nor one that was never sent. */
export function isReportedOnce({ confirmed, confirmedMessages, unexpected }: PutResult): boolean {
  const ascends = confirmed.every(([from, to], i) =>
    from < to && (i === 0 || confirmed[i - 1]![1] < from)
  );
  return ascends && unexpected === 0 && (confirmed.length > 0) === (confirmedMessages > 0);
}

export function isIntact(file: Uint8Array, survived: Uint8Array): boolean {
  return areEqual(file, survived);
}

export interface VerifiedResult {
  /** V-04; `compare` where the program compares itself. */
  readonly level: string;
  readonly caught: Readonly<Record<string, number>>;
  readonly rewrites: number;
  /** V-05 */
  readonly skipped: number;
  /** Byte ranges [from, to) of the file that were verified in memory. */
  readonly looked: ReadonlyArray<readonly [from: number, to: number]>;
}
