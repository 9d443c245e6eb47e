import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { scenarioOfRun } from "./kept_scenario.ts";

describe("scenarioOfRun", () => {
  it("is there while an order is accepted that is not on record yet", async () => {
    const directory = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(`${directory}/scenario.yaml`, "name: pair\nhosts: { a: {} }\n");
      const order = JSON.stringify({ host: "a", run: "put" });
      // Room for one more, and a line that is being written.
      await Deno.writeTextFile(`${directory}/orders.jsonl`, `${order}\n        \n{"ho`);
      const plan = { faults: [], nodes: [] } as unknown as RackPlan;
      const { notes } = scenarioOfRun({ run: "pair-1", directory, plan, partitions: [] });
      assert.match(notes[0]!, /1 started by order \(put on a\)/);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  });
});
