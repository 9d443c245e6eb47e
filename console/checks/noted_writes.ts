/** The writes that programs declare in audit records, with what they have confirmed of them. */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { Lives } from "./lives.ts";
import { flushedWrites, unknownUnits } from "./shared/flushed.ts";
import { type Instant, type NotedWrite, UNIT_BYTES } from "./values.ts";

/** All declared writes of a run, and stores to shared regions in SCM, in the order of their posting. */
export function notedWrites(
  notes: readonly TimedRecord[],
  { claims, lives }: { readonly claims: boolean; readonly lives: Lives["lives"] },
): NotedWrite[] {
  const writes: NotedWrite[] = [];
  const byName = new Map<string, NotedWrite>();
  for (const [order, { time, node, by, note }] of notes.entries()) {
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
      if (write === undefined) continue;
      // The first confirmation counts; `completions.ts` finds a second one.
      write.visible ??= at;
      if (note.kind === "persistent" && (note.promised || claims)) write.promised ??= at;
    }
  }
  const stores = flushedWrites(notes, lives);
  if (stores.length === 0) return writes;
  return [...writes, ...stores].sort((x, y) => x.issued.order - y.issued.order);
}

/** A range of SCM that a host's service gave back, or that was changed in a way that no record tells. */
export interface FreedRange {
  readonly from: number;
  readonly to: number;
  /** Place among all notes. */
  readonly order: number;
}

/** By host: a large rack has many hosts and notes. */
export function freedRanges(notes: readonly TimedRecord[]): Map<string, FreedRange[]> {
  const freed = new Map<string, FreedRange[]>();
  const homes = new Set<string>();
  const add = (host: string, range: FreedRange) => {
    const known = freed.get(host);
    if (known === undefined) freed.set(host, [range]);
    else known.push(range);
  };
  for (const [order, { node, note }] of notes.entries()) {
    if (note.kind === "freed") add(node, { from: note.at, to: note.at + note.length, order });
    if (note.kind === "region") homes.add(note.home);
  }
  for (const home of homes) {
    for (const unit of unknownUnits(notes, home)) {
      add(home, { from: unit, to: unit + UNIT_BYTES, order: Infinity });
    }
  }
  return freed;
}

export function nameOf(by: string, id: number): string {
  return `write ${id} of ${by}`;
}
