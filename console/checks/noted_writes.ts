/** The writes that programs declare in audit records, with what they have confirmed of them. */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { Instant, NotedWrite } from "./values.ts";

/** All declared writes of a run, in the order of their posting. */
export function notedWrites(
  notes: readonly TimedRecord[],
  { claims }: { readonly claims: boolean },
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
  return writes;
}

/** A range of SCM that a host's service gave back. */
export interface FreedRange {
  readonly from: number;
  readonly to: number;
  /** Place among all notes. */
  readonly order: number;
}

export function freedRanges(notes: readonly TimedRecord[], host: string): FreedRange[] {
  return notes.flatMap(({ node, note }, order) =>
    note.kind === "freed" && node === host
      ? [{ from: note.at, to: note.at + note.length, order }]
      : []
  );
}

export function nameOf(by: string, id: number): string {
  return `write ${id} of ${by}`;
}
