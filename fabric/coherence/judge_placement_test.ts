/** Who judges the copy's place, and how (C-04, decision 17). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  FRESH_JUDGEMENT,
  type Judgement,
  judgePlacement,
  placeFor,
  type WindowCounts,
} from "./judge_placement.ts";
import { JUDGE_PLAN, type JudgeRules } from "../rack/plan/shared_region.ts";

const AT_ONCE: JudgeRules = { marginPercent: 0, windows: 1 };

function after(start: Judgement, windows: readonly WindowCounts[], rules?: JudgeRules): Judgement {
  return windows.reduce((before, counts) => judgePlacement(before, counts, rules), start);
}

function moves(start: Judgement, windows: readonly WindowCounts[], rules?: JudgeRules): number {
  let count = 0, now = start;
  for (const counts of windows) {
    const next = judgePlacement(now, counts, rules);
    if (next.place !== now.place) count++;
    now = next;
  }
  return count;
}

const LOCAL: Judgement = { place: "local", isFresh: false, forMove: 0 };
const REMOTE: Judgement = { place: "remote", isFresh: false, forMove: 0 };

describe("judgePlacement", () => {
  it("C-04 (in part): without hysteresis is the document's rule, whatever was before: every ratio", () => {
    for (let home = 0; home <= 12; home++) {
      for (let far = home === 0 ? 1 : 0; far <= 12; far++) {
        for (const before of [FRESH_JUDGEMENT, LOCAL, REMOTE]) {
          const { place } = judgePlacement(before, { home, far }, AT_ONCE);
          assert.equal(place, home > far ? "local" : "remote", `${home} : ${far}`);
        }
      }
    }
  });

  it("decision 17: a tie goes to remote", () => {
    assert.equal(placeFor({ home: 7, far: 7 }), "remote");
    assert.equal(judgePlacement(LOCAL, { home: 7, far: 7 }, AT_ONCE).place, "remote");
  });

  it("decision 17: a fresh region follows the plain rule at once, without margin", () => {
    assert.equal(judgePlacement(FRESH_JUDGEMENT, { home: 101, far: 100 }).place, "local");
    assert.equal(judgePlacement(FRESH_JUDGEMENT, { home: 100, far: 100 }).place, "remote");
  });

  it("decision 17: a move needs the margin, in windows one after the other", () => {
    const worth = { home: 126, far: 100 }, little = { home: 124, far: 100 };
    assert.equal(moves(REMOTE, Array(50).fill(little)), 0);
    assert.equal(after(REMOTE, [worth]).place, "remote");
    assert.equal(after(REMOTE, [worth, little, worth]).place, "remote");
    assert.equal(after(REMOTE, [worth, worth]).place, "local");
    assert.equal(after(LOCAL, [{ home: 100, far: 124 }, { home: 100, far: 124 }]).place, "local");
    assert.equal(after(LOCAL, [{ home: 100, far: 125 }, { home: 100, far: 125 }]).place, "remote");
  });

  it("C-04 (in part): counts that swing around the crossover move the copy without hysteresis, and not with it", () => {
    const swing = Array.from(
      { length: 40 },
      (_, at) => at % 2 === 0 ? { home: 110, far: 100 } : { home: 100, far: 110 },
    );
    assert.equal(moves(LOCAL, swing, AT_ONCE), 39);
    assert.equal(moves(LOCAL, swing), 0);
  });

  it("a window without an access says nothing", () => {
    const worth = { home: 2, far: 0 }, none = { home: 0, far: 0 };
    assert.deepEqual(judgePlacement(FRESH_JUDGEMENT, none), FRESH_JUDGEMENT);
    assert.equal(judgePlacement(LOCAL, none, AT_ONCE).place, "local");
    assert.equal(after(REMOTE, [worth, none, worth]).place, "local");
  });

  it("refuses counts and rules that are none", () => {
    assert.throws(() => judgePlacement(LOCAL, { home: -1, far: 0 }), /Cannot judge -1 and 0/);
    assert.throws(() => judgePlacement(LOCAL, { home: 1.5, far: 0 }), /whole numbers/);
    assert.throws(
      () => judgePlacement(LOCAL, { home: 1, far: 0 }, { ...JUDGE_PLAN, windows: 0 }),
      /at least one window/,
    );
  });
});
