import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { HintCard } from "../testing/hint_card_testing.ts";
import { dropDoorbells, pushDoorbell } from "./doorbell_space.ts";

describe("the doorbell space", () => {
  it("Q-06: has so many slots, each of which is free again when its doorbell is dropped", () => {
    const doorbell = { form: "fifo", carries: "pointer", slots: 2 } as const;
    const { device } = new HintCard({ queuePlan: { ...QUEUE_PLAN, doorbell } });
    const { doorbells, counters } = device;
    const waiting = () =>
      Array.from({ length: doorbells.length }, (_, i) => doorbells.at(doorbells.first + i)!.queue);
    for (const queue of [2, 4, 6]) pushDoorbell(device, { queue });
    assert.deepEqual([waiting(), counters.doorbellsDropped], [[2, 4], 1]);
    dropDoorbells(device, 2);
    assert.deepEqual([waiting(), counters.doorbellsRefused], [[4], 1]);
    pushDoorbell(device, { queue: 6 });
    assert.deepEqual([waiting(), counters.doorbellsDropped], [[4, 6], 1]);
  });
});
