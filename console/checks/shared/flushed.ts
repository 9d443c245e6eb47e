/**
 * Stores to regions in SCM as writes that the checker of persistence judges (P-41, decision 12): stores that were
 * done when a flush of their bytes began are promised from the flush's end on, wherever the dirty copy was.
 */
import type { RegionRecord, TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Life, Lives } from "../lives.ts";
import { firstPlace, type Instant, isBefore, type NotedWrite, UNIT_BYTES } from "../values.ts";
import { drained, inSteps, type Steps } from "../run_record.ts";
import { type Access, type Region, sharedAccessSteps } from "./accesses.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { isEqual, sumOf } from "./line_content.ts";

/**
 * In the order of their begins.
 * @param lives of all nodes: a flush after home's return does not cover stores before its failure.
 */
export function flushedWrites(
  notes: readonly TimedRecord[],
  lives: Lives["lives"] = new Map(),
): NotedWrite[] {
  return drained(flushedWriteSteps(notes, lives));
}

export function* flushedWriteSteps(
  notes: readonly TimedRecord[],
  lives: Lives["lives"],
): Steps<NotedWrite[]> {
  if (!notes.some(({ note }) => note.kind === "region")) return [];
  const all: NotedWrite[] = [];
  for (const region of (yield* sharedAccessSteps(notes)).regions.values()) {
    const writes = yield* writesOf(region, lives.get(region.record.home) ?? []);
    for (const write of writes.values()) all.push(write);
  }
  return all.sort((x, y) => x.issued.order - y.issued.order);
}

/** The writes of one region in SCM, by access. */
export function* writesOf(
  region: Region,
  lives: readonly Life[],
): Steps<ReadonlyMap<Access, NotedWrite>> {
  const { record: { at }, accesses } = region;
  const writes = new Map<Access, NotedWrite>();
  if (at === undefined) return writes;
  yield* inSteps(accesses, (access) => {
    const write = writeOf(region.record, access);
    if (write !== undefined) writes.set(access, write);
  });
  const flushes = accesses.filter(({ note, ended }) =>
    note.op === "flush" && ended?.note.result === "done"
  ).sort((x, y) => x.ended!.at.order - y.ended!.at.order);
  const places = new FlushPlaces();
  yield* inSteps(flushes, (flush) => places.add(flush));
  yield* inSteps([...writes.values()], (write) => {
    const from = write.from - at, to = write.to - at;
    write.promised = coveredAt(places, { from, to, done: write.visible, lives });
  });
  return writes;
}

/** The bytes that an access writes to its region in SCM, or may have written, without a promise. */
export function writeOf({ home, at }: RegionRecord, access: Access): NotedWrite | undefined {
  const bytes = at === undefined ? undefined : writtenBy(access);
  if (at === undefined || bytes === undefined) return undefined;
  const { name, began: issued, ended, note: { offset } } = access;
  const from = at + offset, to = from + bytes.length;
  const visible = ended?.note.result === "done" ? ended.at : undefined;
  const common = { name, on: home, from, to, bytes, line: undefined };
  return { ...common, issued, visible, promised: undefined, after: [] };
}

/**
 * By extent, in the order of ends: flushes of a whole line, and of other bytes by word, so that no
 * flush is examined for a word that it does not touch.
 */
class FlushPlaces {
  readonly #lines = new Map<number, Access[]>();
  readonly #words = new Map<number, Access[]>();

  add(flush: Access): void {
    const { offset: from, length } = flush.note, to = from + length;
    for (let line = down(from, LINE_BYTES); line < to; line += LINE_BYTES) {
      const end = line + LINE_BYTES;
      if (from <= line && end <= to) addTo(this.#lines, line, flush);
      else {
        const first = down(Math.max(from, line), UNIT_BYTES);
        for (let word = first; word < Math.min(to, end); word += UNIT_BYTES) {
          addTo(this.#words, word, flush);
        }
      }
    }
  }

  first(covered: number, done: Instant): Access | undefined {
    const own = [
      this.#lines.get(down(covered, LINE_BYTES)),
      this.#words.get(down(covered, UNIT_BYTES)),
    ].flatMap((flushes) => firstFlush(flushes ?? [], { covered, done }) ?? []);
    return own.sort((x, y) => x.ended!.at.order - y.ended!.at.order)[0];
  }
}

function down(offset: number, to: number): number {
  return offset - offset % to;
}

function addTo(all: Map<number, Access[]>, place: number, flush: Access): void {
  const own = all.get(place);
  if (own === undefined) all.set(place, [flush]);
  else own.push(flush);
}

function coveredAt(
  places: FlushPlaces,
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
    const flush = places.first(covered, done);
    // Where the first one has ended in a later life, so have the others.
    if (flush === undefined || returns(flush.ended!.at.time) !== own) return undefined;
    covered = flush.note.offset + flush.note.length;
    const { at } = flush.ended!;
    if (last === undefined || last.order < at.order) last = at;
  }
  return last;
}

function firstFlush(
  flushes: readonly Access[],
  { covered, done }: { readonly covered: number; readonly done: Instant },
): Access | undefined {
  // A flush that began after it has ended after it; as many as cores were under way by then.
  const first = firstPlace(flushes.length, (i) => flushes[i]!.ended!.at.order > done.order);
  for (let i = first; i < flushes.length; i++) {
    const { note: { offset, length }, began } = flushes[i]!;
    if (offset <= covered && offset + length > covered && isBefore(done, began)) return flushes[i];
  }
  return undefined;
}

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

/** By home: units of SCM that an access may have changed without a record of the change. */
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
    yield* inSteps(accesses, (access) => {
      if (!isUnknown(access)) return;
      const from = at + access.note.offset;
      units.add(from - from % UNIT_BYTES);
    });
  }
  return byHome;
}

/** An `add` without its old value is a change without a record. */
export function isUnknown({ note: { op }, ended }: Access): boolean {
  return op === "add" && ended?.note.bytes === undefined && ended?.note.result !== "refused";
}
