import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { planOf, recordOf } from "../../../console/checks/record_testing.ts";
import { faultSpans, firstFault } from "../../../console/checks/shared/faults.ts";
import type { LinkDirection, LinkFaultPlan } from "../../../fabric/rack/plan/link_plan.ts";

type Given = Partial<LinkFaultPlan> & Pick<LinkFaultPlan, "action" | "at">;

/** From and to of faults of the first cable, unless they say another. */
function spansOf(...faults: readonly Given[]): (readonly [number, number])[] {
  const linkFaults = faults.map((given, id): LinkFaultPlan => ({
    ...{ id, cable: 0, direction: "both" as const },
    ...given,
  }));
  const plan = { ...planOf(), linkFaults };
  return faultSpans(recordOf({ plan })).map(({ from, to }) => [from, to] as const);
}

describe("C-10: a fault of a cable", () => {
  it("lasts until it ends, is healed, or the run does, whichever is first", () => {
    assert.deepEqual(spansOf({ action: "cut", at: 10 }), [[10, Infinity]]);
    assert.deepEqual(spansOf({ action: "cut", at: 10 }, { action: "heal", at: 20 }), [[10, 20]]);
    const short: Given = { action: "loss", at: 10, until: 15 };
    assert.deepEqual(spansOf(short, { action: "heal", at: 20 }), [[10, 15]]);
    assert.deepEqual(spansOf({ ...short, until: 30 }, { action: "heal", at: 20 }), [[10, 20]]);
  });

  it("is ended by no heal of before, or of another cable", () => {
    for (const heal of [{ at: 5 }, { at: 20, cable: 1 }]) {
      assert.deepEqual(spansOf({ action: "cut", at: 10 }, { action: "heal", ...heal }), [
        [10, Infinity],
      ]);
    }
    const again: Given[] = [{ action: "cut", at: 30 }, { action: "heal", at: 40 }];
    const first: Given[] = [{ action: "cut", at: 10 }, { action: "heal", at: 20 }];
    assert.deepEqual(spansOf(...first, ...again), [[10, 20], [30, 40]]);
  });

  it("of one direction is ended by a heal of that, or of both; of both by one of both, or by one of each", () => {
    const directions: LinkDirection[] = ["a", "b", "both"];
    const isEnded = (direction: LinkDirection, heal: LinkDirection) => {
      const [[, to] = []] = spansOf(
        { action: "cut", at: 10, direction },
        { action: "heal", at: 20, direction: heal },
      );
      return to === 20;
    };
    const found = directions.map((fault) => directions.map((heal) => isEnded(fault, heal)));
    assert.deepEqual(found, [[true, false, true], [false, true, true], [false, false, true]]);
    const heal = (direction: LinkDirection, at: number): Given => ({
      action: "heal",
      at,
      direction,
    });
    const loss: Given = { action: "loss", at: 10 };
    assert.deepEqual(spansOf(loss, heal("a", 20), heal("b", 30)), [[10, 30]]);
    assert.deepEqual(spansOf({ ...loss, until: 25 }, heal("a", 20)), [[10, 25]]);
  });

  it("is the first fault of the run where no power fails before; Infinity: there is none", () => {
    const linkFaults: LinkFaultPlan[] = [
      { id: 0, action: "heal", cable: 0, direction: "both", at: 5 },
      { id: 1, action: "cut", cable: 0, direction: "both", at: 30 },
    ];
    const plan = { ...planOf(), linkFaults };
    assert.equal(firstFault(recordOf({ plan })), 30);
    const power = [{ at: 20, action: "kill", node: "b" } as const];
    assert.equal(firstFault(recordOf({ plan, power })), 20);
    assert.equal(firstFault(recordOf({})), Infinity);
  });
});
