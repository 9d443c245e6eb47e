/**
 * A program's handle of a shared region: {@link Region} over the host's. Each access is done line
 * by line, in order, and the next one begins when it has ended (decision 16).
 */
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { AccessRecord, RegionOp } from "../../../fabric/audit.ts";
import { allocate, copyOf } from "../../../fabric/base/slab.ts";
import { PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu, Region, Source, Steps, Wait } from "../cpu/program.ts";
import { RegionFenced, RegionLost, type RegionRange, RegionRefused } from "../cpu/region.ts";
import { answered } from "../cpu/wait_site.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { choosePlace } from "./choose_place.ts";
import { type Piece, pieceAt, piecesOf, writeOf } from "./line_pieces.ts";
import type { LineRequest, Outcome, RegionAccess } from "./line_access.ts";
import { SeenLines } from "./seen_lines.ts";
import type { StoreBuffer } from "./store_buffer.ts";

/**
 * A choice: the interval of polling a line without a near copy, which no invalidation can report.
 */
const POLL_PS = PS_PER_US;
/** A choice: lines per request of a flush, so that each request is answered before it times out. */
const FLUSH_LINES = 64;

/** An access to a line. `change`: of a store and an atomic; `lines`: of a flush. */
interface LineAccess {
  readonly op: RegionOp;
  readonly change?: LineChange;
  readonly lines?: number;
}

const LOAD: LineAccess = { op: "load" };

export class RegionHandle implements Region {
  readonly name: string;
  readonly bytes: number;
  readonly isHome: boolean;
  readonly #its: RegionAccess;
  readonly #region: SharedRegion;
  readonly #cpu: Cpu;
  readonly #seen = new SeenLines();
  /**
   * Bytes of lines not in {@link #seen} that loads have found in a store buffer: the line, followed
   * by a 1 for each byte that was found.
   */
  readonly #forwarded = new SeenLines();
  /** Ends of buffered stores that no call has reported yet. */
  #late: { readonly result: Outcome["result"]; readonly range: RegionRange }[] = [];
  #isDeregistered = false;
  /** The last load of a far host has reported that no copies are kept here any more. */
  #isAway = false;

  constructor(
    its: RegionAccess,
    { region, isHome, cpu }: {
      readonly region: SharedRegion;
      readonly isHome: boolean;
      readonly cpu: Cpu;
    },
  ) {
    this.name = region.name;
    this.bytes = region.bytes;
    this.isHome = isHome;
    this.#its = its;
    this.#region = region;
    this.#cpu = cpu;
  }

  *load(offset: number, length: number): Steps<Uint8Array<ArrayBuffer>> {
    this.#check(offset, length);
    const first = pieceAt(offset, offset + length);
    if (first.to === first.from + length && length > 0) {
      const data = yield* this.#load(first);
      if (data === undefined) throw new RegionLost(this.name, [rangeOf(first)]);
      return copyOf(data.subarray(first.from, first.to));
    }
    const bytes = allocate(length);
    const lost: RegionRange[] = [];
    for (const piece of piecesOf(offset, length)) {
      const { line, from, to } = piece;
      const data = yield* this.#load(piece);
      if (data === undefined) lost.push(rangeOf(piece));
      else bytes.set(data.subarray(from, to), line * LINE_BYTES + from - offset);
    }
    if (lost.length > 0) throw new RegionLost(this.name, joined(lost));
    return bytes;
  }

  *store(offset: number, bytes: Uint8Array): Steps<void> {
    const { length } = bytes;
    this.#check(offset, length);
    const first = pieceAt(offset, offset + length);
    if (first.to === first.from + length && length > 0) {
      return yield* this.#store(first, writeOf(first, bytes));
    }
    // The program may change its bytes while time passes.
    const copy = bytes.slice();
    for (const piece of piecesOf(offset, length)) {
      const at = piece.line * LINE_BYTES + piece.from - offset;
      const part = copy.subarray(at, at + piece.to - piece.from);
      yield* this.#store(piece, writeOf(piece, part));
    }
  }

  *fetchAdd(offset: number, operand: bigint): Steps<bigint> {
    const at = this.#word(offset);
    const change = { kind: "add", offset: at.from, operand: BigInt.asUintN(64, operand) } as const;
    return yield* this.#atomic(at, { op: "add", change });
  }

  *compareSwap(offset: number, compare: bigint, swap: bigint): Steps<bigint> {
    const at = this.#word(offset);
    const change = {
      kind: "compare-swap",
      offset: at.from,
      compare: BigInt.asUintN(64, compare),
      swap: BigInt.asUintN(64, swap),
    } as const;
    return yield* this.#atomic(at, { op: "compare-swap", change });
  }

