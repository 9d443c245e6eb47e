import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { byteAt, regionPlan, RegionRig } from "../testing/region_testing.ts";

describe("a coherent card pair", () => {
  it("C-03, C-07: a far core reads home's memory, and its card serves the next reads by itself", () => {
    const r = new RegionRig();
    r.rig.a.host.memory[r.region.address] = 7;
    r.register();
    assert.equal(r.load("far", 0), 7);
    const frames = r.rig.frames.length;
    const first = r.rig.now;
    assert.equal(r.load("far", 0), 7);
    console.log(first, r.rig.now - first);
    assert.equal(r.rig.frames.length, frames);
  });
  it("C-07, C-08: stores of both sides are seen by the other", () => {
    const r = new RegionRig();
    r.register();
    assert.equal(r.store("far", 0, 1), "done");
    assert.equal(r.load("home", 0), 1);
    assert.equal(r.store("home", 0, 2), "done");
    assert.equal(r.load("far", 0), 2);
    assert.deepEqual(r.gone, [0]);
    const old = r.access("far", "store", 0, { kind: "add", offset: 0, operand: 5n });
    assert.equal(old.data?.[0], 2);
    assert.equal(r.load("home", 0), 7);
  });
  it("C-06: kept locally", () => {
    const r = new RegionRig(regionPlan({ placement: "local" }));
    r.register();
    assert.equal(r.store("far", 3, 1), "done");
    assert.equal(r.load("home", 3), 1);
    assert.equal(r.store("home", 3, 2), "done");
    assert.equal(r.load("far", 3), 2);
  });
});
