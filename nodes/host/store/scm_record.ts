/**
 * The record of one span's durable writes (`<path>.log` of an SCM file, `scm_file.ts`), and the
 * decision on one found at opening.
 */
import type { DurableWrite } from "../../../fabric/node.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";

/**
 * The decision on the earlier life's last span. `kept`: it had been reported; `undone`: it had not;
 * `assumed`: complete, reports unknown, kept; `torn`: the process died while it wrote the record,
 * so before the report; `none`: nothing to decide.
 */
export type Settled = "none" | "torn" | "kept" | "undone" | "assumed";

/*
 * A record: magic u32, CRC u32 of the rest, total bytes u32, entries u32, span f64, then per entry
 * offset f64, length u32, bytes. Big-endian. A record overwrites the previous one, so bytes beyond
 * its total length are stale.
 */
const MAGIC = 0x52_4d_53_31;
const HEADER_BYTES = 24;
const ENTRY_BYTES = 12;

export interface ScmRecord {
  readonly span: number;
  readonly writes: readonly DurableWrite[];
}

/** Adjacent writes become one entry. @returns the bytes, and the entries as views of them. */
export function encodeRecord(
  { span, writes }: ScmRecord,
): { bytes: Uint8Array<ArrayBuffer>; writes: DurableWrite[] } {
  let most = HEADER_BYTES;
  for (const { data } of writes) most += ENTRY_BYTES + data.length;
  const record = new Uint8Array(most);
  const view = new DataView(record.buffer);
  const places: { offset: number; from: number; to: number }[] = [];
  let at = HEADER_BYTES;
  for (const { offset, data } of writes) {
    if (data.length === 0) continue;
    let entry = places.at(-1);
    if (entry === undefined || offset !== entry.offset + entry.to - entry.from) {
      at += ENTRY_BYTES;
      entry = { offset, from: at, to: at };
      places.push(entry);
    }
    record.set(data, at);
    at += data.length;
    entry.to = at;
  }
  for (const { offset, from, to } of places) {
    view.setFloat64(from - ENTRY_BYTES, offset);
    view.setUint32(from - 4, to - from);
  }
  view.setUint32(0, MAGIC);
  view.setUint32(8, at);
  view.setUint32(12, places.length);
  view.setFloat64(16, span);
  view.setUint32(4, crc32(record.subarray(8, at)));
  return {
    bytes: record.subarray(0, at),
    writes: places.map(({ offset, from, to }) => ({ offset, data: record.subarray(from, to) })),
  };
}

/** @returns the record at the beginning of `bytes`; undefined where it is invalid or incomplete. */
export function decodeRecord(bytes: Uint8Array): ScmRecord | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const total = view.getUint32(8);
  if (view.getUint32(0) !== MAGIC || total < HEADER_BYTES || total > bytes.length) return undefined;
  if (crc32(bytes.subarray(8, total)) !== view.getUint32(4)) return undefined;
  const writes: DurableWrite[] = [];
  let at = HEADER_BYTES;
  for (let i = 0; i < view.getUint32(12); i++) {
    const length = view.getUint32(at + 8);
    const from = at + ENTRY_BYTES;
    writes.push({ offset: view.getFloat64(at), data: bytes.subarray(from, from + length) });
    at = from + length;
  }
  return { span: view.getFloat64(16), writes };
}

export function mayBeTorn(bytes: Uint8Array): boolean {
  const magic = new DataView(new ArrayBuffer(4));
  magic.setUint32(0, MAGIC);
  return bytes.subarray(0, 4).every((byte, i) => byte === magic.getUint8(i));
}

export function isReported(span: number, lastReported: number | "unknown"): boolean {
  return lastReported === "unknown" || span <= lastReported;
}

export function fateOf(span: number, lastReported: number | "unknown"): Settled {
  if (!isReported(span, lastReported)) return "undone";
  return lastReported === "unknown" ? "assumed" : "kept";
}
