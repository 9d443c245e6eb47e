import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { drained } from "../../../console/checks/run_record.ts";
import type { LineOp } from "../../../console/checks/shared/line_content.ts";
import {
  type LineEvent,
  lineSteps,
  type LineVerdict,
} from "../../../console/checks/shared/line_order.ts";

/** An access of a history; without `to` its program is never told how it ended. */
interface Timed {
  readonly op: LineOp;
  readonly from: number;
  readonly to: number | undefined;
}

type Rng = ReturnType<typeof rngFor>;

/** A word, little-endian. */
function word(value: bigint | number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

/** So many words of one value. */
function words(value: number, count: number): Uint8Array {
  return new Uint8Array(8 * count).map((_, i) => i % 8 === 0 ? value : 0);
}

/** Accesses to the first two words of a line, or to all of it, with few values. */
function randomOp(rng: Rng, name: string): LineOp {
  const value = rng.below(3), count = 1 + rng.below(2);
  const from = count === 2 ? 0 : 8 * rng.below(2);
  const atomic = { name, from: 0, length: 8 };
  switch (rng.below(10)) {
    case 0:
      return { ...atomic, op: "add", bytes: word(1), seen: word(value) };
    case 1:
      return { ...atomic, op: "compare-swap", compare: word(1), bytes: word(2), seen: word(value) };
    case 2:
      return { name, op: "store", from: 0, length: 64, bytes: words(value, 8) };
    case 3:
      return { name, op: "lose", from: 0, length: 64, isPossible: rng.below(2) === 0 };
    case 4:
    case 5:
    case 6:
      return { name, op: "store", from, length: 8 * count, bytes: words(value, count) };
    default:
      return { name, op: "load", from, length: 8 * count, seen: words(value, count) };
  }
}

/** Up to six accesses. Of some that change something the program is never told, nor what an atomic found. */
function history(seed: number): Timed[] {
  const rng = rngFor(seed, "history");
  return Array.from({ length: 2 + rng.below(5) }, (__, i): Timed => {
    const from = rng.below(20), op = randomOp(rng, `${i}`);
    const isTold = op.op === "load" || op.op === "lose" || rng.below(4) > 0;
    const { seen: _, ...unseen } = op;
    return { op: isTold ? op : unseen, from, to: isTold ? from + 1 + rng.below(12) : undefined };
  });
}

/** The first two words; null: the line is lost. */
type Words = readonly [bigint, bigint] | null;

/** The words after an access; undefined where it cannot have found what it did. */
function after(
  content: Words,
  { op, from, length, bytes, compare, seen }: LineOp,
): Words | undefined {
  const wordsOf = (all: Uint8Array) =>
    Array.from({ length: Math.min(2, all.length / 8) }, (_, i) => BigInt(all[8 * i]!));
  if (op === "lose") return null;
  if (content === null && length < 64) return undefined;
  const first = from / 8, now = [...content ?? [0n, 0n]] as [bigint, bigint];
  if (seen !== undefined && wordsOf(seen).some((each, i) => each !== now[first + i])) {
    return undefined;
  }
  if (op === "add") now[0]++;
  if (op === "compare-swap" && now[0] === wordsOf(compare!)[0]) now[0] = wordsOf(bytes!)[0]!;
  if (op === "store") wordsOf(bytes!).forEach((each, i) => now[first + i] = each);
  return now;
}

/** Whether some order is right, by trying all. */
function isRight(left: readonly Timed[], content: Words = [0n, 0n]): boolean {
  if (left.every(({ to }) => to === undefined)) return true;
  return left.some((each) => {
    const rest = left.filter((other) => other !== each);
    // It cannot come first if another one has ended before it begins.
    if (rest.some(({ to = Infinity }) => to < each.from)) return false;
    if (each.op.isPossible === true && isRight(rest, content)) return true;
    const next = after(content, each.op);
    return next !== undefined && isRight(rest, next);
  });
}

function eventsOf(all: readonly Timed[]): LineEvent[] {
  return all.flatMap(({ op, from, to }) => [
    { at: from, event: { kind: "begin", op } as LineEvent },
    ...to === undefined ? [] : [{ at: to + 0.5, event: { kind: "end", op } as LineEvent }],
  ]).sort((x, y) => x.at - y.at).map(({ event }) => event);
}

function judged(all: readonly Timed[]): LineVerdict {
  return drained(lineSteps(eventsOf(all)));
}

describe("C-09: lineSteps", () => {
  it("says what trying all orders says, of 5 000 histories", () => {
    let right = 0;
    for (let seed = 0; seed < 5_000; seed++) {
      const all = history(seed);
      const expected = isRight(all);
      const { wrong, unchecked } = judged(all);
      assert.equal(unchecked, undefined);
      assert.equal(wrong === undefined, expected, `seed ${seed}`);
      if (expected) right++;
    }
    assert.ok(right > 1_000 && right < 4_000, `${right} are right`);
  });
});

/** Atomics of hosts that take turns on one word, eight under way at a time: a lock, and a counter beside it. */
function atomics(count: number): Timed[] {
  const all: Timed[] = [];
  for (let i = 0; i < count; i++) {
    const common = { name: `${i}`, from: 8 * (i % 2), length: 8, seen: word(i >> 1) };
    const op: LineOp = i % 4 < 2
      ? { ...common, op: "add", bytes: word(1) }
      : { ...common, op: "compare-swap", compare: word(i >> 1), bytes: word((i >> 1) + 1) };
    // Each one may have been done where any of the seven others was.
    all.push({ op, from: 10 * i - 40, to: 10 * i + 45 });
    if (i % 3 > 0) continue;
    // One that waits for the lock finds it taken.
    const waits = { ...common, name: `${i} waits`, compare: word(-1), bytes: word(7) };
    all.push({ op: { ...waits, op: "compare-swap" }, from: 10 * i - 40, to: 10 * i + 45 });
  }
  return all;
}

function withOp(all: readonly Timed[], place: number, op: Partial<LineOp>): Timed[] {
  return all.with(place, { ...all[place]!, op: { ...all[place]!.op, ...op } });
}

describe("C-09: lineSteps, of many accesses at a time", () => {
  const all = atomics(10_000);

  it("C-09: follows 10 000 atomics of one word by what they found", () => {
    assert.deepEqual(judged(all), {});
  });

  it("finds a count that two atomics found, and one that none did", () => {
    for (const seen of [word(3_999), word(4_001), word(9_000)]) {
      const place = all.findIndex(({ op }) =>
        op.op === "add" && op.seen!.toHex() === word(4_000).toHex()
      );
      const { wrong, unchecked } = judged(withOp(all, place, { seen }));
      assert.equal(unchecked, undefined);
      assert.ok(wrong !== undefined, seen.toHex());
    }
  });

  it("finds an atomic that is done twice, and one that ended before the one that it follows began", () => {
    const place = all.findIndex(({ op }) =>
      op.op === "add" && op.seen!.toHex() === word(4_000).toHex()
    );
    const own = all[place]!;
    const doubled = all.toSpliced(place, 0, { ...own, op: { ...own.op, name: "again" } });
    assert.ok(judged(doubled).wrong !== undefined);
    const early = all.with(place, { ...own, from: own.from - 200, to: own.from - 150 });
    assert.ok(judged(early).wrong !== undefined);
  });

  it("judges forty stores that overlap, in every order, and sixty adds whose programs were never told", () => {
    const stores = Array.from({ length: 40 }, (_, i): Timed => ({
      op: { name: `${i}`, op: "store", from: 0, length: 8, bytes: word(i) },
      from: 0,
      to: 100,
    }));
    const load = (value: number, from: number): Timed => ({
      op: { name: `load of ${value}`, op: "load", from: 0, length: 8, seen: word(value) },
      from,
      to: from + 5,
    });
    assert.deepEqual(judged([...stores, load(3, 10), load(17, 20), load(5, 110)]), {});
    assert.equal(judged([...stores, load(5, 110), load(6, 120)]).wrong?.op.name, "load of 6");
    assert.equal(judged([...stores, load(41, 110)]).wrong?.op.name, "load of 41");
    const untold = Array.from({ length: 60 }, (_, i): Timed => ({
      op: { name: `${i}`, op: "add", from: 0, length: 8, bytes: word(2) },
      from: 0,
      to: undefined,
    }));
    assert.deepEqual(judged([...untold, load(0, 10), load(8, 20), load(120, 30)]), {});
    assert.equal(judged([...untold, load(8, 20), load(6, 30)]).wrong?.op.name, "load of 6");
    assert.equal(judged([...untold, load(7, 20)]).wrong?.op.name, "load of 7");
    assert.equal(judged([...untold, load(122, 20)]).wrong?.op.name, "load of 122");
  });

  it("says what it does not judge: sums of adds whose programs were never told", () => {
    const sums = Array.from({ length: 20 }, (_, i): Timed => ({
      op: { name: `add ${i}`, op: "add", from: 0, length: 8, bytes: word(2 ** i) },
      from: 0,
      to: undefined,
    }));
    const load: LineOp = { name: "load", op: "load", from: 0, length: 8, seen: word(2 ** 20) };
    const { unchecked } = judged([...sums, { op: load, from: 10, to: 20 }]);
    assert.match(unchecked!.why, /more than 4096 orders of what overlaps/);
    const other: LineOp = { ...load, from: 8, seen: word(0) };
    assert.deepEqual(judged([...sums, { op: other, from: 10, to: 20 }]), {});
  });
});
