/**
 * Every change of a host's SCM in a run, by page, so that a query for a line reads only its page's
 * changes. Bytes are copied into chunks without references, which the garbage collector does not
 * scan.
 */
import type { Time } from "../../fabric/base/time.ts";
import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";
import { isSame } from "../explore/choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { ByteLog, Numbers } from "./log_arrays.ts";
import { PAGE_BYTES, type Spool, SpooledPages } from "./spool.ts";

/**
 * `durable`: bytes survive; `dirty`: a line has new bytes that do not; `clean`: they are durable.
 */
type Kind = "durable" | "dirty" | "clean";
const KINDS: readonly Kind[] = ["durable", "dirty", "clean"];

export interface LineState {
  readonly durable: Uint8Array<ArrayBuffer>;
  /** When bytes of it last became durable; 0: never. */
  readonly durableAt: Time;
  /** The newest bytes, where a power failure loses some; since when. */
  readonly dirty: Uint8Array | undefined;
  readonly dirtyAt: Time;
}

export class LineLog implements Pick<MemoryLog, "durable" | "dirty" | "clean"> {
  readonly #at = new Numbers();
  readonly #what = new Numbers(Uint32Array);
  readonly #place = new Numbers(Uint32Array);
  readonly #bytes = new ByteLog();
  readonly #byPage = new Map<number, Numbers>();
  readonly #dirtyLine = new Numbers(Uint32Array);
  readonly #dirtyFrom = new Numbers();
  readonly #dirtyTo: Time[] = [];
  /** By page: the effect of forgotten changes, with times as {@link writtenIn} has them. */
  readonly #rest: { readonly bytes: SpooledPages; readonly durableAt: Map<number, Float64Array> };
  #restBytes = 0;
  readonly #openLines = new Map<number, { readonly span: number; change: number }>();

  /** @param spool for what stays of forgotten changes; absent: it stays in memory. */
  constructor(spool?: Spool, rest?: LineLog) {
    this.#rest = rest === undefined
      ? { bytes: new SpooledPages(spool), durableAt: new Map() }
      : rest.#rest;
  }

  durable(at: Time, offset: number, bytes: Uint8Array): void {
    for (let from = offset, end = offset + bytes.length; from < end;) {
      const to = Math.min(end, from - from % PAGE_BYTES + PAGE_BYTES);
      this.#addDurable(at, from, bytes.subarray(from - offset, to - offset));
      from = to;
    }
  }

  /** A written-back line has the bytes with which it became dirty: they are kept once. */
  #addDurable(at: Time, offset: number, bytes: Uint8Array): void {
    const open = bytes.length === LINE_BYTES ? this.#openLines.get(offset) : undefined;
    const place = open === undefined ? undefined : this.#place.at(open.change);
    const isKept = place !== undefined && isSame(bytes, this.#bytes.read(place, LINE_BYTES));
    this.#add({ kind: "durable", at, offset, length: bytes.length }, isKept ? place : bytes);
  }

  dirty(at: Time, line: number, bytes: Uint8Array): void {
    const change = this.#add({ kind: "dirty", at, offset: line, length: LINE_BYTES }, bytes);
    const open = this.#openLines.get(line);
    if (open !== undefined) {
      open.change = change;
      return;
    }
    this.#openLines.set(line, { span: this.#dirtyTo.push(Infinity) - 1, change });
    this.#dirtyLine.push(line / LINE_BYTES);
    this.#dirtyFrom.push(at);
  }

  clean(at: Time, line: number): void {
    const open = this.#openLines.get(line);
    if (open === undefined) return;
    this.#add({ kind: "clean", at, offset: line, length: 0 }, 0);
    this.#dirtyTo[open.span] = at;
    this.#openLines.delete(line);
  }

