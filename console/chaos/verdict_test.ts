import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { playInOrder } from "./play_in_order.ts";
import { exitOf, UntoldRounds } from "./verdict.ts";

describe("exitOf", () => {
  it("is 0 only where every round held, and there was one", () => {
    equal(exitOf({ held: 3, broken: 0, untold: 0 }), 0);
    equal(exitOf({ held: 3, broken: 0, untold: 1 }), 2);
    equal(exitOf({ held: 0, broken: 0, untold: 2 }), 2);
    equal(exitOf({ held: 0, broken: 0, untold: 0 }), 2);
    equal(exitOf({ held: 3, broken: 1, untold: 1 }), 1);
  });
});

describe("UntoldRounds", () => {
  const stuckAfter = (...places: readonly number[]) => {
    const untold = new UntoldRounds();
    return places.map((place) => {
      untold.add(place);
      return untold.isStuck;
    });
  };

  it("are too many from the third one in a row on, in whatever order that is known", () => {
    same(stuckAfter(4, 5, 6, 9), [false, false, true, true]);
    same(stuckAfter(6, 4, 5), [false, false, true]);
    same(stuckAfter(0, 1, 3, 4), [false, false, false, false]);
    same(stuckAfter(1, 1, 2, 2), [false, false, false, false]);
  });

  it("end a campaign while the replay of the round just played is under way, with any number of jobs", async () => {
    for (const jobs of [1, 2, 3]) {
      const untold = new UntoldRounds();
      let played = 0;
      await playInOrder({
        jobs,
        play: (place) => Promise.resolve((played++, place)),
        isOver: () => untold.isStuck || played === 20,
        replay: (place) => Promise.resolve(place),
        report: (place) => Promise.resolve(untold.add(place)),
      });
      equal(played <= 3 + jobs, true, `${played} rounds with ${jobs} jobs`);
    }
  });
});
