/**
 * `<path>.sums`, by which damage of an SCM file is detected at boot: a CRC for each page of the
 * content, and whether the log must hold a record. Big-endian:
 *
 *   magic u32, CRC u32 of the rest of the head, bytes f64, pending f64, log bytes f64, merging f64
 *   per page u32: 0 for one that was never written, so that the file is sparse like the content; else CRC
 *   of the page XOR CRC of a page of zeros, and 1 where that is 0
 */
import type { DurableWrite } from "../../../fabric/node.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";

const MAGIC = 0x52_4d_53_53;
const HEAD_BYTES = 40;
const PAGE_BYTES = 4096;
const ZERO_SUM = crc32(new Uint8Array(PAGE_BYTES));
const UNWRITTEN = 0, WRITTEN_ZEROS = 1;
const NONE = -1;
const READ_PAGES = 256;
const BLOCK_BYTES = 512;

export interface ByteStore {
  read(offset: number, length: number): Uint8Array<ArrayBuffer>;
  write(offset: number, bytes: Uint8Array): void;
}

interface State {
  /** The span whose whole record is in the log, not merged. */
  readonly pending: number;
  readonly logBytes: number;
  readonly merging: boolean;
}

const AT_REST: State = { pending: NONE, logBytes: 0, merging: false };

export class ScmSums {
  readonly #file: ByteStore;
  readonly #bytes: number;
  #state = AT_REST;

  /** @param bytes of the content. */
  constructor(file: ByteStore, bytes: number) {
    this.#file = file;
    this.#bytes = bytes;
  }

  static size(bytes: number): number {
    return HEAD_BYTES + 4 * Math.ceil(bytes / PAGE_BYTES);
  }

  get state(): State {
    return this.#state;
  }

  get hasPending(): boolean {
    return this.#state.pending !== NONE;
  }

  /** @returns false where it is damaged. */
  open(): boolean {
    const head = new DataView(this.#file.read(0, HEAD_BYTES).buffer);
    if (head.getUint32(0) !== MAGIC || head.getUint32(4) !== sumOf(head)) return false;
    if (head.getFloat64(8) !== this.#bytes) return false;
    this.#state = {
      pending: head.getFloat64(16),
      logBytes: head.getFloat64(24),
      merging: head.getFloat64(32) === 1,
    };
    return true;
  }

  mark(state: Partial<State>): void {
    this.#state = { ...this.#state, ...state };
    const { pending, logBytes, merging } = this.#state;
    const head = new DataView(new ArrayBuffer(HEAD_BYTES));
    head.setUint32(0, MAGIC);
    head.setFloat64(8, this.#bytes);
    head.setFloat64(16, pending);
    head.setFloat64(24, logBytes);
    head.setFloat64(32, merging ? 1 : 0);
    head.setUint32(4, sumOf(head));
    this.#file.write(0, new Uint8Array(head.buffer));
  }

  markAtRest(): void {
    this.mark(AT_REST);
  }

  update(content: ByteStore, writes: readonly DurableWrite[]): void {
    for (const page of pagesOf(writes)) this.#take(page, this.#page(content, page));
  }

  /** Pages of zeros count as never written. */
  takeAll(content: ByteStore): void {
    for (let page = 0; page * PAGE_BYTES < this.#bytes; page++) {
      const bytes = this.#page(content, page);
      if (!isZeros(bytes)) this.#take(page, bytes);
    }
  }

  /**
   * Offset of the first page that differs from its sum; undefined without one. Pages never written are read only where
   * the content has more blocks than the others need.
   * @param blocks that the file system has given to the content.
   * @param merging writes that may be in the content in part.
   */
  firstDamage(
    content: ByteStore,
    { blocks, merging }: {
      readonly blocks: number | null;
      readonly merging: readonly DurableWrite[];
    },
  ): number | undefined {
    const pages = Math.ceil(this.#bytes / PAGE_BYTES);
    const sums = new DataView(this.#file.read(HEAD_BYTES, 4 * pages).buffer);
    const unsure = new Set(pagesOf(merging));
    let written = 0;
    for (let page = 0; page < pages; page++) if (sums.getUint32(4 * page) !== UNWRITTEN) written++;
    const isSparse = blocks !== null && blocks * BLOCK_BYTES <= written * PAGE_BYTES;
    for (let from = 0; from < pages; from += READ_PAGES) {
      const to = Math.min(from + READ_PAGES, pages);
      const isChecked = (page: number) =>
        !unsure.has(page) && (!isSparse || sums.getUint32(4 * page) !== UNWRITTEN);
      const checked = Array.from({ length: to - from }, (_, i) => from + i).filter(isChecked);
      if (checked.length === 0) continue;
      const start = from * PAGE_BYTES, end = Math.min(to * PAGE_BYTES, this.#bytes);
      const bytes = content.read(start, end - start);
      for (const page of checked) {
        const at = page * PAGE_BYTES - start;
        const sum = sums.getUint32(4 * page), found = bytes.subarray(at, at + PAGE_BYTES);
        const isWhole = sum === UNWRITTEN ? isZeros(found) : pageSum(found) === sum;
        if (!isWhole) return page * PAGE_BYTES;
      }
    }
    return undefined;
  }

  #page(content: ByteStore, page: number): Uint8Array {
    const at = page * PAGE_BYTES;
    return content.read(at, Math.min(PAGE_BYTES, this.#bytes - at));
  }

  #take(page: number, bytes: Uint8Array): void {
    const sum = new DataView(new ArrayBuffer(4));
    sum.setUint32(0, pageSum(bytes));
    this.#file.write(HEAD_BYTES + 4 * page, new Uint8Array(sum.buffer));
  }
}

/** True if any page of [from, to) was written; true also where `sums` is too short. */
export function isWritten(
  sums: Uint8Array,
  { from, to }: { readonly from: number; readonly to: number },
): boolean {
  const at = (page: number) => HEAD_BYTES + 4 * page;
  const first = Math.floor(from / PAGE_BYTES), end = Math.ceil(to / PAGE_BYTES);
  return at(end) > sums.length || sums.subarray(at(first), at(end)).some((byte) => byte !== 0);
}

function pageSum(bytes: Uint8Array): number {
  return ((crc32(bytes) ^ ZERO_SUM) >>> 0) || WRITTEN_ZEROS;
}

function isZeros(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}

function sumOf(head: DataView): number {
  return crc32(new Uint8Array(head.buffer, 8, HEAD_BYTES - 8));
}

function pagesOf(writes: readonly DurableWrite[]): Set<number> {
  const pages = new Set<number>();
  for (const { offset, data } of writes) {
    if (data.length === 0) continue;
    const last = Math.floor((offset + data.length - 1) / PAGE_BYTES);
    for (let page = Math.floor(offset / PAGE_BYTES); page <= last; page++) pages.add(page);
  }
  return pages;
}
