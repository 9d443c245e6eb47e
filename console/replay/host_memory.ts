/**
 * One host's SCM at an instant of a recorded run, with the place of the newest copy of each byte.
 */
import type { Time } from "../../fabric/base/time.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import { cardsKeepWrites, survives } from "../../fabric/rack/plan/persistence_domain.ts";
import type { Life } from "../checks/lives.ts";
import { isSame, WORD_BYTES } from "../explore/choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { Overlay, type Readable } from "../explore/history.ts";
import {
  type DeclaredWrite,
  Landing,
  type LostPiece,
  type MemoryRecord,
  type Passage,
} from "./memory_record.ts";
import { PAGE_BYTES, type Spool } from "./spool.ts";
import type { CopyPlace } from "../api/replay_terms.ts";
import type { WriteRef, WriteStanding } from "../api/replay.ts";

const QUEUED_MOST = 4_096;

export interface Piece {
  readonly from: number;
  readonly to: number;
  readonly place: CopyPlace;
  readonly survives: boolean;
  readonly since: Time;
  readonly write: DeclaredWrite | undefined;
  readonly card?: string | undefined;
  /** The bytes are older ones: a power failure has taken those of `write`. */
  readonly lost?: Lost | undefined;
}

export interface Lost extends LostPiece {
  /** When the power failed. */
  readonly at: Time;
}

export interface Line {
  readonly at: number;
  readonly pieces: readonly Piece[];
  readonly torn: boolean;
}

export interface HostAt {
  readonly config: HostPlan;
  readonly lives: readonly Life[];
  /** How long its card goes on when the host has lost its power (`wsp`). */
  readonly noticePs: Time;
  readonly at: Time;
}

export class HostMemory {
  readonly at: Time;
  /** Undefined without power. */
  readonly life: Life | undefined;
  readonly #record: MemoryRecord;
  readonly #config: HostPlan;
  readonly #lives: readonly Life[];
  readonly #noticePs: Time;
  readonly #passages: readonly Passage[];
  readonly #open: ReadonlySet<DeclaredWrite>;
  readonly #queued = new Map<number, { readonly at: Time; readonly until: Time }>();
  #lost: ReadonlyMap<number, readonly Lost[]> | undefined;

