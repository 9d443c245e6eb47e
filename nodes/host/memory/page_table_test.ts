import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { pattern, RIG_TIMING, rigPlan } from "../testing/host_testing.ts";
import { AddressMap, DRAM_PAGE_BYTES } from "./address_map.ts";
import { MemorySystem } from "./memory_system.ts";
import { PageTable } from "./page_table.ts";

const { minorFaultPs, majorFaultPs } = RIG_TIMING;

function bench() {
  const plan = rigPlan();
  const map = new AddressMap(plan), memory = new MemorySystem(plan);
  const pages = new PageTable(map, memory, RIG_TIMING);
  const buffer = map.allocate(3 * DRAM_PAGE_BYTES);
  const page = (i: number) => buffer.address + i * DRAM_PAGE_BYTES;
  const bytesOf = (i: number) => {
    const bytes = new Uint8Array(DRAM_PAGE_BYTES);
    memory.load(map.physical(page(i)), bytes);
    return bytes;
  };
  return { map, memory, pages, buffer, page, bytesOf };
}

describe("PageTable", () => {
  it("brings in the pages that an access touches, and none beside them", () => {
    const { pages, buffer, page } = bench();
    pages.leaveUntouched(buffer);
    const areThere = () => [0, 1, 2].map((i) => pages.isThere(page(i)));
    assert.equal(pages.touch(page(1), DRAM_PAGE_BYTES), minorFaultPs);
    assert.deepEqual(areThere(), [false, true, false]);
    assert.equal(pages.touch(page(1) - 1, 2), minorFaultPs);
    assert.deepEqual(areThere(), [true, true, false]);
    assert.equal(pages.touch(page(0), 2 * DRAM_PAGE_BYTES), 0);
    assert.equal(pages.minorFaults, 2);
  });

  it("gives a page its bytes back in another frame, the one that was given up last", () => {
    const { map, memory, pages, page, bytesOf } = bench();
    memory.store(map.physical(page(0)), pattern(DRAM_PAGE_BYTES, 1));
    memory.store(map.physical(page(1)), pattern(DRAM_PAGE_BYTES, 2));
    const [first, second] = [map.physical(page(0)), map.physical(page(1))];
    pages.takeAway(page(0), true);
    pages.takeAway(page(1), true);
    assert.ok(pages.touch(page(0), 1) >= majorFaultPs);
    pages.touch(page(1), 1);
    assert.deepEqual([map.physical(page(0)), map.physical(page(1))], [second, first]);
    assert.deepEqual(bytesOf(0), pattern(DRAM_PAGE_BYTES, 1));
    assert.deepEqual(bytesOf(1), pattern(DRAM_PAGE_BYTES, 2));
    assert.deepEqual([pages.majorFaults, pages.minorFaults, pages.takenAway], [2, 0, 2]);
  });

  it("keeps nothing of memory that was given back: it comes as zeros, and as fast", () => {
    const { map, memory, pages, buffer, page, bytesOf } = bench();
    memory.store(map.physical(page(0)), pattern(DRAM_PAGE_BYTES));
    pages.takeAway(page(0), true);
    pages.forget(buffer);
    assert.ok(pages.touch(page(0), 1) < majorFaultPs);
    assert.deepEqual(bytesOf(0), new Uint8Array(DRAM_PAGE_BYTES));
    assert.deepEqual([pages.majorFaults, pages.minorFaults], [0, 1]);
  });
});
