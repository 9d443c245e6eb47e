import { equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { exitOf } from "./explore_scenario.ts";
import type { Verdict } from "./types.ts";

it("exitOf is 0 only where all variants were explored and each is safe, 1 where one is unsafe or has failed", () => {
  const of = (isWhole: boolean, ...verdicts: readonly Verdict["verdict"][]) =>
    exitOf({ isWhole, explored: verdicts.map((verdict) => ({ verdict: { verdict } })) });
  equal(of(true, "safe", "safe"), 0);
  equal(of(false, "safe"), 2, "the first ones alone");
  for (const open of ["partial", "unchecked"] as const) {
    equal(of(true, "safe", open), 2);
    for (const wrong of ["unsafe", "failed"] as const) {
      equal(of(true, "safe", open, wrong), 1);
      equal(of(false, wrong, "safe"), 1);
    }
  }
});
