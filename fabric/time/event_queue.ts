/**
 * The order of events, written in this one place: (time, kind, source, counter); a source that lost
 * power counts from 0 again, so its life comes next.
 *
 * The order depends only on what the models did, never on which process an event came from or when
 * its bytes arrived, so the same scenario and seed give the same digest however the rack is packed.
 */
import { assert, fail } from "../assert.ts";
import { NEVER, type Time } from "./time.ts";
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

/**
 * A heap of events that refuses to run back in time. Times stand by themselves in a row: nearly all
 * comparisons end with them, and an event that is not touched costs no cache miss.
 */
export class EventQueue {
  #times = new Float64Array(FIRST_CAPACITY);
  readonly #events: Event[] = [];
  #now: Time = 0;

  get size(): number {
    return this.#events.length;
  }

  /** The time of the first event, {@link NEVER} when there is none. */
  get nextTime(): Time {
    return this.#events.length === 0 ? NEVER : this.#times[0]!;
  }

  /** The time of the last event that was taken out: nothing earlier may be put in. */
  get now(): Time {
    return this.#now;
  }

  push(event: Event): void {
    const { time } = event;
    if (!(time >= this.#now)) fail(`Event at ${time} ps is before ${this.#now} ps`);
    const events = this.#events;
    let at = events.length;
    events.push(event);
    if (at === this.#times.length) this.#grow();
    const times = this.#times;
    while (at > 0) {
      const parent = Math.floor((at - 1) / ARITY);
      if (!isBefore(event, events[parent]!, time - times[parent]!)) break;
      events[at] = events[parent]!;
      times[at] = times[parent]!;
      at = parent;
    }
    events[at] = event;
    times[at] = time;
  }

  /** Removes the first event. Asks for one only after looking at {@link nextTime}. */
  pop(): Event {
    const events = this.#events;
    const first = events[0];
    assert(first !== undefined, "The event queue is empty");
    this.#now = this.#times[0]!;
    const lastTime = this.#times[events.length - 1]!;
    const last = events.pop()!;
    if (events.length > 0) this.#sink(last, lastTime);
    return first;
  }

  /** Puts the event where the first one was, and down to where it belongs. */
  #sink(event: Event, time: Time): void {
    const events = this.#events, times = this.#times;
    const size = events.length;
    let at = 0;
    for (;;) {
      const first = ARITY * at + 1;
      if (first >= size) break;
      const end = first + ARITY < size ? first + ARITY : size;
      let least = first;
      for (let child = first + 1; child < end; child++) {
        if (isBefore(events[child]!, events[least]!, times[child]! - times[least]!)) least = child;
      }
      if (isBefore(event, events[least]!, time - times[least]!)) break;
      events[at] = events[least]!;
      times[at] = times[least]!;
      at = least;
    }
    events[at] = event;
    times[at] = time;
  }

  #grow(): void {
    const times = new Float64Array(2 * this.#times.length);
    times.set(this.#times);
    this.#times = times;
  }
}

/** Whether `x` comes before `y`, of whose times the difference is known already. */
function isBefore(x: Event, y: Event, apart: number): boolean {
  return apart !== 0 ? apart < 0 : compareEvents(x, y) < 0;
}
