/**
 * Compound updates, *a then b, b never persistent without a*: a log's tail never counts a record that is
 * not there, and never less than what was reported durable (P-41). Looks at what `append` reported and at
 * what is in the SCM of the host it wrote to.
 */
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";

/** What `append` reports when it ends, as far as this checker needs it. */
export interface AppendResult {
  readonly program: "append";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly method: string;
  readonly update: string;
  readonly to: string;
  readonly records: number;
  readonly recordBytes: number;
  readonly flusher: "read" | "cpu" | "none";
  /** Whether the method is held to keep the order, and what it tells for durable. */
  readonly ordered: boolean;
  readonly promises: boolean;
  /** The first so many records are reported durable. */
  readonly told: number;
  /** The same, of a method that promises nothing too. */
  readonly claimed: number;
  readonly rounds: number;
  readonly unexpected: number;
  readonly requests: Readonly<Record<string, number>>;
  readonly object: { readonly name: string; readonly scmOffset: number; readonly length: number };
  readonly startPs: number;
  readonly endPs: number;
}

/** True for the value of a `result` report by an `append` that had begun. */
export function isAppendResult(value: unknown): value is AppendResult {
  return (value as Partial<AppendResult> | null)?.program === "append" &&
    (value as Partial<AppendResult>).object !== undefined;
}

export type Breach =
  /** The tail is none that was ever written. */
  | { readonly kind: "torn-tail"; readonly tail: bigint }
  /** The tail counts a record that is not there: b without a. */
  | { readonly kind: "tail-without-record"; readonly tail: number; readonly record: number }
  /** Less is counted, or there, than was reported durable. */
  | { readonly kind: "lost"; readonly tail: number; readonly told: number };

const RECORDS_AT = 64;

/**
 * What is wrong with a log after a power failure; undefined where nothing is.
 * @param survived what is in the SCM at the log's place.
 * @param told how many records must be there: what was reported durable.
 */
export function firstBreach(
  result: AppendResult,
  survived: Uint8Array,
  told = result.told,
): Breach | undefined {
  const view = new DataView(survived.buffer, survived.byteOffset, survived.byteLength);
  const found = view.getBigUint64(0);
  if (found > BigInt(result.records)) return { kind: "torn-tail", tail: found };
  const tail = Number(found);
  for (let record = 0; record < tail; record++) {
    if (!isThere(result, survived, record)) return { kind: "tail-without-record", tail, record };
  }
  return tail < told ? { kind: "lost", tail, told } : undefined;
}

function isThere(result: AppendResult, survived: Uint8Array, record: number): boolean {
  const { recordBytes, object } = result;
  const expected = madeUpBytes(recordBytes, `${object.name}/${record}`);
  const at = RECORDS_AT + record * recordBytes;
  return expected.every((byte, i) => survived[at + i] === byte);
}
