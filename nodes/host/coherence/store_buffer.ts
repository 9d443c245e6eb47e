/**
 * The store buffers of a host's cores (`memory: tso`). A store to a shared region has ended for its
 * program when it is in its core's buffer; others see it when it has left the buffer. The machine
 * is that of Sewell, Sarkar, Owens, Zappa Nardelli and Myreen, "x86-TSO: A Rigorous and Usable
 * Programmer's Model for x86 Multiprocessors", CACM 53(7), 2010:
 *
 * - first in, first out, one at a time: stores of a core reach memory in the order of its program;
 * - a load that finds its bytes in a store of its own core has them from the newest one, else from
 *   memory, past all older stores;
 * - a store leaves at any time after it is there: here `storeBufferPs` later, and when those before
 *   it are done;
 * - MFENCE and locked instructions wait until the buffer is empty.
 *
 * A load whose bytes are partly in the newest store that has one of them waits until that has left:
 * forwarding is from one store only (Intel, Optimization Reference Manual, store forwarding).
 * Stores to private memory take effect at once while the buffer is empty, and are put behind the
 * stores that it has, so that they keep their order.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { copyOf } from "../../../fabric/base/slab.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FarResult } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { Steps } from "../cpu/program.ts";
import type { HeldStores, PrivateStore } from "../cpu/region.ts";
import { hold } from "../cpu/wait_site.ts";
import type { CoreCost } from "./home_agent.ts";
import type { Piece } from "./line_pieces.ts";

export interface RegionStore {
  /** Of its audit records. */
  readonly id: number;
  readonly region: SharedRegion;
  readonly piece: Piece;
  readonly change: LineChange & { readonly kind: "write" };
  /** The store stays at least until then; 0: no hold. */
  readonly heldUntil: Time;
  /** The store leaves the buffer: others may see it from now on. */
  readonly onBegin: () => void;
  /** @param isAgain it was refused, and begins once more when the card knows the region. */
  readonly onEnd: (result: FarResult, isAgain: boolean) => void;
}

interface Outcome {
  readonly result: FarResult;
  readonly cost: CoreCost;
}

/** The access of a store that has left; the buffer is busy while its core pays. */
interface Access {
  readonly ticket: number;
  readonly outcome: Outcome;
}

export interface StoreBufferParts {
  /** Room of a buffer, in stores to regions. */
  readonly entries: number;
  /** From a store's execution until it may leave. */
  readonly drainPs: Time;
  /** Begins the access. @returns its number, and its outcome where it has ended at once. */
  readonly begin: (store: RegionStore) => readonly [ticket: number, outcome: Outcome | undefined];
  readonly paid: (ticket: number, outcome: Outcome) => void;
  /**
   * True if the region is at home or the host's card knows it. True without a card, as an access
   * then ends as fenced.
   */
  readonly knows: (region: SharedRegion) => boolean;
  /** Calls `then`, with the time, when the card knows the region again, or never will. */
  readonly reopen: (region: SharedRegion, then: (now: Time, isKnown: boolean) => void) => void;
  /** The signal of {@link reopen}'s end. */
  readonly reopened: string;
  /** A number that a core waits for; `woken` ends the wait. */
  readonly ticket: () => number;
  readonly woken: (ticket: number) => void;
}

type Entry =
  & { readonly dueAt: Time }
  & (
    | { readonly store: RegionStore; readonly own?: undefined }
    | { readonly own: PrivateStore; readonly store?: undefined }
  );

/** A store in the buffer, and its number for {@link StoreBuffer.until}. */
interface Found {
  readonly store: RegionStore;
  readonly number: number;
  /** True if the store has all bytes that were looked for. */
  readonly isWhole: boolean;
}

export class StoreBuffer implements HeldStores {
  stores = 0;
  forwards = 0;
  /** Waits of the core for its buffer, and the most stores to regions that it has held. */
  waits = 0;
  most = 0;
  readonly #parts: StoreBufferParts;
  readonly #entries = new Fifo<Entry>();
  #inRegions = 0;
  #private = 0;
  /** The access of the first entry while it is under way; −1: it has not begun. */
  #ticket = -1;
  /** The first entry was refused, and has been tried again. */
  #isAgain = false;
  #isReopening = false;
  /** When the next access may begin, and the last one, which is paid until then. */
  #freeAt: Time = 0;
  #paying: Access | undefined;
  #waiter: { readonly ticket: number; readonly number: number } | undefined;