  *fence(): Steps<void> {
    yield* this.#drain();
    yield* this.#cpu.sfence();
  }

  *flush(offset: number, length: number): Steps<void> {
    this.#check(offset, length);
    const pieces = piecesOf(offset, length);
    const { issuePs, fencePs } = this.#its.flushCosts;
    const most = this.isHome ? 1 : FLUSH_LINES;
    for (let first = 0; first < pieces.length; first += most) {
      const part = pieces.slice(first, first + most);
      if (this.isHome) {
        this.#cpu.charge(issuePs);
        yield* this.#room(part[0]!.line);
      }
      yield* this.#drainLines(part);
      const { line } = part[0]!;
      const lines = part.length > 1 ? { lines: part.length } : {};
      const range = { from: part[0]!.from, to: (part.length - 1) * LINE_BYTES + part.at(-1)!.to };
      const outcome = yield* this.#do({ line, ...range }, { op: "flush", ...lines });
      if (outcome.result === "lost") throw new RegionLost(this.name, [rangeOf({ line, ...range })]);
    }
    if (!this.isHome) return;
    this.#cpu.charge(fencePs);
    yield* this.#cpu.settle();
  }

  *waitChange(offset: number, length: number, deadline: Time): Steps<"changed" | "timeout"> {
    this.#check(offset, length);
    const pieces = piecesOf(offset, length);
    const before = new Map(
      pieces.map(({ line }): [number, Uint8Array | undefined] => [
        line,
        this.#seen.get(line)?.slice(),
      ]),
    );
    // Home's cores have their lines in the LLC; a far card may have no copies where home keeps
    // them.
    const isKeptNear = this.isHome || this.#region.placement === "remote";
    for (let isAgain = false;; isAgain = true) {
      const counts = pieces.map(({ line }) => this.#its.changesOf(this.#region, line));
      for (const piece of pieces) {
        yield* this.#drainLines([piece]);
        const forwarded = this.#forwarded.get(piece.line)?.slice();
        const data = this.#loaded(piece, yield* this.#do(piece, LOAD));
        if (data === undefined) throw new RegionLost(this.name, [rangeOf(piece)]);
        const base = before.get(piece.line) ?? (forwarded && overlaid(data, forwarded));
        if (base === undefined) before.set(piece.line, data);
        else if (differs(base, data, piece)) return "changed";
      }
      if (this.#cpu.now >= deadline) return "timeout";
      if (pieces.some(({ line }, i) => this.#its.changesOf(this.#region, line) !== counts[i])) {
        continue;
      }
      // The loads above have found out whether a program has moved the copies.
      const isNear = isKeptNear && !this.#isAway;
      if (isAgain && !isNear) this.#its.polled();
      const names = pieces.flatMap(({ line }) => this.#its.signalsOf(this.#region, line));
      const sources = [...new Set(names)].map((name): Source => ({ kind: "signal", name }));
      const until = isNear ? deadline : Math.min(deadline, this.#cpu.now + POLL_PS);
      yield* this.#cpu.waitAny(sources, until);
    }
  }

  *move(place: "local" | "remote"): Steps<void> {
    this.#checkUse();
    yield* this.#drain();
    yield* this.#cpu.settle();
    yield* this.#its.ready(this.#region, this.#cpu);
    yield* choosePlace(this.#region, place, this.#cpu);
  }

  *deregister(): Steps<void> {
    this.#checkUse();
    yield* this.#drain();
    yield* this.#its.deregister(this.#region, this.#cpu);
    this.#isDeregistered = true;
  }

  // ── the store buffer of the core (`memory: tso`) ───────────────────────────────────────────────

  get #core(): number {
    return this.#cpu.core ?? 0;
  }

  /** Returns when all stores of this core are visible to all. */
  *#drain(): Steps<void> {
    const buffer = this.#its.buffer(this.#core);
    if (buffer === undefined) return;
    yield* buffer.drained();
    if (this.#cpu.auditing) this.#cpu.note({ kind: "store-fence", core: this.#core });
    this.#throwLate();
  }

  /** Returns when no store of this core to these lines waits any more. */
  *#drainLines(pieces: readonly Piece[]): Steps<void> {
    const buffer = this.#its.buffer(this.#core);
    if (buffer === undefined) return;
    yield* this.#begin();
    for (const { line } of pieces) {
      const found = buffer.find(this.#region, { line, from: 0, to: LINE_BYTES });
      if (found !== undefined) yield* buffer.until(found.number);
    }
    this.#throwLate();
  }

  /**
   * @returns the line, with only the piece valid where it was found in the buffer; undefined: lost.
   */
  *#load(piece: Piece): Steps<Uint8Array | undefined> {
    const buffer = this.#its.buffer(this.#core);
    if (buffer === undefined) return this.#loaded(piece, yield* this.#do(piece, LOAD));
    yield* this.#begin();
    for (;;) {
      const found = buffer.find(this.#region, piece);
      if (found === undefined) {
        const data = this.#loaded(piece, yield* this.#do(piece, LOAD));
        const seen = this.#seen.get(piece.line);
        if (seen !== undefined) buffer.overlayLine(this.#region, piece.line, seen);
        return data;
      }
      if (found.isWhole) return yield* this.#forward(buffer, piece, found.store);
      yield* buffer.until(found.number);
      this.#throwLate();
    }
  }

  *#forward(
    buffer: StoreBuffer,
    piece: Piece,
    { id: store, change: { bytes } }: {
      readonly id: number;
      readonly change: { bytes: Uint8Array };
    },
  ): Steps<Uint8Array> {
    const { line, from, to } = piece, cpu = this.#cpu;
    buffer.forwards++;
    const seen = this.#seen.get(line);
    if (seen === undefined) this.#seeForwarded(piece, bytes);
    else seen.set(bytes.subarray(from, to), from);
    if (cpu.auditing) {
      const id = this.#audited(piece, LOAD, { forwarded: store });
      this.#auditEnd(id, piece, "load", { result: "done", data: bytes });
    }
    cpu.charge(this.#its.storePs);
    yield* cpu.settle();
    return bytes;
  }

  #seeForwarded({ line, from, to }: Piece, bytes: Uint8Array): void {
    const known = this.#forwarded.get(line) ?? new Uint8Array(2 * LINE_BYTES);
    known.set(bytes.subarray(from, to), from);
    known.fill(1, LINE_BYTES + from, LINE_BYTES + to);
    this.#forwarded.set(line, known);
  }

  *#store(piece: Piece, change: LineChange & { readonly kind: "write" }): Steps<void> {
    const its = { op: "store", change } as const;
    const buffer = this.#its.buffer(this.#core);
    if (buffer === undefined) {
      this.#changed(piece, its, yield* this.#do(piece, its));
      return;
    }
    const cpu = this.#cpu, region = this.#region;
    yield* this.#begin();
    yield* buffer.room();
    this.#throwLate();
    const id = this.#its.nextId();
    const core = this.#core, { line, from, to } = piece, bytes = bytesOf(change, piece);
    const range = rangeOf(piece);
    if (cpu.auditing) cpu.note({ kind: "buffered", id, region: this.name, ...range, core, bytes });
    // The program does not wait for its own store.
    this.#seen.get(line)?.set(bytes, from);
    if (this.#forwarded.get(line)?.subarray(LINE_BYTES + from, LINE_BYTES + to).includes(1)) {
      this.#seeForwarded(piece, change.bytes);
    }
    let audit = -1;
    buffer.add({
      id,
      heldUntil: this.#its.holdOf?.(cpu.program, "store") ?? 0,
      region,
      piece,
      change,
      onBegin: () => {
        if (cpu.auditing) audit = this.#audited(piece, its, { buffered: id, core });
      },
      onEnd: (result, isAgain) => {
        if (audit >= 0) this.#auditEnd(audit, piece, "store", { result });
        if (result === "done") this.#its.stored(region, line);
        else if (!isAgain) this.#late.push({ result, range });
      },
    }, cpu.now);
    cpu.charge(this.#its.storePs);
    yield* cpu.settle();
  }

  /** Pays for earlier calls, registers the region, and reports stores that failed. */
  *#begin(): Steps<void> {
    if (this.#cpu.owedPs > 0) yield* this.#cpu.settle();
    if (!this.#its.isReady(this.#region, this.#cpu)) {
      yield* this.#its.ready(this.#region, this.#cpu);
    }
    this.#throwLate();
  }

  /**
   * Reports the stores that have failed in one way; a later call reports the others.
   * @throws RegionLost, RegionFenced or RegionRefused for stores that have failed in the buffer.
   */
  #throwLate(): void {
    const [first] = this.#late;
    if (first === undefined) return;
    const { true: told = [], false: left = [] } = Object.groupBy(
      this.#late,
      ({ result }) => `${result === first.result}`,
    );
    this.#late = left;
    const ranges = told.map(({ range }) => range);
    for (const { offset } of ranges) this.#seen.delete(Math.floor(offset / LINE_BYTES));
    if (first.result === "lost") throw new RegionLost(this.name, joined(ranges));
    if (first.result === "fenced") throw new RegionFenced(this.name, joined(ranges));
    throw this.#refused();
  }

  #refused(): RegionRefused {
    return new RegionRefused(`Cannot access region ${this.name}: its card knows it no more`);
  }

  // ── one line ───────────────────────────────────────────────────────────────────────────────────

  /** @returns undefined where the line is lost. */
  #loaded({ line }: Piece, { result, data, away }: Outcome): Uint8Array | undefined {
    this.#isAway = away === true;
    if (result === "lost" || data === undefined) {
      this.#seen.delete(line);
      return undefined;
    }
    this.#seen.set(line, data);
    this.#forwarded.delete(line);
    return data;
  }

  /** Notes the end of a store or an atomic. @returns the line as it was before. */
  #changed(
    piece: Piece,
    { op, change }: LineAccess & { readonly change: LineChange },
    { result, data }: Outcome,
  ): Uint8Array | undefined {
    const { line, from } = piece;
    if (result === "lost") throw new RegionLost(this.name, [rangeOf(piece)]);
    // The program does not wait for its own store.
    const seen = op === "store" ? this.#seen.get(line) : undefined;
    if (seen !== undefined) seen.set(bytesOf(change, piece), from);
    else this.#seen.delete(line);
    this.#forwarded.delete(line);
    this.#its.stored(this.#region, line);
    return data;
  }

  *#atomic(piece: Piece, its: LineAccess & { readonly change: LineChange }): Steps<bigint> {
    if (this.#its.buffer(this.#core) !== undefined) {
      yield* this.#begin();
      yield* this.#drain();
    }
    const data = this.#changed(piece, its, yield* this.#do(piece, its));
    return data === undefined ? 0n : wordAt(data, piece.from);
  }