  constructor(record: MemoryRecord, { config, lives, noticePs, at }: HostAt) {
    this.#record = record;
    this.#config = config;
    this.#lives = lives;
    this.#noticePs = noticePs;
    this.at = at;
    // A device has its power from the first instant on; later it comes at an instant, with its first event.
    const life = lives.find(({ from, to }) => (at > from || from === 0) && at <= to);
    this.life = life;
    const since = life?.from ?? Infinity;
    this.#passages = record.passages.filter(({ landing, cardAt, busAt }) =>
      (cardAt < 0 ? busAt : cardAt) < at && at <= landing.doneAt && busAt >= since
    );
    this.#open = new Set(
      record.writes.filter(({ landing, issuedAt }) =>
        issuedAt < at && at <= landing.doneAt && issuedAt >= since
      ),
    );
    const { queuedAt, queuedLine, queuedUntil } = record;
    // All of them only where the cache survives: there a line may be durable before it is queued.
    const isCached = survives("llc", config.domain);
    const count = queuedAt.countBelow(at);
    for (let i = count - 1; i >= 0 && (isCached || i >= count - QUEUED_MOST); i--) {
      const line = LINE_BYTES * queuedLine.at(i);
      if (this.#queued.has(line)) continue;
      this.#queued.set(line, { at: queuedAt.at(i), until: queuedUntil.at(i) });
    }
  }

  openLines(): number[] {
    if (this.life === undefined) return [];
    const lines = new Set(this.#record.lines.dirtyLines(this.at));
    const open = [...this.#passages, ...this.#open];
    for (const { landing } of open) {
      for (let line = lineOf(landing.offset); line < landing.end; line += LINE_BYTES) {
        lines.add(line);
      }
    }
    return [...lines].sort((x, y) => x - y);
  }

  /** The latest power failure of the host before this instant; undefined where there was none. */
  get cutAt(): Time | undefined {
    return this.#record.cuts.findLast(({ at }) => at < this.at)?.at;
  }

  /** What power failures took of each line, without bytes over which something has come since. */
  lostLines(): ReadonlyMap<number, readonly Lost[]> {
    return this.#lost ??= this.#linesLost();
  }

  #linesLost(): Map<number, Lost[]> {
    const found = new Map<number, Lost[]>();
    for (const { at, lost } of this.#record.cuts) {
      if (at >= this.at) break;
      for (const piece of lost) {
        for (let line = lineOf(piece.from); line < piece.to; line += LINE_BYTES) {
          const known = found.get(line);
          if (known === undefined) found.set(line, [{ ...piece, at }]);
          else known.push({ ...piece, at });
        }
      }
    }
    const open = new Set(this.openLines());
    for (const [page, lines] of Map.groupBy(found.keys(), pageOf)) {
      const times = this.#record.lines.writtenIn(page, this.at);
      for (const line of lines) {
        const durableAt = times[(line - page) / LINE_BYTES]!;
        const still = found.get(line)!.flatMap((piece) => {
          const isUntouched = piece.at >= durableAt && !open.has(line);
          return isUntouched ? [piece] : this.#stillLost(line, piece);
        });
        if (still.length === 0) found.delete(line);
        else found.set(line, still);
      }
    }
    return found;
  }

  /**
   * The parts of a loss in a line that has changed since. A later write into the line need not be
   * over them; a store that no program declares, and that leaves a byte as it is, is not told from
   * none.
   */
  #stillLost(line: number, piece: Lost): Lost[] {
    const seen = this.seen(line), left = this.#record.lines.stateOf(line, piece.at).durable;
    const since = this.#lives.find(({ from }) => from >= piece.at)?.from ?? Infinity;
    const coming = [
      ...this.writesIn(line, line + LINE_BYTES).filter(({ issuedAt }) => issuedAt >= since)
        .map((write) => ({ landing: write.landing, isOpen: this.#open.has(write) })),
      ...this.#passages.map(({ landing }) => ({ landing, isOpen: true })),
    ];
    const isStill = (at: number) =>
      seen[at - line] === left[at - line] &&
      !coming.some(({ landing: { offset, end, bytes }, isOpen }) =>
        offset <= at && at < end && (isOpen || bytes[at - offset] === seen[at - line])
      );
    const parts: { -readonly [K in keyof Lost]: Lost[K] }[] = [];
    const first = Math.max(piece.from, line), end = Math.min(piece.to, line + LINE_BYTES);
    for (let at = first; at < end; at++) {
      if (!isStill(at)) continue;
      const last = parts.at(-1);
      if (last?.to === at) last.to++;
      else parts.push({ ...piece, from: at, to: at + 1 });
    }
    return parts;
  }

  /**
   * What a power failure of the host at this instant takes.
   * @param spool for bytes that no program has declared.
   */
  lostByCut(spool: Spool | undefined): LostPiece[] {
    const lost: (LostPiece & { to: number })[] = [];
    for (const line of this.openLines()) {
      const { pieces, torn } = this.line(line);
      for (const { survives, from, to, place, write } of pieces) {
        if (survives) continue;
        const last = lost.at(-1);
        const follows = last?.to === from && last.place === place && last.torn === torn &&
          write !== undefined && last.write === write;
        if (follows) last.to = to;
        else {
          const landing = write?.landing ?? this.#undeclared({ from, to, place }, spool);
          lost.push({ from, to, place, write, landing, torn });
        }
      }
    }
    return lost;
  }

  #undeclared({ from, to, place }: Pick<Piece, "from" | "to" | "place">, spool?: Spool): Landing {
    const passing = this.#passages.findLast(({ landing }) =>
      landing.offset <= from && landing.end >= to
    );
    if (place !== "llc" && passing !== undefined) return passing.landing;
    const line = lineOf(from);
    const landing = new Landing(from, this.seen(line).slice(from - line, to - line), spool);
    landing.settle();
    return landing;
  }

  /** The line as it was before power failures took bytes of it; undefined where none did. */
  beforeCut(line: number): Uint8Array | undefined {
    const lost = this.lostLines().get(line);
    if (lost === undefined) return undefined;
    const bytes = this.seen(line).slice();
    for (const { from, to, landing: { offset, bytes: were } } of lost) {
      const first = Math.max(from, line), end = Math.min(to, line + LINE_BYTES);
      bytes.set(were.subarray(first - offset, end - offset), first - line);
    }
    return bytes;
  }

  /**
   * Pages of [from, to) with written bytes: by line, when it last became durable (0: never); -1 for
   * a line without written bytes, or not in [from, to).
   */
  *pagesIn(from: number, to: number): Generator<{ page: number; lines: Float64Array }> {
    const { lines: log } = this.#record, open = Map.groupBy(this.openLines(), pageOf);
    const gone = Map.groupBy(this.lostLines().keys(), pageOf);
    const pages = new Set([...log.pages(), ...open.keys(), ...gone.keys()]);
    for (const page of [...pages].sort((x, y) => x - y)) {
      if (page + PAGE_BYTES <= from || page >= to) continue;
      const lines = log.writtenIn(page, this.at);
      for (const line of [...open.get(page) ?? [], ...gone.get(page) ?? []]) {
        const index = (line - page) / LINE_BYTES;
        lines[index] = Math.max(0, lines[index]!);
      }
      for (let i = 0; i < lines.length; i++) {
        const line = page + LINE_BYTES * i;
        if (line + LINE_BYTES <= from || line >= to) lines[i] = -1;
      }
      yield { page, lines };
    }
  }

  /** The first `most` written lines in [from, to); `more` follow. */
  linesIn(from: number, to: number, most: number): { lines: number[]; more: number } {
    const found: number[] = [];
    let more = 0;
    for (const { page, lines } of this.pagesIn(from, to)) {
      for (const [i, time] of lines.entries()) {
        if (time < 0) continue;
        if (found.length < most) found.push(page + LINE_BYTES * i);
        else more++;
      }
    }
    return { lines: found, more };
  }

  /** Declared writes that touch [from, to) and were issued by now, oldest first. */
  writesIn(from: number, to: number): DeclaredWrite[] {
    return this.#record.writesIn(from, to).filter(({ issuedAt }) => issuedAt < this.at);
  }

  left(): Readable {
    const { lines } = this.#record, { at } = this;
    const durable: Readable = {
      read(from, to) {
        const bytes = new Uint8Array(to - from);
        for (let line = lineOf(from); line < to; line += LINE_BYTES) {
          const first = Math.max(line, from), end = Math.min(line + LINE_BYTES, to);
          const state = lines.stateOf(line, at).durable;
          bytes.set(state.subarray(first - line, end - line), first - from);
        }
        return bytes;
      },
    };
    if (!cardsKeepWrites(this.#config.domain)) return durable;
    const image = new Overlay(durable);
    for (const passage of this.#passages) {
      if (this.#isKept(passage)) image.write(passage.landing.offset, passage.landing.bytes);
    }
    return image;
  }

  seen(line: number): Uint8Array {
    const { durable, dirty } = this.#record.lines.stateOf(line, this.at);
    return (this.life && dirty) ?? durable;
  }

  line(line: number): Line {
    const state = this.#record.lines.stateOf(line, this.at);
    const { durable, durableAt, dirtyAt } = state;
    const dirty = this.life && state.dirty;
    const seen = dirty ?? durable;
    const resting = this.resting(line, durableAt);
    const changedAt = dirty === undefined ? durableAt : Math.max(dirtyAt, durableAt);
    const cells: Cell[] = [];
    for (let word = 0; word < LINE_BYTES; word += WORD_BYTES) {
      const end = word + WORD_BYTES;
      const cell: Cell = dirty === undefined ? { ...resting, write: undefined } : {
        place: "llc",
        survives: isSame(seen.subarray(word, end), durable.subarray(word, end)),
        since: dirtyAt,
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
    for (const write of this.#latestIn(line, seen)) {
      const { landing, issuedAt } = write;
      if (!this.#open.has(write)) {
        mark(cells, line, landing, write);
        continue;
      }
      const { offset, bytes } = landing;
      if (isIn(bytes, offset, issuedAt)) {
        if (holds(seen, line, landing)) mark(cells, line, landing, write);
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
    const lost = this.lostLines().get(line) ?? [];
    for (const piece of lost) markLost(cells, line, piece);
    const torn = isTorn(cells) || lost.some((piece) => piece.torn);
    return { at: line, pieces: piecesOf(line, cells), torn };
  }

  /**
   * Oldest first: writes under way to a line, and the latest of the others that have left their
   * bytes in it. An earlier one whose bytes are all those of a later one, too, is left out.
   */
  #latestIn(line: number, seen: Uint8Array): DeclaredWrite[] {
    const found: DeclaredWrite[] = [], isTaken = new Uint8Array(LINE_BYTES);
    for (const write of this.writesIn(line, line + LINE_BYTES).reverse()) {
      if (this.#open.has(write)) {
        found.push(write);
        continue;
      }
      const { landing } = write, from = Math.max(landing.offset, line) - line;
      const to = Math.min(landing.end, line + LINE_BYTES) - line;
      // Not read back for each of many writes over one place.
      const isCovered = isTaken.subarray(from, to).every((taken) => taken === 1);
      if (isCovered || !holds(seen, line, landing)) continue;
      isTaken.fill(1, from, to);
      found.push(write);
    }
    return found.reverse();
  }

  /** @param since when the line became durable. */
  resting(line: number, since: Time): Omit<Cell, "write"> {
    const queued = this.#queued.get(line);
    // Bytes that survive in a cache are durable before the controller has them.
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
    return { place: "card", survives: kept, since: cardAt, write, card: passage.card };
  }

  /** The card keeps sent bytes until it detects the failure, to send them again. */
  #isKept({ sentAt }: Passage): boolean {
    return cardsKeepWrites(this.#config.domain) && sentAt < this.at + this.#noticePs;
  }
}

interface Cell {
  place: CopyPlace;
  survives: boolean;
  since: Time;
  write: DeclaredWrite | undefined;
  card?: string | undefined;
  lost?: Lost | undefined;
}

interface Extent {
  readonly offset: number;
  readonly end: number;
}

function lineOf(offset: number): number {
  return offset - offset % LINE_BYTES;
}

function pageOf(line: number): number {
  return line - line % PAGE_BYTES;
}

function touches(line: number, { offset, end }: Extent): boolean {
  return offset < line + LINE_BYTES && end > line;
}

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

function markLost(cells: readonly Cell[], line: number, lost: Lost): void {
  const first = Math.max(lost.from, line) - line, end = Math.min(lost.to, line + LINE_BYTES) - line;
  for (const cell of cells.slice(first, end)) {
    cell.write = lost.write;
    cell.lost = lost;
  }
}

function piecesOf(line: number, cells: readonly Cell[]): Piece[] {
  const pieces: { -readonly [K in keyof Piece]: Piece[K] }[] = [];
  for (const [i, { place, survives, since, write, card, lost }] of cells.entries()) {
    const last = pieces.at(-1);
    const isSame = last?.place === place && last.survives === survives && last.since === since &&
      last.write === write && last.card === card && last.lost === lost;
    if (isSame) last.to++;
    else {
      const at = { from: line + i, to: line + i + 1 };
      pieces.push({
        ...{ ...at, place, survives, since, write },
        ...(card !== undefined && { card }),
        ...(lost !== undefined && { lost }),
      });
    }
  }
  return pieces;
}

function isTorn(cells: readonly Cell[]): boolean {
  const fates = new Map<DeclaredWrite, boolean>();
  return cells.some(({ write, survives }) => {
    if (write === undefined) return false;
    const known = fates.get(write);
    fates.set(write, survives);
    return known !== undefined && known !== survives;
  });
}

/** A program's knowledge of a write at `at`. */
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
