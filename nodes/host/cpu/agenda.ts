/**
 * Selects a host's next thread. Each resumes at its own time (`resumeAt`); of the due ones whose
 * core is free, the first ready has the turn (`readyAt`, then `order`). Threads that are due on a
 * busy core wait in that core's queue and share one time, so that a turn costs one heap operation,
 * however many wait.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";

export class PlacedHeap<Item extends { place: number }> {
  readonly #isBefore: (x: Item, y: Item) => boolean;
  readonly #items: Item[] = [];

  constructor(isBefore: (x: Item, y: Item) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): Item | undefined {
    // A read beyond the end of an array is slow.
    return this.#items.length === 0 ? undefined : this.#items[0];
  }

  /** The first of the other items; undefined where there is none. */
  firstBut(item: Item): Item | undefined {
    const items = this.#items, first = items[0];
    if (first !== item) return first;
    const left = items[1], right = items[2];
    return left !== undefined && right !== undefined && this.#isBefore(right, left) ? right : left;
  }

  get size(): number {
    return this.#items.length;
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#settle(item, this.#items.length - 1);
  }

  remove(item: Item): void {
    const last = this.#items.pop()!;
    if (last !== item) this.#settle(last, item.place);
    item.place = -1;
  }

  [Symbol.iterator](): Iterator<Item> {
    return this.#items[Symbol.iterator]();
  }

  *upTo(holds: (item: Item) => boolean): Generator<Item> {
    const places = [0];
    for (let place = places.pop(); place !== undefined; place = places.pop()) {
      const item = this.#items[place];
      if (item === undefined || !holds(item)) continue;
      yield item;
      places.push(2 * place + 1, 2 * place + 2);
    }
  }

  #settle(item: Item, from: number): void {
    const items = this.#items;
    let place = from;
    for (let up = (place - 1) >> 1; place > 0; up = (place - 1) >> 1) {
      const above = items[up]!;
      if (!this.#isBefore(item, above)) break;
      items[place] = above;
      above.place = place;
      place = up;
    }
    for (;;) {
      let down = 2 * place + 1;
      if (down >= items.length) break;
      if (down + 1 < items.length && this.#isBefore(items[down + 1]!, items[down]!)) down++;
      const below = items[down]!;
      if (!this.#isBefore(below, item)) break;
      items[place] = below;
      below.place = place;
      place = down;
    }
    items[place] = item;
    item.place = place;
  }
}

export interface Core {
  readonly index: number;
  busyUntil: Time;
  cpuPs: Time;
  readonly queue: PlacedHeap<Turn>;
  /** When the queue's first thread is considered; NEVER where `wake` ends that. */
  queueAt: Time;
}

export interface Turn {
  readonly core: Core;
  readonly order: number;
  readyAt: Time;
  /** When its wait ends, at the latest; a queued thread resumes at {@link Core.queueAt}. */
  at: Time;
  isQueued: boolean;
  place: number;
}

function isReadyBefore(x: Turn, y: Turn): boolean {
  return x.readyAt < y.readyAt || (x.readyAt === y.readyAt && x.order < y.order);
}

export class Agenda<Of extends Turn> {
  readonly cores: readonly Core[];
  readonly #later = new PlacedHeap<Turn>((x, y) => x.at < y.at);
  #queued = 0;

  constructor(cores: number) {
    this.cores = Array.from({ length: cores }, (_, index): Core => {
      const queue = new PlacedHeap<Turn>(isReadyBefore);
      return { index, busyUntil: 0, cpuPs: 0, queue, queueAt: NEVER };
    });
  }

  /** When a thread resumes or finds its core busy; NEVER where none does. */
  get nextAt(): Time {
    let next = this.#later.first?.at ?? NEVER;
    if (this.#queued === 0) return next;
    for (const { queue, queueAt } of this.cores) {
      if (queue.size > 0 && queueAt < next) next = queueAt;
    }
    return next;
  }

  /** {@link nextAt} of all threads but one. */
  nextBut(turn: Of): Time {
    let next = this.#later.firstBut(turn)?.at ?? NEVER;
    if (this.#queued === 0) return next;
    for (const { queue, queueAt } of this.cores) {
      if (queue.firstBut(turn) !== undefined && queueAt < next) next = queueAt;
    }
    return next;
  }

  resumeAt({ isQueued, core, at }: Of): Time {
    return isQueued ? core.queueAt : at;
  }

  /** `at` is NEVER where only an event ends the wait. */
  move(turn: Of, at: Time): void {
    this.leave(turn);
    turn.at = at;
    if (at < NEVER) this.#later.push(turn);
  }

  leave(turn: Of): void {
    if (turn.place >= 0) (turn.isQueued ? turn.core.queue : this.#later).remove(turn);
    if (turn.isQueued) this.#queued--;
    turn.isQueued = false;
  }

  *due(now: Time): Generator<Of> {
    yield* this.#later.upTo(({ at }) => at <= now) as Iterable<Of>;
    for (const { queue, queueAt } of this.cores) {
      if (queueAt <= now) yield* queue as Iterable<Turn> as Iterable<Of>;
    }
  }

  /** @returns undefined where no due thread has a free core. */
  next(now: Time): Of | undefined {
    const only = this.#queued === 0 && this.#later.size === 1 ? this.#later.first! : undefined;
    if (only !== undefined && (only.at > now || only.core.busyUntil <= now)) {
      return only.at > now ? undefined : only as Of;
    }
    for (
      let turn = this.#later.first;
      turn !== undefined && turn.at <= now;
      turn = this.#later.first
    ) {
      const { core } = turn;
      this.#later.remove(turn);
      if (core.queue.size === 0) core.queueAt = now;
      core.queue.push(turn);
      turn.isQueued = true;
      this.#queued++;
    }
    if (this.#queued === 0) return undefined;
    let first: Turn | undefined;
    for (const core of this.cores) {
      const turn = core.queue.first;
      if (turn === undefined || core.queueAt > now) continue;
      if (core.busyUntil > now) core.queueAt = core.busyUntil;
      else if (first === undefined || isReadyBefore(turn, first)) first = turn;
    }
    return first as Of | undefined;
  }

  wake(core: Core, now: Time): void {
    if (core.queue.size > 0 && core.queueAt === NEVER) core.queueAt = now;
  }
}
