import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  JUDGE_PLAN,
  JUDGE_WINDOW_PS,
  type JudgePlan,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu } from "../cpu/program.ts";
import { PlacementJudge, type Verdict } from "./placement_judge.ts";
import type { JudgeRule } from "../../../fabric/coherence/judge_placement.ts";

const REGION = { id: 3, name: "s", placement: "auto" } as SharedRegion;

/** The judge on a core whose time and card the test sets. */
class Bench {
  now = 0;
  card: number | undefined = 0;
  isRefused = false;
  readonly told: string[] = [];
  readonly verdicts: Verdict[] = [];
  readonly refused: (string | undefined)[] = [];
  readonly judge: PlacementJudge;
  readonly #windowPs: number;
  readonly #run;

  constructor({ judge, rule }: { readonly judge?: JudgePlan; readonly rule?: JudgeRule } = {}) {
    this.#windowPs = judge?.windowPs ?? JUDGE_WINDOW_PS;
    this.judge = new PlacementJudge([{ ...REGION, ...(judge && { judge }) }], {
      wake: () => {},
      ruleOf: () => rule!,
      judged: (verdict) => void this.verdicts.push(verdict),
      moved: (_, refused) => void this.refused.push(refused),
    });
    // deno-lint-ignore no-this-alias -- the core has the bench's time and card
    const bench = this;
    const cpu = {
      get now() {
        return bench.now;
      },
      get card() {
        return bench.card;
      },
      // deno-lint-ignore require-yield -- it answers at once
      *command({ op, region, place }: { op: string; region: number; place: string }) {
        bench.told.push(`${op} ${region} ${place}`);
        return bench.isRefused ? { status: "refused", errno: "EINVAL", reason: "" } : {
          status: "ok",
        };
      },
      *waitSignal() {
        yield;
      },
    };
    this.#run = this.judge.run(cpu as unknown as Cpu);
    this.#run.next({ kind: "done" });
  }

  /** A window of so many accesses of home's cores, and of each far card as it reports at the window's end. */
  window(home: number, ...far: readonly number[]): void {
    for (let i = 0; i < home; i++) {
      this.judge.accessed(REGION, this.now + i * this.#windowPs / home);
    }
    this.now += this.#windowPs;
    for (const [agent, accesses] of far.entries()) {
      this.judge.reported(REGION.id, { agent: agent + 1, accesses, at: this.now });
      this.#run.next({ kind: "done" });
    }
  }
}

describe("PlacementJudge", () => {
  it("C-04: moves copies where the more accesses come from, after windows that agree", () => {
    const bench = new Bench();
    bench.window(90, 10);
    assert.deepEqual(bench.told, ["move-region 3 local"], "a fresh region follows the plain rule");
    bench.window(10, 90);
    assert.equal(bench.told.length, 1, "one window is no lasting change");
    bench.window(10, 90);
    assert.deepEqual(bench.told.slice(1), ["move-region 3 remote"]);
    for (let i = 0; i < 4; i++) bench.window(55, 45);
    assert.equal(bench.told.length, 2, "a small difference moves nothing");
    assert.equal(bench.judge.moves, 2);
  });

  it("decision 17: counts home's accesses of the same span as far's, not all since the last report", () => {
    const bench = new Bench();
    for (let i = 0; i < 10; i++) bench.window(100);
    bench.window(10, 90);
    assert.deepEqual(bench.told, []);
  });

  it("decision 17: adds up several far cards, whose reports are of one window", () => {
    const bench = new Bench();
    bench.window(90, 10, 10);
    for (let i = 0; i < 2; i++) bench.window(50, 35, 35);
    // The first of two reports is judged with the other card's last one.
    bench.window(50, 35, 35);
    assert.deepEqual(bench.told, ["move-region 3 local", "move-region 3 remote"]);
  });

  it("decision 17: a far card that reports no more counts no more, a window after its last report", () => {
    const bench = new Bench();
    bench.window(50, 10, 1000);
    for (let i = 0; i < 3; i++) bench.window(50, 10);
    assert.deepEqual(bench.verdicts.map(({ counts }) => counts.far), [10, 1010, 10, 10]);
  });

  it("decision 14: begins anew with another life of the card, whose copies are where fresh ones are", () => {
    const bench = new Bench();
    bench.window(90, 10);
    bench.card = 1;
    bench.window(90, 10);
    assert.deepEqual(bench.told, ["move-region 3 local", "move-region 3 local"]);
    bench.card = undefined;
    bench.window(10, 90);
    bench.window(10, 90);
    assert.equal(bench.told.length, 2, "without a card nothing is moved");
  });

  it("tells the card again where it has refused", () => {
    const bench = new Bench();
    bench.isRefused = true;
    bench.window(90, 10);
    bench.isRefused = false;
    bench.window(90, 10);
    assert.deepEqual(bench.told, ["move-region 3 local", "move-region 3 local"]);
    assert.equal(bench.judge.moves, 1);
  });

  it("C-04: goes by the region's own margin, windows and length of a window", () => {
    const strict = new Bench({ judge: { marginPercent: 200, windows: 3, windowPs: 7_000_000 } });
    strict.window(90, 10);
    for (let i = 0; i < 4; i++) strict.window(30, 70);
    assert.equal(strict.judge.moves, 1, "70 is not three times 30");
    for (let i = 0; i < 2; i++) strict.window(10, 90);
    assert.equal(strict.judge.moves, 1, "two windows");
    strict.window(10, 90);
    assert.equal(strict.judge.moves, 2);
  });

  it("C-04: goes by a rule of the user's own, which gets the window and what was before", () => {
    const seen: unknown[] = [];
    const bench = new Bench({
      judge: { ...JUDGE_PLAN, rule: "./rule.ts" },
      rule: ({ region, now, home, far, place, isFresh }) => {
        seen.push([region, now, home, far, place, isFresh]);
        return far > 5 ? "local" : "remote";
      },
    });
    bench.window(90, 10);
    bench.window(90, 0);
    bench.window(0, 0);
    assert.deepEqual(bench.told, ["move-region 3 local", "move-region 3 remote"]);
    assert.deepEqual(seen, [
      ["s", JUDGE_WINDOW_PS, 90, 10, "remote", true],
      ["s", 2 * JUDGE_WINDOW_PS, 90, 0, "local", false],
    ], "a window without an access is no rule's matter");
    const wrong = new Bench({
      judge: { ...JUDGE_PLAN, rule: "./rule.ts" },
      rule: () => "near" as "local",
    });
    assert.throws(() => wrong.window(1, 1), /region s: its rule answers near: expected "local" or/);
  });

  it("C-04: tells each window with its counts and decision, each move with its end, and sums", () => {
    const bench = new Bench();
    bench.isRefused = true;
    bench.window(90, 10);
    bench.isRefused = false;
    bench.window(90, 10);
    bench.window(10, 90);
    assert.deepEqual(
      bench.verdicts.map(({ counts, after: { place, forMove } }) => [counts, place, forMove]),
      [
        [{ home: 90, far: 10 }, "local", 0],
        [{ home: 90, far: 10 }, "local", 0],
        [{ home: 10, far: 90 }, "local", 1],
      ],
    );
    assert.deepEqual(bench.refused, ["", undefined]);
    assert.deepEqual(bench.judge.statistics(), {
      "region.s.windows": 3,
      "region.s.homeAccesses": 190,
      "region.s.farAccesses": 110,
      "region.s.moves": 1,
    });
  });
});
