/**
 * Storage of an SCM's content between the lives of its host, and output commit (DESIGN §3): the
 * durable bytes of a span of virtual time are committed as a whole if the span was reported, and
 * discarded otherwise. `scm_file.ts` stores them in a file, {@link MemoryScm} in memory; one suite
 * tests both.
 *
 * A span is written in two steps: its record goes into a log; the next record implies that the span
 * was reported, so the store first merges the earlier record into the content. Whenever the process
 * dies, content and log together have every reported span.
 */
import { fail } from "../../../fabric/base/assert.ts";
import type { DurableWrite } from "../../../fabric/node.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import { SparseBytes } from "../memory/sparse_bytes.ts";

/**
 * The decision on the last span of the earlier life, when its store was opened again. `kept`: the
 * span had been reported; `undone`: it had not; `assumed`: the record is complete, reports are
 * unknown, and it is kept; `torn`: the process died while it wrote the record, so before the
 * report; `none`: there was nothing to decide.
 */
export type Settled = "none" | "torn" | "kept" | "undone" | "assumed";

export interface ScmStore {
  readonly bytes: number;
  /**
   * The content with all committed writes: the image of a node at power-on, at the start of its
   * process or, where a host returns within the process, later. Only after {@link settle}.
   */
  readImage(offset: number, length: number): Uint8Array<ArrayBuffer>;
  /**
   * Commits the writes of a span atomically. No cost without writes. Spans are in ascending order,
   * and a call implies that every earlier span was reported.
   */
  commit(span: number, writes: readonly DurableWrite[]): void;
  /**
   * To be called first after opening: keeps the last span if it was reported, discards it
   * otherwise.
   * @param lastReported `unknown` without a record of reports: a complete span is then kept.
   */
  settle(lastReported: number | "unknown"): Settled;
  /** Closes the store; the last span is kept. */
  close(): void;
}

/*
 * A record: magic u32, CRC u32 of the rest, total bytes u32, entries u32, span f64, then per entry
 * offset f64, length u32, bytes. Big-endian. A record overwrites the previous one, so bytes beyond
 * its total length are stale.
 */
const MAGIC = 0x52_4d_53_31;
const HEADER_BYTES = 24;
const ENTRY_BYTES = 12;

/** A span's writes, encoded or decoded. */
export interface ScmRecord {
  readonly span: number;
  readonly writes: readonly DurableWrite[];
}

/**
 * Encodes a record. Adjacent writes become one entry.
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

/** Decodes a record from the beginning of `bytes`; undefined where it is invalid or incomplete. */
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

/** Whether a complete record found at opening is kept. */
export function isReported(span: number, lastReported: number | "unknown"): boolean {
  return lastReported === "unknown" || span <= lastReported;
}

/** The decision on a complete record found at opening. */
export function fateOf(span: number, lastReported: number | "unknown"): Settled {
  if (!isReported(span, lastReported)) return "undone";
  return lastReported === "unknown" ? "assumed" : "kept";
}

/** Copies the part of `writes` within `[offset, offset + image.length)` into the image. */
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

/** An SCM in memory: for tests, and for racks in one process. */
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

  /**
   * The store of the next life: the same content and log, not settled. This object must not be used
   * any more.
   */
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
