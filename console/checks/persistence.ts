/**
 * P-41: everything that was confirmed persistent survives, whole, and SCM has no bytes that no
 * program wrote. Programs that are killed before a report count, as audit records are made at the
 * confirmation.
 */
import { areEqual } from "../base/bytes.ts";
import { type Damage, damageOf, isDamaged } from "./damage.ts";
import { freedRanges, LastFreed, notedWriteSteps } from "./noted_writes.ts";
import { withReceived } from "./received.ts";
import {
  checkerOf,
  type CheckSteps,
  drained,
  type ImageView,
  inSteps,
  mostOf,
  type RunRecord,
  type Steps,
} from "./run_record.ts";
import {
  firstPlace,
  isMixed,
  type NotedWrite,
  orderOf,
  reaches,
  UNIT_BYTES,
  type WriteOrder,
} from "./values.ts";
import { countOf, type Finding, nodeTime } from "./finding.ts";

export const persistence = checkerOf({
  name: "survives-what-was-reported",
  promise:
    "Every write that was confirmed persistent is in the SCM after a power failure; every eight " +
    "bytes there are as one program wrote them, or as they were before.",
  looked: (run) => {
    const { writes, promised } = drained(notedIn(run));
    return `${countOf(writes.length, "write")}, ${promised} promised`;
  },
  subjects: (run) => drained(notedIn(run)).promised,
  without: "no write was confirmed persistent",
  steps: checkSteps,
});

interface Noted {
  readonly writes: readonly NotedWrite[];
  readonly promised: number;
}

const NOTED = new WeakMap<RunRecord, { readonly count: number; readonly noted: Noted }>();

function* notedIn(run: RunRecord): Steps<Noted> {
  const { notes, lives, claims = false } = run, known = NOTED.get(run);
  if (known?.count === notes.length) return known.noted;
  const writes = yield* notedWriteSteps(notes, { claims, lives });
  const promised = writes.reduce((sum, each) => each.promised === undefined ? sum : sum + 1, 0);
  const noted = { writes, promised };
  NOTED.set(run, { count: notes.length, noted });
  return noted;
}

function* checkSteps(run: RunRecord): CheckSteps {
  const { writes } = yield* notedIn(run);
  const findings: Finding[] = [], most = mostOf(run);
  const freed = yield* freedRanges(run.notes);
  for (const [host, on] of Map.groupBy(writes, (write) => write.on)) {
    const found = run.scm(host);
    if (found === undefined) {
      findings.push(...strayWrites(run, host, on));
      continue;
    }
    const image = withReceived(run.plan, { host, image: found });
    const scm: Scm = {
      host,
      image,
      damage: damageOf(run.plan, host),
      freed: new LastFreed(freed.get(host) ?? []),
    };
    yield* promiseWhatIsBehind(scm, on);
    for (const range of yield* byteRangesOf(on)) {
      yield;
      findings.push(...yield* judge(scm, range, most - findings.length));
      if (findings.length >= most) return findings.slice(0, most);
    }
  }
  return findings;
}

/** A host outside the rack is a finding; one without known SCM is not judged. */
function strayWrites(run: RunRecord, host: string, [first]: readonly NotedWrite[]): Finding[] {
  const isHost = run.plan.nodes.some(({ name, kind }) => name === host && kind === "host");
  if (isHost || first === undefined) return [];
  const text = `${first.name} is on "${host}", which is no host of this rack`;
  return [{ text, at: nodeTime(first.issued) }];
}

interface Scm {
  readonly host: string;
  readonly image: ImageView;
  readonly damage: Damage | undefined;
  readonly freed: LastFreed;
}

interface ByteRange {
  readonly from: number;
  readonly to: number;
  readonly writes: readonly NotedWrite[];
}

function down(offset: number): number {
  return offset - offset % UNIT_BYTES;
}

function up(offset: number): number {
  return down(offset + UNIT_BYTES - 1);
}

function* byteRangesOf(writes: readonly NotedWrite[]): Steps<Iterable<ByteRange>> {
  const edges = new Set<number>();
  yield* inSteps(writes, ({ from, to }) => {
    for (const edge of [down(from), up(from), down(to), up(to)]) edges.add(edge);
  });
  const sorted = Float64Array.from(edges).sort();
  yield;
  return rangesBetween(sorted, writes.toSorted((x, y) => x.from - y.from));
}

/**
 * Together the ranges have no more writes than all writes have units: for any overlap, the work for
 * each write of each range is at most linear in the bytes that were noted.
 * @param edges ascending.
 * @param waiting ascending by their begin.
 */
