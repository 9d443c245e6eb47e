import assert from "node:assert/strict";
import { rigPlan } from "../testing/host_testing.ts";
import { PhysicalMemory } from "./physical_memory.ts";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import {
  AddressFault,
  AddressMap,
  DRAM_PAGE_BYTES,
  dramFrame,
  OutOfMemory,
  SCM_BASE,
  scmPageBytes,
  VIRTUAL_DRAM_BASE,
  VIRTUAL_SCM_BASE,
} from "./address_map.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const SIZES = { dramBytes: 1 << 20, scmBytes: 1 << 20 };

describe("dramFrame", () => {
  it("gives every page a frame of its own", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), (frames) => {
        const given = new Set(Array.from({ length: frames }, (_, page) => dramFrame(page, frames)));
        assert.equal(given.size, frames);
        assert.ok(Math.min(...given) === 0 && Math.max(...given) === frames - 1);
      }),
      seeded(),
    );
  });

  it("never puts consecutive pages on consecutive frames", () => {
    for (let page = 0; page + 1 < 100; page++) {
      assert.notEqual(dramFrame(page + 1, 100), dramFrame(page, 100) + 1, `page ${page}`);
    }
  });
});

describe("AddressMap.allocate", () => {
  it("gives pages that translate to what the buffer says", () => {
    const map = new AddressMap(SIZES);
    map.allocate(1);
    const buffer = map.allocate(3 * DRAM_PAGE_BYTES - 100);
    assert.equal(buffer.length, 3 * DRAM_PAGE_BYTES - 100);
    assert.equal(buffer.pages.length, 3);
    for (const [i, page] of buffer.pages.entries()) {
      assert.equal(map.physical(buffer.address + i * DRAM_PAGE_BYTES + 5), page + 5);
    }
    assert.equal(map.run(buffer.address + 10), DRAM_PAGE_BYTES - 10);
  });

  it("refuses what DRAM cannot hold, and says how much is left", () => {
    const map = new AddressMap(SIZES);
    map.allocate(SIZES.dramBytes - DRAM_PAGE_BYTES);
    assert.throws(
      () => map.allocate(DRAM_PAGE_BYTES + 1),
      (error: Error) =>
        error instanceof OutOfMemory && /4096 B of DRAM are left/.test(error.message),
    );
    map.allocate(DRAM_PAGE_BYTES);
    assert.throws(() => map.allocate(1), OutOfMemory);
    assert.throws(() => map.allocate(NaN), OutOfMemory);
  });
});

