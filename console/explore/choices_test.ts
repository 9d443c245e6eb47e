import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Cell, Cells, lineCell, tornCells, viewOf } from "./choices.ts";
import { CrashCursor, HistoryLog, Overlay, Pages } from "./history.ts";

/** A line, or less, of words of 8 B, each of one digit. */
function words(digits: string): Uint8Array {
  return Uint8Array.from([...digits].flatMap((digit) => new Array(8).fill(Number(digit))));
}

function digitsOf(bytes: Uint8Array): string {
  return Array.from({ length: bytes.length / 8 }, (_, i) => bytes[8 * i]).join("");
}

function cursorOf(log: HistoryLog): CrashCursor<Pages> {
  const cursor = new CrashCursor(log.entries, new Pages());
  cursor.moveTo(Infinity);
  return cursor;
}

function cellOf(log: HistoryLog) {
  const cursor = cursorOf(log);
  const dirty = cursor.dirty.get(64);
  return dirty && lineCell(dirty, cursor.image);
}

describe("lineCell", () => {
  it("P-04 (in part): a line was written back at no time, or with the bytes of any since it was clean", () => {
    const log = new HistoryLog();
    log.durable(10, 64, words("11111111"), 64);
    log.dirty(20, 64, words("12111111"), 0);
    log.dirty(30, 64, words("12221111"), 0);
    log.dirty(40, 64, words("12111111"), 0);
    const cell = cellOf(log)!;
    assert.deepEqual(cell.alternatives.map(digitsOf), ["11111111", "12111111", "12221111"]);
    assert.deepEqual(cell.writebacks(0), []);
    // The word had it last at the end of 40; as early would do.
    assert.deepEqual(cell.writebacks(1), [{ at: 40, from: 72, to: 80, buffered: false }]);
    assert.deepEqual(cell.writebacks(2), [
      { at: 40, from: 72, to: 80, buffered: false },
      { at: 30, from: 80, to: 96, buffered: false },
    ]);
  });

  it("a core's words reach the line one after the other: the first few of them", () => {
    const log = new HistoryLog();
    log.dirty(20, 64, words("01101100"), 0b110110);
    const cell = cellOf(log)!;
    assert.deepEqual(cell.alternatives.map(digitsOf), [
      "00000000",
      "01000000",
      "01100000",
      "01101000",
      "01101100",
    ]);
    assert.deepEqual(cell.writebacks(3), [
      { at: 20, from: 72, to: 88, buffered: false },
      { at: 20, from: 96, to: 104, buffered: false },
    ]);
  });

  it("a word that another store of the same instant is over says itself what it brings", () => {
    const log = new HistoryLog();
    log.dirty(20, 64, words("10000000"), 1);
    log.dirty(20, 64, words("20000000"), 1);
    const cell = cellOf(log)!;
    assert.deepEqual(cell.alternatives.map(digitsOf), ["00000000", "10000000", "20000000"]);
    const data = "01".repeat(8);
    assert.deepEqual(cell.writebacks(1), [{ at: 20, from: 64, to: 72, buffered: false, data }]);
    assert.deepEqual(cell.writebacks(2), [{ at: 20, from: 64, to: 72, buffered: false }]);
  });

  it("P-04 (in part): no bytes of before come behind newer ones that are durable, though the line stays dirty", () => {
    const log = new HistoryLog();
    log.dirty(20, 64, words("10000000"), 0);
    log.dirty(30, 64, words("20000000"), 0);
    log.durable(40, 64, words("20000000"), 64);
    assert.equal(cellOf(log), undefined);
    log.dirty(50, 64, words("30000000"), 0);
    assert.deepEqual(cellOf(log)!.alternatives.map(digitsOf), ["20000000", "30000000"]);
  });

  it("is no choice where the line is clean, or as it was", () => {
    const log = new HistoryLog();
    log.dirty(20, 64, words("00000000"), 0xff);
    assert.equal(cellOf(log), undefined);
    log.dirty(30, 64, words("10000000"), 0);
    log.durable(40, 64, words("10000000"), 64);
    log.clean(40, 64);
    assert.equal(cellOf(log), undefined);
  });

  it("P-05 (in part): forgets what was volatile when another life begins", () => {
    const log = new HistoryLog();
    log.dirty(20, 64, words("10000000"), 0);
    log.beginLife(50);
    assert.equal(cellOf(log), undefined);
  });
});

