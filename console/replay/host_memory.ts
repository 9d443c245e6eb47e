/** One host's SCM at an instant of a recorded run, line by line: where the newest copy of each byte is. */
import type { Time } from "../../fabric/base/time.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import { survives } from "../../nodes/host/memory/adr.ts";
import type { Life } from "../checks/lives.ts";
import { isSame, WORD_BYTES } from "../explore/choices.ts";
import { CrashCursor, LINE_BYTES, Overlay, Pages, type Readable } from "../explore/history.ts";
import type { DeclaredWrite, MemoryRecord, Passage } from "./memory_record.ts";
import type { Place, WriteRef, WriteStanding } from "./types.ts";

const PAGE_BYTES = 4_096;

/** Bytes [from, to) of a line with one place. */
export interface Piece {
  readonly from: number;
  readonly to: number;
  readonly place: Place;
  readonly survives: boolean;
  readonly since: Time;
  readonly write: DeclaredWrite | undefined;
}

export interface Line {
  readonly at: number;
  readonly pieces: readonly Piece[];
  readonly torn: boolean;
}

export class HostMemory {
  readonly #record: MemoryRecord;
  readonly #config: HostPlan;
  readonly #lives: readonly Life[];
  /** Where the card goes on for so long when the host has lost its power (`wsp`). */
  readonly #noticePs: Time;
  readonly cursor: CrashCursor<Pages>;
  at: Time = 0;
  /** By line: when bytes of it became durable last; when the controller took it, until when it has it. */
  readonly #durableAt = new Map<number, Time>();
  readonly #queued = new Map<number, { readonly at: Time; readonly until: Time }>();
  #queuedCount = 0;
  #passages: readonly Passage[] = [];
  #writes: ReadonlySet<DeclaredWrite> = new Set();
  #byPage = new Map<number, DeclaredWrite[]>();
  #indexed = 0;

  constructor(
    record: MemoryRecord,
    host: { readonly config: HostPlan; readonly lives: readonly Life[]; readonly noticePs: Time },
  ) {
    this.#record = record;
    this.#config = host.config;
    this.#lives = host.lives;
    this.#noticePs = host.noticePs;
    this.cursor = new CrashCursor(record.history.entries, new Pages());
  }

  get life(): Life | undefined {
    return this.#lives.find(({ from, to }) => this.at > from && this.at <= to);
  }

  /** Goes on to `at`, which is not earlier than before. */
  moveTo(at: Time): void {
    const { cursor } = this;
    this.at = at;
    for (let entry = cursor.next; entry !== undefined && entry.at < at; entry = cursor.next) {
      if (entry.kind === "durable") {
        const end = entry.offset + entry.bytes.length;
        for (let line = lineOf(entry.offset); line < end; line += LINE_BYTES) {
          this.#durableAt.set(line, entry.at);
        }
      }
      cursor.step();
    }
    const { queuedAt, queuedLine, queuedUntil } = this.#record;
    for (; this.#queuedCount < queuedAt.length; this.#queuedCount++) {
      const i = this.#queuedCount;
      if (queuedAt.at(i) >= at) break;
      this.#queued.set(queuedLine.at(i), { at: queuedAt.at(i), until: queuedUntil.at(i) });
    }
    this.#findOpen();
  }

