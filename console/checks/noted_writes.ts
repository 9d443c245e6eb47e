/** From a run's notes to the writes that programs declared, by host. */
import type {
  PersistentRecord,
  TimedRecord,
  VisibleRecord,
  WritesRecord,
} from "../../fabric/audit.ts";
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
      const write = writeOf(by, note, { at, byName, claims });
      writes.push(write);
      byName.set(write.name, write);
    } else if (note.kind === "visible" || note.kind === "persistent") {
      const write = byName.get(nameOf(by, note.id));
      if (write !== undefined) addNote(write, note, { at, claims });
    }
  }
  return writes;
}

/** What a write is called. */
export function nameOf(by: string, id: number): string {
  return `write ${id} of ${by}`;
}

function writeOf(
  by: string,
  { id, on, at: from, bytes, line, after = [], isOrderClaimed }: WritesRecord,
  { at: issued, byName, claims }: {
    readonly at: Instant;
    readonly byName: ReadonlyMap<string, NotedWrite>;
    readonly claims: boolean;
  },
): NotedWrite {
  const before = isOrderClaimed === true && !claims ? [] : after;
  return {
    name: nameOf(by, id),
    on,
    from,
    to: from + bytes.length,
    bytes,
    issued,
    line: line === undefined ? undefined : `${by} ${line}`,
    visible: undefined,
    promised: undefined,
    after: before.flatMap((each) => byName.get(nameOf(by, each)) ?? []),
  };
}

function addNote(
  write: NotedWrite,
  note: VisibleRecord | PersistentRecord,
  { at, claims }: { readonly at: Instant; readonly claims: boolean },
): void {
  // The first note of a kind counts: a second one is the completions' checker's.
  write.visible ??= at;
  if (note.kind === "persistent" && (note.promised || claims)) write.promised ??= at;
}
