/**
 * Values that eight bytes of SCM may have after a power failure. A promised write is present,
 * unless a later one overwrote it; any other may be present or not. One write is later than another
 * unless it was visible before that one was posted, or both are of one line, which has an order.
 */

/** The SCM writes them whole or not at all (P-41). */
export const UNIT_BYTES = 8;

/** Instants are places in the record's order of notes. */
export interface NotedWrite {
  readonly name: string;
  readonly on: string;
  readonly from: number;
  readonly to: number;
  readonly bytes: Uint8Array;
  readonly issued: Instant;
  /** Writes of one line are made in the order of their posting; undefined: no line. */
  readonly line: string | undefined;
  visible: Instant | undefined;
  promised: Instant | undefined;
  /** Present wherever this one is found. */
  readonly after: NotedWrite[];
}

export interface Instant {
  readonly time: number;
  readonly node: string;
  /** Place among all notes. */
  readonly order: number;
}

/** x is known to have happened before y: earlier, or before it on the same host. */
export function isBefore(x: Instant, y: Instant): boolean {
  return x.node === y.node ? x.order < y.order : x.time < y.time;
}

/** Bytes [begin, end) of a unit. */
export interface Part {
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

/** The first place at which `holds` is true, as it is at all later ones; `length`: none. */
export function firstPlace(length: number, holds: (place: number) => boolean): number {
  let from = 0, to = length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

/**
 * Writes to the same units, and their known order: before another of its line that was posted
 * later, and before one that was posted when it was visible.
 */
export interface WriteOrder {
  /**
   * Promised writes, in an order of posting in which none comes before one that it is known to
   * follow.
   */
  readonly promised: readonly NotedWrite[];
  /**
   * By number n: the writes that may have been made after the first n promises, and are known to be
   * below the next. Each write is there once.
   */
  readonly behind: readonly (readonly NotedWrite[])[];
}

/** @param writes in the order of their posting. Later promises are no part of it. */
export function orderOf(writes: readonly NotedWrite[]): WriteOrder {
  const promised = writes.filter((write) => write.promised !== undefined);
  const places = [...promised.keys()];
  const byNode = Map.groupBy(places, (place) => promised[place]!.issued.node);
  const byLine = Map.groupBy(places, (place) => promised[place]!.line);
  const firstOf = (places: readonly number[], isAbove: (issued: Instant) => boolean) =>
    places[firstPlace(places.length, (i) => isAbove(promised[places[i]!]!.issued))] ??
      promised.length;
  const behind: NotedWrite[][] = Array.from({ length: promised.length + 1 }, () => []);
  for (const write of writes) {
    const { line, issued, visible } = write;
    let first = promised.length;
    if (line !== undefined) {
      first = firstOf(byLine.get(line) ?? [], ({ order }) => order > issued.order);
    }
    if (visible !== undefined) {
      for (const own of byNode.values()) {
        first = Math.min(first, firstOf(own, (other) => isBefore(visible, other)));
      }
    }
    behind[first]!.push(write);
  }
  return { promised, behind };
}

/** A bit for each byte in [begin, end). */
export function maskOf({ begin, end }: Pick<Part, "begin" | "end">): number {
  return (1 << end) - (1 << begin);
}

export const WHOLE = (1 << UNIT_BYTES) - 1;

function fits({ begin, end, bytes }: Part, value: Uint8Array, free: number): boolean {
  for (let i = begin; i < end; i++) {
    if ((free >> i & 1) === 0 && bytes[i - begin] !== value[i]) return false;
  }
  return true;
}

/**
 * Decides if a unit may have this value, from zeros before the run, by all its writes. The search
 * goes backwards in time: a write that fits the value may have been the last one, and its bytes'
 * earlier content does not matter then. More free bytes never make a write fit less, so no write
 * has to be taken back: the time grows as the number of writes.
 * @param options.free bits of bytes that may have any value; default: none.
 * @param options.without a write without a promise that is left out.
 * @returns writes without which it might not; undefined where it cannot have the value.
 */
export function reaches(
  value: Uint8Array,
  { unit, order: { promised, behind }, free = 0, without }: {
    readonly unit: number;
    readonly order: WriteOrder;
    readonly free?: number;
    readonly without?: NotedWrite;
  },
): ReadonlySet<NotedWrite> | undefined {
  const used = new Set<NotedWrite>();
  const take = (parts: readonly Part[]): Part[] =>
    parts.filter((part) => {
      if ((maskOf(part) & ~free) === 0) return false;
      if (!fits(part, value, free)) return true;
      free |= maskOf(part);
      used.add(part.write);
      return false;
    });
  let waiting: Part[] = [], tried = free;
  for (let settled = promised.length; free !== WHOLE; settled--) {
    const entering = behind[settled]!.filter((write) => write !== without);
    for (const part of take(entering.map((write) => partOf(write, unit)))) waiting.push(part);
    while (free !== tried) {
      tried = free;
      waiting = take(waiting);
    }
    const last = promised[settled - 1];
    if (last === undefined) break;
    const promise = partOf(last, unit);
    if (!fits(promise, value, free)) return undefined;
    if ((maskOf(promise) & ~free) !== 0) used.add(last);
    free |= maskOf(promise);
  }
  return value.every((byte, i) => byte === 0 || (free >> i & 1) === 1) ? used : undefined;
}

/** Each byte is some write's, or 0, though the unit as a whole is not. */
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
