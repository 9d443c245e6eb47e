import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { DurableWrite } from "../../fabric/node.ts";
import type { PersistenceDomain } from "../../fabric/rack/plan.ts";
import { SCM_BASE } from "./address_map.ts";
import { pattern, RIG_TIMING, rigPlan } from "./host_testing.ts";
import { MemorySystem } from "./memory_system.ts";

/** Room for 16 lines in the LLC, 4 of them for DDIO, so that everything happens soon. */
const SMALL = { llc: { bytes: 1024, ways: 4, ddioWays: 1 }, dramBytes: 4096, scmBytes: 4096 };

function small(domain: PersistenceDomain = "adr", image?: Uint8Array): MemorySystem {
  return new MemorySystem(
    rigPlan({ ...SMALL, domain }),
    image && ((offset, length) => image.subarray(offset, offset + length)),
  );
}

function load(memory: MemorySystem, address: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  memory.load(address, bytes);
  return bytes;
}

/** Applies what became durable to `image`. */
function replay(memory: MemorySystem, image: Uint8Array): void {
  for (const { offset, data } of memory.takeDurable()) image.set(data, offset);
}

type Operation = {
  readonly kind: "store" | "dma" | "through" | "clean" | "load" | "read";
  readonly scm: boolean;
  readonly from: number;
  readonly length: number;
  readonly after: number;
};

const operation: fc.Arbitrary<Operation> = fc.record({
  kind: fc.constantFrom("store", "dma", "through", "clean", "load", "read"),
  scm: fc.boolean(),
  from: fc.nat(4095),
  length: fc.integer({ min: 1, max: 200 }),
  after: fc.constantFrom(0, 0, 1000, 30_000),
});

