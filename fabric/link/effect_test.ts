import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Frame } from "../node.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import { type CableEffect, effectOf } from "./effect.ts";
import { addLinkFault, createDirectionFaults, decideFate } from "./fault.ts";

const SENT: Frame = { kind: "frame", bytes: new Uint8Array(60).fill(0xa5) };

/** What faults that take every frame do to one. */
function effectOfAll(...faults: readonly Partial<LinkFaultPlan>[]): CableEffect | undefined {
  const made = createDirectionFaults({ seed: 7, name: "a-rnic->tor" });
  faults.forEach((fault, id) =>
    addLinkFault(made, { id, action: "loss", cable: 0, direction: "a", at: 0, ...fault }, 0)
  );
  return effectOf(decideFate(made, 0, SENT), SENT);
}

describe("effectOf", () => {
  it("is nothing where no fault took the frame, whatever was done to the one before", () => {
    assert.equal(effectOfAll(), undefined);
    const made = createDirectionFaults({ seed: 7, name: "a-rnic->tor" });
    addLinkFault(made, { id: 0, action: "loss", cable: 0, direction: "a", at: 0, nth: 1 }, 0);
    assert.equal(effectOf(decideFate(made, 0, SENT), SENT)?.copies, 0);
    assert.equal(effectOf(decideFate(made, 1, SENT), SENT), undefined);
  });

  it("names the fault that lost it, and none that struck it before", () => {
    assert.deepEqual(effectOfAll({}), {
      says: ["lost by the cable here (loss all)"],
      copies: 0,
      latePs: 0,
    });
    assert.deepEqual(effectOfAll({ nth: 1 })?.says, ["lost by the cable here (loss number 1)"]);
    assert.deepEqual(effectOfAll({ action: "cut" })?.says, ["lost by the cable here (cut)"]);
    const both = effectOfAll({ action: "delay", delayPs: 5_000_000 }, { share: 1 });
    assert.deepEqual(both?.says, ["lost by the cable here (loss 100%)"]);
  });

  it("names the changed byte, and has what arrives", () => {
    const effect = effectOfAll({ action: "corrupt" });
    const [, at, now] = /byte (\d+), 0xa5 became 0x(..) \(corrupt all\)$/.exec(effect!.says[0]!)!;
    const arrives = SENT.bytes.slice();
    arrives[Number(at)] = Number.parseInt(now!, 16);
    assert.deepEqual(effect!.damaged, arrives);
    assert.notDeepEqual(arrives, SENT.bytes);
    assert.equal(effect!.copies, 1);
  });

  it("has the number of copies, and their delay", () => {
    assert.deepEqual(effectOfAll({ action: "duplicate" }), {
      says: ["doubled by the cable (duplicate all)"],
      copies: 2,
      latePs: 0,
    });
    assert.deepEqual(
      effectOfAll({ action: "delay", delayPs: 3_000_000 }, {
        action: "delay",
        delayPs: 500_000,
      }),
      {
        says: ["delayed by 3.5 us by the cable (delay all and all)"],
        copies: 1,
        latePs: 3_500_000,
      },
    );
    assert.deepEqual(effectOfAll({ action: "reorder", overtakenBy: 2, holdPs: 20_000_000 })?.says, [
      "held back by the cable behind 2 frames, at most 20 us (reorder all)",
    ]);
  });
});
