/**
 * Contents that a line of a region may have after home's power has failed, by the promises of
 * flushes (P-41).
 *
 * Of a word only those writes count that may be above its latest promises: a failure takes as long
 * as there were writes to the word since these, and accesses that were then under way, or were
 * never answered. Where nothing is flushed that is all of them: the number of failures times that
 * of writes to one word (row (x) of `scripts/bench`).
 */
import type { Time } from "../../../fabric/base/time.ts";
import { drained, type RunRecord } from "../run_record.ts";
import {
  firstPlace,
  isBefore,
  maskOf,
  type NotedWrite,
  orderOf,
  partOf,
  reaches,
  UNIT_BYTES,
  WHOLE,
  type WriteOrder,
} from "../values.ts";
import { type Access, type Region, sharedAccesses } from "./accesses.ts";
import { isUnknown, writeOf, writesOf } from "./flushed.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MayHave } from "./line_content.ts";

/**
 * Bytes of the line that may be found after a power failure of home at `at`. DRAM, and words with
 * an unknown change, may have any content.
 */
export function mayHaveOf(
  run: Pick<RunRecord, "notes" | "lives">,
  { record }: Region,
  { line, at }: { readonly line: number; readonly at: Time },
): MayHave {
  const base = record.at;
  if (base === undefined) return () => true;
  const home = homesOf(run).get(record.home);
  return (offset, bytes) => {
    const found = base + line * LINE_BYTES + offset;
    const unit = found - found % UNIT_BYTES;
    const order = home?.get(unit)?.at(at) ?? EMPTY;
    if (order === "unknown") return true;
    const value = new Uint8Array(UNIT_BYTES), begin = found - unit;
    value.set(bytes, begin);
    const free = WHOLE & ~maskOf({ begin, end: begin + bytes.length });
    return reaches(value, { unit, order, free }) !== undefined;
  };
}

const EMPTY: WriteOrder = { promised: [], behind: [[]] };

interface Touch {
  readonly access: Access;
  readonly region: Region;
  readonly write: NotedWrite | undefined;
}

class Word {
  readonly #unit: number;
  readonly #touches: Touch[] = [];
  /** By touch: when the last of those up to it had its answer. */
  readonly #answeredBy: Time[] = [];
  readonly #unanswered: Touch[] = [];
  readonly #unknownUntil: Time[] = [];
  #last: { readonly at: Time; readonly found: WriteOrder | "unknown" } | undefined;

  constructor(unit: number) {
    this.#unit = unit;
  }

  add(touch: Touch): void {
    const { access } = touch, answered = access.ended?.at.time;
    this.#touches.push(touch);
    // One that was answered and wrote nothing, such as a look of a spin lock, does nothing from then on.
    const isOpen = touch.write !== undefined && touch.write.visible === undefined;
    if (answered === undefined || isOpen) this.#unanswered.push(touch);
    this.#answeredBy.push(Math.max(this.#answeredBy.at(-1) ?? 0, answered ?? 0));
    const until = isUnknown(access)
      ? Infinity
      : isUnknown({ ...access, ended: undefined })
      ? answered ?? Infinity
      : -1;
    this.#unknownUntil.push(Math.max(this.#unknownUntil.at(-1) ?? -1, until));
  }

  /** `unknown`: any content is possible. */
  at(at: Time): WriteOrder | "unknown" {
    if (this.#last?.at !== at) this.#last = { at, found: this.#orderAt(at) };
    return this.#last.found;
  }

  #orderAt(at: Time): WriteOrder | "unknown" {
    const count = firstPlace(
      this.#touches.length,
      (i) => this.#touches[i]!.access.began.time >= at,
    );
    if (count > 0 && this.#unknownUntil[count - 1]! >= at) return "unknown";
    const writes: NotedWrite[] = [], seen = new Set<Touch>();
    let covered = 0, floor: NotedWrite | undefined;
    const take = (touch: Touch) => {
      const write = asOf(touch, at);
      seen.add(touch);
      if (write === undefined) return;
      // Nothing shows below a promise that is below others which have all of the word.
      if (floor !== undefined && write.visible && isBefore(write.visible, floor.issued)) return;
      writes.push(write);
      if (floor !== undefined || write.promised === undefined) return;
      covered |= maskOf(partOf(write, this.#unit));
      if (covered === WHOLE) floor = write;
    };
    let i = count;
    // Only unanswered accesses before the floor are above it.
    const isBelow = () => floor !== undefined && this.#answeredBy[i - 1]! < floor.issued.time;
    while (i > 0 && !isBelow()) take(this.#touches[--i]!);
    for (const touch of this.#unanswered) {
      if (touch.access.began.time >= at) break;
      if (!seen.has(touch)) take(touch);
    }
    return orderOf(writes.sort((x, y) => x.issued.order - y.issued.order));
  }
}

function asOf({ access, region: { record }, write }: Touch, at: Time): NotedWrite | undefined {
  if (access.ended !== undefined && access.ended.at.time >= at) {
    return writeOf(record, { ...access, ended: undefined });
  }
  if (write?.promised === undefined || write.promised.time < at) return write;
  return { ...write, promised: undefined };
}

type Homes = ReadonlyMap<string, ReadonlyMap<number, Word>>;

const HOMES = new WeakMap<RunRecord["notes"], { readonly count: number; readonly homes: Homes }>();

function homesOf({ notes, lives }: Pick<RunRecord, "notes" | "lives">): Homes {
  const known = HOMES.get(notes);
  if (known?.count === notes.length) return known.homes;
  const touches: Touch[] = [];
  for (const region of sharedAccesses(notes).regions.values()) {
    if (region.record.at === undefined) continue;
    const writes = drained(writesOf(region, lives.get(region.record.home) ?? []));
    for (const access of region.accesses) {
      const { op } = access.note;
      if (op === "load" || op === "flush") continue;
      touches.push({ access, region, write: writes.get(access) });
    }
  }
  touches.sort((x, y) => x.access.began.order - y.access.began.order);
  const homes = new Map<string, Map<number, Word>>();
  for (const touch of touches) {
    const { record: { home, at: base } } = touch.region, { offset, length } = touch.access.note;
    const words = homes.get(home) ?? new Map<number, Word>();
    homes.set(home, words);
    const from = base! + offset, to = from + length;
    for (let unit = from - from % UNIT_BYTES; unit < to; unit += UNIT_BYTES) {
      const word = words.get(unit) ?? new Word(unit);
      words.set(unit, word);
      word.add(touch);
    }
  }
  HOMES.set(notes, { count: notes.length, homes });
  return homes;
}
