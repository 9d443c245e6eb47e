/**
 * Stores to regions in SCM as writes that the checker of persistence judges (P-41, decision 12): what a flush
 * covered that began when the store was done is promised from the flush's end on, wherever the dirty copy was.
 */
import type { TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Life, Lives } from "../lives.ts";
import { firstPlace, type Instant, isBefore, type NotedWrite, UNIT_BYTES } from "../values.ts";
import { drained, inSteps, type Steps } from "../run_record.ts";
import { type Access, type Region, sharedAccessSteps } from "./accesses.ts";
import { isEqual, LINE_BYTES, sumOf } from "./line_content.ts";

/**
 * The writes, in the order of their begins.
 * @param lives of all nodes: what a flush covers after home's return is not what was stored before its failure.
 */
export function flushedWrites(
  notes: readonly TimedRecord[],
  lives: Lives["lives"] = new Map(),
): NotedWrite[] {
  return drained(flushedWriteSteps(notes, lives));
}

/** The same, in steps. */
export function* flushedWriteSteps(
  notes: readonly TimedRecord[],
  lives: Lives["lives"],
): Steps<NotedWrite[]> {
  if (!notes.some(({ note }) => note.kind === "region")) return [];
  const all: NotedWrite[] = [];
  for (const region of (yield* sharedAccessSteps(notes)).regions.values()) {
    const writes = yield* writesOf(region, lives.get(region.record.home) ?? []);
    for (const write of writes) all.push(write);
  }
  return all.sort((x, y) => x.issued.order - y.issued.order);
}

function* writesOf(
  { record: { home, at }, accesses }: Region,
  lives: readonly Life[],
): Steps<NotedWrite[]> {
  if (at === undefined) return [];
  const writes: NotedWrite[] = [], offsets: number[] = [];
  yield* inSteps(accesses, (access) => {
    const bytes = writtenBy(access);
    if (bytes === undefined) return;
    const { name, began, ended, note: { offset } } = access;
    const from = at + offset;
    const visible = ended?.note.result === "done" ? ended.at : undefined;
    const common = { name, on: home, from, to: from + bytes.length, bytes, line: undefined };
    writes.push({ ...common, issued: began, visible, promised: undefined, after: [] });
    offsets.push(offset);
  });
  const flushes = accesses.filter(({ note, ended }) =>
    note.op === "flush" && ended?.note.result === "done"
  ).sort((x, y) => x.ended!.at.order - y.ended!.at.order);
  const byLine = new Map<number, Access[]>();
  yield* inSteps(flushes, (flush) => {
    const { offset, length } = flush.note;
    for (let line = Math.floor(offset / LINE_BYTES); line * LINE_BYTES < offset + length; line++) {
      const own = byLine.get(line);
      if (own === undefined) byLine.set(line, [flush]);
      else own.push(flush);
    }
  });
  yield* inSteps(writes, (write, i) => {
    const from = offsets[i]!, to = from + write.bytes.length;
    write.promised = coveredAt(byLine, { from, to, done: write.visible, lives });
  });
  return writes;
}

/** When flushes that began after `done` have covered bytes [from, to), each line by one of them. */
function coveredAt(
  byLine: ReadonlyMap<number, readonly Access[]>,
  { from, to, done, lives }: {
    readonly from: number;
    readonly to: number;
    readonly lives: readonly Life[];
    readonly done: Instant | undefined;
  },
): Instant | undefined {
  if (done === undefined) return undefined;
  const returns = (time: Time) => firstPlace(lives.length, (i) => lives[i]!.from > time);
  const own = returns(done.time);
  let covered = from;
  let last: Instant | undefined;
  while (covered < to) {
    const flush = firstFlush(byLine.get(Math.floor(covered / LINE_BYTES)) ?? [], { covered, done });
    // Where the first one has ended in a later life, so have the others.
    if (flush === undefined || returns(flush.ended!.at.time) !== own) return undefined;
    covered = flush.note.offset + flush.note.length;
    const { at } = flush.ended!;
    if (last === undefined || last.order < at.order) last = at;
  }
  return last;
}

/** The first of flushes in the order of their end that began after `done` and covers a byte. */
function firstFlush(
  flushes: readonly Access[],
  { covered, done }: { readonly covered: number; readonly done: Instant },
): Access | undefined {
  // What began after it has ended after it.
  const first = firstPlace(flushes.length, (i) => flushes[i]!.ended!.at.order > done.order);
  for (let i = first; i < flushes.length; i++) {
    const { note: { offset, length }, began } = flushes[i]!;
    if (offset <= covered && offset + length > covered && isBefore(done, began)) return flushes[i];
  }
  return undefined;
}

/** What an access wrote, or may have written; undefined where it wrote nothing, or what is not known. */
function writtenBy({ note, ended }: Access): Uint8Array | undefined {
  const { op, bytes, compare } = note;
  if (ended?.note.result === "refused") return undefined;
  if (op === "store") return bytes;
  // The sum of an atomic that was not answered is not known: see `hasUnknownBytes`.
  const old = ended?.note.bytes;
  if (op === "add") return old && bytes && sumOf(old, bytes);
  if (op !== "compare-swap") return undefined;
  return old !== undefined && !isEqual(old, compare) ? undefined : bytes;
}

/** By home: units of SCM that an access may have changed in a way that its record does not tell. */
export function* unknownUnits(
  notes: readonly TimedRecord[],
): Steps<ReadonlyMap<string, ReadonlySet<number>>> {
  const byHome = new Map<string, Set<number>>();
  if (!notes.some(({ note }) => note.kind === "region")) return byHome;
  const { regions } = yield* sharedAccessSteps(notes);
  for (const { record: { home, at }, accesses } of regions.values()) {
    if (at === undefined) continue;
    const units = byHome.get(home) ?? new Set<number>();
    byHome.set(home, units);
    yield* inSteps(accesses, ({ note: { op, offset }, ended }) => {
      if (op !== "add" || ended?.note.bytes !== undefined) return;
      if (ended?.note.result === "refused") return;
      const from = at + offset;
      units.add(from - from % UNIT_BYTES);
    });
  }
  return byHome;
}
