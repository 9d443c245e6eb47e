/** Breaks and pauses stop the rack as a whole: see also `runner/breaks_test.ts`. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { NEVER } from "../base/time.ts";
import { Breaks } from "./breaks.ts";
import { horizons, NAMES, Rig } from "./timekeeper_testing.ts";

describe("Breaks", () => {
  it("counts in the order of time, then of partitions, whichever reported first", () => {
    const breaks = new Breaks([{ step: "x", count: 3 }, { step: "y", node: "b" }]);
    assert.deepEqual(breaks.rows, [["x", "", 3], ["y", "b", 1]]);
    breaks.note(1, [[0, "b", 7]]);
    breaks.note(0, [[0, "a", 5]]);
    assert.equal(breaks.settle(), false);
    assert.deepEqual(breaks.rows, [["x", "", 1], ["y", "b", 1]]);
    breaks.note(1, [[0, "b", 9], [1, "b", 9]]);
    breaks.note(0, [[0, "a", 9]]);
    assert.equal(breaks.settle(), true);
    assert.deepEqual(breaks.hits, [
      { break: 0, node: "a", step: "x", atPs: 9, count: 3 },
      { break: 1, node: "b", step: "y", atPs: 9, count: 1 },
    ]);
  });

  it("drops what a report has of a break that there is not", () => {
    const breaks = new Breaks([{ step: "x" }]);
    breaks.note(0, [[1, "a", 5]]);
    assert.equal(breaks.settle(), false);
  });
});

describe("Timekeeper.pause", () => {
  let rig: Rig;

  beforeEach(() => {
    rig = new Rig();
  });

  it("lets those behind go on to where the first one is, and none further", () => {
    rig.settle({ a: 1_000, b: 1_100, c: 1_150 });
    assert.deepEqual(Object.keys(horizons(rig.take().slice(3))), ["a", "c"]);
    rig.keeper.pause();
    rig.report("a", { grant: 2, ran: 1_180, next: 2_000 });
    assert.equal(rig.keeper.standsAt, undefined);
    rig.report("c", { grant: 2, ran: 1_200, next: 3_000 });
    assert.deepEqual(horizons(rig.take()), { b: 1_201 });
    rig.report("b", { grant: 2, ran: 1_100, next: 1_300 });
    assert.deepEqual(rig.take(), []);
    assert.equal(rig.keeper.standsAt, 1_201);
    // What is ordered now happens when time goes on.
    rig.keeper.pause();
    assert.deepEqual(rig.take(), []);
    rig.keeper.resume();
    assert.deepEqual(Object.keys(horizons(rig.take())), ["b"]);
  });

  it("begins with nothing where it comes before all", () => {
    rig.keeper.pause();
    rig.join(...NAMES);
    assert.deepEqual(rig.take(), []);
    assert.equal(rig.keeper.standsAt, 0);
  });
});

describe("Timekeeper.resume with breaks", () => {
  it("levels the rack, then lets no partition run past the next event of another", () => {
    const rig = new Rig();
    rig.settle({ a: 1_000, b: 1_100, c: 1_150 });
    rig.take();
    rig.keeper.resume({ breaks: [{ step: "S907", count: 2 }] });
    rig.report("a", { grant: 2, ran: 1_180, next: 2_000 });
    rig.report("c", { grant: 2, ran: 1_120, next: 1_400 });
    const [[name, level]] = rig.take() as [ReturnType<Rig["take"]>[0]];
    assert.deepEqual([name, level.horizon, level.breaks], ["b", 1_181, []]);
    rig.report("b", { grant: 2, ran: 1_100, next: 1_300 });
    const first = rig.take();
    assert.deepEqual(horizons(first), { b: 1_401 });
    assert.deepEqual(first[0]![1].breaks, [["S907", "", 2]]);
    rig.report("b", { grant: 3, ran: 1_300, next: 1_400, hits: [[0, "b", 1_300]] });
    assert.equal(rig.keeper.paused, false);
    const both = rig.take();
    assert.deepEqual(horizons(both), { b: 1_401, c: 1_401 });
    assert.deepEqual(both[0]![1].breaks, [["S907", "", 1]]);
    rig.report("c", { grant: 3, ran: 1_400, next: NEVER, hits: [[0, "c", 1_400]] });
    assert.equal(rig.keeper.paused, false, "b may have been first");
    rig.report("b", { grant: 4, ran: 1_400, next: 1_500, hits: [[0, "b", 1_400]] });
    assert.equal(rig.keeper.paused, true);
    assert.deepEqual(rig.keeper.breaks.hits, [
      { break: 0, node: "b", step: "S907", atPs: 1_400, count: 2 },
    ]);
    assert.equal(rig.keeper.standsAt, 1_401);
    assert.deepEqual(rig.take(), []);
    rig.keeper.resume();
    assert.deepEqual(rig.keeper.breaks, new Breaks([]));
  });
});
