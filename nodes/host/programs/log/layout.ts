/**
 * A replicated log as it lies in the SCM of each replica, and how it is read after failures. Slots of
 * one size: the first holds the claim, each of the others a record.
 *
 *   claim    magic 4, epoch 4: one word of 8 B, so that it cannot be torn (P-41);
 *            CRC of the log's name 4, most bytes of a record 4: for readers
 *   record   magic 4, CRC 4, epoch 4, payload's bytes 4, sequence number 8, kind 4,
 *            epoch of the record before 4 (0: none), payload, 0 …
 *
 * A client claims an epoch that no client had, before it writes anything else: what it finds is a prefix
 * that some earlier client wrote, and its own records can be told from another's. It appends a barrier
 * of its epoch behind what it found, and counts nothing as durable before the barrier is (Raft, §5.4.2):
 * else a later client could prefer a shorter log with a younger end.
 *
 * A cache may let a later slot into memory before an earlier one, in which an older client's record still
 * stands. So each record names the epoch of the one before it (Raft, §5.3): number and epoch of a record
 * stand for all that is before it, and what one client wrote never goes on behind another's leftovers.
 */
import { CRC_START, crcUpdate } from "../../../../fabric/wire/roce/icrc.ts";

const CLAIM_MAGIC = 0x524c_4f47; // "RLOG"
const RECORD_MAGIC = 0x5252_4543; // "RREC"
const RECORD_HEADER_BYTES = 32;
/** What of the first slot says something. */
const CLAIM_BYTES = 16;
const KINDS = ["data", "barrier"] as const;
/** The CRC is over all behind it. */
const CRC_END = 8;

/** What both sides of a log have to agree on. */
export interface LogShape {
  readonly name: string;
  /** Bytes of a record's payload, at most. */
  readonly recordBytes: number;
  /** Slots, the claim's included. */
  readonly slots: number;
}

export interface LogRecord {
  readonly epoch: number;
  readonly kind: typeof KINDS[number];
  readonly payload: Uint8Array;
}

/** What one replica has: the epoch that was claimed there last (0: none) and the records that count. */
export interface LogScan {
  readonly claimed: number;
  readonly records: readonly LogRecord[];
}

/** Bytes of a slot: whole words. */
export function slotBytes({ recordBytes }: Pick<LogShape, "recordBytes">): number {
  return Math.ceil((RECORD_HEADER_BYTES + recordBytes) / 8) * 8;
}

/** The first slot's content. */
export function encodeClaim(shape: LogShape, epoch: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(slotBytes(shape));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, CLAIM_MAGIC);
  view.setUint32(4, epoch);
  view.setUint32(8, crcOfName(shape));
  view.setUint32(12, shape.recordBytes);
  return bytes;
}

/** The epoch that was claimed last; 0 where none ever was. */
export function claimedEpoch(bytes: Uint8Array): number {
  if (bytes.length < CLAIM_BYTES) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return view.getUint32(0) === CLAIM_MAGIC ? view.getUint32(4) : 0;
}

/** Most bytes of a record, as the claim says it; undefined where no client of this log has said so. */
export function claimedRecordBytes(
  log: Pick<LogShape, "name">,
  bytes: Uint8Array,
): number | undefined {
  if (bytes.length < CLAIM_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isOurs = view.getUint32(0) === CLAIM_MAGIC && view.getUint32(8) === crcOfName(log);
  const recordBytes = view.getUint32(12);
  return isOurs && recordBytes > 0 ? recordBytes : undefined;
}

function crcOfName({ name }: Pick<LogShape, "name">): number {
  const bytes = new TextEncoder().encode(name);
  return ~crcUpdate(CRC_START, new DataView(bytes.buffer), { from: 0, end: bytes.length }) >>> 0;
}

/** The slot of record `sequence` of the log, which counts from 0 over all records, barriers included. */
export function encodeRecord(
  shape: LogShape,
  records: readonly LogRecord[],
  sequence: number,
): Uint8Array<ArrayBuffer> {
  const record = records[sequence]!;
  const bytes = new Uint8Array(slotBytes(shape));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, RECORD_MAGIC);
  view.setUint32(8, record.epoch);
  view.setUint32(12, record.payload.length);
  view.setBigUint64(16, BigInt(sequence));
  view.setUint32(24, KINDS.indexOf(record.kind));
  view.setUint32(28, records[sequence - 1]?.epoch ?? 0);
  bytes.set(record.payload, RECORD_HEADER_BYTES);
  view.setUint32(4, crcOf(shape, bytes));
  return bytes;
}