  /**
   * Does an access to one line, or a flush of several, pays for it, and writes its audit records.
   * An error that the host throws into the program meanwhile is thrown when the access has ended,
   * as only then its effect is known.
   */
  *#do(piece: Piece, its: LineAccess): Steps<Outcome> {
    const cpu = this.#cpu;
    if (this.#its.holdOf !== undefined) yield* this.#hold(this.#its.holdOf, piece, its);
    if (cpu.owedPs > 0) yield* cpu.settle();
    if (!this.#its.isReady(this.#region, cpu)) yield* this.#its.ready(this.#region, cpu);
    const { op, change, lines } = its;
    const { line } = piece;
    const kind = op === "load" || op === "flush" ? op : "store";
    const request: LineRequest = { op: kind, line, change, lines };
    let outcome: Outcome | undefined;
    let thrown: { readonly error: unknown } | undefined;
    for (let isAgain = false;; isAgain = true) {
      const id = cpu.auditing ? this.#audited(piece, its) : -1;
      const ticket = this.#its.begin(this.#region, request);
      outcome = this.#its.outcome(ticket);
      try {
        if (outcome === undefined) {
          const wait: Wait = { kind: "line", id: ticket, answers: true };
          do while (answered(yield wait)); while (
            (outcome = this.#its.outcome(ticket)) === undefined
          );
        }
        for (const ps of Object.values(outcome.cost)) cpu.charge(ps);
        if (cpu.owedPs > 0) yield* cpu.settle();
      } catch (error) {
        outcome ??= this.#its.outcome(ticket);
        if (outcome === undefined) throw error;
        thrown = { error };
      }
      this.#its.paid(ticket, outcome);
      if (id >= 0) this.#auditEnd(id, piece, op, outcome);
      if (outcome.result !== "refused" || thrown !== undefined || isAgain) break;
      // The card has done nothing: it has a new life, or home has taken the region back and will
      // refuse it.
      yield* this.#its.ready(this.#region, cpu);
    }
    if (thrown !== undefined) throw thrown.error;
    const { result } = outcome;
    if (result === "fenced") throw new RegionFenced(this.name, [rangeOf(piece)]);
    if (result === "refused") throw this.#refused();
    return outcome;
  }

  /** Other threads of the core may have stored meanwhile. */
  *#hold(
    holdOf: NonNullable<RegionAccess["holdOf"]>,
    piece: Piece,
    { op }: LineAccess,
  ): Steps<void> {
    const until = holdOf(this.#cpu.program, "access");
    if (until <= this.#cpu.now) return;
    yield* this.#cpu.sleep(until - this.#cpu.now);
    if (op === "add" || op === "compare-swap") yield* this.#drain();
    else yield* this.#drainLines([piece]);
  }

  /** @returns the number of its records. */
  #audited(
    piece: Piece,
    { op, change }: LineAccess,
    more?: Pick<AccessRecord, "buffered" | "forwarded" | "core">,
  ): number {
    const id = this.#its.nextId();
    const core = this.#its.buffer(this.#core) === undefined ? {} : { core: this.#core };
    const { line, from, to } = piece;
    const access: AccessRecord = {
      kind: "access",
      id,
      region: this.name,
      op,
      offset: line * LINE_BYTES + from,
      length: to - from,
      ...(change && { bytes: bytesOf(change, piece) }),
      ...(change?.kind === "compare-swap" && { compare: wordOf(change.compare) }),
      ...core,
      ...more,
    };
    this.#cpu.note(access);
    return id;
  }

  #auditEnd(
    id: number,
    { from, to }: Piece,
    op: RegionOp,
    { result, data }: Pick<Outcome, "result" | "data">,
  ): void {
    const old = result !== "done" || data === undefined || op === "store" || op === "flush"
      ? undefined
      : data.slice(from, to);
    this.#cpu.note({ kind: "accessed", id, result, ...(old && { bytes: old }) });
  }

  *#room(line: number): Steps<void> {
    for (;;) {
      yield* this.#cpu.settle();
      const freeAt = this.#its.flushRoomAt(this.#region, line);
      if (freeAt <= this.#cpu.now) return;
      this.#cpu.charge(freeAt - this.#cpu.now);
    }
  }

  // ── ranges ─────────────────────────────────────────────────────────────────────────────────────

  /** @throws RegionRefused after {@link deregister}: an access would silently register again. */
  #checkUse(): void {
    if (!this.#isDeregistered) return;
    throw new RegionRefused(
      `Cannot use region ${this.name}: this handle has deregistered it: expected a new one, ` +
        `const r = yield* cpu.region("${this.name}"), which registers it again`,
    );
  }

  #check(offset: number, length: number): void {
    this.#checkUse();
    const isRight = Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 &&
      length >= 0 && offset + length <= this.bytes;
    if (isRight) return;
    throw new RangeError(
      `Cannot access ${length} B at ${offset} of region ${this.name}: expected a range within ` +
        `its ${this.bytes} B`,
    );
  }

