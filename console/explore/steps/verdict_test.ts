import { rejects, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { ExploreOptions } from "../types.ts";
import type { Opening } from "./exploration.ts";
import { NOTHING } from "./judge_steps.ts";
import { type Step, verdictOf } from "./verdict.ts";

const OPENING: Opening = {
  ...{ hosts: ["a"], judgedBy: ["promises"], writes: 1, promises: 1, failure: null },
  ...{ nothing: null, endPs: 9, isCutOff: false, isRobust: false, futures: null },
  sweeps: [{ cut: "a", instants: 2, frames: [] }],
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

  it("is partial where it is stopped, at a step or while none comes", async () => {
    for (const steps of [STEPS, [undefined, ...STEPS]]) {
      equal(await verdictOn(steps, { stopped: () => true }), "partial");
    }
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
