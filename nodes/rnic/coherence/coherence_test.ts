/** Two coherent cards on the rig: `a` is home, `b` far. The protocol's own tests are in `fabric/coherence`. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { packetOf } from "../testing/pair_testing.ts";
import { REGION_LINES, regionPlan, RegionRig } from "../testing/region_testing.ts";

/** What is still under way arrives: acknowledgements, completions of grants. */
function settle({ rig }: RegionRig): void {
  rig.runFor(20 * PS_PER_US);
}

function frames({ rig }: RegionRig, from = 0): string[] {
  return rig.frames.slice(from).map(({ from, bytes }) => {
    const { bth } = packetOf(bytes);
    return `${from} ${opcodeRow(bth.opcode)!.name}`;
  });
}

describe("a far card with a remote placement", () => {
  it("C-02, C-03, C-07: reads home's memory by three messages, and serves the next reads by itself", () => {
    const r = new RegionRig();
    r.rig.a.host.memory[r.region.address] = 7;
    r.register();
    settle(r);
    const before = r.rig.frames.length;
    assert.equal(r.load("far", 0), 7);
    settle(r);
    const coherent = frames(r, before).filter((name) => name.includes("COHERENCE"));
    assert.deepEqual(coherent.slice(0, 3), [
      "b VENDOR COHERENCE REQUEST",
      "a VENDOR COHERENCE RESPONSE",
      "b VENDOR COHERENCE RESPONSE",
    ]);
    const sent = r.counter("b", "coherenceSentGetS");
    assert.equal(r.load("far", 0), 7);
    assert.equal(r.counter("b", "coherenceSentGetS"), sent);
    assert.equal(r.counter("b", "remoteCacheHits"), 1);
    assert.equal(r.counter("b", "remoteCacheMisses"), 1);
  });

  it("C-05, C-07, C-08: each side sees the other's stores, and its cores are told that a copy is gone", () => {
    const r = new RegionRig();
    r.register();
    assert.equal(r.store("far", 0, 1), "done");
    assert.equal(r.load("home", 0), 1);
    assert.equal(r.store("home", 0, 2), "done");
    assert.deepEqual(r.gone, [0]);
    assert.equal(r.load("far", 0), 2);
    const old = r.access("far", "store", 0, { kind: "add", offset: 0, operand: 5n });
    assert.equal(old.data?.[0], 2);
    assert.equal(r.load("home", 0), 7);
  });

  it("C-09, decision 12: a flush is answered when home's memory has the line", () => {
    const r = new RegionRig();
    r.register();
    r.store("far", 5, 9);
    assert.equal(r.memory(5), 0);
    assert.equal(r.access("far", "flush", 5).result, "done");
    assert.equal(r.memory(5), 9);
  });

  it("decision 21: a deregistration writes back, and a region that is not registered is refused", () => {
    const r = new RegionRig();
    r.register();
    for (let line = 0; line < REGION_LINES; line++) r.store("far", line, line + 1);
    assert.deepEqual(r.command(r.rig.b, "deregister-region"), { status: "ok", op: "done" });
    for (let line = 0; line < REGION_LINES; line++) assert.equal(r.memory(line), line + 1);
    assert.equal(r.load("far", 0), "refused");
    r.command(r.rig.b, "register-region");
    assert.equal(r.load("far", 0), 1);
    assert.deepEqual(r.command(r.rig.a, "deregister-region"), { status: "ok", op: "done" });
  });
});

describe("a far card with a local placement", () => {
  it("C-06: reads and writes by home's local cache, and keeps nothing", () => {
    const r = new RegionRig(regionPlan({ placement: "local" }));
    r.register();
    assert.equal(r.store("far", 3, 1), "done");
    assert.equal(r.load("home", 3), 1);
    assert.equal(r.store("home", 3, 2), "done");
    assert.equal(r.load("far", 3), 2);
    assert.equal(r.counter("b", "remoteCacheLinesMost"), 0);
    assert.equal(r.counter("b", "coherenceSentGetS"), 0);
  });
});

describe("a move of the copies", () => {
  it("C-04, decision 18: purges all lines: nothing of the old place serves an access after it", () => {
    const r = new RegionRig();
    const move = (place: "local" | "remote") => {
      const { status } = r.rig.command(r.rig.a, { op: "move-region", region: 0, place });
      assert.equal(status, "ok");
      settle(r);
    };
    r.register();
    for (let line = 0; line < REGION_LINES; line++) r.store("far", line, line + 1);
    move("local");
    // Dirty lines are in home's memory, and the far card has none that it could serve by itself.
    assert.deepEqual([...r.gone].sort((x, y) => x - y), [...Array(REGION_LINES).keys()]);
    for (let line = 0; line < REGION_LINES; line++) assert.equal(r.memory(line), line + 1);
    const hits = r.counter("b", "remoteCacheHits");
    for (let line = 0; line < REGION_LINES; line++) {
      assert.equal(r.load("far", line), line + 1);
      assert.equal(r.store("far", line, line + 2), "done");
    }
    assert.equal(r.counter("b", "remoteCacheHits"), hits);
    move("remote");
    // The local cache has given its dirty lines up, too, before anything asks for them.
    for (let line = 0; line < REGION_LINES; line++) assert.equal(r.memory(line), line + 2);
  });

  it("C-04, decision 18: requests with the old placement are sent back, and lose nothing", () => {
    const r = new RegionRig();
    r.register();
    r.store("far", 0, 1);
    for (const place of ["local", "remote", "local"] as const) {
      const { status } = r.rig.command(r.rig.a, { op: "move-region", region: 0, place });
      assert.equal(status, "ok");
      const value = r.load("home", 0) as number;
      assert.equal(r.store("far", 0, value + 1), "done");
      assert.equal(r.load("home", 0), value + 1);
    }
    assert.ok(r.counter("a", "coherenceSentRetry") > 0);
    assert.equal(r.load("far", 0), 4);
  });
});