  /** @throws RangeError where the 8 B at `offset` are no aligned word. */
  #word(offset: number): Piece {
    this.#check(offset, 8);
    if (offset % 8 !== 0) {
      throw new RangeError(
        `Cannot do an atomic at ${offset} of region ${this.name}: expected a multiple of 8`,
      );
    }
    const from = offset % LINE_BYTES;
    return { line: Math.floor(offset / LINE_BYTES), from, to: from + 8 };
  }
}

/**
 * The bytes that a change writes into a piece; for an atomic, its operand or the value that it
 * swaps in.
 */
function bytesOf(change: LineChange, { from, to }: Piece): Uint8Array {
  switch (change.kind) {
    case "write":
      return change.bytes.subarray(from, to);
    case "add":
      return wordOf(change.operand);
    case "compare-swap":
      return wordOf(change.swap);
  }
}

function rangeOf({ line, from, to }: Piece): RegionRange {
  return { offset: line * LINE_BYTES + from, length: to - from };
}

function joined(ranges: readonly RegionRange[]): RegionRange[] {
  const all: RegionRange[] = [];
  for (const next of ranges) {
    const last = all.at(-1);
    if (last !== undefined && last.offset + last.length === next.offset) {
      all[all.length - 1] = { offset: last.offset, length: last.length + next.length };
    } else all.push(next);
  }
  return all;
}

/** A line with the bytes found in a store buffer over it: see `#forwarded`. */
function overlaid(line: Uint8Array, found: Uint8Array): Uint8Array {
  return line.map((byte, at) => found[LINE_BYTES + at] === 1 ? found[at]! : byte);
}

function differs(x: Uint8Array, y: Uint8Array, { from, to }: Piece): boolean {
  for (let at = from; at < to; at++) if (x[at] !== y[at]) return true;
  return false;
}

function wordOf(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, value), true);
  return bytes;
}

function wordAt(bytes: Uint8Array, at: number): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(at, true);
}
