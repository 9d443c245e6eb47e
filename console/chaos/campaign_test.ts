import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { exitOf, isStuck, type RoundReport, UNTOLD_MOST } from "./campaign.ts";
import { playInOrder } from "./play_in_order.ts";

type Outcome = RoundReport["outcome"];

describe("exitOf", () => {
  it("is 0 only where every round held, and there was one", () => {
    equal(exitOf({ held: 3, broken: 0, untold: 0 }), 0);
    equal(exitOf({ held: 3, broken: 0, untold: 1 }), 2);
    equal(exitOf({ held: 0, broken: 0, untold: 2 }), 2);
    equal(exitOf({ held: 0, broken: 0, untold: 0 }), 2);
    equal(exitOf({ held: 3, broken: 1, untold: 1 }), 1);
  });
});

describe("isStuck", () => {
  const afterRounds = (...outcomes: readonly Outcome[]) =>
    isStuck(outcomes.map((outcome) => ({ outcome })));

  it("is so from the third round in a row without a result on", () => {
    equal(afterRounds("held", "untold", "untold"), false);
    equal(afterRounds("untold", "untold", "broken", "untold"), false);
    equal(afterRounds("held", "untold", "untold", "untold"), true);
    equal(afterRounds("untold", "untold", "untold", "held"), true);
  });

  it("ends a campaign with any number of jobs: what was played by then is no more than there are jobs", async () => {
    for (const jobs of [1, 2, 3]) {
      const rounds: { outcome: Outcome }[] = [];
      await playInOrder({
        jobs,
        play: (place) => Promise.resolve(place),
        isOver: (played) => played === 20 || isStuck(rounds),
        replay: (place) => Promise.resolve(place),
        report: () => Promise.resolve(void rounds.push({ outcome: "untold" })),
      });
      ok(rounds.length <= UNTOLD_MOST - 1 + jobs, `${rounds.length} rounds with ${jobs} jobs`);
    }
  });
});
