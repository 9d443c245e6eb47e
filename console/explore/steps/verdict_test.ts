import { deepStrictEqual as same, match, rejects, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { ExploreOptions } from "../types.ts";
import type { Opening } from "./exploration.ts";
import { NOTHING } from "./judge_steps.ts";
import { type Step, verdictOf } from "./verdict.ts";

const OPENING: Opening = {
  ...{ hosts: ["a"], judgedBy: ["promises"], writes: 1, promises: 1, failure: null },
  ...{ nothing: null, endPs: 9, isCutOff: false, isRobust: false, futures: null, races: null },
  sweeps: [{ cut: "a", instants: 2, frames: [] }],
  stalls: null,
  frames: null,
  slack: null,
};
const INSTANT = { ...NOTHING, instants: 1, crashPoints: 1 };
const STEPS: readonly Step[] = [
  { sweep: 0, step: 0, found: INSTANT },
  { sweep: 0, step: 1, found: INSTANT },
  { sweep: 0, step: 2, found: NOTHING },
];

async function verdictOn(
  given: readonly (Step | undefined)[],
  more: Partial<ExploreOptions> = {},
): Promise<string> {
  const options = { choices: 1, tear: 8, ...more };
  const steps = ReadableStream.from(given);
  const said = { steps, options, began: performance.now(), onProgress: () => {} };
  return (await verdictOf(OPENING, said)).verdict;
}

describe("verdictOf", () => {
  it("is safe only where each step was judged", async () => {
    equal(await verdictOn(STEPS), "safe");
    for (const missing of STEPS) {
      const rest = STEPS.filter((step) => step !== missing);
      await rejects(() => verdictOn(rest), /2 of 3 steps/);
    }
  });

  it("is not safe where one step alone leaves something open, whichever it is, and says what", async () => {
    const again = { recoveries: 2, cut: 1, ways: 3, cost: 9 };
    const left: readonly [Partial<Step["found"]>, RegExp][] = [
      [{ isCutOff: true }, /`until` ends a run/],
      [{ bounded: 1 }, /not every choice was tried/],
      [{ again }, /the power failed again during 1 of 2 recoveries/],
      [{ unexplained: 2 }, /2 words with a content/],
      [{ endless: "p of b goes on" }, /p of b goes on/],
      [{ unknown: "an object took too long" }, /an object took too long/],
    ];
    for (const [found, why] of left) {
      for (const [i, step] of STEPS.entries()) {
        const steps = STEPS.with(i, { ...step, found: { ...step.found, ...found } });
        const said = {
          steps: ReadableStream.from(steps),
          options: { choices: 1, tear: 8 },
          began: performance.now(),
          onProgress: () => {},
        };
        const verdict = await verdictOf(OPENING, said);
        same([verdict.verdict, verdict.exhaustive], ["partial", false], `${why}`);
        match(verdict.why!, why);
      }
    }
  });

  it("is partial where it is stopped, at a step or while none comes", async () => {
    for (const steps of [STEPS, [undefined, ...STEPS]]) {
      equal(await verdictOn(steps, { stopped: () => true }), "partial");
    }
  });

  it("stops after so many steps whose survivors have no end, and says how far it came", async () => {
    const instants = 80, taken: number[] = [];
    const endless = "where the power of a fails, p of b goes on";
    async function* steps(): AsyncGenerator<Step> {
      for (let step = 0; step <= instants; step++) {
        taken.push(step);
        const found = { ...INSTANT, runs: [step] };
        yield { sweep: 0, step, found: step % 2 === 0 ? { ...found, endless } : found };
      }
    }
    const opening = { ...OPENING, futures: 90, sweeps: [{ cut: "a", instants: 80, frames: [] }] };
    const { verdict, why } = await verdictOf(opening, {
      steps: { [Symbol.asyncIterator]: steps },
      options: { choices: 1, tear: 8 },
      began: performance.now(),
      onProgress: () => {},
    });
    equal(verdict, "partial");
    match(why!, /^where the power of a fails, p of b goes on; stopped after 31 of about 90 runs /);
    same(taken.at(-1), 30);
  });

  it("fails where a step has failed", async () => {
    const failed = { message: "no memory", code: 70 };
    const [first] = STEPS;
    await rejects(
      () => verdictOn([{ ...first!, found: { ...NOTHING, failed } }]),
      /no memory/,
    );
  });
});
