/**
 * The total order of events: (time, kind, source, counter); the counter restarts at 0 with each
 * life, and later lives order after earlier ones. So a scenario and a seed give the same digest
 * with any packing.
 */
import { assert, fail } from "../base/assert.ts";
import { NEVER, type Time } from "../base/time.ts";
import type { Input } from "../node.ts";

/**
 * In their order within one instant: power goes off before it comes on, a cable goes down or up
 * before anything arrives over it, and everything arrives before a deadline.
 */
export const EVENT_KINDS = {
  /** The present life has no event at this instant or later. */
  powerOff: 0,
  powerOn: 1,
  link: 2,
  run: 3,
  message: 4,
  wake: 5,
  /** A cable releases a held frame; no node is notified. */
  release: 6,
  /**
   * Bytes of SCM become durable with their value at the end of the instant; no node is notified.
   */
  writeback: 7,
} as const;

export interface Event {
  readonly time: Time;
  readonly kind: number;
  readonly source: number;
  /** Events that `source` has caused; unique per (source, life, kind). */
  readonly counter: number;
  readonly target: number;
  /** A node does not receive events for its earlier life. */
  readonly sourceLife: number;
  readonly targetLife: number;
  readonly input: Input;
}

export function ownEvent(
  node: number,
  life: number,
  { time, kind, counter, input }: Pick<Event, "time" | "kind" | "counter" | "input">,
): Event {
  return {
    time,
    kind,
    source: node,
    counter,
    target: node,
    sourceLife: life,
    targetLife: life,
    input,
  };
}

/** Negative where `x` comes first. Two events with one key are a bug in the source's counter. */
export function compareEvents(x: Event, y: Event): number {
  const order = x.time - y.time || x.kind - y.kind || x.source - y.source ||
    x.counter - y.counter || x.sourceLife - y.sourceLife || x.target - y.target;
  if (order === 0 && x !== y) fail(`Two events have one key: ${x.time}/${x.kind}/${x.source}`);
  return order;
}

/** Four times fit into one or two cache lines. */
const ARITY = 4;
const FIRST_CAPACITY = 64;
/** Kind, source and counter as one whole number with the same order: 3 + 14 + 36 bits. */
const SOURCES_MAX = 2 ** 14;
const COUNTERS_MAX = 2 ** 36;

/**
 * It rejects an event before the current time. Times and ranks are in separate arrays, so that
 * finding the first event touches no event object, which in a large rack has left the CPU cache.
 * The heap moves places in `#events`: numbers need no write barrier of the garbage collector.
 */
export class EventQueue {
  #times = new Float64Array(FIRST_CAPACITY);
  #ranks = new Float64Array(FIRST_CAPACITY);
  #places = Int32Array.from({ length: FIRST_CAPACITY }, (_, place) => place);
  readonly #events: (Event | undefined)[] = [];
  #size = 0;
  #now: Time = 0;

  get nextTime(): Time {
    return this.#size === 0 ? NEVER : this.#times[0]!;
  }

  get size(): number {
    return this.#size;
  }

  /** In no order. */
  visit(see: (event: Event) => void): void {
    for (let at = 0; at < this.#size; at++) see(this.#events[this.#places[at]!]!);
  }

  /** The time of the last removed event: an earlier event is rejected. */
  get now(): Time {
    return this.#now;
  }

  push(event: Event): void {
    const { time } = event;
    if (!(time >= this.#now)) fail(`Event at ${time} ps is before ${this.#now} ps`);
    if (this.#size === this.#times.length) this.#grow();
    const times = this.#times, ranks = this.#ranks, places = this.#places;
    const rank = rankOf(event);
    let at = this.#size++;
    const place = places[at]!;
    this.#events[place] = event;
    while (at > 0) {
      const parent = Math.floor((at - 1) / ARITY);
      if (times[parent]! < time) break;
      if (times[parent] === time && this.#isBefore(parent, rank, place)) break;
      times[at] = times[parent]!;
      ranks[at] = ranks[parent]!;
      places[at] = places[parent]!;
      at = parent;
    }
    times[at] = time;
    ranks[at] = rank;
    places[at] = place;
  }

  pop(): Event {
    assert(this.#size > 0, "The event queue is empty");
    const place = this.#places[0]!;
    const first = this.#events[place]!;
    this.#events[place] = undefined;
    this.#now = this.#times[0]!;
    const last = --this.#size;
    if (last > 0) this.#sink(this.#times[last]!, this.#ranks[last]!, this.#places[last]!);
    this.#places[last] = place;
    return first;
  }

  #sink(time: Time, rank: number, place: number): void {
    const times = this.#times, ranks = this.#ranks, places = this.#places;
    const size = this.#size;
    let at = 0;
    for (;;) {
      const first = ARITY * at + 1;
      if (first >= size) break;
      const end = first + ARITY < size ? first + ARITY : size;
      let least = first, leastTime = times[first]!;
      for (let child = first + 1; child < end; child++) {
        const childTime = times[child]!;
        if (childTime > leastTime) continue;
        if (childTime === leastTime && !this.#isBefore(child, ranks[least]!, places[least]!)) {
          continue;
        }
        least = child;
        leastTime = childTime;
      }
      if (time < leastTime) break;
      if (time === leastTime && !this.#isBefore(least, rank, place)) break;
      times[at] = leastTime;
      ranks[at] = ranks[least]!;
      places[at] = places[least]!;
      at = least;
    }
    times[at] = time;
    ranks[at] = rank;
    places[at] = place;
  }

  #isBefore(at: number, rank: number, place: number): boolean {
    const own = this.#ranks[at]!;
    if (own !== rank) return own < rank;
    return compareEvents(this.#events[this.#places[at]!]!, this.#events[place]!) < 0;
  }

  #grow(): void {
    const length = 2 * this.#times.length;
    const times = new Float64Array(length), ranks = new Float64Array(length);
    times.set(this.#times);
    ranks.set(this.#ranks);
    const places = Int32Array.from({ length }, (_, place) => place);
    places.set(this.#places);
    this.#times = times;
    this.#ranks = ranks;
    this.#places = places;
  }
}

function rankOf({ kind, source, counter }: Event): number {
  if (source >= SOURCES_MAX || counter >= COUNTERS_MAX) {
    fail(`Event ${counter} of node ${source} is beyond what the queue can order`);
  }
  return (kind * SOURCES_MAX + source) * COUNTERS_MAX + counter;
}
