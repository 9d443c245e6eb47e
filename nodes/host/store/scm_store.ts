/**
 * Where an SCM's content lives between the lives of its host, and output commit (DESIGN §3): what a
 * span of virtual time made persistent becomes permanent as a whole, once the span was reported, or
 * not at all. `scm_file.ts` keeps it in a file, {@link MemoryScm} in memory; one suite tests both.
 *
 * A span is written in two steps: its record goes into a log; when the next record comes, the span
 * before it is known to be reported, and its record is applied first. Whatever instant the process
 * dies at, content and log together hold every reported span.
 */
import { fail } from "../../../fabric/base/assert.ts";
import type { DurableWrite } from "../../../fabric/node.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import { SparseBytes } from "../memory/sparse_bytes.ts";

/**
 * What became of the last span of the life before, when its store was opened again. `kept`: it had been
 * reported; `undone`: it had not; `assumed`: it is whole, no report is known, and it is kept; `torn`:
 * the process died while it wrote it, so before it could report it; `none`: nothing was left to decide.
 */
export type Settled = "none" | "torn" | "kept" | "undone" | "assumed";

export interface ScmStore {
  readonly bytes: number;
  /**
   * Content with all that was committed: what a node finds that gets power, be it at the begin of the
   * process or, where a host dies and returns within it, later. After {@link settle} only.
   */
  readImage(offset: number, length: number): Uint8Array<ArrayBuffer>;
  /**
   * Makes the writes of a span permanent, together. Costs nothing where there are none. Spans come in
   * ascending order, and a call says that every earlier span has been reported.
   */
  commit(span: number, writes: readonly DurableWrite[]): void;
  /**
   * After opening, before anything else: keeps the last span if it was reported, undoes it if not.
   * @param lastReported `unknown` where no record of reports is left: a whole span is kept then.
   */
  settle(lastReported: number | "unknown"): Settled;
  /** Gives the store up; the last span is kept. */
  close(): void;
}

/*
 * A record: magic u32, CRC u32 of all that follows, total bytes u32, entries u32, span f64, then per
 * entry offset f64, length u32, bytes. Big-endian. A record is written over the one before it, so
 * what follows its total length is old.
 */
const MAGIC = 0x52_4d_53_31;
const HEADER_BYTES = 24;
const ENTRY_BYTES = 12;

/** A span's writes, ready to be written or read back. */
export interface ScmRecord {
  readonly span: number;
  readonly writes: readonly DurableWrite[];
}

/**
 * Lays out a record. Writes that continue each other become one entry.
 * @returns the bytes, and the entries as views of them.
 */
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

/** Reads a record from the beginning of `bytes`; undefined where it is none, or torn. */
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

/** Whether a whole record found at opening is to be kept. */
export function isReported(span: number, lastReported: number | "unknown"): boolean {
  return lastReported === "unknown" || span <= lastReported;
}

/** What becomes of a whole record that is found at opening. */
export function fateOf(span: number, lastReported: number | "unknown"): Settled {
  if (!isReported(span, lastReported)) return "undone";
  return lastReported === "unknown" ? "assumed" : "kept";
}

/** Puts the bytes of `writes` that lie in the image of `[offset, offset + image.length)` into it. */
export function overlay(
  image: Uint8Array,
  offset: number,
  { writes }: { readonly writes: readonly DurableWrite[] },
): void {
  for (const { offset: at, data } of writes) {
    const from = Math.max(at, offset), to = Math.min(at + data.length, offset + image.length);
    if (from < to) image.set(data.subarray(from - at, to - at), from - offset);
  }
}

/** An SCM in memory: for tests, and for racks that run within one process. */
export class MemoryScm implements ScmStore {
  readonly bytes: number;
  readonly #content: SparseBytes;
  #log: ScmRecord | undefined;
  #lastSpan = -1;

  constructor(bytes: number, content = new SparseBytes(bytes)) {
    this.bytes = bytes;
    this.#content = content;
  }

  readImage(offset: number, length: number): Uint8Array<ArrayBuffer> {
    const image = new Uint8Array(length);
    this.#content.read(offset, image);
    if (this.#log !== undefined) overlay(image, offset, this.#log);
    return image;
  }

  commit(span: number, writes: readonly DurableWrite[]): void {
    if (span <= this.#lastSpan) fail(`Span ${span} is committed after span ${this.#lastSpan}`);
    this.#lastSpan = span;
    if (writes.length === 0) return;
    this.#apply();
    this.#log = { span, writes };
  }

  /** What a new life finds: the same content and log, not settled. This one is dead with it. */
  afterKill(): MemoryScm {
    const next = new MemoryScm(this.bytes, this.#content);
    next.#log = this.#log;
    this.#log = undefined;
    return next;
  }

  settle(lastReported: number | "unknown"): Settled {
    const fate = this.#log === undefined ? "none" : fateOf(this.#log.span, lastReported);
    if (fate !== "undone") this.#apply();
    this.#log = undefined;
    return fate;
  }

  close(): void {
    this.#apply();
  }

  #apply(): void {
    for (const { offset, data } of this.#log?.writes ?? []) this.#content.write(offset, data);
    this.#log = undefined;
  }
}
