/** The writes that programs declare in audit records, with their confirmations. */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { Lives } from "./lives.ts";
import { drained, inSteps, type Steps } from "./run_record.ts";
import { flushedWriteSteps, unknownUnits } from "./shared/flushed.ts";
import { firstPlace, type Instant, type NotedWrite, UNIT_BYTES } from "./values.ts";

/**
 * All declared writes of a run, and stores to shared regions in SCM, in the order of their posting.
 */
export function notedWrites(
  notes: readonly TimedRecord[],
  options: { readonly claims: boolean; readonly lives: Lives["lives"] },
): NotedWrite[] {
  return drained(notedWriteSteps(notes, options));
}

export function* notedWriteSteps(
  notes: readonly TimedRecord[],
  { claims, lives }: { readonly claims: boolean; readonly lives: Lives["lives"] },
): Steps<NotedWrite[]> {
  const writes: NotedWrite[] = [];
  const byName = new Map<string, NotedWrite>();
  yield* inSteps(notes, ({ time, node, by, note }, order) => {
    const at: Instant = { time, node, order };
    if (note.kind === "writes") {
      const { id, on, at: from, bytes, line, after = [], isOrderClaimed } = note;
      const name = nameOf(by, id);
      const isOrdered = isOrderClaimed !== true || claims;
      const write: NotedWrite = {
        name,
        on,
        from,
        to: from + bytes.length,
        bytes,
        issued: at,
        line: line === undefined ? undefined : `${by} ${line}`,
        visible: undefined,
        promised: undefined,
        after: isOrdered ? after.flatMap((each) => byName.get(nameOf(by, each)) ?? []) : [],
      };
      writes.push(write);
      byName.set(name, write);
    } else if (note.kind === "visible" || note.kind === "persistent") {
      const write = byName.get(nameOf(by, note.id));
      if (write === undefined) return;
      // The first confirmation counts; `completions.ts` finds a second one.
      write.visible ??= at;
      if (note.kind === "persistent" && (note.promised || claims)) write.promised ??= at;
    }
  });
  const stores = yield* flushedWriteSteps(notes, lives);
  if (stores.length === 0) return writes;
  return [...writes, ...stores].sort((x, y) => x.issued.order - y.issued.order);
}

/** Given back by a host's service, or changed in a way that no record tells. */
export interface FreedRange {
  readonly from: number;
  readonly to: number;
  readonly order: number;
}

/** By host, as a large rack has many hosts and notes. */
export function* freedRanges(notes: readonly TimedRecord[]): Steps<Map<string, FreedRange[]>> {
  const freed = new Map<string, FreedRange[]>();
  const add = (host: string, range: FreedRange) => {
    const known = freed.get(host);
    if (known === undefined) freed.set(host, [range]);
    else known.push(range);
  };
  yield* inSteps(notes, ({ node, note }, order) => {
    if (note.kind === "freed") add(node, { from: note.at, to: note.at + note.length, order });
  });
  for (const [home, units] of yield* unknownUnits(notes)) {
    for (const unit of units) add(home, { from: unit, to: unit + UNIT_BYTES, order: Infinity });
  }
  return freed;
}

export class LastFreed {
  readonly #spans: readonly { readonly from: number; readonly order: number }[];

  /** @param ranges by their order. */
  constructor(ranges: readonly FreedRange[]) {
    const down = (offset: number) => offset - offset % UNIT_BYTES;
    const units = ranges.map(({ from, to, order }) => {
      return { from: down(from), to: down(to + UNIT_BYTES - 1), order };
    });
    const edges = [...new Set(units.flatMap(({ from, to }) => [from, to]))].sort((x, y) => x - y);
    const spans = edges.map((from) => ({ from, order: -1 }));
    const places = new Map(edges.map((edge, i) => [edge, i]));
    /**
     * By span: the next one that may have no range yet, so each is set once, by the last of its
     * ranges.
     */
    const next = Int32Array.from({ length: edges.length + 1 }, (_, i) => i);
    const open = (i: number) => {
      while (next[i] !== i) i = next[i] = next[next[i]!]!;
      return i;
    };
    for (const { from, to, order } of units.toReversed()) {
      const end = places.get(to)!;
      for (let i = open(places.get(from)!); i < end; i = open(i)) {
        spans[i]!.order = order;
        next[i] = i + 1;
      }
    }
    this.#spans = spans;
  }

  /** Place among all notes; −1: no range has a byte of the unit. */
  orderAt(unit: number): number {
    const spans = this.#spans;
    return spans[firstPlace(spans.length, (i) => spans[i]!.from > unit) - 1]?.order ?? -1;
  }
}

export function nameOf(by: string, id: number): string {
  return `write ${id} of ${by}`;
}
