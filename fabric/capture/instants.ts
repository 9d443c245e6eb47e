/**
 * Merges observations in an order that packing does not change: by time, then by node, then as they
 * were made.
 */
import type { Time } from "../base/time.ts";
import type { Observation } from "./observation.ts";

export interface SeenEvent {
  readonly time: Time;
  readonly node: number;
  readonly seen: readonly Observation[];
}

/** Of one partition, as they were made: times never decrease. */
export type Source = Iterable<Observation>;

interface Reader {
  readonly rest: Iterator<Observation>;
  first: Observation;
}

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
  // A node is in one partition at a time, and sorting is stable.
  const sorted = instant.toSorted((x, y) => x.node - y.node);
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    const { time, node, event } = sorted[from]!;
    while (sorted[to]?.node === node && sorted[to]?.event === event) to++;
    yield { time, node, seen: sorted.slice(from, to) };
  }
}
