/**
 * the RNIC's cache of queue information: a queue's entries of the three spaces. Pinned
 * entries stay, even beyond its size.
 */
import type { QueueCachePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { QueueKind, QueueState } from "../../../fabric/wire/host_bus/queue_information.ts";

export interface QueueEntry {
  readonly queue: number;
  readonly kind: QueueKind;
  readonly owner: number;
  wqeAddress: number;
  indexAddress: number;
  depth: number;
  unitBytes: number;
  state: QueueState;
  valid: boolean;
  own: number;
  host: number;
  stamp: Time;
  /** a unit may have held two WQEs already, or that is not known. */
  recycled: boolean;
  /** Q-10, classic scheme: a doorbell was handled after the last read of the pointer. */
  rung: boolean;
  pins: number;
  dirty: boolean;
  told: number;
  readonly cachedAt: Time;
  place: number;
}

export class QueueCache {
  readonly #plan: QueueCachePlan;
  readonly #rng: Rng;
  readonly #entries = new Map<number, QueueEntry>();
  readonly #places: QueueEntry[] = [];

  constructor(plan: QueueCachePlan, rng: Rng) {
    this.#plan = plan;
    this.#rng = rng;
  }

  get isAbsent(): boolean {
    return this.#plan.entries === 0;
  }

  get size(): number {
    return this.#entries.size;
  }

  find(queue: number): QueueEntry | undefined {
    return this.#entries.get(queue);
  }

  /**
   * @returns the entries to be written back.
   */
  insert(entry: QueueEntry, now: Time): QueueEntry[] {
    const evicted: QueueEntry[] = [];
    // Pinned entries may have made the cache exceed its size.
    while (this.#entries.size >= this.#plan.entries) {
      const gone = this.#makeRoom(now);
      if (gone.length === 0) break;
      evicted.push(...gone);
    }
    this.#entries.set(entry.queue, entry);
    entry.place = this.#places.length;
    this.#places.push(entry);
    return evicted;
  }

  remove(queue: number): void {
    const entry = this.#entries.get(queue);
    if (entry !== undefined) this.#drop(entry);
  }

  #makeRoom(now: Time): QueueEntry[] {
    const { evict, amount } = this.#plan;
    switch (evict) {
      case "oldest":
        return this.#evictOldest(1);
      case "several-oldest":
        return this.#evictOldest(Math.max(1, amount));
      case "older-than":
        return this.#evictOlderThan(now - amount);
      case "random":
        return this.#evictRandom(Math.max(1, amount));
    }
  }

  #evictOldest(amount: number): QueueEntry[] {
    const evicted: QueueEntry[] = [];
    for (const entry of this.#entries.values()) {
      if (entry.pins > 0) continue;
      evicted.push(entry);
      if (evicted.length === amount) break;
    }
    for (const entry of evicted) this.#drop(entry);
    return evicted;
  }

  #evictOlderThan(time: Time): QueueEntry[] {
    const evicted: QueueEntry[] = [];
    for (const entry of this.#entries.values()) {
      if (entry.cachedAt >= time) break;
      if (entry.pins === 0) evicted.push(entry);
    }
    if (evicted.length === 0) return this.#evictOldest(1);
    for (const entry of evicted) this.#drop(entry);
    return evicted;
  }

  #evictRandom(amount: number): QueueEntry[] {
    const evicted: QueueEntry[] = [];
    // Pinned entries are few: a draw that hits one goes on to its neighbours.
    while (evicted.length < amount && this.#places.length > 0) {
      const start = this.#rng.below(this.#places.length);
      const entry = this.#unpinnedFrom(start);
      if (entry === undefined) break;
      this.#drop(entry);
      evicted.push(entry);
    }
    return evicted;
  }

  #unpinnedFrom(start: number): QueueEntry | undefined {
    const places = this.#places;
    for (let i = 0; i < places.length; i++) {
      const entry = places[(start + i) % places.length]!;
      if (entry.pins === 0) return entry;
    }
    return undefined;
  }

  #drop(entry: QueueEntry): void {
    this.#entries.delete(entry.queue);
    const last = this.#places.pop()!;
    if (last !== entry) {
      this.#places[entry.place] = last;
      last.place = entry.place;
    }
  }
}
