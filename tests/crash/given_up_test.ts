/** Steps of an exploration that are given up: other steps find the same. */
import { deepStrictEqual as same, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { openExploration } from "../../console/explore/steps/exploration.ts";
import { StepJudge } from "../../console/explore/steps/judge_steps.ts";
import { ownRack } from "./explored_rack.ts";

/** Writes four lines one after the other; recovery reads them, and its findings say nothing. */
function exploration() {
  const rack = ownRack({
    *program({ cpu }: ProgramContext): Steps<void> {
      for (let line = 0; line < 4; line++) {
        yield* cpu.ntStore(cpu.scm.address + 64 * line, new Uint8Array(64).fill(1 + line));
      }
    },
    // deno-lint-ignore require-yield -- it only looks
    *recover({ cpu }: RecoveryContext): Steps<unknown> {
      return cpu.load(cpu.scm.address, 256);
    },
    check: () => undefined,
  });
  return openExploration(rack, { ...EXPLORE_DEFAULTS, inOrder: true, cut: { host: "b" } })
    .exploration;
}

describe("StepJudge", () => {
  it("finds the same at a step behind one that was given up at any place", () => {
    const found = (givenUpAfter: number) => {
      const of = exploration(), judge = new StepJudge(of);
      const [sweep] = of.sweeps;
      const all: unknown[] = [];
      for (let step = 0; step < sweep!.inTurn.length; step++) {
        const which = { sweep: 0, step, spent: 0 };
        const judging = judge.judge(which);
        let next = judging.next();
        for (let i = 1; i < givenUpAfter && next.done !== true; i++) next = judging.next();
        if (givenUpAfter > 0 && step % 2 === 0) continue;
        while (next.done !== true) next = judging.next();
        all.push([step, next.value]);
      }
      return all;
    };
    const whole = found(0).filter((_, step) => step % 2 === 1);
    ok(whole.length > 2);
    for (const after of [1, 2, 3]) same(found(after), whole, `given up after ${after}`);
  });
});
