/** Steps of an exploration that are given up, or judged again: they and other steps find the same. */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { RecoveryContext } from "../../nodes/host/recovery/protocol.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { openExploration } from "../../console/explore/steps/exploration.ts";
import { StepJudge } from "../../console/explore/steps/judge_steps.ts";
import { ownRack, rackOf } from "./explored_rack.ts";

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

/** Host b is cut; where it answers no more, host a promises what it has never written to its own SCM. */
function survivorThatLies() {
  const rack = rackOf(
    `
name: liar
seed: 3
hosts: { a: { services: none, scm: { size: 64KiB } }, b: { services: none, scm: { size: 64KiB } } }
programs:
  - { on: a, to: b, program: ./own.ts }
`,
    {
      "./own.ts": {
        *program({ cpu, device }: ProgramContext): Steps<void> {
          const { allocPd, createCq, connect, refused } = device.verbs;
          // A run in which nothing is written has no verdict.
          yield* cpu.ntStore(cpu.scm.address, new Uint8Array(64).fill(1));
          const cq = yield* createCq(device, { entries: 16 });
          if ("errno" in cq) throw new Error("no queue");
          const qp = { pd: allocPd(device), sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
          const answer = yield* connect(device, { to: "b", service: "none", qp });
          if (!refused(answer) || answer.refused === "no-service") return;
          cpu.note({ kind: "writes", id: 0, on: "a", at: 4096, bytes: new Uint8Array(64).fill(7) });
          cpu.note({ kind: "visible", id: 0 });
          cpu.note({ kind: "persistent", id: 0, promised: true });
        },
        // deno-lint-ignore require-yield -- it only looks
        *recover({ cpu }: RecoveryContext): Steps<unknown> {
          return cpu.load(cpu.scm.address, 64);
        },
        check: () => undefined,
      },
    },
  );
  return openExploration(rack, { ...EXPLORE_DEFAULTS, inOrder: true, cut: { host: "b" } });
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

  it("finds what is wrong with a run of survivors again where its step is judged again", () => {
    const { exploration: of, opening } = survivorThatLies();
    equal(opening.failure, null, "undisturbed nothing is wrong");
    const judge = new StepJudge(of), [sweep] = of.sweeps;
    const found = (step: number) => {
      const judging = judge.judge({ sweep: 0, step, spent: 0 });
      let next = judging.next();
      while (next.done !== true) next = judging.next();
      return next.value;
    };
    const steps = sweep!.inTurn.map((_, step) => step);
    const wrong = steps.find((step) => found(step).counterexample !== null);
    ok(wrong !== undefined);
    const { counterexample } = found(wrong);
    match(counterexample?.found ?? "", /a: SCM at 0x1000 is lost/);
    same(found(wrong).counterexample, counterexample);
  });
});
