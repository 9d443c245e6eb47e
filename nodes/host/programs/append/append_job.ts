/**
 * The state of an `append`, and the log that it writes: a tail in a line of its own, then records
 * of one size.
 *
 *   0    tail: the number of records, 8 B big-endian, written as one word
 *   64   record 0, record 1, …
 */
import type { Cpu } from "../../cpu/program.ts";
import type { CompoundPlan, CompoundRequest, Update } from "./compound_methods.ts";
import { madeUpBytes } from "../common/made_up.ts";
import type { PersistClient, Region } from "../persist/persist_client.ts";
import type { Method } from "../common/persist_protocol.ts";
import type { Mr } from "../../verbs/objects.ts";

export const TAIL_BYTES = 8;
/** Offset of the first record: the tail has a cache line of its own. */
const RECORDS_AT = 64;

export interface AppendOptions {
  readonly to: string;
  readonly name: string;
  readonly records: number;
  readonly recordBytes: number;
  readonly method: Method;
  readonly update: Update;
  readonly depth: number;
}

/** A record's content: a function of name, number and length, so that a checker can compute it. */
export function recordOf(
  log: { readonly name: string; readonly recordBytes: number },
  index: number,
): Uint8Array<ArrayBuffer> {
  return madeUpBytes(log.recordBytes, `${log.name}/${index}`);
}

export function logBytes(log: { readonly records: number; readonly recordBytes: number }): number {
  return RECORDS_AT + log.records * log.recordBytes;
}

/** The tail after so many records. */
export function tailOf(records: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(TAIL_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(records));
  return bytes;
}

/** Bytes [from, to) of the log that a part of update `index` writes. */
export function rangeOf(
  { recordBytes }: { readonly recordBytes: number },
  index: number,
  part: CompoundRequest["part"],
): readonly [from: number, to: number] {
  const from = RECORDS_AT + index * recordBytes;
  if (part === "record") return [from, from + recordBytes];
  return [0, part === "tail" ? TAIL_BYTES : from + recordBytes];
}

/** An update that has begun. */
export interface UpdateState {
  readonly slot: number;
  /** Number of rounds posted. */
  round: number;
  /** Outstanding completions and answers of the last round. */
  completions: number;
  answers: number;
}

/** The state of an append. Arrays are by update. */
export interface Append {
  readonly cpu: Cpu;
  readonly options: AppendOptions;
  readonly client: PersistClient;
  readonly region: Region;
  readonly plan: CompoundPlan;
  /** Buffers of `depth` updates: see `append.ts`. */
  readonly slots: Mr;
  readonly slotBytes: number;
  readonly freeSlots: number[];
  readonly updates: (UpdateState | undefined)[];
  readonly postedAt: Float64Array;
  readonly latency: Float64Array;
  /** Updates with a write whose persistence is reported by PSN (P-28). */
  readonly byPsn: Map<number, number>;
  readonly requests: Record<"write" | "read" | "send" | "flush" | "recv", number>;
  /** The next update to begin; the next update whose second round is to be posted. */
  next: number;
  nextSecond: number;
  outstanding: number;
  /** All updates before it are confirmed persistent. */
  confirmed: number;
  readonly isConfirmed: Uint8Array;
  /** Number of rounds posted, over all updates. */
  rounds: number;
  /** Duplicate confirmations, and those of nothing outstanding: must stay 0 (P-30). */
  unexpected: number;
  /** Number of pending messages sent (`send-read`). */
  deposits: number;
}
