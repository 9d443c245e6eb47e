import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { JUDGE_WINDOW_PS, type SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu } from "../cpu/program.ts";
import { PlacementJudge } from "./placement_judge.ts";

const REGION = { id: 3, name: "s", placement: "auto" } as SharedRegion;

/** The judge on a core whose time and card the test sets. */
class Bench {
  now = 0;
  card: number | undefined = 0;
  isRefused = false;
  readonly told: string[] = [];
  readonly judge = new PlacementJudge([REGION], () => {});
  readonly #run;

  constructor() {
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
      this.judge.accessed(REGION, this.now + i * JUDGE_WINDOW_PS / home);
    }
    this.now += JUDGE_WINDOW_PS;
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
});
