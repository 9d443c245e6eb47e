import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Time } from "../../fabric/base/time.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import { HostMemory } from "./host_memory.ts";
import { type DeclaredWrite, Landing, MemoryRecord } from "./memory_record.ts";

const LINE = 128, BYTES = new Uint8Array(64).fill(7);
const NEVER_TOLD = { visibleAt: Infinity, claimedAt: Infinity, promisedAt: Infinity };
/** Power is off from 50 to 60. */
const LIVES = [{ from: 0, to: 50 }, { from: 60, to: Infinity }];

function at(record: MemoryRecord, at: Time): HostMemory {
  const config = { domain: "adr" } as HostPlan;
  return new HostMemory(record, { config, lives: LIVES, noticePs: 0, at });
}

function declare(record: MemoryRecord, issuedAt: Time): DeclaredWrite {
  const landing = new Landing(LINE, BYTES);
  const write = { by: "p", id: issuedAt, node: "a", on: "b", landing, issuedAt, ...NEVER_TOLD };
  record.declare(write);
  return write;
}

function pass(record: MemoryRecord, cardAt: Time): void {
  record.pass({
    ...{ landing: new Landing(LINE, BYTES), card: "b-rnic", cardAt },
    ...{ sentAt: cardAt, busAt: cardAt + 2, arrivesAt: cardAt + 4 },
  });
}

/** Where the line is, and whose write it is: `bus of 10, lost`; nothing where it is of no interest. */
function standing(record: MemoryRecord, time: Time): string {
  const memory = at(record, time);
  if (!memory.openLines().includes(LINE)) return "";
  return memory.line(LINE).pieces.map(({ place, write, survives }) => {
    return `${place}${write ? ` of ${write.id}` : ""}${survives ? "" : ", lost"}`;
  }).join("; ");
}

describe("HostMemory", () => {
  it("has a write on its way behind its issue, and up to the instant at which its last byte is there", () => {
    const record = new MemoryRecord();
    declare(record, 10);
    record.durable(30, LINE, BYTES);
    same([10, 11, 30, 31].map((time) => standing(record, time)), [
      ...["", "in-flight of 10, lost", "in-flight of 10, lost", ""],
    ]);
  });

  it("has what the card writes at each station behind the instant at which it gets there", () => {
    const record = new MemoryRecord();
    pass(record, 10);
    record.durable(16, LINE, BYTES);
    same([10, 11, 12, 13, 14, 15, 16, 17].map((time) => standing(record, time)), [
      ...["", "card, lost", "card, lost", "bus, lost", "bus, lost", "iio, lost", "iio, lost", ""],
    ]);
  });

  it("keeps what a power failure took red, with its bytes and whose they were, until something comes there", () => {
    const record = new MemoryRecord(), second = LINE + 64, old = new Uint8Array(64).fill(1);
    record.durable(5, LINE, old);
    const write = declare(record, 10);
    record.dirty(20, LINE, BYTES);
    // No program has declared this one.
    record.dirty(21, second, BYTES);
    record.cuts.push({ at: 50, lost: at(record, 50).lostByCut(undefined) });
    const lostAt = (time: Time) =>
      [LINE, second].map((line) => {
        const memory = at(record, time);
        return memory.line(line).pieces.map(({ place, lost, write }) =>
          lost === undefined
            ? place
            : `${lost.place} at ${lost.at}${write ? ` of ${write.id}` : ""}`
        ).join("; ");
      });
    same(lostAt(50), ["llc", "llc"], "at the cut itself it is under way");
    same(lostAt(51), ["llc at 50 of 10", "llc at 50"]);
    const memory = at(record, 55);
    same([memory.seen(LINE), memory.beforeCut(LINE)], [old, BYTES]);
    same(memory.beforeCut(second), BYTES);
    same([memory.lostLines().size, memory.cutAt], [2, 50]);
    record.beginLife(60);
    record.durable(70, LINE, BYTES);
    same(lostAt(70), ["llc at 50 of 10", "llc at 50"]);
    same(lostAt(71), ["medium", "llc at 50"]);
    same(at(record, 71).line(LINE).pieces[0]!.write, write);
    record.dirty(75, second, old);
    same(lostAt(76)[1], "llc");
  });

  it("keeps the bytes red that a later write into their line is not over", () => {
    const record = new MemoryRecord();
    declare(record, 10);
    record.dirty(20, LINE, BYTES);
    record.cuts.push({ at: 50, lost: at(record, 50).lostByCut(undefined) });
    record.beginLife(60);
    const after = new Uint8Array(64), part = new Uint8Array(16).fill(0x77);
    after.set(part, 8);
    record.dirty(70, LINE, after);
    const pieces = (time: Time) =>
      at(record, time).line(LINE).pieces.filter(({ lost }) => lost !== undefined)
        .map(({ from, to, write }) => [from - LINE, to - LINE, write?.id]);
    same(pieces(65), [[0, 64, 10]]);
    same(pieces(71), [[0, 8, 10], [24, 64, 10]]);
    same(at(record, 71).lostLines().size, 1);
    // What was lost can be told of the line as it is now.
    const were = at(record, 71).beforeCut(LINE)!;
    same([...were.subarray(0, 8)], [...BYTES.subarray(0, 8)]);
    same([...were.subarray(8, 24)], [...part]);
    record.durable(80, LINE, after);
    same(pieces(81), [[0, 8, 10], [24, 64, 10]], "also when it has become durable");
  });

  it("has nothing on its way of what an earlier life of its host was to get", () => {
    for (const begin of [declare, pass]) {
      const record = new MemoryRecord();
      begin(record, 46);
      same(standing(record, 50) !== "", true, "the power fails");
      record.beginLife(60);
      same([51, 60, 61, 99].map((time) => standing(record, time)), ["", "", "", ""], begin.name);
      begin(record, 70);
      same(standing(record, 72) !== "", true);
    }
  });
});
