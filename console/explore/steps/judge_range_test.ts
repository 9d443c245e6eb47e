import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { judgeRange, NOTHING, type StepFound, type StepJudge } from "./judge_steps.ts";

/** A judge of steps, each of which costs 5, and what it was told of each. */
function judgeOf(foundAt: (step: number) => Partial<StepFound> = () => ({})) {
  const told: [step: number, spent: number][] = [];
  const judge = {
    *judge({ step, spent }: { readonly step: number; readonly spent: number }) {
      told.push([step, spent]);
      yield undefined;
      return { ...NOTHING, again: { ...NOTHING.again, cost: 5 }, ...foundAt(step) };
    },
  } as unknown as StepJudge;
  return { judge, told };
}

describe("judgeRange", () => {
  const range = { sweep: 0, from: 3, to: 6, spent: 10 };

  it("tells each step what second power failures have cost by then", async () => {
    const { judge, told } = judgeOf();
    const found = await judgeRange(judge, range, () => false);
    same(found.length, 3);
    same(told, [[3, 10], [4, 15], [5, 20]]);
  });

  it("ends at the first step behind which nothing counts", async () => {
    const failed = { message: "no memory", code: 70 };
    for (const last of [{ unknown: "it took long" }, { failed }]) {
      const { judge, told } = judgeOf((step) => step === 4 ? last : {});
      same((await judgeRange(judge, range, () => false)).length, 2);
      same(told.length, 2);
    }
  });

  it("takes a step that throws for one that has failed, and says what", async () => {
    const { judge } = judgeOf((step) => {
      if (step === 4) throw new Error("no such page");
      return {};
    });
    const found = await judgeRange(judge, range, () => false);
    same(found.map(({ failed }) => failed?.message.includes("no such page")), [undefined, true]);
    const { again, ...counts } = found[1]!;
    const numbers = [...Object.values(counts), ...Object.values(again)]
      .filter((each) => typeof each === "number");
    same(new Set(numbers), new Set([0]), "nothing is counted of what was not judged");
  });

  it("gives up where it is stopped, also within a step", async () => {
    const { judge, told } = judgeOf();
    same(await judgeRange(judge, range, () => true), []);
    same(told, []);
  });
});
