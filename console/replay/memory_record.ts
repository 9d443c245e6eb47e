import type { MemoryLog } from "../../nodes/host/memory/memory_log.ts";
import { isSame } from "../explore/choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { CopyPlace } from "../api/replay_terms.ts";
import { LineLog } from "./line_log.ts";
import { Numbers } from "./log_arrays.ts";
import { PAGE_BYTES, type Spool } from "./spool.ts";

/** Of a passage with its landing, beside the data. */
const PASSAGE_BYTES = 300;

export class Landing {
  readonly offset: number;
  readonly length: number;
  /** Infinity: never. */
  doneAt: Time = Infinity;
  #bytes: Uint8Array | undefined;
  #place = 0;
  readonly #spool: Spool | undefined;
  #left: number;
  #seen: Uint8Array | undefined;

  /**
   * @param spool takes the bytes when none of them is under way; undefined: they stay in memory.
   */
  constructor(offset: number, bytes: Uint8Array, spool?: Spool) {
    this.offset = offset;
    this.length = bytes.length;
    this.#bytes = bytes;
    this.#spool = spool;
    this.#left = Math.ceil((offset + bytes.length) / LINE_BYTES) - Math.floor(offset / LINE_BYTES);
    this.#seen = new Uint8Array(this.#left);
  }

  get bytes(): Uint8Array {
    return this.#bytes ?? this.#spool!.look(this.#place, this.length);
  }

  get end(): number {
    return this.offset + this.length;
  }

  get heldBytes(): number {
    return this.#bytes?.length ?? 0;
  }

