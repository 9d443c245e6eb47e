/**
 * A client decides by what it has found if it may continue a log, with which records, in which slots.
 * No slot is written before.
 */
import {
  chooseScan,
  encodeClaim,
  encodeRecord,
  type LogRecord,
  type LogShape,
  nextEpoch,
  payloadsOf,
  slotBytes,
} from "./layout.ts";
import type { FoundLog } from "./segments.ts";

/** Slots of the claim and of restarted clients' barriers. */
const SPARE_SLOTS = 64;
/** Used where neither option nor log defines one. */
export const RECORD_BYTES = 256;

export interface LogPlan {
  readonly shape: LogShape;
  readonly segments: readonly number[];
  readonly epoch: number;
  readonly records: readonly LogRecord[];
  readonly slots: Uint8Array<ArrayBuffer>;
  readonly first: number;
  /** Data records that were found, and those that a replacement makes invalid. */
  readonly recovered: number;
  readonly dropped: number;
}

export interface Planned {
  readonly name: string;
  readonly recordBytes: number | undefined;
  readonly data: Uint8Array;
  /** Replaces a log with other content, which is refused otherwise. */
  readonly anew: boolean;
}

/**
 * A log can be continued if the data begin with its content, wherever its records end: the data may have grown.
 * @returns the plan, or the difference between log and data, in words. @param found logs of enough replicas.
 */
export function planLog(
  wanted: Planned,
  found: readonly FoundLog[],
): LogPlan | { readonly error: string } {
  const chosen = chooseScan(found);
  const recordBytes = wanted.recordBytes ?? chosen?.recordBytes ?? RECORD_BYTES;
  const held = payloadsOf(chosen?.records ?? []);
  const isShaped = chosen?.recordBytes === recordBytes;
  const difference = sizeDifference(held, { claimed: chosen?.recordBytes, recordBytes }) ??
    differenceOf(held, wanted.data);
  if (difference !== undefined && !wanted.anew) {
    const hint = "name another log, or say anew: true to begin this one anew";
    return { error: `log ${wanted.name} is another's: ${difference}; ${hint}` };
  }
  const kept = difference === undefined && isShaped ? chosen.records : [];
  const recovered = payloadsOf(kept);
  const rest = wanted.data.subarray(recovered.reduce((sum, { length }) => sum + length, 0));
  const epoch = nextEpoch(found);
  const records: LogRecord[] = [
    ...kept,
    { epoch, kind: "barrier", payload: new Uint8Array(0) },
    ...chunksOf(rest, recordBytes).map((payload) => ({ epoch, kind: "data", payload }) as const),
  ];
  const segments = segmentsFor(records.length, isShaped ? chosen.segments : []);
  const slots = segments.reduce((sum, each) => sum + each, 0);
  const shape = { name: wanted.name, recordBytes, slots }, size = slotBytes(shape);
  const content = new Uint8Array(slots * size);
  content.set(encodeClaim(shape, epoch));
  for (const i of records.keys()) content.set(encodeRecord(shape, records, i), (i + 1) * size);
  return {
    shape,
    segments,
    epoch,
    records,
    slots: content,
    first: kept.length + 1,
    recovered: recovered.length,
    dropped: held.length - recovered.length,
  };
}

function segmentsFor(records: number, found: readonly number[]): number[] {
  const missing = 1 + records - found.reduce((sum, slots) => sum + slots, 0);
  const spare = found.length === 0 ? SPARE_SLOTS - 2 : SPARE_SLOTS;
  return missing > 0 ? [...found, missing + spare] : [...found];
}

function chunksOf(data: Uint8Array, recordBytes: number): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < data.length; at += recordBytes) {
    chunks.push(data.subarray(at, at + recordBytes));
  }
  return chunks;
}

function sizeDifference(
  held: readonly Uint8Array[],
  sizes: { readonly claimed: number | undefined; readonly recordBytes: number },
): string | undefined {
  const { claimed, recordBytes } = sizes;
  if (held.length === 0 || claimed === undefined || claimed === recordBytes) return undefined;
  return `it has ${held.length} records of at most ${claimed} B, not of ${recordBytes} B`;
}

function differenceOf(held: readonly Uint8Array[], data: Uint8Array): string | undefined {
  let at = 0;
  for (const [i, found] of held.entries()) {
    const expected = data.subarray(at, at + found.length);
    const byte = found.findIndex((each, k) => each !== expected[k]);
    if (byte >= 0) {
      const there = `its record ${i} has ${hexOf(found[byte]!)} at byte ${byte}`;
      const here = byte < expected.length ? `have ${hexOf(expected[byte]!)}` : "have ended";
      return `${there}, where the data ${here} (at byte ${at + byte} of ${data.length})`;
    }
    at += found.length;
  }
  return undefined;
}

function hexOf(byte: number): string {
  return `0x${byte.toString(16).padStart(2, "0")}`;
}
