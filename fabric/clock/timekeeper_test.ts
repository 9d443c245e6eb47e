import { beforeEach, describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import type { Grant } from "./clock.ts";
import { NEVER } from "../base/time.ts";
import { horizons, NAMES, planWith, Rig } from "./timekeeper_testing.ts";

describe("Timekeeper", () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });

  it("grants only those that have something to do before their horizon", () => {
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    // c's event at 5000 is beyond what a can cause (1000 + 250): it is not woken.
    assert.deepEqual(horizons(rig.take().slice(3)), { a: 5_250 });
  });

  it("counts what was sent and not yet taken as the receiver's next event", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.take();
    rig.report("a", { grant: 2, next: 9_000, sent: [["b", 0, 3, 1_200]] });
    const [[name, grant]] = rig.take() as [[string, Grant]];
    assert.equal(name, "b");
    assert.deepEqual(grant.expect, [["a", 0, 3]]);
    assert.equal(grant.horizon, 9_100);
    // a's event at 9000 may yet be answered by what b does at 1200.
    assert.deepEqual(rig.take(), []);
  });

  it("keeps for a partition that comes late what was sent to it before", () => {
    rig.join("a", "c");
    rig.report("a", { next: 4_000, sent: [["b", 0, 2, 95]] });
    rig.take();
    rig.join("b");
    assert.deepEqual(rig.welcomes.get("b")!.sentSoFar, []);
    rig.report("b", { next: NEVER });
    assert.deepEqual(rig.take().find(([name]) => name === "b")![1].expect, [["a", 0, 2]]);
  });

  it("confirms to the sender what was taken, with its next grant", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.report("a", { grant: 2, next: 9_000, sent: [["b", 0, 3, 1_200]] });
    rig.take();
    rig.report("b", { grant: 2, next: NEVER });
    assert.deepEqual(rig.take()[0]![1].confirmed, [["b", 3]]);
  });

  it("ignores reports of another term, incarnation or grant", () => {
    rig.join(...NAMES);
    rig.take();
    for (const stale of [{ term: 3 }, { incarnation: 1 }, { grant: 9 }]) {
      rig.report("a", { next: 5, ...stale });
    }
    assert.equal(rig.keeper.why()[0]!.status, "running");
    assert.deepEqual(rig.take(), [], "it was not granted anything else");
  });

  it("finishes when nothing will happen any more, not before", () => {
    rig.settle({ a: NEVER, b: NEVER, c: 700 });
    assert(!rig.keeper.finished);
    rig.report("c", { grant: 2, next: NEVER, now: 700, events: 4 });
    assert.equal(rig.finished?.reason, "quiet");
    assert.equal(rig.finished?.virtualPs, 700);
  });

  it("finishes at the plan's end, with nothing granted beyond it", () => {
    rig = new Rig({ plan: planWith({ until: 500 }) });
    rig.settle({ a: 400, b: NEVER, c: NEVER });
    assert.deepEqual(horizons(rig.take().slice(3)), { a: 500 });
    rig.report("a", { grant: 2, next: 600 });
    assert.equal(rig.finished?.reason, "until");
  });

  it("grants nothing while paused, a step at a time when asked, and goes on", () => {
    rig.join(...NAMES);
    rig.keeper.pause();
    for (const name of NAMES) rig.report(name, { next: 1_000 });
    rig.take();
    assert.deepEqual(rig.take(), []);
    rig.keeper.resume({ limit: 1_001 });
    assert.deepEqual(horizons(rig.take()), { a: 1_001, b: 1_001, c: 1_001 });
    for (const name of NAMES) rig.report(name, { grant: 2, next: 2_000 });
    assert.deepEqual(rig.take(), []);
    rig.keeper.resume();
    assert.equal(rig.take().length, 3);
  });

  it("always has an answer to why time is not moving", () => {
    rig.settle({ a: 1_000, b: NEVER, c: 5_000 });
    rig.wallMs = 50;
    const why = rig.keeper.why();
    assert.deepEqual(why.map(({ status, heldBy }) => [status, heldBy]), [
      ["running", ""],
      ["idle", ""],
      ["idle", "a"],
    ]);
    assert.equal(why[0]!.next, 1_000);
    assert.equal(why[0]!.sinceMs, 50);
  });

  it("repeats a grant that may have been lost, and only that", () => {
    rig.settle({ a: 1_000, b: NEVER, c: NEVER });
    rig.take();
    rig.wallMs = 1_000;
    rig.keeper.repeat(100);
    assert.deepEqual(rig.take().map(([name, { id }]) => [name, id]), [["a", 2]]);
  });
});
