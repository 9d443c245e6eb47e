/**
 * A replicated log in the SCM of each replica, and its recovery. Slots of one size:
 * the first holds the claim, each of the others a record.
 *
 *   claim    magic 4, epoch 4: one word of 8 B, written atomically (P-41);
 *            CRC of the log's name 4, most bytes of a record 4: for readers
 *   record   magic 4, CRC 4, epoch 4, payload's bytes 4, sequence number 8, kind 4,
 *            epoch of the record before 4 (0: none), payload, 0 …
 *
 * A client claims an epoch that no earlier client has used, before any other write: the log that it
 * finds is a prefix written by an earlier client, and its own records are distinguishable. It appends
 * a barrier of its epoch, and counts no record as durable before the barrier is (Raft, §5.4.2):
 * otherwise a later client could prefer a shorter log with a younger end.
 *
 * A cache may write a later slot back before an earlier one, which then still holds an older
 * client's record. So each record contains the epoch of its predecessor (Raft, §5.3): number and
 * epoch of a record identify the whole prefix before it, and a client's records never count as the
 * continuation of another client's leftovers.
 */
import { crc32, CRC_START, crcUpdate } from "../../../../fabric/wire/roce/icrc.ts";

const CLAIM_MAGIC = 0x524c_4f47; // "RLOG"
const RECORD_MAGIC = 0x5252_4543; // "RREC"
const RECORD_HEADER_BYTES = 32;
const CLAIM_BYTES = 16;
const KINDS = ["data", "barrier"] as const;
const CRC_END = 8;

export interface LogShape {
  readonly name: string;
  readonly recordBytes: number;
  /** With the claim's slot. */
  readonly slots: number;
}

export interface LogRecord {
  readonly epoch: number;
  readonly kind: typeof KINDS[number];
  readonly payload: Uint8Array;
}

export interface LogScan {
  readonly claimed: number;
  readonly records: readonly LogRecord[];
}

export function slotBytes({ recordBytes }: Pick<LogShape, "recordBytes">): number {
  return Math.ceil((RECORD_HEADER_BYTES + recordBytes) / 8) * 8;
}

export function encodeClaim(shape: LogShape, epoch: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(slotBytes(shape));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, CLAIM_MAGIC);
  view.setUint32(4, epoch);
  view.setUint32(8, crcOfName(shape));
  view.setUint32(12, shape.recordBytes);
  return bytes;
}

/** @returns 0 without a claim. */
export function claimedEpoch(bytes: Uint8Array): number {
  if (bytes.length < CLAIM_BYTES) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return view.getUint32(0) === CLAIM_MAGIC ? view.getUint32(4) : 0;
}

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
  return crc32(new TextEncoder().encode(name));
}

/** `sequence` counts all records from 0, with barriers. */
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

/** The CRC includes name and shape, so that another log's records are invalid here. */
function crcOf({ name, recordBytes }: LogShape, bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const id = new TextEncoder().encode(`${name}/${recordBytes}`);
  const seed = crcUpdate(CRC_START, new DataView(id.buffer), { from: 0, end: id.length });
  return ~crcUpdate(seed, view, { from: CRC_END, end: bytes.length }) >>> 0;
}

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

/** Ends at the first missing or torn record, or one that is no continuation. */
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
 * The log, among replicas, that ends in the youngest epoch, and of those the longest. It contains
 * all records that were reported durable.
 */
export function chooseLog(scans: readonly LogScan[]): readonly LogRecord[] {
  return chooseScan(scans)?.records ?? [];
}

/** The scan with {@link chooseLog}'s log; the first of equal ones, undefined without scans. */
export function chooseScan<Scan extends LogScan>(scans: readonly Scan[]): Scan | undefined {
  let best: Scan | undefined;
  for (const scan of scans) {
    const chosen = best?.records ?? [];
    const younger = lastEpoch(scan.records) - lastEpoch(chosen);
    const isLonger = younger === 0 && scan.records.length > chosen.length;
    if (best === undefined || younger > 0 || isLonger) best = scan;
  }
  return best;
}

export function nextEpoch(scans: readonly LogScan[]): number {
  let last = 0;
  for (const { claimed, records } of scans) last = Math.max(last, claimed, lastEpoch(records));
  return last + 1;
}

export function payloadsOf(records: readonly LogRecord[]): Uint8Array[] {
  return records.filter(({ kind }) => kind === "data").map(({ payload }) => payload);
}

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

/** Replicas to read such that one has all records that `quorum` confirmed. */
export function readQuorum(replicas: number, quorum: number): number {
  return replicas - quorum + 1;
}