describe("MemorySystem", () => {
  it("P-01, P-05: is one coherent memory, and records exactly what would survive", () => {
    const operations = fc.array(operation, { maxLength: 60 });
    fc.assert(
      fc.property(operations, fc.constantFrom("adr", "eadr"), (list, domain) => {
        const initial = pattern(4096, 9);
        const memory = small(domain, initial);
        const content = { dram: new Uint8Array(4096), scm: Uint8Array.from(initial) };
        const survivors = Uint8Array.from(initial);
        let now = 0, salt = 0;
        for (const { kind, scm, from, length: most, after } of list) {
          now += after;
          memory.advance(now);
          const length = Math.min(most, 4096 - from);
          const address = (scm ? SCM_BASE : 0) + from;
          const expected = scm ? content.scm : content.dram;
          const bytes = pattern(length, ++salt);
          if (kind === "through" || kind === "clean") {
            now = Math.max(now, memory.freeAt(address, length));
            memory.advance(now);
          }
          if (kind === "store") memory.store(address, bytes);
          if (kind === "dma") memory.dmaWriteCache(address, bytes);
          if (kind === "through") memory.writeThrough(address, bytes);
          if (kind === "clean") memory.writeBackRange(address, length);
          if (kind === "store" || kind === "dma" || kind === "through") expected.set(bytes, from);
          if (kind === "load") {
            assert.deepEqual(load(memory, address, length), expected.slice(from, from + length));
          }
          const seen = memory.dmaRead(address, { length, noSnoop: false });
          assert.deepEqual(new Uint8Array(seen), expected.slice(from, from + length));
          replay(memory, survivors);
          assert.deepEqual(survivors, memory.survivors(0, 4096));
          // P-41: what survives is never half of a word that was written as a whole elsewhere.
          if (domain === "eadr") assert.deepEqual(survivors, content.scm);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("P-04: a store to SCM is volatile until its line is flushed", () => {
    const memory = small();
    memory.store(SCM_BASE + 60, pattern(8));
    assert.deepEqual(memory.takeDurable(), []);
    assert.equal(memory.dirtyLines(SCM_BASE + 60, 8), 2);
    memory.writeBackRange(SCM_BASE, 64);
    const [first, ...rest] = memory.takeDurable();
    assert.deepEqual([first!.offset, [...first!.data.subarray(60)]], [
      0,
      [...pattern(8)].slice(0, 4),
    ]);
    assert.deepEqual(rest, []);
    assert.equal(memory.dirtyLines(SCM_BASE, 128), 1, "a flushed line stays, and is clean");
    memory.writeBackRange(SCM_BASE, 64);
    assert.deepEqual(memory.takeDurable(), []);
  });

  it("P-04: a line that is evicted becomes persistent by it", () => {
    const memory = small();
    for (let line = 0; line < 5; line++) memory.store(SCM_BASE + line * 256, pattern(8, line));
    const evicted = memory.takeDurable();
    assert.deepEqual(evicted.map(({ offset }) => offset), [0]);
    assert.deepEqual([...evicted[0]!.data.subarray(0, 8)], [...pattern(8, 0)]);
  });

  it("P-01: under eADR a store to SCM is persistent at once, and is recorded once", () => {
    const memory = small("eadr");
    const bytes = pattern(8);
    memory.store(SCM_BASE + 8, bytes);
    const recorded = memory.takeDurable();
    assert.deepEqual(recorded.map(({ offset, data }) => [offset, [...data]]), [[8, [
      ...pattern(8),
    ]]]);
    bytes.fill(0xff);
    assert.deepEqual([...recorded[0]!.data], [...pattern(8)], "the record is a copy");
    memory.writeBackRange(SCM_BASE, 64);
    assert.deepEqual(memory.takeDurable(), []);
  });

  it("never records DRAM", () => {
    for (const domain of ["adr", "eadr"] as const) {
      const memory = small(domain);
      memory.store(0, pattern(64));
      memory.writeBackRange(0, 64);
      memory.writeThrough(256, pattern(64));
      memory.dmaWriteCache(512, pattern(64));
      assert.deepEqual(memory.takeDurable(), []);
    }
  });

  it("P-02: a flow 1 write takes the dirty bytes of its line along and gives the line up", () => {
    const memory = small();
    memory.store(SCM_BASE + 8, pattern(8, 1));
    memory.writeThrough(SCM_BASE + 16, pattern(8, 2));
    const expected = [...Array(8).fill(0), ...pattern(8, 1), ...pattern(8, 2)];
    const image = new Uint8Array(4096);
    replay(memory, image);
    assert.deepEqual([...image.subarray(0, 24)], expected);
    assert.equal(memory.dmaReadPlace(SCM_BASE, false), "scm");
  });

  it("P-02: a read that passes the cache by does not see a dirty line", () => {
    const memory = small();
    memory.store(SCM_BASE, pattern(8));
    const how = { length: 8, noSnoop: true };
    assert.deepEqual([...memory.dmaRead(SCM_BASE, how)], Array(8).fill(0));
    assert.deepEqual([memory.dmaReadPlace(SCM_BASE, true), memory.dmaReadPlace(SCM_BASE, false)], [
      "scm",
      "llc",
    ]);
  });

  it("load costs a full latency for the first line and an overlapped one for the others", () => {
    const memory = small();
    const { scmLoadPs, dramLoadPs, llcHitPs } = RIG_TIMING;
    assert.equal(memory.load(SCM_BASE, new Uint8Array(8)), scmLoadPs);
    assert.equal(memory.load(SCM_BASE + 8, new Uint8Array(8)), llcHitPs);
    assert.equal(memory.load(0, new Uint8Array(256)), dramLoadPs + 3 * dramLoadPs / 10);
    assert.equal(memory.load(0, new Uint8Array(0)), 0);
    assert.equal(memory.store(60, new Uint8Array(8)), 2 * RIG_TIMING.storePs);
  });

  it("takes the image of what it records before the record is out", () => {
    const file = pattern(4096, 3);
    const memory = small("adr", file);
    memory.writeThrough(SCM_BASE, pattern(64, 4));
    const commits: DurableWrite[] = memory.takeDurable();
    for (const { offset, data } of commits) file.set(data, offset);
    file.set([0xab], 100);
    assert.equal(load(memory, SCM_BASE + 100, 1)[0], pattern(4096, 3)[100]);
  });
});