describe("tornCells", () => {
  const entry = { kind: "durable", at: 50, offset: 72, bytes: words("123"), unit: 8 } as const;

  it("P-41 (in part): each word of an interrupted write is there or not", () => {
    const image = new Pages();
    image.write(80, words("2"));
    const cells = tornCells(entry, 8, image);
    // The word in the middle is what it was.
    assert.deepEqual(cells.map(({ from, length }) => [from, length]), [[72, 8], [88, 8]]);
    assert.deepEqual(cells[1]!.alternatives.map(digitsOf), ["0", "3"]);
    assert.deepEqual(cells[1]!.writebacks(1), [{ at: 49, from: 88, to: 96, buffered: true }]);
  });

  it("tears no finer than it is asked to, and no line that leaves the cache", () => {
    assert.deepEqual(tornCells(entry, 64, new Pages()).map(({ from, length }) => [from, length]), [
      [72, 24],
    ]);
    assert.deepEqual(tornCells({ ...entry, offset: 64, unit: 64 }, 8, new Pages()), []);
  });
});

describe("Cells", () => {
  it("finds a line's choices anew when it changes, and reads by who decides", () => {
    const log = new HistoryLog();
    log.dirty(20, 64, words("10000000"), 0);
    log.dirty(30, 64, words("11000000"), 0);
    const cursor = new CrashCursor(log.entries, new Pages());
    const cells = new Cells(cursor);
    cursor.moveTo(30);
    assert.deepEqual(cells.in(0, 64), []);
    const [first] = cells.in(120, 200);
    assert.equal(first?.alternatives.length, 2);
    assert.ok(cells.has(first));
    assert.equal(cells.in(64, 72)[0], first);
    cursor.moveTo(31);
    const [second] = cells.in(64, 72);
    assert.equal(second?.alternatives.length, 3);
    assert.ok(!cells.has(first));
    const target = viewOf({ image: cursor.image, cells }, () => 2).read(60, 84);
    assert.deepEqual([...target], [
      ...new Array(4).fill(0),
      ...new Array(16).fill(1),
      ...new Array(4).fill(0),
    ]);
  });
});

describe("Cells of an interrupted instant", () => {
  const log = new HistoryLog();
  log.dirty(20, 64, words("10000000"), 0);
  const cursor = cursorOf(log), cells = new Cells(cursor);
  const [line] = cells.in(64, 128);
  const torn = (from: number, length: number): Cell => ({
    at: 30,
    from,
    length,
    alternatives: [new Uint8Array(length), new Uint8Array(length).fill(9)],
    writebacks: () => [],
  });

  it("stand in the line's place where one is all of it, else beside it, in their order", () => {
    const whole = torn(64, 64), other = torn(128, 8);
    cells.interrupt([whole, other]);
    assert.deepEqual(cells.in(64, 136), [whole, other]);
    assert.deepEqual(cells.in(64, 128), [whole]);
    const parts = [torn(72, 8), torn(64, 8)];
    cells.interrupt(parts);
    assert.deepEqual(cells.in(64, 128), [line, ...parts]);
    assert.deepEqual(cells.in(72, 80), [line, parts[0]]);
    assert.ok(!cells.has(whole) && parts.every((part) => cells.has(part)));
  });

  it("are gone behind it", () => {
    cells.mend();
    assert.deepEqual(cells.in(64, 136), [line]);
  });
});

describe("Overlay", () => {
  it("reads what was written, and asks for no more of the rest than it must", () => {
    const asked: number[] = [];
    const overlay = new Overlay({
      read(from, to) {
        asked.push(from, to);
        return new Uint8Array(to - from).fill(7);
      },
    });
    overlay.write(60, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
    assert.deepEqual([...overlay.read(60, 68)], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.deepEqual(asked, []);
    assert.deepEqual([...overlay.read(64, 72)], [5, 6, 7, 8, 7, 7, 7, 7]);
    assert.deepEqual(asked, [64, 72]);
  });
});
