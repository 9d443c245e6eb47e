import { deepEqual as same, equal, match } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RackRun } from "../rerun.ts";
import { sharedIn } from "./promises.ts";
import { SharedPromises, whyNotJudged } from "./shared_promises.ts";

function runOf(...texts: readonly string[]): RackRun {
  const reports = texts.map((text, i) => {
    const time = 100 * (i + 1);
    return { time, node: "a", topic: "log", value: { program: "p#1", at: time, text } };
  });
  return { reports } as unknown as RackRun;
}

const [PROMISE] = sharedIn(runOf("promised/2 x y"));
const of = () => new SharedPromises([PROMISE!], 3);
const left = (host: string, from: number, until: number, ...lines: readonly string[]) => {
  return { host, from, until, lines, writebacks: [] };
};

describe("sharedIn", () => {
  it("takes how many hosts keep a promise", () => {
    same(
      sharedIn(
        runOf("promised x", "promised/2 x y", "promised/0 x", "promised/x 2", "promised/12 z"),
      )
        .map(({ what, count, time }) => [what, count, time]),
      [["x y", 2, 200], ["z", 12, 500]],
    );
  });
});

describe("whyNotJudged", () => {
  it("finds a promise that asks for more hosts than recover", () => {
    const run = runOf("promised x", "promised/2 x y");
    equal(whyNotJudged(run, 2), undefined);
    match(whyNotJudged(run, 1)!, /"x y" by 2 hosts, of which 1 have a recovery/);
  });

  it("finds a line that is no promise, though it begins as one", () => {
    for (const line of ["promised/0 x", "promised/x 2", "promised/2"]) {
      const why = whyNotJudged(runOf("promised/2 x y", line), 2);
      equal(why, `p#1 of a has printed "${line}": expected "promised/COUNT WHAT"`);
    }
  });
});

describe("SharedPromises", () => {
  it("are kept where one of three hosts lacks them at a time, also more of them in turn", () => {
    const promises = of();
    equal(promises.add(left("b", 90, 200)), undefined);
    equal(promises.add(left("b", 90, 200, "lost x y")), undefined);
    equal(promises.add(left("c", 90, 200, "found x y")), undefined);
    equal(promises.add(left("c", 200, 300)), undefined);
    equal(promises.add(left("d", 300, 400)), undefined);
  });

  it("are broken at the first instant at which two lack them, whichever is looked at first", () => {
    const promises = of();
    equal(promises.add(left("c", 150, 300)), undefined);
    const breach = promises.add(left("b", 90, 200));
    equal(breach?.at, 150);
    match(breach!.found, /"x y" by 2 of 3 hosts, which the recoveries of b, c do not find/);
  });

  it("bind from the instant behind their line on", () => {
    const promises = of();
    equal(promises.add(left("b", 90, 101)), undefined);
    equal(promises.add(left("c", 90, 102)), undefined);
    equal(promises.add(left("b", 101, 102))?.at, 101);
  });
});
