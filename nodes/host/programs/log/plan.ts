/**
 * What a client makes of what it has found: whether it may go on behind it, with which records, in which
 * slots. Nothing has been written before this is known.
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

/** Slots beside the records': the claim, and barriers of clients that have started again. */
const SPARE_SLOTS = 64;
/** Bytes of a record where neither option nor log says. */
export const RECORD_BYTES = 256;

export interface LogPlan {
  readonly shape: LogShape;
  /** Slots of each object that holds the log. */
  readonly segments: readonly number[];
  readonly epoch: number;
  /** All of them: what was found, a barrier of this epoch, what is to be appended. */
  readonly records: readonly LogRecord[];
  /** All slots as they are to be. */
  readonly slots: Uint8Array<ArrayBuffer>;
  /** Slots up to the barrier's, without it. */
  readonly first: number;
  /** Data records that were found, and those of them that count no more, as it is begun anew. */
  readonly recovered: number;
  readonly dropped: number;
}

export interface Planned {
  readonly name: string;
  /** Most bytes of a record; the log's own where it is not said. */
  readonly recordBytes: number | undefined;
  readonly data: Uint8Array;
  /** Whether a log that holds something else than this is begun anew, instead of left alone. */
  readonly anew: boolean;
}

/**
 * The plan, or what the log holds else, in words. A log goes on where the data begin with all that it
 * holds, wherever its records end: the data may have grown since.
 * @param found of as many replicas as it takes.
 */
export function planLog(
  wanted: Planned,
  found: readonly FoundLog[],
): LogPlan | { readonly error: string } {
  const chosen = chooseScan(found);
  const recordBytes = wanted.recordBytes ?? chosen?.recordBytes ?? RECORD_BYTES;
  const held = payloadsOf(chosen?.records ?? []);
  const isShaped = chosen?.recordBytes === recordBytes;
  const difference = sizeDifference(held, { said: chosen?.recordBytes, recordBytes }) ??
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
  const shape = { name: wanted.name, recordBytes, slots };
  return {
    shape,
    segments,
    epoch,
    records,
    slots: encodeSlots(shape, records, epoch),
    first: kept.length + 1,
    recovered: recovered.length,
    dropped: held.length - recovered.length,
  };
}

/** The slots that there are, and one more segment where they are too few. */
function segmentsFor(records: number, found: readonly number[]): number[] {
  const missing = 1 + records - found.reduce((sum, slots) => sum + slots, 0);
  // Of a new log the claim and the first barrier are spare slots.
  const spare = found.length === 0 ? SPARE_SLOTS - 2 : SPARE_SLOTS;
  return missing > 0 ? [...found, missing + spare] : [...found];
}

function encodeSlots(shape: LogShape, records: readonly LogRecord[], epoch: number) {
  const size = slotBytes(shape);
  const slots = new Uint8Array(shape.slots * size);
  slots.set(encodeClaim(shape, epoch));
  for (const i of records.keys()) slots.set(encodeRecord(shape, records, i), (i + 1) * size);
  return slots;
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
  sizes: { readonly said: number | undefined; readonly recordBytes: number },
): string | undefined {
  const { said, recordBytes } = sizes;
  if (held.length === 0 || said === undefined || said === recordBytes) return undefined;
  return `it has ${held.length} records of at most ${said} B, not of ${recordBytes} B`;
}

/** The first record that is not what the data have in its place, counted from 0. */
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
