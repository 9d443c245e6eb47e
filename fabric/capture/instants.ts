/**
 * The observations of all partitions in one order that does not depend on how a rack is packed: by
 * time, then by node, and those of one node as it made them. Only one instant is held at a time.
 */
import type { Time } from "../base/time.ts";
import type { Observation } from "./observation.ts";

/** What one event did at a node. */
export interface SeenEvent {
  readonly time: Time;
  readonly node: number;
  readonly seen: readonly Observation[];
}

/** A partition's observations, in the order of their making: times never fall. */
export type Source = Iterable<Observation>;

interface Reader {
  readonly rest: Iterator<Observation>;
  first: Observation;
}

/** All events of these sources in which something was seen. */
export function* eventsOf(sources: readonly Source[]): Generator<SeenEvent> {
  let readers: Reader[] = [];
  for (const source of sources) {
    const rest = source[Symbol.iterator]();
    const { done, value } = rest.next();
    if (!done) readers.push({ rest, first: value });
  }
  while (readers.length > 0) {
    const time = readers.reduce((least, { first }) => Math.min(least, first.time), Infinity);
    const instant: Observation[] = [];
    const left: Reader[] = [];
    for (const reader of readers) {
      if (takeInstant(reader, time, instant)) left.push(reader);
    }
    readers = left;
    yield* eventsOfInstant(instant);
  }
}

/** Moves what a reader has of this time. @returns whether it has more after it. */
function takeInstant(reader: Reader, time: Time, to: Observation[]): boolean {
  while (reader.first.time === time) {
    to.push(reader.first);
    const { done, value } = reader.rest.next();
    if (done) return false;
    reader.first = value;
  }
  return true;
}

function* eventsOfInstant(instant: readonly Observation[]): Generator<SeenEvent> {
  // A node lives in one partition at a time, and sorting is stable.
  const sorted = instant.toSorted((x, y) => x.node - y.node);
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    const { time, node, event } = sorted[from]!;
    while (sorted[to]?.node === node && sorted[to]?.event === event) to++;
    yield { time, node, seen: sorted.slice(from, to) };
  }
}
