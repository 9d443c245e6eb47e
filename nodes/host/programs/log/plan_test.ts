import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { encodeClaim, type LogRecord, payloadsOf, scanLog, slotBytes } from "./layout.ts";
import { type LogPlan, planLog, type Planned } from "./plan.ts";
import { type FoundLog, NO_LOG, segmentName, segmentOf } from "./segments.ts";
import { seeded } from "../../../../fabric/base/property_testing.ts";

const DATA = Uint8Array.from({ length: 1_000 }, (_, i) => (7 * i) % 251);
const WANTED: Planned = { name: "log", recordBytes: 100, data: DATA, anew: false };

function planned(wanted: Partial<Planned>, found: readonly FoundLog[]): LogPlan {
  const plan = planLog({ ...WANTED, ...wanted }, found);
  assert.ok(!("error" in plan), JSON.stringify(plan));
  return plan;
}

function refusal(wanted: Partial<Planned>, found: readonly FoundLog[]): string {
  const plan = planLog({ ...WANTED, ...wanted }, found);
  assert.ok("error" in plan, "It was planned");
  return plan.error;
}

/** What a replica has that got so many of a client's slots. */
function foundOf({ shape, segments, slots }: LogPlan, count: number): FoundLog {
  const size = slotBytes(shape);
  const bytes = new Uint8Array(slots.length);
  bytes.set(slots.subarray(0, count * size));
  return { ...scanLog(shape, bytes), recordBytes: shape.recordBytes, segments };
}

function contentOf(records: readonly LogRecord[]): Uint8Array {
  return Uint8Array.from(payloadsOf(records).flatMap((payload) => [...payload]));
}

describe("planLog", () => {
  it("begins with a barrier, and has room for clients that start again", () => {
    const plan = planned({}, [NO_LOG, NO_LOG]);
    assert.deepEqual(plan.segments, [74]);
    assert.deepEqual([plan.epoch, plan.first, plan.recovered], [1, 1, 0]);
    assert.deepEqual(plan.records.map(({ kind }) => kind), [
      "barrier",
      ...new Array(10).fill("data"),
    ]);
  });

  it("goes on behind what was found, with what the data have more by now", () => {
    const before = planned({ data: DATA.subarray(0, 250) }, [NO_LOG]);
    const plan = planned({}, [foundOf(before, 5), NO_LOG]);
    assert.equal(plan.recovered, 3);
    // The third record was the data's end then, so it is short, and stays so.
    const lengths = payloadsOf(plan.records).map(({ length }) => length);
    assert.deepEqual(lengths, [100, 100, 50, 100, 100, 100, 100, 100, 100, 100, 50]);
    assert.deepEqual(contentOf(plan.records), DATA);
    assert.deepEqual([plan.epoch, plan.segments], [2, before.segments]);
  });

  it("adds a segment where the slots are too few, and moves none", () => {
    const before = planned({ recordBytes: 10, data: DATA.subarray(0, 20) }, [NO_LOG]);
    assert.deepEqual(before.segments, [66]);
    const plan = planned({ recordBytes: undefined }, [foundOf(before, 4)]);
    const records = 2 + 2 + 98;
    assert.deepEqual(plan.segments, [66, 1 + records - 66 + 64]);
    assert.deepEqual(segmentOf(plan.segments, 65), { index: 0, first: 0, end: 66 });
    assert.deepEqual(segmentOf(plan.segments, 66), { index: 1, first: 66, end: 167 });
    assert.deepEqual(segmentOf(plan.segments, 167), { index: 1, first: 66, end: 167 });
    assert.deepEqual([segmentName("log", 0), segmentName("log", 1)], ["log", "log+1"]);
    const size = slotBytes(plan.shape);
    assert.deepEqual(plan.slots.subarray(size, 4 * size), before.slots.subarray(size, 4 * size));
  });

  it("says which record is not the data's, and leaves the log alone", () => {
    const log = foundOf(planned({}, [NO_LOG]), 12);
    const other = DATA.slice();
    other[321] = 0xff;
    assert.equal(
      refusal({ data: other }, [log]),
      "log log is another's: its record 3 has 0xef at byte 21, where the data have 0xff (at byte 321 of 1000); " +
        "name another log, or say anew: true to begin this one anew",
    );
    const short =
      /its record 4 has 0x8a at byte 50, where the data have ended \(at byte 450 of 450\)/;
    assert.match(refusal({ data: DATA.subarray(0, 450) }, [log]), short);
    const sizes = /it has 10 records of at most 100 B, not of 50 B/;
    assert.match(refusal({ recordBytes: 50 }, [log]), sizes);
  });

  it("begins anew where it is told to, only what is something else, and says how much is dropped", () => {
    const log = foundOf(planned({}, [NO_LOG]), 12);
    const other = DATA.toReversed();
    const anew = planned({ data: other, anew: true }, [log]);
    assert.deepEqual([anew.dropped, anew.recovered, anew.epoch, anew.first], [10, 0, 2, 1]);
    assert.deepEqual(anew.segments, log.segments, "in its own place");
    assert.deepEqual(contentOf(anew.records), other);
    // Started again, with any replica that has the new barrier, it goes on.
    const again = planned({ data: other, anew: true }, [foundOf(anew, 4), log]);
    assert.deepEqual([again.dropped, again.recovered], [0, 2]);
    assert.equal(planned({ anew: true }, [log]).dropped, 0);
    assert.deepEqual(planned({ recordBytes: 50, anew: true }, [log]).segments, [84]);
  });

  it("takes what an earlier client has only claimed for no log, and keeps its place", () => {
    const before = planned({ data: DATA.subarray(0, 500) }, [NO_LOG]);
    const plan = planned({ data: DATA.subarray(0, 100) }, [foundOf(before, 1)]);
    assert.deepEqual([plan.segments, plan.epoch, plan.recovered], [before.segments, 2, 0]);
  });

  it("P-41: whatever a client leaves, the next has all of the data behind it", () => {
    const clients = fc.array(
      fc.record({ bytes: fc.integer({ min: 1, max: 1000 }), reached: fc.nat({ max: 120 }) }),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(clients, (lives) => {
        let found = NO_LOG, most = 0;
        for (const { bytes, reached } of lives) {
          most = Math.max(most, bytes);
          const wanted = { recordBytes: 10, data: DATA.subarray(0, most) };
          const plan = planned(wanted, [found]);
          assert.deepEqual(contentOf(plan.records), wanted.data);
          assert.ok(plan.records.length < plan.shape.slots);
          const got = foundOf(plan, Math.max(plan.first + 1, reached));
          assert.ok(got.records.length >= found.records.length, "a record was lost");
          found = got;
        }
      }),
      seeded({ numRuns: 100, seed: 11 }),
    );
  });
});

describe("encodeClaim", () => {
  it("is one word that says the epoch, and one that never changes", () => {
    const shape = { name: "log", recordBytes: 100, slots: 3 };
    const first = encodeClaim(shape, 1), second = encodeClaim(shape, 2);
    assert.notDeepEqual(first.subarray(0, 8), second.subarray(0, 8));
    assert.deepEqual(first.subarray(8), second.subarray(8));
  });
});
