/**
 * Values that eight bytes of SCM may have after a power failure, by the writes to them.
 *
 * A promised write is there, unless a later one is on top of it; any other may be there or not. One write is
 * later than another unless it was visible before that one was posted, or both are of one line, which has an
 * order.
 */

/** What the SCM writes whole or not at all, in bytes (P-41). */
export const UNIT_BYTES = 8;

/** A write, as its program declared it. Instants are places in the record's order of notes. */
export interface NotedWrite {
  /** Program and number. */
  readonly name: string;
  readonly on: string;
  readonly from: number;
  readonly to: number;
  readonly bytes: Uint8Array;
  readonly issued: Instant;
  /** Writes that have the same one are made in the order of their posting; undefined: it has none. */
  readonly line: string | undefined;
  visible: Instant | undefined;
  promised: Instant | undefined;
  /** Writes that are there wherever this one is found. */
  readonly after: NotedWrite[];
}

export interface Instant {
  readonly time: number;
  readonly node: string;
  /** Place among all notes. */
  readonly order: number;
}

/** Whether x is known to have happened before y: earlier, or before it on the same host. */
export function isBefore(x: Instant, y: Instant): boolean {
  return x.node === y.node ? x.order < y.order : x.time < y.time;
}

/** One write's part of one unit: bytes [begin, end) of it. */
interface Part {
  readonly write: NotedWrite;
  readonly begin: number;
  readonly end: number;
  readonly bytes: Uint8Array;
}

/** The bytes of a unit that a write touches. */
export function partOf(write: NotedWrite, unit: number): Part {
  const begin = Math.max(0, write.from - unit);
  const end = Math.min(UNIT_BYTES, write.to - unit);
  const from = unit + begin - write.from;
  return { write, begin, end, bytes: write.bytes.subarray(from, from + end - begin) };
}

/** Values of a unit, each once. */
class Values {
  readonly #byKey = new Map<string, Uint8Array>();

  constructor(values: Iterable<Uint8Array>) {
    for (const value of values) this.add(value);
  }

  /** @returns whether it is new. */
  add(value: Uint8Array): boolean {
    const key = keyOf(value);
    if (this.#byKey.has(key)) return false;
    this.#byKey.set(key, value);
    return true;
  }

  has(value: Uint8Array): boolean {
    return this.#byKey.has(keyOf(value));
  }

  [Symbol.iterator](): Iterator<Uint8Array> {
    return this.#byKey.values();
  }
}

function keyOf(value: Uint8Array): string {
  return String.fromCharCode(...value);
}

function applied(part: Part, value: Uint8Array): Uint8Array {
  const after = value.slice();
  after.set(part.bytes, part.begin);
  return after;
}

/** Adds all values that these writes can make, in any order and each at any time. */
function close(values: Values, parts: readonly Part[]): Values {
  const open = [...values];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    for (const part of parts) {
      const next = applied(part, value);
      if (values.add(next)) open.push(next);
    }
  }
  return values;
}

/**
 * Values that the unit at `unit` may have, which is zeros before the run: `writes` are all that touch it,
 * in the order of their posting.
 * @param without a write that is left out.
 */
export function allowedIn(
  unit: number,
  { writes, without }: {
    readonly writes: readonly NotedWrite[];
    readonly without?: NotedWrite;
  },
): Values {
  const parts = writes.filter((write) => write !== without)
    .map((write) => partOf(write, unit));
  // In the order of their posting, in which no write comes before one that it is known to follow.
  const promises = parts.filter(({ write }) => write.promised !== undefined);
  // Bytes below a promise of the whole unit do not matter.
  const first = Math.max(0, promises.findLastIndex(coversUnit));
  const settled = promises.slice(0, first);
  const onTop = () => parts.filter((part) => mayBeOnTop(part, settled));
  let values = new Values([new Uint8Array(UNIT_BYTES)]);
  for (const promise of promises.slice(first)) {
    if (!coversUnit(promise)) close(values, onTop());
    values = new Values(Array.from(values, (value) => applied(promise, value)));
    settled.push(promise);
  }
  return close(values, onTop());
}

function coversUnit({ begin, end }: Part): boolean {
  return begin === 0 && end === UNIT_BYTES;
}

/** Whether a write may be on top of all these promises. */
function mayBeOnTop({ write }: Part, promises: readonly Part[]): boolean {
  // From the end: old writes are below the latest promise.
  const above = promises.findLast((each) => each.write !== write && isBelow(write, each.write));
  return above === undefined;
}

/** Whether a write is known to have been made before another. */
function isBelow({ visible, line, issued }: NotedWrite, other: NotedWrite): boolean {
  if (line !== undefined && line === other.line) return issued.order < other.issued.order;
  return visible !== undefined && isBefore(visible, other.issued);
}

/** Whether each byte is some write's, or 0, though the unit as a whole is not. */
export function isMixed(
  unit: number,
  { writes, found }: {
    readonly writes: readonly NotedWrite[];
    readonly found: Uint8Array;
  },
): boolean {
  const parts = writes.map((write) => partOf(write, unit));
  return found.every((byte, i) =>
    byte === 0 ||
    parts.some(({ begin, end, bytes }) => i >= begin && i < end && bytes[i - begin] === byte)
  );
}
