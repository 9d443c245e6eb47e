import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { exitOf, ofAllInstants, optionsAgain } from "./explore_scenario.ts";
import { EXPLORE_DEFAULTS, type ExploreOptions, type Verdict } from "./types.ts";

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

it("ofAllInstants: what is safe at the instants from one, or until one, is partial, and says which", () => {
  const of = (verdict: Verdict["verdict"], window: { from?: number; until?: number }) => {
    const options = { ...EXPLORE_DEFAULTS, ...window };
    const found = ofAllInstants({ verdict, why: "as it was" } as Verdict, options);
    return [found.verdict, found.why];
  };
  same(of("safe", {}), ["safe", "as it was"]);
  const said = (span: string) => ["partial", `only instants ${span} were asked for`];
  same(of("safe", { from: 1_000_000 }), said("from 1 us"));
  same(of("safe", { until: 2_000_000 }), said("until 2 us"));
  same(of("safe", { from: 1_000_000, until: 2_000_000 }), said("from 1 us until 2 us"));
  same(of("unsafe", { until: 2_000_000 }), ["unsafe", "as it was"]);
});

it("optionsAgain: the command that finds it again has each option that is not as it is by default", () => {
  const of = (options: Partial<ExploreOptions>) =>
    optionsAgain({ ...EXPLORE_DEFAULTS, ...options }).join(" ");
  equal(of({}), "");
  equal(of({ cut: { host: "b" } }), "--cut b");
  equal(of({ cut: "all" }), "--cut all");
  equal(of({ cut: "each", choices: 7, tear: 64 }), "--cut each --choices 7 --tear 64");
  equal(of({ cuts: 2 }), "--cuts 2");
});