  constructor(parts: StoreBufferParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#inRegions + this.#private;
  }

  get isFull(): boolean {
    return this.#inRegions >= this.#parts.entries;
  }

  get hasPrivate(): boolean {
    return this.#private > 0;
  }

  /** When {@link run} has something to do. */
  get nextAt(): Time {
    if (this.#paying !== undefined) return this.#freeAt;
    const head = this.#entries.peek();
    if (head === undefined || this.#ticket >= 0 || this.#isReopening) return NEVER;
    return Math.max(head.dueAt, this.#freeAt);
  }

  // ── the core's side
  // ─────────────────────────────────────────────────────────────────────────────

  add(store: RegionStore, now: Time): void {
    this.stores++;
    this.#inRegions++;
    this.most = Math.max(this.most, this.#inRegions);
    const dueAt = Math.max(now + this.#parts.drainPs, store.heldUntil);
    this.#entries.push({ dueAt, store });
  }

  addPrivate({ address, bytes, done }: PrivateStore): void {
    this.#private++;
    // The program may change its bytes before they leave.
    const own = { address, bytes: copyOf(bytes), done };
    this.#entries.push({ dueAt: 0, own });
  }

  /** The newest store that has a byte of the piece, and whether it has all; undefined where memory has the piece. */
  find(region: SharedRegion, piece: Piece): Found | undefined {
    const entries = this.#entries;
    for (let number = entries.end - 1; number >= entries.first; number--) {
      const { store } = entries.at(number)!;
      if (store === undefined || !overlaps(store, region, piece)) continue;
      const isWhole = store.piece.from <= piece.from && store.piece.to >= piece.to;
      return { store, number, isWhole };
    }
    return undefined;
  }

  /** Puts the stores to a line over its bytes: its core does not wait for them as for others' changes. */
  overlayLine(region: SharedRegion, line: number, bytes: Uint8Array): void {
    const entries = this.#entries, whole = { line, from: 0, to: LINE_BYTES };
    for (let number = entries.first; number < entries.end; number++) {
      const { store } = entries.at(number)!;
      if (store === undefined || !overlaps(store, region, whole)) continue;
      const { from, to } = store.piece;
      bytes.set(store.change.bytes.subarray(from, to), from);
    }
  }

  overlay(address: number, bytes: Uint8Array): void {
    if (this.#private === 0) return;
    const entries = this.#entries;
    for (let number = entries.first; number < entries.end; number++) {
      const { own } = entries.at(number)!;
      if (own === undefined) continue;
      const from = Math.max(address, own.address);
      const to = Math.min(address + bytes.length, own.address + own.bytes.length);
      if (from < to) {
        bytes.set(own.bytes.subarray(from - own.address, to - own.address), from - address);
      }
    }
  }

  *drained(): Steps<void> {
    yield* this.until(this.#entries.end - 1);
  }

  *privateDrained(): Steps<void> {
    if (this.#private > 0) yield* this.drained();
  }

  *room(): Steps<void> {
    while (this.isFull) yield* this.until(this.#entries.first);
  }

  *until(number: number): Steps<void> {
    if (number < this.#entries.first) return;
    this.waits++;
    const { ticket, reopened: name } = this.#parts;
    while (number >= this.#entries.first) {
      if (this.#isReopening) {
        // The driver may need this core for it.
        const sources = [{ kind: "signal", name }] as const;
        yield* hold({ kind: "any", sources, deadline: NEVER, answers: true });
        continue;
      }
      assert(this.#waiter === undefined, "A core waits for its store buffer twice");
      const id = ticket();
      this.#waiter = { ticket: id, number };
      yield* hold({ kind: "line", id, answers: true });
    }
  }

  // ── the memory's side
  // ───────────────────────────────────────────────────────────────────────────

  run(now: Time): void {
    while (this.nextAt <= now) {
      const paying = this.#paying;
      if (paying !== undefined) {
        this.#paying = undefined;
        this.#parts.paid(paying.ticket, paying.outcome);
        continue;
      }
      const { store, own } = this.#entries.peek()!;
      if (own !== undefined) {
        own.done(own.bytes);
        this.#private--;
        this.#left();
        continue;
      }
      if (this.#parts.knows(store.region)) this.#begin(store, now);
      else this.#reopen(store);
    }
  }

  #begin(store: RegionStore, now: Time): void {
    store.onBegin();
    const [ticket, outcome] = this.#parts.begin(store);
    if (outcome === undefined) this.#ticket = ticket;
    else this.#ended(store, { ticket, outcome }, now);
  }

  /** The card has a new life, or home has taken the region back, and may refuse it. */
  #reopen(store: RegionStore): void {
    this.#isReopening = true;
    // Its core now waits in another way.
    this.#wake();
    this.#parts.reopen(store.region, (at, isKnown) => {
      this.#isReopening = false;
      this.#freeAt = at;
      if (isKnown) return;
      store.onBegin();
      this.#end(store, "refused");
    });
  }

  /** An access has ended. @returns whether it was this buffer's. */
  ended(ticket: number, outcome: Outcome, now: Time): boolean {
    if (ticket !== this.#ticket) return false;
    this.#ticket = -1;
    this.#ended(this.#entries.peek()!.store!, { ticket, outcome }, now);
    return true;
  }

  #ended(store: RegionStore, access: Access, now: Time): void {
    const { result, cost } = access.outcome;
    this.#freeAt = now + Object.values(cost).reduce((sum, ps) => sum + ps, 0);
    this.#paying = access;
    if (result === "refused" && !this.#isAgain) {
      // The card has done nothing, and does not know the region any more.
      this.#isAgain = true;
      store.onEnd(result, true);
    } else this.#end(store, result);
  }

  #end(store: RegionStore, result: FarResult): void {
    this.#isAgain = false;
    this.#inRegions--;
    store.onEnd(result, false);
    this.#left();
  }

  #left(): void {
    this.#entries.shift();
    if (this.#waiter !== undefined && this.#waiter.number < this.#entries.first) this.#wake();
  }

  #wake(): void {
    const waiter = this.#waiter;
    if (waiter === undefined) return;
    this.#waiter = undefined;
    this.#parts.woken(waiter.ticket);
  }
}

function overlaps(store: RegionStore, region: SharedRegion, { line, from, to }: Piece): boolean {
  const { piece } = store;
  return store.region === region && piece.line === line && piece.from < to && piece.to > from;
}

/** The buffers of a host's cores, by the core's index: each is made when its core first stores to a region. */
export class StoreBuffers {
  readonly #parts: StoreBufferParts;
  readonly #cores = new Map<number, StoreBuffer>();

  constructor(parts: StoreBufferParts) {
    this.#parts = parts;
  }

  of(core: number): StoreBuffer {
    const known = this.#cores.get(core);
    if (known !== undefined) return known;
    const made = new StoreBuffer(this.#parts);
    this.#cores.set(core, made);
    return made;
  }

  /** The buffer of a core, if it has an entry. */
  held(core: number): StoreBuffer | undefined {
    const known = this.#cores.get(core);
    return known === undefined || known.size === 0 ? undefined : known;
  }

  get size(): number {
    return this.#sum(({ size }) => size);
  }

  get nextAt(): Time {
    let next = NEVER;
    for (const { nextAt } of this.#cores.values()) if (nextAt < next) next = nextAt;
    return next;
  }

  run(now: Time): void {
    for (const buffer of this.#cores.values()) buffer.run(now);
  }

  ended(ticket: number, outcome: Outcome, now: Time): boolean {
    for (const buffer of this.#cores.values()) if (buffer.ended(ticket, outcome, now)) return true;
    return false;
  }

  statistics(): Record<string, number> {
    return {
      storeBufferStores: this.#sum(({ stores }) => stores),
      storeBufferForwards: this.#sum(({ forwards }) => forwards),
      storeBufferWaits: this.#sum(({ waits }) => waits),
      storeBufferMost: Math.max(0, ...[...this.#cores.values()].map(({ most }) => most)),
    };
  }

  #sum(of: (buffer: StoreBuffer) => number): number {
    let sum = 0;
    for (const buffer of this.#cores.values()) sum += of(buffer);
    return sum;
  }
}