describe("AddressMap.free", () => {
  it("reuses freed memory for as many pages of its kind, and counts it as free", () => {
    const map = new AddressMap(SIZES);
    const kept = map.allocate(2 * DRAM_PAGE_BYTES);
    const given = map.allocate(3 * DRAM_PAGE_BYTES);
    const ring = map.allocateContiguous(3 * DRAM_PAGE_BYTES);
    map.free(given);
    map.free({ address: ring.address });
    assert.equal(map.allocatedBytes, kept.length);
    assert.equal(map.takeSpare(2 * DRAM_PAGE_BYTES, "scattered"), undefined);
    const again = map.takeSpare(3 * DRAM_PAGE_BYTES - 5, "scattered");
    assert.deepEqual(again, { ...given, length: 3 * DRAM_PAGE_BYTES - 5 });
    assert.deepEqual(map.takeSpare(3 * DRAM_PAGE_BYTES, "contiguous"), ring);
    assert.equal(map.takeSpare(3 * DRAM_PAGE_BYTES, "contiguous"), undefined);
    assert.equal(map.allocatedBytes, 8 * DRAM_PAGE_BYTES);
  });

  it("reuses the front of what is larger, and neighbours as one, where memory is short", () => {
    for (const kind of ["scattered", "contiguous"] as const) {
      const map = new AddressMap(SIZES);
      const allocate = (pages: number) =>
        kind === "scattered"
          ? map.allocate(pages * DRAM_PAGE_BYTES)
          : map.allocateContiguous(pages * DRAM_PAGE_BYTES);
      const given = [100, 50, 90].map(allocate);
      const before = map.allocatedBytes;
      for (const each of given) map.free(each);
      const all = map.takeSpare(239 * DRAM_PAGE_BYTES, kind)!;
      const addresses = [...all.pages.keys()].map((i) => all.address + i * DRAM_PAGE_BYTES);
      assert.deepEqual(all.pages, addresses.map((address) => map.physical(address)));
      assert.ok(map.takeSpare(1, kind) !== undefined);
      assert.equal(map.takeSpare(1, kind), undefined);
      assert.equal(map.allocatedBytes, before);
      map.free(all);
      const isQuiet = (frames: readonly number[]) => !frames.includes(all.pages[0]!);
      assert.equal(map.takeSpare(100 * DRAM_PAGE_BYTES, kind, isQuiet), undefined);
      assert.equal(map.takeSpare(100 * DRAM_PAGE_BYTES, kind)!.address, all.address);
    }
  });

  it("needs a few times what is held at one time at most, whatever the sizes", () => {
    const map = new AddressMap(SIZES);
    for (let round = 0; round < 500; round++) {
      const bytes = (1 + round * 37 % 80) * DRAM_PAGE_BYTES;
      map.free(map.takeSpare(bytes, "scattered") ?? map.allocate(bytes));
    }
  });

  it("refuses what is not given out", () => {
    const map = new AddressMap(SIZES);
    const buffer = map.allocate(10);
    assert.throws(() => map.free({ address: buffer.address + 8 }), AddressFault);
    map.free(buffer);
    assert.throws(() => map.free(buffer), AddressFault);
    map.takeSpare(10, "scattered");
    map.free(buffer);
  });
});

describe("AddressMap.physical", () => {
  it("faults outside what is mapped", () => {
    const map = new AddressMap(SIZES);
    const buffer = map.allocate(10);
    assert.equal(
      map.physical(VIRTUAL_SCM_BASE + SIZES.scmBytes - 1),
      SCM_BASE + SIZES.scmBytes - 1,
    );
    for (
      const address of [
        0,
        buffer.address - 1,
        buffer.address + DRAM_PAGE_BYTES,
        VIRTUAL_SCM_BASE - 1,
        VIRTUAL_SCM_BASE + SIZES.scmBytes,
        NaN,
      ]
    ) assert.throws(() => map.physical(address), AddressFault, `${address}`);
  });

  it("knows DRAM and SCM apart", () => {
    assert.ok(new AddressMap(SIZES).allocate(1).address === VIRTUAL_DRAM_BASE);
    const memory = new PhysicalMemory(rigPlan(SIZES), {});
    assert.equal(memory.memoryOf(0, SIZES.dramBytes), "dram");
    assert.equal(memory.memoryOf(1, SIZES.dramBytes), undefined);
    assert.equal(memory.memoryOf(SCM_BASE, SIZES.scmBytes), "scm");
    assert.equal(memory.memoryOf(SCM_BASE - 1, 1), undefined);
    assert.equal(memory.memoryOf(-1, 1), undefined);
    assert.equal(memory.memoryOf(SCM_BASE + 1, SIZES.scmBytes), undefined);
  });
});

describe("scmPageBytes", () => {
  it("is the largest power of two up to 2 MiB that divides the size", () => {
    assert.equal(scmPageBytes(64 << 20), 2 << 20);
    assert.equal(scmPageBytes(3 << 20), 1 << 20);
    assert.equal(scmPageBytes(12288), 4096);
    assert.throws(() => scmPageBytes(2048), /4 KiB pages/);
    const { scm } = new AddressMap({ dramBytes: 4096, scmBytes: 3 << 20 });
    assert.deepEqual(scm.pages, [SCM_BASE, SCM_BASE + (1 << 20), SCM_BASE + (2 << 20)]);
  });
});
