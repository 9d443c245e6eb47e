import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { Refusal } from "../../../fabric/rack/plan/problem.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { linkFaultRequest, type LinkOrder } from "./cables.ts";

const PLAN = makePlan(variants(parseScenario("name: x\nhosts: { a: {}, b: {} }\n", "x"))[0]!);
const LOSS: LinkOrder = { target: "a-rnic->tor", action: "loss", terms: { loss: "1%" } };

describe("linkFaultRequest", () => {
  it("reads the words of a scenario, and when the fault is to begin and end", () => {
    const { cable, ...request } = linkFaultRequest(PLAN, { ...LOSS, at: 7, forPs: PS_PER_US });
    assert.equal(PLAN.cables[cable]?.kind, "network");
    assert.deepEqual(request, {
      action: "loss",
      direction: "a",
      share: 0.01,
      at: 7,
      forPs: PS_PER_US,
    });
  });

  it("needs no words for a cut and the end of a fault", () => {
    const order = { target: "a", terms: {} };
    const [cut, heal] = (["cut", "heal"] as const).map((action) =>
      linkFaultRequest(PLAN, { ...order, action })
    );
    assert.deepEqual([cut!.action, cut!.direction, cut!.at], ["cut", "both", undefined]);
    assert.deepEqual([heal!.action, heal!.cable], ["heal", cut!.cable]);
  });

  const refused: readonly (readonly [name: string, order: LinkOrder, message: RegExp])[] = [
    ["a cable that there is not", { ...LOSS, target: "zz" }, /^The target is "zz": expected /],
    [
      "a share that is none",
      { ...LOSS, terms: { loss: "110%" } },
      /^The loss is "110%": expected /,
    ],
    ["a word that is wrong", { ...LOSS, terms: { loss: "1%", count: 0.5 } }, /^--count is 0\.5: /],
    [
      "two ends",
      { ...LOSS, terms: { loss: "1%", until: "2ms" }, forPs: 1 },
      /^--for and --until stand together: expected one of them$/,
    ],
  ];
  for (const [name, order, message] of refused) {
    it(`refuses ${name}`, () => {
      assert.throws(() => linkFaultRequest(PLAN, order), (error) => {
        assert.ok(error instanceof Refusal);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});
