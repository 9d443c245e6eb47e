/** A far card's end: its credits, and what its host's cores are told of lines that they wait for. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
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

describe("a far card's requests", () => {
  it("decision 9: are at most as many at a time as home has slots; others go when one is answered", () => {
    for (const slots of [1, 3]) {
      const r = new RegionRig(regionPlan({ slots }));
      r.register();
      r.holds = ({ kind }) => kind === "line";
      const tags = [0, 1, 2, 3, 4, 5].map((line) => r.begin("far", "load", line));
      r.rig.runFor(20 * PS_PER_US);
      assert.equal(r.counter("a", "coherenceReceivedGetS"), slots);
      assert.ok(tags.every((tag) => !r.done.has(tag)));
      r.release();
      r.rig.run(() => tags.every((tag) => r.done.has(tag)));
      assert.equal(r.counter("a", "coherenceReceivedGetS"), tags.length);
      r.rig.run();
    }
  });
});
