import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../fabric/base/property_testing.ts";
import { beyondLimits, byAge, readLimits } from "./run_limits.ts";

const NAMED = { runs: "--runs", bytes: "--size" };

describe("readLimits", () => {
  it("takes a number and a size, none for no limit, and ours where nothing is said", () => {
    assert.deepEqual(readLimits({}, NAMED), { runs: 50, bytes: 2 ** 31 });
    assert.deepEqual(readLimits({ runs: "", bytes: "" }, NAMED), { runs: 50, bytes: 2 ** 31 });
    assert.deepEqual(readLimits({ runs: "7", bytes: "1MiB" }, NAMED), { runs: 7, bytes: 2 ** 20 });
    const none = { runs: Infinity, bytes: Infinity };
    assert.deepEqual(readLimits({ runs: "none", bytes: "none" }, NAMED), none);
  });

  it("refuses what is neither, by the name of the option", () => {
    assert.throws(() => readLimits({ runs: "-1" }, NAMED), /^.*--runs is "-1": expected a whole/);
    assert.throws(() => readLimits({ bytes: "2 GB" }, NAMED), /--size is "2 GB": expected a size/);
  });
});

describe("beyondLimits", () => {
  const runs = [
    { id: "c", started: "2026-01-03", bytes: 10 },
    { id: "a", started: "2026-01-01", bytes: 1 },
    { id: "b", started: "2026-01-02", bytes: 5 },
  ];
  const goneOf = (limits: { runs: number; bytes: number }) =>
    beyondLimits(runs, limits).map(({ started }) => started.slice(-1)).join("");

  it("takes the oldest first, and no more than it has to", () => {
    assert.equal(goneOf({ runs: 3, bytes: 16 }), "");
    assert.equal(goneOf({ runs: 2, bytes: 16 }), "1");
    assert.equal(goneOf({ runs: 3, bytes: 15 }), "1");
    assert.equal(goneOf({ runs: 3, bytes: 14 }), "12");
    assert.equal(goneOf({ runs: 0, bytes: Infinity }), "123");
  });

  it("leaves the same one of runs that began in one millisecond, in whatever order they come", () => {
    const started = "2026-01-01";
    const twins = ["b", "c", "a"].map((id) => ({ id, started, bytes: 1 }));
    const newest = twins.toSorted((x, y) => byAge(y, x))[0];
    assert.equal(newest?.id, "c");
    for (const order of [twins, twins.toReversed()]) {
      const gone = beyondLimits(order, { runs: 1, bytes: Infinity });
      assert.deepEqual(gone.map(({ id }) => id), ["a", "b"]);
    }
  });

  it("leaves what is within the limits, and would be beyond them with one more", () => {
    const run = fc.record({ started: fc.date({ noInvalidDate: true }), bytes: fc.nat(1_000) });
    const property = fc.property(fc.array(run), fc.nat(8), fc.nat(4_000), (some, count, bytes) => {
      const rows = some.map((each) => ({
        ...each,
        id: "run",
        started: each.started.toISOString(),
      }));
      const gone = new Set(beyondLimits(rows, { runs: count, bytes }));
      const left = rows.filter((each) => !gone.has(each));
      const sum = (of: typeof rows) => of.reduce((total, each) => total + each.bytes, 0);
      assert.ok(left.length <= count && sum(left) <= bytes);
      const last = [...gone].at(-1);
      if (last === undefined) return;
      assert.ok(left.length + 1 > count || sum(left) + last.bytes > bytes);
      assert.ok(left.every(({ started }) => started >= last.started));
    });
    fc.assert(property, seeded());
  });
});