/** Another log that once lay here, of another name or shape, is none. */
function crcOf({ name, recordBytes }: LogShape, bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const id = new TextEncoder().encode(`${name}/${recordBytes}`);
  const seed = crcUpdate(CRC_START, new DataView(id.buffer), { from: 0, end: id.length });
  return ~crcUpdate(seed, view, { from: CRC_END, end: bytes.length }) >>> 0;
}

/** Undefined where the slot holds no record that follows these, or not all of it. */
function decodeRecord(
  shape: LogShape,
  bytes: Uint8Array,
  before: readonly LogRecord[],
): LogRecord | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const epoch = view.getUint32(8), length = view.getUint32(12);
  const kind = KINDS[view.getUint32(24)];
  if (view.getUint32(0) !== RECORD_MAGIC || kind === undefined) return undefined;
  if (length > shape.recordBytes || Number(view.getBigUint64(16)) !== before.length) {
    return undefined;
  }
  if (view.getUint32(28) !== lastEpoch(before)) return undefined;
  if (view.getUint32(4) !== crcOf(shape, bytes)) return undefined;
  const payload = bytes.slice(RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + length);
  return { epoch, kind, payload };
}

/** Reads a replica's log: its records up to the first that is missing, torn, or goes on behind another. */
export function scanLog(shape: LogShape, bytes: Uint8Array): LogScan {
  const claimed = claimedEpoch(bytes);
  const size = slotBytes(shape);
  const records: LogRecord[] = [];
  for (let slot = 1; slot < shape.slots; slot++) {
    const found = bytes.subarray(slot * size, (slot + 1) * size);
    const record = decodeRecord(shape, found, records);
    if (record === undefined || record.epoch < lastEpoch(records)) break;
    records.push(record);
  }
  return { claimed, records };
}

function lastEpoch(records: readonly LogRecord[]): number {
  return records.at(-1)?.epoch ?? 0;
}

/**
 * The log, from what enough replicas have: the one that ends in the youngest epoch, and of those the
 * longest. What was reported durable is in it.
 */
export function chooseLog(scans: readonly LogScan[]): readonly LogRecord[] {
  return chooseScan(scans)?.records ?? [];
}

/** The scan whose records are the log. Of equals the first; undefined where there is none. */
export function chooseScan<Scan extends LogScan>(scans: readonly Scan[]): Scan | undefined {
  let best: Scan | undefined;
  for (const scan of scans) {
    if (best === undefined || isBetter(scan.records, best.records)) best = scan;
  }
  return best;
}

function isBetter(records: readonly LogRecord[], than: readonly LogRecord[]): boolean {
  const younger = lastEpoch(records) - lastEpoch(than);
  return younger > 0 || (younger === 0 && records.length > than.length);
}

/** An epoch that no client had, as far as enough replicas know. */
export function nextEpoch(scans: readonly LogScan[]): number {
  let last = 0;
  for (const { claimed, records } of scans) last = Math.max(last, claimed, lastEpoch(records));
  return last + 1;
}

/** Payloads of the data records. */
export function payloadsOf(records: readonly LogRecord[]): Uint8Array[] {
  return records.filter(({ kind }) => kind === "data").map(({ payload }) => payload);
}

/** Data records that were counted so far, and the CRC-32 of their payloads one behind the other. */
export class PayloadCount {
  count = 0;
  #register = CRC_START;

  add({ kind, payload }: LogRecord): void {
    if (kind !== "data") return;
    this.count++;
    const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
    this.#register = crcUpdate(this.#register, view, { from: 0, end: payload.length });
  }

  get crc(): number {
    return ~this.#register >>> 0;
  }
}

/** How many replicas have to be read so that one of them has all that `quorum` of them were told. */
export function readQuorum(replicas: number, quorum: number): number {
  return replicas - quorum + 1;
}
