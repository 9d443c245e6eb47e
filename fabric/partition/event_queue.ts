/**
 * The order of events, written in this one place: (time, kind, source, counter); a source that lost
 * power counts from 0 again, so its life comes next.
 *
 * The order depends only on what the models did, never on which process an event came from or when
 * its bytes arrived, so the same scenario and seed give the same digest however the rack is packed.
 */
import { assert, fail } from "../base/assert.ts";
import { NEVER, type Time } from "../base/time.ts";
import type { Input } from "../node.ts";

/**
 * What an event is, in the order in which events of one instant happen: power goes off before it
 * comes on, a cable goes down or up before anything arrives over it, and everything arrives before a
 * node's own deadline is served.
 */
export const EVENT_KINDS = {
  /** The node loses power: nothing of this instant or later happens to this life of it. */
  powerOff: 0,
  powerOn: 1,
  link: 2,
  /** Somebody outside starts a program on a host. */
  run: 3,
  message: 4,
  wake: 5,
  /** A cable has held a frame back for long enough: no node hears of it. */
  release: 6,
  /** Bytes of a host's SCM get there early, as they are at the end of this instant: nobody notices. */
  writeback: 7,
} as const;

/** One thing that happens to one node. `source` and `target` are node indexes of the rack's plan. */
export interface Event {
  readonly time: Time;
  /** One of {@link EVENT_KINDS}. */
  readonly kind: number;
  readonly source: number;
  /** Counts what `source` has caused; unique per (source, life, kind). */
  readonly counter: number;
  readonly target: number;
  /** Which lives of source and target it is between: a node that was off hears nothing old. */
  readonly sourceLife: number;
  readonly targetLife: number;
  readonly input: Input;
}

/** Negative where `x` comes first. Two events of one key are a bug in whoever counted. */
export function compareEvents(x: Event, y: Event): number {
  const order = x.time - y.time || x.kind - y.kind || x.source - y.source ||
    x.counter - y.counter || x.sourceLife - y.sourceLife || x.target - y.target;
  if (order === 0 && x !== y) fail(`Two events have one key: ${x.time}/${x.kind}/${x.source}`);
  return order;
}

/** Children of a place in the heap: four times lie in one or two lines of a processor's cache. */
const ARITY = 4;
const FIRST_CAPACITY = 64;
/** Kind, source and counter as one whole number that orders like the three: 3 + 14 + 36 bits. */
const SOURCES_MAX = 2 ** 14;
const COUNTERS_MAX = 2 ** 36;

/**
 * A heap of events that refuses to run back in time. Times and ranks stand by themselves in rows, so
 * that looking for the first event touches no other: in a large rack those have left the processor's
 * cache since they were made. Events stay where they were put, in `#events`, and the heap moves their
 * places there, which are no pointers that a garbage collector has to be told of.
 */
export class EventQueue {
  #times = new Float64Array(FIRST_CAPACITY);
  #ranks = new Float64Array(FIRST_CAPACITY);
  /** Places in `#events`: those of the heap, then those that are free. */
  #places = Int32Array.from({ length: FIRST_CAPACITY }, (_, place) => place);
  readonly #events: (Event | undefined)[] = [];
  #size = 0;
  #now: Time = 0;

  get size(): number {
    return this.#size;
  }

  /** The time of the first event, {@link NEVER} when there is none. */
  get nextTime(): Time {
    return this.#size === 0 ? NEVER : this.#times[0]!;
  }

  /** The time of the last event that was taken out: nothing earlier may be put in. */
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

  /** Removes the first event. Asks for one only after looking at {@link nextTime}. */
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

  /** Puts the event where the first one was, and down to where it belongs. */
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

  /** Whether what stands at `at` in the heap comes before an event of the same time. */
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
