/**
 * Every change of a host's SCM in a run, compactly: by page, so that the content of a line at any
 * instant is a look at its page's changes. Bytes are copied into chunks that no collector looks into.
 */
import type { Time } from "../../fabric/base/time.ts";
import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";
import { LINE_BYTES } from "../explore/history.ts";
import { Numbers } from "./log_arrays.ts";

const PAGE_BYTES = 4_096;
const CHUNK_BYTES = 1 << 20;

/** `durable`: bytes survive; `dirty`: a line has new bytes that do not; `clean`: they are durable. */
type Kind = "durable" | "dirty" | "clean";
const KINDS: readonly Kind[] = ["durable", "dirty", "clean"];

/** A line at an instant. */
export interface LineState {
  /** As a power failure leaves it. */
  readonly durable: Uint8Array<ArrayBuffer>;
  /** When bytes of it became durable last; 0: never. */
  readonly durableAt: Time;
  /** Its newest bytes, where a power failure loses some, and since when. */
  readonly dirty: Uint8Array | undefined;
  readonly dirtyAt: Time;
}

export class LineLog implements Pick<MemoryLog, "durable" | "dirty" | "clean"> {
  readonly #kind = new Numbers();
  readonly #at = new Numbers();
  readonly #offset = new Numbers();
  readonly #length = new Numbers();
  /** Place of the bytes in the chunks. */
  readonly #place = new Numbers();
  readonly #chunks: Uint8Array<ArrayBuffer>[] = [];
  #free = CHUNK_BYTES;
  /** Page → its changes, oldest first. A change is of one page. */
  readonly #byPage = new Map<number, number[]>();
  /** Times in which lines were dirty. */
  readonly #dirtyLine = new Numbers();
  readonly #dirtyFrom = new Numbers();
  readonly #dirtyTo: Time[] = [];
  readonly #openLines = new Map<number, number>();

  durable(at: Time, offset: number, bytes: Uint8Array): void {
    for (let from = offset, end = offset + bytes.length; from < end;) {
      const to = Math.min(end, from - from % PAGE_BYTES + PAGE_BYTES);
      this.#add("durable", at, from, bytes.subarray(from - offset, to - offset));
      from = to;
    }
  }

  dirty(at: Time, line: number, bytes: Uint8Array): void {
    this.#add("dirty", at, line, bytes);
    if (this.#openLines.has(line)) return;
    this.#openLines.set(line, this.#dirtyTo.push(Infinity) - 1);
    this.#dirtyLine.push(line);
    this.#dirtyFrom.push(at);
  }

  clean(at: Time, line: number): void {
    const open = this.#openLines.get(line);
    if (open === undefined) return;
    this.#add("clean", at, line, NOTHING);
    this.#dirtyTo[open] = at;
    this.#openLines.delete(line);
  }

  /** What was dirty is lost: another life begins. */
  beginLife(at: Time): void {
    for (const line of [...this.#openLines.keys()]) this.clean(at, line);
  }

  get heldBytes(): number {
    return CHUNK_BYTES * this.#chunks.length + 56 * this.#at.length;
  }

  /** Pages of which anything was written, ascending. */
  pages(): number[] {
    return [...this.#byPage.keys()].sort((x, y) => x - y);
  }

  /** Lines with bytes that a power failure at `at` loses. */
  dirtyLines(at: Time): number[] {
    const lines: number[] = [];
    const count = this.#dirtyFrom.countBelow(at);
    for (let i = 0; i < count; i++) {
      if (this.#dirtyTo[i]! >= at) lines.push(this.#dirtyLine.at(i));
    }
    return lines;
  }

  /** Lines of a page that had been written by `at`. */
  linesOf(page: number, at: Time): Set<number> {
    const lines = new Set<number>();
    for (const i of this.#byPage.get(page) ?? []) {
      if (this.#at.at(i) >= at) break;
      const offset = this.#offset.at(i), end = offset + this.#length.at(i);
      for (let line = offset - offset % LINE_BYTES; line < end; line += LINE_BYTES) lines.add(line);
    }
    return lines;
  }

  stateOf(line: number, at: Time): LineState {
    const durable = new Uint8Array(LINE_BYTES);
    let durableAt = 0, dirty: Uint8Array | undefined, dirtyAt = 0;
    for (const i of this.#byPage.get(line - line % PAGE_BYTES) ?? []) {
      const time = this.#at.at(i);
      if (time >= at) break;
      const offset = this.#offset.at(i), length = this.#length.at(i);
      const kind = KINDS[this.#kind.at(i)];
      if (kind === "durable") {
        const from = Math.max(line, offset), to = Math.min(line + LINE_BYTES, offset + length);
        if (from >= to) continue;
        durable.set(this.#bytes(i).subarray(from - offset, to - offset), from - line);
        durableAt = time;
      } else if (offset === line) {
        dirty = kind === "dirty" ? this.#bytes(i) : undefined;
        dirtyAt = time;
      }
    }
    return { durable, durableAt, dirty, dirtyAt };
  }

  #bytes(index: number): Uint8Array<ArrayBuffer> {
    const place = this.#place.at(index), at = place % CHUNK_BYTES;
    return this.#chunks[Math.floor(place / CHUNK_BYTES)]!.subarray(at, at + this.#length.at(index));
  }

  #add(kind: Kind, at: Time, offset: number, bytes: Uint8Array): void {
    const page = offset - offset % PAGE_BYTES;
    const index = this.#at.length;
    this.#kind.push(KINDS.indexOf(kind));
    this.#at.push(at);
    this.#offset.push(offset);
    this.#length.push(bytes.length);
    this.#place.push(this.#keep(bytes));
    const known = this.#byPage.get(page);
    if (known === undefined) this.#byPage.set(page, [index]);
    else known.push(index);
  }

  /** Copies bytes, which are at most a page. @returns their place. */
  #keep(bytes: Uint8Array): number {
    if (this.#free + bytes.length > CHUNK_BYTES) {
      this.#chunks.push(new Uint8Array(CHUNK_BYTES));
      this.#free = 0;
    }
    const at = this.#free;
    this.#chunks.at(-1)!.set(bytes, at);
    this.#free += bytes.length;
    return CHUNK_BYTES * (this.#chunks.length - 1) + at;
  }
}

const NOTHING = new Uint8Array(0);