  beginLife(at: Time): void {
    for (const line of [...this.#openLines.keys()]) this.clean(at, line);
  }

  /**
   * Of changes; what stays of forgotten ones is as large as the written memory, and not counted.
   */
  get heldBytes(): number {
    return this.#bytes.heldBytes + 20 * this.#at.length + 20 * this.#dirtyTo.length -
      this.#restBytes;
  }

  /** This log without changes before `at`, but with their effect. This one is used up. */
  since(at: Time): LineLog {
    const log = new LineLog(undefined, this), pages = new Map<number, number>();
    const dirty = this.dirtyLines(at).map((line) => ({ line, ...this.stateOf(line, at) }));
    for (const { line, dirty: bytes, dirtyAt } of dirty.sort((x, y) => x.dirtyAt - y.dirtyAt)) {
      if (bytes !== undefined) log.dirty(dirtyAt, line, bytes);
    }
    log.#restBytes = log.heldBytes;
    for (const [page, changes] of this.#byPage) {
      const count = this.#countBefore(changes, at);
      if (count > 0) this.#settle(page, count);
      for (let i = count; i < changes.length; i++) pages.set(changes.at(i), page);
    }
    for (let change = this.#at.countBelow(at); change < this.#at.length; change++) {
      const { kind, offset: inPage, length } = this.#changeOf(change);
      const time = this.#at.at(change), offset = pages.get(change)! + inPage;
      if (kind === "clean") log.clean(time, offset);
      else log[kind](time, offset, this.#bytes.read(this.#place.at(change), length));
    }
    return log;
  }

  #settle(page: number, count: number): void {
    let durableAt = this.#rest.durableAt.get(page);
    if (durableAt === undefined) this.#rest.durableAt.set(page, durableAt = newTimes());
    const bytes = this.#rest.bytes.page(page), changes = this.#byPage.get(page)!;
    for (let i = 0; i < count; i++) {
      const change = changes.at(i), { kind, offset, length } = this.#changeOf(change);
      const time = kind === "durable" ? this.#at.at(change) : 0;
      if (kind === "durable") bytes.set(this.#bytes.read(this.#place.at(change), length), offset);
      markLines(durableAt, { offset, length, time });
    }
  }

  pages(): number[] {
    return [...new Set([...this.#rest.durableAt.keys(), ...this.#byPage.keys()])].sort((x, y) =>
      x - y
    );
  }

  dirtyLines(at: Time): number[] {
    const lines: number[] = [];
    const count = this.#dirtyFrom.countBelow(at);
    for (let i = 0; i < count; i++) {
      if (this.#dirtyTo[i]! >= at) lines.push(LINE_BYTES * this.#dirtyLine.at(i));
    }
    return lines;
  }

  linesOf(page: number, at: Time): number[] {
    const times = this.writtenIn(page, at);
    return Array.from(times, (time, i) => time < 0 ? -1 : page + LINE_BYTES * i)
      .filter((line) => line >= 0);
  }

  /**
   * By line, when bytes of it last became durable; 0: they are dirty only; -1: none was written.
   */
  writtenIn(page: number, at: Time): Float64Array {
    const times = this.#rest.durableAt.get(page)?.slice() ?? newTimes();
    const changes = this.#byPage.get(page);
    for (let i = 0, count = this.#countBefore(changes, at); i < count; i++) {
      const change = changes!.at(i), { kind, offset, length } = this.#changeOf(change);
      markLines(times, { offset, length, time: kind === "durable" ? this.#at.at(change) : 0 });
    }
    return times;
  }

  /** Searches backwards, until all of the line is known. */
  stateOf(line: number, at: Time): LineState {
    const durable = new Uint8Array(LINE_BYTES);
    const page = line - line % PAGE_BYTES, base = line - page;
    const changes = this.#byPage.get(page);
    let durableAt = 0, dirty: Uint8Array | undefined, dirtyAt = 0;
    let isDirtyKnown = false, isKnown: Uint8Array | undefined, left = LINE_BYTES;
    for (let i = this.#countBefore(changes, at) - 1; i >= 0; i--) {
      const change = changes!.at(i), { kind, offset, length } = this.#changeOf(change);
      if (kind !== "durable") {
        if (offset !== base || isDirtyKnown) continue;
        isDirtyKnown = true;
        dirtyAt = this.#at.at(change);
        if (kind === "dirty") dirty = this.#bytes.read(this.#place.at(change), length);
      } else if (left > 0) {
        const from = Math.max(base, offset), to = Math.min(base + LINE_BYTES, offset + length);
        if (from >= to) continue;
        durableAt ||= this.#at.at(change);
        const bytes = this.#bytes.read(this.#place.at(change), length);
        isKnown ??= new Uint8Array(LINE_BYTES);
        for (let byte = from; byte < to; byte++) {
          if (isKnown[byte - base] === 1) continue;
          isKnown[byte - base] = 1;
          durable[byte - base] = bytes[byte - offset]!;
          left--;
        }
      }
      if (left === 0 && isDirtyKnown) break;
    }
    const restAt = left === 0 ? undefined : this.#rest.durableAt.get(page);
    if (restAt !== undefined) {
      durableAt ||= Math.max(0, restAt[base / LINE_BYTES]!);
      const rest = this.#rest.bytes.page(page);
      for (let i = 0; i < LINE_BYTES; i++) {
        if (isKnown?.[i] !== 1) durable[i] = rest[base + i]!;
      }
    }
    return { durable, durableAt, dirty, dirtyAt };
  }

  #countBefore(changes: Numbers | undefined, at: Time): number {
    let low = 0, high = changes?.length ?? 0;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#at.at(changes!.at(middle)) < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #changeOf(change: number): { kind: Kind; offset: number; length: number } {
    const what = this.#what.at(change);
    return {
      kind: KINDS[what >>> 2 * LENGTH_BITS]!,
      offset: (what >>> LENGTH_BITS) & LENGTH_MASK,
      length: what & LENGTH_MASK,
    };
  }

  #add({ kind, at, offset, length }: Change, content: Uint8Array | number): number {
    const inPage = offset % PAGE_BYTES, page = offset - inPage;
    const index = this.#at.length;
    this.#at.push(at);
    this.#what.push(((KINDS.indexOf(kind) << LENGTH_BITS | inPage) << LENGTH_BITS) | length);
    this.#place.push(typeof content === "number" ? content : this.#bytes.keep(content));
    let changes = this.#byPage.get(page);
    if (changes === undefined) this.#byPage.set(page, changes = new Numbers(Uint32Array));
    changes.push(index);
    return index;
  }
}

interface Change {
  readonly kind: Kind;
  readonly at: Time;
  readonly offset: number;
  readonly length: number;
}

const LENGTH_BITS = 13, LENGTH_MASK = (1 << LENGTH_BITS) - 1;

function newTimes(): Float64Array {
  return new Float64Array(PAGE_BYTES / LINE_BYTES).fill(-1);
}

function markLines(
  times: Float64Array,
  { offset, length, time }: Pick<Change, "offset" | "length"> & { readonly time: Time },
): void {
  // A clean change has a length of 0.
  const end = offset + Math.max(1, length);
  for (let i = Math.floor(offset / LINE_BYTES); i * LINE_BYTES < end; i++) {
    times[i] = Math.max(times[i]!, time);
  }
}
