import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { IN_ORDER } from "../../nodes/host/memory/memory_log.ts";
import { Cells, viewOf } from "./choices.ts";
import { CrashCursor, HistoryLog, Pages } from "./history.ts";
import { interruptions, writebacksOf } from "./interrupted.ts";

/** Words of 8 B, each of one digit. */
function words(digits: string): Uint8Array {
  return Uint8Array.from([...digits].flatMap((digit) => new Array(8).fill(Number(digit))));
}

/** All that words 0 to 7 and 8 to 15 may be found as in the middle of an instant, as digits. */
function foundIn(log: HistoryLog, tear = 8): string[][] {
  const cursor = new CrashCursor(log.entries, new Pages());
  const cells = new Cells(cursor);
  const all: string[][] = [];
  for (const _ of interruptions(cursor, cells, { until: Infinity, tear })) {
    const open = cells.in(0, 128);
    const found: string[] = [];
    const picks = open.map(() => 0);
    for (;;) {
      const pick = (cell: typeof open[number]) => picks[open.indexOf(cell)]!;
      const bytes = viewOf({ image: cursor.image, cells }, pick).read(0, 128);
      found.push(Array.from({ length: 16 }, (_, i) => bytes[8 * i]).join(""));
      const next = open.findIndex(({ alternatives }, i) => picks[i]! + 1 < alternatives.length);
      if (next < 0) break;
      picks.fill(0, 0, next);
      picks[next]!++;
    }
    all.push([...new Set(found)].sort());
  }
  return all;
}

describe("interruptions", () => {
  it("P-41 (in part): pieces of what goes to memory at an instant are there in any order, of several lines too", () => {
    const log = new HistoryLog();
    log.durable(50, 56, words("1"), 8);
    log.durable(50, 64, words("2"), 8);
    assert.deepEqual(foundIn(log), [[
      "0000000000000000",
      "0000000020000000",
      "0000000100000000",
      "0000000120000000",
    ]]);
  });

  it("does not stop where one piece is there or not: the instants around it show that", () => {
    const log = new HistoryLog();
    log.durable(50, 56, words("1"), 8);
    log.durable(60, 0, words("11111111"), 64);
    assert.deepEqual(foundIn(log), []);
    log.durable(70, 64, words("11"), 8);
    assert.deepEqual(foundIn(log, 16), []);
    assert.equal(foundIn(log).length, 1);
  });

  it("P-41 (in part): stores that are durable at once come one after the other, word by word", () => {
    const log = new HistoryLog();
    log.durable(50, 64, words("12"), IN_ORDER);
    log.durable(50, 0, words("3"), IN_ORDER);
    assert.deepEqual(foundIn(log), [
      ["0000000000000000", "0000000010000000", "0000000012000000"],
      ["0000000012000000", "3000000012000000"],
    ]);
  });

  it("P-04 (in part): a buffer may go to memory before one that was filled earlier at the same instant", () => {
    const log = new HistoryLog();
    log.dirty(50, 0, words("11111111"), 0xff);
    log.dirty(50, 64, words("20000000"), 1);
    log.durable(50, 0, words("11111111"), 64);
    log.clean(50, 0);
    const [found] = foundIn(log);
    assert.ok(found?.includes("0000000020000000"), `${found}`);
    assert.ok(found?.includes("1110000000000000"), "a core's words came in order");
    assert.ok(!found?.includes("0110000000000000"));
  });

  it("P-04 (in part): a line may be found as it was before the instant in which it goes to memory, too", () => {
    const log = new HistoryLog();
    log.dirty(20, 0, words("10000000"), 0b01);
    log.dirty(50, 0, words("12000000"), 0b10);
    log.durable(50, 0, words("12000000"), 64);
    log.clean(50, 0);
    assert.deepEqual(foundIn(log), [
      ["0000000000000000", "1000000000000000", "1200000000000000"],
    ]);
  });

  it("of two writes of one instant to the same bytes the later one comes when the earlier one is there", () => {
    const log = new HistoryLog();
    log.durable(50, 0, words("11"), 8);
    log.durable(50, 8, words("22"), 8);
    assert.deepEqual(foundIn(log), [
      ["0000000000000000", "0100000000000000", "1000000000000000", "1100000000000000"],
      ["1100000000000000", "1120000000000000", "1200000000000000", "1220000000000000"],
    ]);
  });

  it("says what a run has to bring, as it has no such instant", () => {
    const log = new HistoryLog();
    log.durable(50, 68, words("1").subarray(4), IN_ORDER);
    log.durable(50, 0, words("3"), IN_ORDER);
    const cursor = new CrashCursor(log.entries, new Pages());
    const plans = [];
    for (const each of interruptions(cursor, new Cells(cursor), { until: 51, tear: 8 })) {
      plans.push(writebacksOf(each, cursor.image));
    }
    const data = "0000000001010101";
    assert.deepEqual(plans, [[{ at: 49, from: 64, to: 72, buffered: false, data }]]);
  });
});
