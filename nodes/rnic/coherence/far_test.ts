/** A far card's end: what its host's cores are told of lines that they wait for. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { regionPlan, RegionRig } from "../testing/region_testing.ts";

describe("a core that waits for a change of a line", () => {
  it("decision 19: is told that a copy is gone that left its place as soon as it was read", () => {
    const r = new RegionRig(regionPlan({ remoteCache: 1 }));
    r.register();
    // The second line waits for the only place, and gets it in the step in which the first one is read.
    const tags = [0, 1].map((line) => r.begin("far", "load", line));
    r.rig.run(() => tags.every((tag) => r.done.has(tag)));
    assert.equal(r.counter("b", "remoteCacheLinesMost"), 1);
    assert.deepEqual(r.gone, [0]);
  });

  it("decision 19: is told once of each copy that it has seen, and of no other", () => {
    const r = new RegionRig();
    r.register();
    r.load("far", 3);
    for (const value of [1, 2]) r.store("home", 3, value);
    r.store("home", 4, 1);
    assert.deepEqual(r.gone, [3]);
    r.load("far", 3);
    r.store("far", 5, 1);
    r.store("home", 3, 4);
    r.load("home", 5);
    assert.deepEqual(r.gone, [3, 3], "line 5 is shared by now, and readable");
    r.store("home", 5, 2);
    assert.deepEqual(r.gone, [3, 3, 5]);
  });
});