  /** What is on its way to memory at the instant. */
  #findOpen(): void {
    const { at, life } = this;
    this.#passages = [];
    this.#writes = new Set();
    const { passages, writes } = this.#record;
    for (; this.#indexed < writes.length; this.#indexed++) {
      const write = writes[this.#indexed]!, { landing } = write;
      for (let page = Math.floor(landing.offset / PAGE_BYTES) * PAGE_BYTES; page < landing.end;) {
        const known = this.#byPage.get(page);
        if (known === undefined) this.#byPage.set(page, [write]);
        else known.push(write);
        page += PAGE_BYTES;
      }
    }
    if (life === undefined) return;
    this.#passages = passages.filter(({ landing, cardAt, busAt }) =>
      (cardAt < 0 ? busAt : cardAt) < at && at <= landing.doneAt && busAt >= life.from
    );
    this.#writes = new Set(
      writes.filter(({ landing, issuedAt }) =>
        issuedAt < at && at <= landing.doneAt && issuedAt >= life.from
      ),
    );
  }

  /** Offsets of the lines whose newest copy a power failure may lose. */
  openLines(): number[] {
    const lines = new Set<number>();
    if (this.life !== undefined) { for (const line of this.cursor.dirty.keys()) lines.add(line); }
    for (const { landing } of [...this.#passages, ...this.#writes]) {
      for (let line = lineOf(landing.offset); line < landing.end; line += LINE_BYTES) {
        lines.add(line);
      }
    }
    return [...lines].sort((x, y) => x - y);
  }

  /** Offsets of the lines in [from, to) of which something was written by now. */
  linesIn(from: number, to: number): number[] {
    const lines = new Set<number>();
    const add = (line: number) => {
      if (line + LINE_BYTES > from && line < to) lines.add(line);
    };
    for (const line of this.#durableAt.keys()) add(line);
    for (const line of this.openLines()) add(line);
    return [...lines].sort((x, y) => x - y);
  }

  /** Declared writes that touch [from, to) and were issued by now. */
  writesIn(from: number, to: number): DeclaredWrite[] {
    const found = new Set<DeclaredWrite>();
    for (let page = Math.floor(from / PAGE_BYTES) * PAGE_BYTES; page < to; page += PAGE_BYTES) {
      for (const write of this.#byPage.get(page) ?? []) {
        const { landing, issuedAt } = write;
        if (issuedAt < this.at && landing.offset < to && landing.end > from) found.add(write);
      }
    }
    return [...found];
  }

  /** SCM as a power failure now leaves it. */
  left(): Readable {
    if (this.#config.domain !== "wsp") return this.cursor.image;
    const image = new Overlay(this.cursor.image);
    for (const passage of this.#passages) {
      if (this.#isKept(passage)) image.write(passage.landing.offset, passage.landing.bytes);
    }
    return image;
  }

  /** A line as the cores see it. */
  seen(line: number): Uint8Array {
    const bytes = this.cursor.image.read(line, line + LINE_BYTES);
    const dirty = this.life && this.cursor.dirty.get(line)?.versions.at(-1);
    return dirty?.bytes ?? bytes;
  }

  line(line: number): Line {
    const durable = this.cursor.image.read(line, line + LINE_BYTES);
    const seen = this.seen(line);
    const resting = this.#resting(line);
    const dirty = this.life && this.cursor.dirty.get(line)?.versions.at(-1);
    const changedAt = dirty?.at ?? resting.since;
    const cells: Cell[] = [];
    for (let word = 0; word < LINE_BYTES; word += WORD_BYTES) {
      const end = word + WORD_BYTES;
      const cell: Cell = dirty === undefined ? { ...resting, write: undefined } : {
        place: "llc",
        survives: isSame(seen.subarray(word, end), durable.subarray(word, end)),
        since: dirty.at,
        write: undefined,
      };
      for (let i = word; i < end; i++) cells.push({ ...cell });
    }
    const isIn = (bytes: Uint8Array, offset: number, since: Time) =>
      changedAt >= since && holds(seen, line, { bytes, offset });
    for (const passage of this.#passages) {
      const { landing: { offset, bytes } } = passage;
      if (!touches(line, passage.landing) || isIn(bytes, offset, passage.arrivesAt)) continue;
      fill(cells, line, passage.landing, this.#stationOf(passage));
    }
    for (const write of this.writesIn(line, line + LINE_BYTES)) {
      const { landing, issuedAt } = write, { offset, bytes } = landing;
      const isOpen = this.#writes.has(write);
      if (!isOpen || isIn(bytes, offset, issuedAt)) {
        // The latest one that has left its bytes here.
        const isHere = holds(seen, line, { bytes, offset });
        if (isHere) mark(cells, line, landing, write);
        continue;
      }
      const passage = this.#passages.find(({ landing: other }) =>
        touches(line, other) && offset <= other.offset && landing.end >= other.end &&
        holds(bytes.subarray(other.offset - offset), other.offset, {
          bytes: other.bytes,
          offset: other.offset,
        })
      );
      if (passage !== undefined) mark(cells, line, passage.landing, write);
      else {fill(cells, line, landing, {
          place: "in-flight",
          survives: false,
          since: issuedAt,
          write,
        });}
    }
    return { at: line, pieces: piecesOf(line, cells), torn: isTorn(cells) };
  }

  /** Where a line is of which nothing is on its way. */
  #resting(line: number): Omit<Cell, "write"> {
    const since = this.#durableAt.get(line) ?? 0, queued = this.#queued.get(line);
    // What survives in a cache is durable before the controller has it.
    const isCached = this.life !== undefined && survives("llc", this.#config.domain) && since > 0 &&
      (queued === undefined || queued.at < since);
    if (isCached) return { place: "llc", survives: true, since };
    const isQueued = queued !== undefined && queued.until >= this.at && this.life !== undefined;
    return { place: isQueued ? "write-queue" : "medium", survives: true, since };
  }

  #stationOf(passage: Passage): Cell {
    const { cardAt, busAt, arrivesAt } = passage, { at } = this;
    const write = undefined;
    const kept = this.#isKept(passage);
    if (arrivesAt < at) {
      return {
        place: "iio",
        survives: survives("iio", this.#config.domain),
        since: arrivesAt,
        write,
      };
    }
    if (busAt < at) return { place: "bus", survives: kept, since: busAt, write };
    return { place: "card", survives: kept, since: cardAt, write };
  }

  /** `wsp`: the card keeps what it sends until it notices, and sends it again. */
  #isKept({ busAt }: Passage): boolean {
    return this.#config.domain === "wsp" && busAt < this.at + this.#noticePs;
  }
}

interface Cell {
  place: Place;
  survives: boolean;
  since: Time;
  write: DeclaredWrite | undefined;
}

interface Extent {
  readonly offset: number;
  readonly end: number;
}

function lineOf(offset: number): number {
  return offset - offset % LINE_BYTES;
}

function touches(line: number, { offset, end }: Extent): boolean {
  return offset < line + LINE_BYTES && end > line;
}

/** Whether the bytes that a line and `part` share are the same. @param bytes from `line` on. */
function holds(
  bytes: Uint8Array,
  line: number,
  part: { readonly bytes: Uint8Array; readonly offset: number },
): boolean {
  const from = Math.max(line, part.offset);
  const to = Math.min(line + LINE_BYTES, part.offset + part.bytes.length);
  for (let at = from; at < to; at++) {
    if (bytes[at - line] !== part.bytes[at - part.offset]) return false;
  }
  return true;
}

function fill(cells: Cell[], line: number, { offset, end }: Extent, cell: Cell): void {
  const to = Math.min(end, line + LINE_BYTES) - line;
  for (let i = Math.max(offset, line) - line; i < to; i++) cells[i] = { ...cell };
}

function mark(
  cells: readonly Cell[],
  line: number,
  { offset, end }: Extent,
  write: DeclaredWrite,
): void {
  const to = Math.min(end, line + LINE_BYTES) - line;
  for (let i = Math.max(offset, line) - line; i < to; i++) cells[i]!.write = write;
}

function piecesOf(line: number, cells: readonly Cell[]): Piece[] {
  const pieces: { -readonly [K in keyof Piece]: Piece[K] }[] = [];
  for (const [i, { place, survives, since, write }] of cells.entries()) {
    const last = pieces.at(-1);
    const isSame = last?.place === place && last.survives === survives && last.since === since &&
      last.write === write;
    if (isSame) last.to++;
    else pieces.push({ from: line + i, to: line + i + 1, place, survives, since, write });
  }
  return pieces;
}

/** Whether a part of a write survives, and another does not. */
function isTorn(cells: readonly Cell[]): boolean {
  const fates = new Map<DeclaredWrite, boolean>();
  return cells.some(({ write, survives }) => {
    if (write === undefined) return false;
    const known = fates.get(write);
    fates.set(write, survives);
    return known !== undefined && known !== survives;
  });
}

/** What its program knows of a write at `at`. */
export function refOf(write: DeclaredWrite, at: Time): WriteRef {
  const { by, id, node, issuedAt, visibleAt, claimedAt, promisedAt } = write;
  const steps: readonly (readonly [WriteStanding, Time])[] = [
    ["promised", promisedAt],
    ["claimed", claimedAt],
    ["visible", visibleAt],
    ["posted", issuedAt],
  ];
  const [standing, standingAt] = steps.find(([, time]) => time < at) ?? ["posted", issuedAt];
  return { by, id, node, issuedAt, standing, standingAt };
}