  settle(): void {
    if (this.#spool === undefined || this.#bytes === undefined) return;
    this.#place = this.#spool.keep(this.#bytes);
    this.#bytes = undefined;
  }

  /** Memory has `data` at `from`; true: that was the last of the landing. */
  land(at: Time, from: number, data: Uint8Array): boolean {
    const seen = this.#seen;
    if (seen === undefined) return true;
    const first = Math.max(from, this.offset), end = Math.min(from + data.length, this.end);
    const base = Math.floor(this.offset / LINE_BYTES);
    for (let to = 0, part = first; part < end; part = to) {
      to = Math.min(end, part - part % LINE_BYTES + LINE_BYTES);
      const line = Math.floor(part / LINE_BYTES) - base;
      const lineEnd = Math.min(this.end, (line + base + 1) * LINE_BYTES);
      // A write in pieces is complete with its last one.
      if (seen[line] === 1 || to < lineEnd || !this.#isAt(part, to, { from, data })) continue;
      seen[line] = 1;
      this.#left--;
    }
    if (this.#left > 0) return false;
    this.doneAt = at;
    this.#seen = undefined;
    this.settle();
    return true;
  }

  #isAt(part: number, to: number, { from, data }: { from: number; data: Uint8Array }): boolean {
    for (let i = part; i < to; i++) {
      if (data[i - from] !== this.bytes[i - this.offset]) return false;
    }
    return true;
  }
}

export interface Passage {
  readonly landing: Landing;
  readonly card: string;
  /** When the card had the frame; -1: the bytes were in none. */
  readonly cardAt: Time;
  /** When the card has it in hand, and when its first bit is on the bus. */
  readonly sentAt: Time;
  readonly busAt: Time;
  readonly arrivesAt: Time;
}

/** Infinity: unknown times. */
export interface DeclaredWrite {
  readonly by: string;
  readonly id: number;
  readonly node: string;
  readonly on: string;
  readonly landing: Landing;
  readonly issuedAt: Time;
  visibleAt: Time;
  claimedAt: Time;
  promisedAt: Time;
}

/** Bytes that a power failure has taken. */
export interface LostPiece {
  readonly from: number;
  readonly to: number;
  /** Where the newest copy was. */
  readonly place: CopyPlace;
  readonly write: DeclaredWrite | undefined;
  /** Has the bytes: of the write, or of what was there without one. */
  readonly landing: Landing;
  /** The power failure has left a part of a write in each of its lines. */
  readonly torn: boolean;
}

export interface PowerCut {
  readonly at: Time;
  /** Ascending by their begin. */
  readonly lost: readonly LostPiece[];
}

export class MemoryRecord implements MemoryLog {
  /** Of the host, oldest first: kept for the whole run. */
  readonly cuts: PowerCut[] = [];
  lines: LineLog;
  /** Lines that the memory controller took: when, which, until when they are in its queue. */
  queuedAt = new Numbers();
  /** The offset by 64. */
  queuedLine = new Numbers(Uint32Array);
  queuedUntil = new Numbers();
  passages: Passage[] = [];
  readonly writes: DeclaredWrite[] = [];
  #passedBytes = 0;
  #restQueued = 0;
  readonly #byPage = new Map<number, DeclaredWrite[]>();
  #open: Landing[] = [];

  /** @param spool absent: all stays in memory. */
  constructor(spool?: Spool) {
    this.lines = new LineLog(spool);
  }

  get heldBytes(): number {
    return this.lines.heldBytes + 20 * (this.queuedAt.length - this.#restQueued) +
      this.#passedBytes + PASSAGE_BYTES * this.passages.length;
  }

  declare(write: DeclaredWrite): void {
    this.writes.push(write);
    const { offset, end } = write.landing;
    for (let page = offset - offset % PAGE_BYTES; page < end; page += PAGE_BYTES) {
      const known = this.#byPage.get(page);
      if (known === undefined) this.#byPage.set(page, [write]);
      else known.push(write);
    }
    this.#open.push(write.landing);
  }

  writesIn(from: number, to: number): DeclaredWrite[] {
    const found = new Set<DeclaredWrite>();
    for (let page = from - from % PAGE_BYTES; page < to; page += PAGE_BYTES) {
      for (const write of this.#byPage.get(page) ?? []) {
        if (write.landing.offset < to && write.landing.end > from) found.add(write);
      }
    }
    return [...found];
  }

  /** The same bytes of a declared write under way, which are kept in any case, or else `bytes`. */
  declaredBytes(offset: number, bytes: Uint8Array): Uint8Array {
    const end = offset + bytes.length;
    const open = this.#open.find((each) => each.offset <= offset && end <= each.end);
    const declared = open?.bytes.subarray(offset - open.offset, end - open.offset);
    return declared !== undefined && isSame(declared, bytes) ? declared : bytes;
  }

  pass(passage: Passage): void {
    this.passages.push(passage);
    this.#passedBytes += passage.landing.length;
    this.#open.push(passage.landing);
  }

  durable(at: Time, offset: number, bytes: Uint8Array): void {
    this.lines.durable(at, offset, bytes);
    this.#land(at, offset, bytes);
  }

  dirty(at: Time, line: number, bytes: Uint8Array): void {
    this.lines.dirty(at, line, bytes);
    this.#land(at, line, bytes);
  }

  clean(at: Time, line: number): void {
    this.lines.clean(at, line);
  }

  queued(at: Time, line: number, until: Time): void {
    this.queuedAt.push(at);
    this.queuedLine.push(line / LINE_BYTES);
    this.queuedUntil.push(until);
  }

  /** Forgets what affects no instant from `at` on. */
  forgetBefore(at: Time): void {
    this.lines = this.lines.since(at);
    this.passages = this.passages.filter(({ landing }) => landing.doneAt >= at);
    this.#passedBytes = this.passages.reduce((sum, { landing }) => sum + landing.length, 0);
    this.#forgetQueued(at);
  }

  #forgetQueued(at: Time): void {
    const { queuedAt, queuedLine, queuedUntil } = this, latest = new Map<number, number>();
    const end = queuedAt.countBelow(at);
    for (let i = 0; i < end; i++) latest.set(queuedLine.at(i), i);
    const kept = [...latest.values()].sort((x, y) => x - y);
    for (let i = end; i < queuedAt.length; i++) kept.push(i);
    this.queuedAt = new Numbers();
    this.queuedLine = new Numbers(Uint32Array);
    this.queuedUntil = new Numbers();
    for (const i of kept) {
      this.queuedAt.push(queuedAt.at(i));
      this.queuedLine.push(queuedLine.at(i));
      this.queuedUntil.push(queuedUntil.at(i));
    }
    this.#restQueued = latest.size;
  }

  beginLife(at: Time): void {
    this.lines.beginLife(at);
    for (const landing of this.#open) landing.settle();
    this.#open = [];
  }

  #land(at: Time, offset: number, bytes: Uint8Array): void {
    const end = offset + bytes.length;
    let hasEnded = false;
    for (const landing of this.#open) {
      if (landing.offset >= end || landing.end <= offset) continue;
      if (landing.land(at, offset, bytes)) hasEnded = true;
    }
    if (hasEnded) this.#open = this.#open.filter(({ doneAt }) => doneAt === Infinity);
  }
}
