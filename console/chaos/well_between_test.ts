import { equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { Life } from "../checks/lives.ts";
import { isWellBetween, type RoundOutcome } from "./progress.ts";

function isWell(lives: readonly Life[], ...faults: readonly Partial<LinkFaultPlan>[]): boolean {
  const linkFaults = faults.map((fault) => ({ cable: 0, direction: "both", ...fault }));
  const plan = { nodes: [{ name: "a" }], linkFaults };
  const record = { plan, lives: new Map([["a", lives]]) } as unknown as RoundOutcome["record"];
  return isWellBetween({ record }, 50, 100);
}

const ALWAYS = [{ from: 0, to: Infinity }];

it("isWellBetween: all have power from the interval's first instant to its last", () => {
  equal(isWell(ALWAYS), true);
  equal(isWell([{ from: 50, to: 101 }]), true);
  equal(isWell([{ from: 50, to: 100 }]), false, "it fails at the last one");
  equal(isWell([{ from: 51, to: Infinity }]), false);
  equal(isWell([{ from: 0, to: 60 }, { from: 70, to: Infinity }]), false);
  equal(isWell([]), false);
});

it("isWellBetween: no cable has a fault in it that has not ended, or was not healed, by its first instant", () => {
  const cut = { action: "cut" as const };
  for (
    const [isGood, ...faults] of [
      [true, { ...cut, at: 101 }],
      [false, { ...cut, at: 100 }],
      [false, { ...cut, at: 10 }],
      [true, { action: "loss", at: 10, until: 50 }],
      [false, { action: "loss", at: 10, until: 51 }],
      [true, { ...cut, at: 10 }, { action: "heal", at: 50 }],
      [false, { ...cut, at: 10 }, { action: "heal", at: 51 }],
      [false, { ...cut, at: 10 }, { action: "heal", at: 50, cable: 1 }],
      [false, { ...cut, at: 10 }, { action: "heal", at: 9 }],
    ] as [boolean, ...Partial<LinkFaultPlan>[]][]
  ) {
    equal(isWell(ALWAYS, ...faults), isGood, JSON.stringify(faults));
  }
});
