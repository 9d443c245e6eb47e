import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Frequencies, type Judgement, judgePlacement, placeFor } from "./judge_placement.ts";

const RULES = { factor: 1.25, windows: 2, least: 8 };

/** The places after each window. */
function places(first: Judgement["place"], windows: readonly Frequencies[]): Judgement["place"][] {
  let judgement: Judgement = { place: first, against: 0 };
  return windows.map((counts) => (judgement = judgePlacement(judgement, counts, RULES)).place);
}

describe("placeFor", () => {
  it("C-04: is local where home's frequency is higher; a tie goes to remote", () => {
    const found = [[1, 0], [0, 1], [5, 5], [0, 0]].map(([home, far]) =>
      placeFor({ home: home!, far: far! })
    );
    assert.deepEqual(found, ["local", "remote", "remote", "remote"]);
  });
});

describe("judgePlacement", () => {
  it("C-04: moves to the side with more accesses, and back", () => {
    const home = { home: 90, far: 10 }, far = { home: 10, far: 90 };
    assert.deepEqual(places("remote", [home, home, far, far]), [
      "remote",
      "local",
      "local",
      "remote",
    ]);
  });

  it("decision 17: a difference within the factor moves nothing, in either direction", () => {
    const near = { home: 55, far: 45 };
    assert.deepEqual(places("remote", [near, near, near]), ["remote", "remote", "remote"]);
    assert.deepEqual(places("local", [{ home: 45, far: 55 }, { home: 45, far: 55 }]), [
      "local",
      "local",
    ]);
    assert.deepEqual(places("remote", [{ home: 60, far: 40 }, { home: 60, far: 40 }])[1], "local");
  });

  it("decision 17: one window alone moves nothing, nor do some with others between", () => {
    const home = { home: 90, far: 10 }, far = { home: 10, far: 90 };
    assert.deepEqual(places("remote", [home, far, home, far]), Array(4).fill("remote"));
  });

  it("decision 17: a window with few accesses neither speaks for a place nor against it", () => {
    const home = { home: 90, far: 10 }, few = { home: 0, far: 7 };
    assert.deepEqual(places("remote", [home, few, home]), ["remote", "remote", "local"]);
    assert.deepEqual(places("remote", [{ home: 7, far: 0 }, { home: 7, far: 0 }])[1], "remote");
  });

  it("never moves back and forth on counts that stay as they are", () => {
    for (let home = 0; home <= 40; home++) {
      for (let far = 0; far <= 40; far++) {
        for (const first of ["local", "remote"] as const) {
          const seen = places(first, Array(8).fill({ home, far }));
          const moves = seen.filter((place, i) => place !== (seen[i - 1] ?? first)).length;
          assert.ok(moves <= 1, `${home} and ${far} from ${first}: ${seen}`);
        }
      }
    }
  });
});