function* rangesBetween(
  edges: Float64Array,
  waiting: readonly NotedWrite[],
): Generator<ByteRange> {
  let next = 0;
  let active: NotedWrite[] = [];
  for (const [i, from] of edges.entries()) {
    const to = edges[i + 1];
    if (to === undefined) return;
    for (; next < waiting.length && down(waiting[next]!.from) <= from; next++) {
      active.push(waiting[next]!);
    }
    active = active.filter((write) => write.to > from && write.to > write.from);
    if (active.length === 0) continue;
    yield { from, to, writes: active.toSorted((x, y) => x.issued.order - y.issued.order) };
  }
}

const STEP_BYTES = 64 * UNIT_BYTES;

function* judge(scm: Scm, range: ByteRange, most: number): CheckSteps {
  const { from, to, writes } = range;
  const found = scm.image.read(from, to);
  const plain = scm.image.possible === undefined ? plainContents(range) : [];
  let order: WriteOrder | undefined;
  if (plain.some((content) => areEqual(content, found))) return [];
  const findings: Finding[] = [];
  for (let at = from; at < to && findings.length < most; at += UNIT_BYTES) {
    const place = at - from;
    if (place % STEP_BYTES === STEP_BYTES - UNIT_BYTES) yield;
    if (plain.some((content) => isSameUnit(content, found, place))) continue;
    if (!isJudged(scm, at, writes)) continue;
    const unit = found.subarray(place, place + UNIT_BYTES);
    const open = scm.image.possible?.(at) ?? [unit];
    const known = order ??= orderOf(writes);
    const wrong = open.find((value) => {
      if (reaches(value, { unit: at, order: known }) !== undefined) return false;
      if (scm.damage === undefined) return true;
      return !isDamaged(scm.damage, at, { found: value, order: known });
    });
    if (wrong !== undefined) findings.push(breach(scm, { at, writes, found: wrong }));
  }
  return merged(findings);
}

/** Eight bytes that were given back are judged only by a later promise about all of them. */
function isJudged({ freed }: Scm, at: number, writes: readonly NotedWrite[]): boolean {
  const end = at + UNIT_BYTES, last = freed.orderAt(at);
  return last < 0 ||
    writes.some(({ from, to, promised, issued }) =>
      promised !== undefined && issued.order > last && from <= at && end <= to
    );
}

/**
 * Contents each unit of which is allowed by itself: the last promise; without a promise, zeros and
 * each write's bytes. Most units need no order of all writes ({@link reaches}).
 */
function plainContents({ from, to, writes }: ByteRange): Uint8Array[] {
  const last = writes.findLast(({ promised }) => promised !== undefined);
  const contents = (last === undefined ? writes : [last])
    .filter((write) => write.from <= from && write.to >= to)
    .map(({ bytes, from: first }) => bytes.subarray(from - first, to - first));
  return last === undefined ? [...contents, new Uint8Array(to - from)] : contents;
}

function isSameUnit(x: Uint8Array, y: Uint8Array, place: number): boolean {
  for (let i = place; i < place + UNIT_BYTES; i++) if (x[i] !== y[i]) return false;
  return true;
}

interface Unit {
  readonly at: number;
  readonly writes: readonly NotedWrite[];
  readonly found: Uint8Array;
}

function breach(scm: Scm, unit: Unit): Finding {
  const { at, writes, found } = unit;
  const order = orderOf(writes.map((write) => ({ ...write, promised: undefined })));
  const isOlder = reaches(found, { unit: at, order }) !== undefined;
  const lost = isOlder ? lostPromise(unit) : undefined;
  const what = lost !== undefined
    ? `is lost: ${lost.text}`
    : isMixed(at, { writes, found })
    ? `is torn: 0x${found.toHex()} is neither old nor new of ${namesOf(writes)}`
    : `is from nowhere: 0x${found.toHex()}, touched by ${namesOf(writes)} only`;
  const to = at + UNIT_BYTES;
  return {
    text: `${scm.host}: SCM at 0x${at.toString(16)} ${what}`,
    at: lost?.at ?? nodeTime(writes.at(-1)!.issued),
    scm: { host: scm.host, from: at, to },
  };
}

const LOST_TRIED = 32;

function lostPromise({ at, writes, found }: Unit): Finding {
  const promised = writes.filter((write) => write.promised !== undefined)
    .toSorted((x, y) => y.promised!.order - x.promised!.order);
  const broken = promised.slice(0, LOST_TRIED).find((write) => {
    const rest = writes.map((each) => each === write ? { ...each, promised: undefined } : each);
    return reaches(found, { unit: at, order: orderOf(rest) }) !== undefined;
  }) ?? promised[0]!;
  const because = BEHIND.get(broken);
  if (because !== undefined) {
    const text = `${because.name} is there, and ${broken.name}, which it comes after, is not`;
    return { text, at: nodeTime(because.issued) };
  }
  const { time, node } = broken.promised!;
  const found16 = `0x${found.toHex()}`;
  return {
    text: `${broken.name} was confirmed persistent at ${time} ps (${node}), found ${found16}`,
    at: { node, time },
  };
}

