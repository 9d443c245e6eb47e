/** Which node has power in which life, and what its neighbours notice of it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { digestEvent, emptyDigest } from "../partition/digest.ts";
import { EVENT_KINDS } from "../partition/event_queue.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { PowerState } from "./power_state.ts";
import { planWith } from "./timekeeper_testing.ts";

/** A failure of a is noticed by b so much later, in `planWith`'s rack. */
const NOTICE_PS = 97;

function powerState(
  faults: readonly FaultPlan[] = [],
  scripted: readonly string[] = [],
): PowerState {
  return new PowerState(planWith({ faults }), new Set(scripted));
}

const brief = (changes: readonly { at: number; up: boolean; sourceLife: number }[]) =>
  changes.map(({ at, up, sourceLife }) => [at, up, sourceLife]);

describe("PowerState", () => {
  it("counts the end of a life as the last event of each of its nodes", () => {
    const power = powerState();
    power.note([["a", 5, 6, 7]]);
    power.markUp(["a"], 500);
    const digest = { high: 5, low: 6, events: 7 };
    digestEvent(digest, {
      time: 900,
      kind: EVENT_KINDS.powerOff,
      source: 0,
      counter: 1,
      target: 0,
      sourceLife: 1,
      targetLife: 1,
      input: { kind: "power" },
    });
    assert.deepEqual(power.cut(["a"], 900), [["a", digest.high, digest.low, digest.events]]);
    assert.equal(power.events, 8);
    assert.deepEqual(power.lives(["a", "b"])[0], ["a", 1, digest.high, digest.low, 8]);
    const { high, low } = emptyDigest();
    assert.deepEqual(power.lives(["a", "b"])[1], ["b", 0, high, low, 0]);
  });

  it("splits what a node notices by when its power comes: the last thing before it, and the news after", () => {
    const power = powerState();
    power.markDown(["a"], 1_000);
    power.markUp(["a"], 2_000);
    power.markDown(["a"], 3_000);
    const all = [1_000, 2_000, 3_000].map((at) => at + NOTICE_PS);
    const rows = [[all[0], false, 0], [all[1], true, 1], [all[2], false, 1]];
    // b gets power at the instant of each of them, or one later.
    for (const [i, at] of all.entries()) {
      assert.deepEqual(brief(power.noticed(["b"], at)), rows.slice(Math.max(0, i - 1), i));
      assert.deepEqual(brief(power.newsFor(["b"], at)), rows.slice(i));
      assert.deepEqual(brief(power.noticed(["b"], at + 1)), rows.slice(i, i + 1));
    }
  });

  it("sends no news of a life that ended as it began", () => {
    const power = powerState();
    power.markDown(["a"], 1_000);
    power.markUp(["a"], 2_000);
    power.markDown(["a"], 2_000);
    assert.deepEqual(brief(power.newsFor(["b"], 0)), [
      [1_000 + NOTICE_PS, false, 0],
      [2_000 + NOTICE_PS, false, 1],
    ]);
  });

  it("counts the lives that a node had inside its process, by the plan", () => {
    const faults = [
      { at: 1_000, action: "kill", node: "a" },
      { at: 2_000, action: "start", node: "a" },
      { at: 9_000, action: "kill", node: "a" },
      { at: 9_500, action: "start", node: "a" },
    ] as const;
    const power = powerState(faults, ["a"]);
    assert.equal(power.isUnrecorded, true);
    assert.equal(powerState(faults).isUnrecorded, false);
    power.markDown(["a"], 5_000);
    assert.equal(power.lives(["a"])[0]![1], 1);
    power.markUp(["a"], 6_000);
    assert.equal(power.lives(["a"])[0]![1], 2);
  });
});
