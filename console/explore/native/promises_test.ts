import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Victim } from "../post_crash_run.ts";
import type { RackRun } from "../rerun.ts";
import { breachOf, requirementsAfter, requirementsOf } from "./promises.ts";

/** A run with these lines, in which b's card has sent frames at these instants. */
function runOf(
  lines: readonly (readonly [time: number, node: string, text: string])[],
  frames: readonly number[] = [],
): RackRun {
  const reports = lines.map(([time, node, text]) => {
    return { time, node, topic: "log", value: { program: "p#1", at: time, text } };
  });
  const sent = { frames, frameBytes: frames.map(() => 64) };
  return { reports, sendings: new Map([["b-rnic", sent]]) } as unknown as RackRun;
}

const VICTIM = { host: "b", config: { rnics: ["b-rnic"] }, noticePs: 10 } as unknown as Victim;

const of = (run: RackRun, isAlone = true) => requirementsOf(run, VICTIM, isAlone);
const at = (from: number, until = from + 1, isAmid = false) => ({ from, until, isAmid });

describe("requirementsOf", () => {
  it("takes a promise of another host from the frame on that it may need", () => {
    const run = runOf([[100, "a", "promised x"]], [40, 80, 100, 120]);
    // The card sends for 10 ps more; what it sends at the promise's instant may have come.
    same(of(run).promised.map(({ what, from }) => [what, from]), [["x", 91]]);
  });

  it("takes a promise before any frame of the host for one that its failure cannot undo", () => {
    same(of(runOf([[100, "a", "promised x"]], [120])).promised.map(({ from }) => from), [1]);
  });

  it("takes a promise of the host itself, or of hosts that all fail, from its instant on", () => {
    const run = runOf([[100, "b", "promised x"], [200, "a", "promised y"]], [40]);
    same(of(run).promised.map(({ what, from }) => [what, from]), [["y", 31], ["x", 101]]);
    same(of(run, false).promised.map(({ from }) => from), [101, 201]);
  });

  it("knows no begins where no program says any", () => {
    equal(of(runOf([[1, "a", "promised x"]])).began, undefined);
    equal(of(runOf([[1, "a", "began x"]])).began?.length, 1);
  });
});

describe("requirementsAfter", () => {
  it("takes what is promised while the host has power, in each of its lives", () => {
    const run = runOf([10, 100, 150, 200].map((time) => [time, "a", `promised ${time}`]));
    const { promised } = requirementsAfter(run, [{ from: 0, to: 100 }, { from: 200, to: 300 }]);
    same(promised.map(({ what, from }) => [what, from]), [["10", 11], ["200", 201]]);
  });
});

describe("breachOf", () => {
  const run = runOf([[50, "b", "began x"], [100, "b", "promised x"]]);

  it("finds a promise that a recovery within the span does not find", () => {
    equal(breachOf(["lost x"], of(run), at(60, 101)), undefined);
    const breach = breachOf(["found x y", "found"], of(run), at(60, 300));
    ok(breach?.found.includes('has promised "x"'));
    equal(breach?.at, 101);
  });

  it("finds nothing where the recovery has found all", () => {
    equal(breachOf(["found x"], of(run), at(200)), undefined);
  });

  it("finds what had not begun, and knows what begins at an instant in its middle", () => {
    ok(breachOf(["found x"], of(run), at(50))?.found.includes("no program had begun"));
    equal(breachOf(["found x"], of(run), at(50, 51, true)), undefined);
    equal(breachOf(["found x"], of(run), at(51)), undefined);
    ok(breachOf(["found x", "found z"], of(run), at(200))?.found.includes('"z"'));
  });

  it("asks for no begin where no program says any", () => {
    equal(breachOf(["found z"], of(runOf([[100, "b", "promised x"]])), at(60)), undefined);
  });
});