function namesOf(writes: readonly NotedWrite[]): string {
  const names = writes.slice(0, 4).map(({ name }) => name);
  return names.join(", ") + (writes.length > 4 ? ` and ${writes.length - 4} others` : "");
}

function merged(findings: readonly Finding[]): Finding[] {
  const all: Finding[] = [];
  for (const finding of findings) {
    const last = all.at(-1);
    const follows = last?.scm !== undefined && last.scm.to === finding.scm?.from &&
      kindOf(last) === kindOf(finding);
    if (!follows) all.push(finding);
    else all[all.length - 1] = { ...last, scm: { ...last.scm!, to: finding.scm!.to } };
  }
  return all;
}

function kindOf({ text }: Finding): string {
  return /is (lost|torn|from nowhere)/.exec(text)?.[1] ?? "";
}

const BEHIND = new WeakMap<NotedWrite, NotedWrite>();

function* promiseWhatIsBehind(scm: Scm, writes: readonly NotedWrite[]): Generator<void, void> {
  if (writes.every(({ after }) => after.length === 0)) return;
  const ranges: ByteRange[] = [];
  yield* inSteps(yield* byteRangesOf(writes), (range) => void ranges.push(range));
  const found = new FoundWrites(scm, ranges);
  for (const write of writes) {
    yield;
    if (write.after.length === 0) continue;
    if (write.promised === undefined && !(yield* found.isThere(write))) continue;
    const open = [...write.after];
    for (let behind = open.pop(); behind !== undefined; behind = open.pop()) {
      if (behind.promised !== undefined) continue;
      const order = Math.max(write.issued.order, behind.issued.order) + 0.5;
      behind.promised = { ...write.issued, order };
      BEHIND.set(behind, write);
      found.forget(behind);
      open.push(...behind.after);
    }
  }
}

interface FoundUnit {
  readonly open: readonly Uint8Array[];
  /**
   * By {@link open}: writes without which the value might not be there; undefined: no writes make
   * it.
   */
  readonly needed: readonly (ReadonlySet<NotedWrite> | undefined)[];
}

interface FoundRange {
  readonly order: WriteOrder;
  readonly units: Map<number, FoundUnit>;
}

class FoundWrites {
  readonly #scm: Scm;
  readonly #ranges: readonly ByteRange[];
  readonly #found = new Map<ByteRange, FoundRange>();

  constructor(scm: Scm, ranges: readonly ByteRange[]) {
    this.#scm = scm;
    this.#ranges = ranges;
  }

  *isThere(write: NotedWrite): Steps<boolean> {
    for (const range of this.#rangesOf(write)) {
      const { order, units } = this.#foundIn(range);
      for (let unit = range.from; unit < range.to; unit += UNIT_BYTES) {
        if ((unit - range.from) % STEP_BYTES === STEP_BYTES - UNIT_BYTES) yield;
        const { open, needed } = this.#unit(unit, { order, units });
        // A value that no write can have left shows nothing; one that does not need it may be another's.
        if (!needed.every((writes) => writes?.has(write) === true)) continue;
        const isOthers = (value: Uint8Array) =>
          reaches(value, { unit, order, without: write }) !== undefined;
        if (!open.some(isOthers)) return true;
      }
    }
    return false;
  }

  forget(write: NotedWrite): void {
    for (const range of this.#rangesOf(write)) this.#found.delete(range);
  }

  #foundIn(range: ByteRange): FoundRange {
    let found = this.#found.get(range);
    if (found === undefined) {
      this.#found.set(range, found = { order: orderOf(range.writes), units: new Map() });
    }
    return found;
  }

  #unit(unit: number, { order, units }: FoundRange): FoundUnit {
    const known = units.get(unit);
    if (known !== undefined) return known;
    const { image } = this.#scm;
    const open = image.possible?.(unit) ?? [image.read(unit, unit + UNIT_BYTES)];
    const found = { open, needed: open.map((value) => reaches(value, { unit, order })) };
    units.set(unit, found);
    return found;
  }

  *#rangesOf({ from, to }: NotedWrite): Generator<ByteRange> {
    const ranges = this.#ranges;
    const first = firstPlace(ranges.length, (i) => ranges[i]!.to > from);
    for (let i = first; i < ranges.length && ranges[i]!.from < to; i++) yield ranges[i]!;
  }
}
