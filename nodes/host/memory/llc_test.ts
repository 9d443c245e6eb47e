import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { Llc } from "./llc.ts";

const CORE = { by: "core", fill: true } as const;
const DMA = { by: "dma", fill: true } as const;

describe("Llc", () => {
  let llc: Llc;
  let evicted: [line: number, first: number][];

  beforeEach(() => {
    evicted = [];
    // Two sets of four ways: even and odd lines.
    llc = new Llc({ bytes: 8 * LINE_BYTES, ways: 4, ddioWays: 2 }, {
      lines: 1000,
      memory: {
        fetch: (line, target) => target.fill(line),
        evict: (line, bytes) => void evicted.push([line, bytes[0]!]),
      },
    });
  });

  function touch(line: number, how: typeof CORE | typeof DMA = CORE): number {
    const slot = llc.access(line, how);
    llc.markDirty(slot);
    return slot;
  }

  it("fetches a line that it misses, and finds it again", () => {
    const slot = llc.access(6, CORE);
    assert.deepEqual([...llc.bytes(slot)], Array(LINE_BYTES).fill(6));
    assert.equal(llc.access(6, CORE), slot);
    assert.deepEqual([llc.hits, llc.misses], [1, 1]);
    assert.equal(llc.find(8), -1);
  });

  it("P-04: writes the least recently used line of a full set back, and only if it is dirty", () => {
    for (const line of [0, 2, 4, 6]) touch(line);
    llc.access(0, CORE);
    touch(8);
    assert.deepEqual(evicted, [[2, 2]]);
    llc.markClean(llc.find(4));
    touch(10);
    assert.deepEqual(evicted, [[2, 2]], "a clean line goes without a trace");
    assert.equal(llc.evictions, 1);
    assert.equal(llc.find(4), -1);
    assert.ok(llc.find(1) < 0 && llc.find(0) >= 0);
  });

  it("P-04: may give up any line of a full set, by its own seeded draw, within the ways allowed", () => {
    const orders = [1, 1, 2].map((seed) => {
      const order: number[] = [];
      const random = rngFor(seed, "llc");
      const drawn = new Llc({ bytes: 8 * LINE_BYTES, ways: 4, ddioWays: 2, random }, {
        lines: 1000,
        memory: { fetch: () => {}, evict: (line) => void order.push(line) },
      });
      for (let line = 0; line < 400; line += 2) drawn.markDirty(drawn.access(line, CORE));
      assert.equal(order.length, 200 - 4, "free slots are taken first");
      for (const line of [1, 3, 5, 7]) drawn.markDirty(drawn.access(line, CORE));
      const allowed = new Set([drawn.find(1), drawn.find(3)]);
      for (let line = 9; line < 200; line += 2) {
        assert.ok(allowed.has(drawn.access(line, DMA)), "DDIO has the first two ways");
      }
      return order;
    });
    assert.deepEqual(orders[0], orders[1]);
    assert.notDeepEqual(orders[0], orders[2]);
    const inOrder = orders[0]!.slice(0, 40).map((line, i) => line === 2 * i);
    assert.ok(inOrder.includes(false), "not in the order of their use");
  });

  it("P-02 (in part): DDIO allocates in its ways only, and leaves the cores' lines alone", () => {
    for (const line of [0, 2, 4, 6]) touch(line, DMA);
    assert.deepEqual(evicted.map(([line]) => line), [0, 2]);
    touch(8);
    touch(10);
    touch(12, DMA);
    assert.deepEqual(evicted.map(([line]) => line), [0, 2, 4], "two ways were free for the cores");
    assert.ok(llc.find(8) >= 0 && llc.find(10) >= 0);
  });

  it("P-02 (in part): DDIO updates a line in place in whichever way it is", () => {
    for (const line of [0, 2, 4, 6]) touch(line);
    const slot = llc.find(6);
    assert.equal(touch(6, DMA), slot);
    assert.deepEqual(evicted, []);
  });

  it("remove forgets a line and its dirt", () => {
    touch(4);
    llc.remove(llc.find(4));
    assert.equal(llc.find(4), -1);
    assert.ok(llc.isAbsent(0, 63));
    for (let slot = 0; slot < 8; slot++) assert.ok(!llc.isDirty(slot));
    assert.throws(() => llc.remove(0), /empty/);
  });

  it("isAbsent is true only where no line of the range is cached", () => {
    assert.ok(llc.isAbsent(0, 999));
    touch(100);
    assert.ok(!llc.isAbsent(100, 100));
    assert.ok(!llc.isAbsent(0, 999));
    assert.ok(llc.isAbsent(128, 999));
  });

  it("gives every slot bytes of its own", () => {
    const places = new Set(Array.from({ length: 8 }, (_, slot) => llc.at(slot)));
    assert.deepEqual(
      [...places].sort((x, y) => x - y),
      Array.from({ length: 8 }, (_, i) => i * 64),
    );
  });
});
