import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { projectFile } from "../../base/paths.ts";
import { type Shape, shapeOf } from "./sketch.tsx";

describe("shapeOf", () => {
  const shapes: Readonly<Record<string, Shape>> = {
    persist_pair: { leaves: [2], spines: 0 },
    incast: { leaves: [10], spines: 0 },
    leaf_spine: { leaves: [2, 2], spines: 2 },
    rack_32: { leaves: [32], spines: 0 },
    fat_tree: { leaves: [1, 1, 1, 1, 1, 1, 1, 1], spines: 8, k: 4 },
  };
  for (const [name, shape] of Object.entries(shapes)) {
    it(`counts the hosts of ${name} below its switches`, async () => {
      const text = await Deno.readTextFile(projectFile(`scripts/scenarios/${name}.yaml`));
      assert.deepEqual(shapeOf(text), shape);
    });
  }

  it("draws nothing of cables that are listed", async () => {
    const text = await Deno.readTextFile(projectFile("scripts/scenarios/drawn_fabric.yaml"));
    assert.equal(shapeOf(text), undefined);
  });
});
