import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { DRAM_PAGE_BYTES, SCM_BASE } from "./memory/address_map.ts";
import { HostRig, pattern } from "./testing/host_testing.ts";
import type { Host } from "./host.ts";

const START = 2_000_000;

describe("heldAtRest", () => {
  it("P-03: has writes and reads of a card that are under way, and none when they are over", () => {
    const rig = new HostRig({ domain: "wsp" });
    const held = () => rig.node.heldAtRest!().map(({ kind, text }) => `${kind}: ${text}`);
    rig.run(START);
    assert.deepEqual(held(), []);
    const data = pattern(100), address = SCM_BASE;
    rig.arrive(START, { kind: "memory-write", address, data, noSnoop: false });
    rig.arrive(START, { kind: "memory-read", tag: 1, address, length: 64, noSnoop: false });
    rig.run(START + 1);
    assert.deepEqual(held(), [
      "leaked: 1 posted writes that survive and are not in memory",
      "leaked: 1 writes of card 0",
      "leaked: 100 bytes of writes of card 0",
      "leaked: 1 messages behind writes of card 0",
    ]);
    while (rig.node.heldAtRest!().some(({ text }) => text.includes("writes"))) rig.next();
    assert.deepEqual(held(), ["leaked: 1 reads of card 0"]);
    rig.run();
    assert.deepEqual(held(), []);
  });

  it("has a core's stores past the cache for which no memory controller has room", () => {
    const rig = new HostRig();
    rig.run(START);
    const { memory } = rig.node as Host;
    memory.streams.set({}, { offset: SCM_BASE, data: pattern(8) });
    assert.deepEqual(rig.node.heldAtRest!(), [
      { kind: "leaked", text: "1 stores past the cache that wait for a memory controller" },
    ]);
  });

  it("has jobs of the thread for pages, and pages of which the card has other rights than its IOMMU", () => {
    const rig = new HostRig();
    rig.run(START);
    const { paging, map } = rig.node as Host;
    const buffer = map.allocate(2 * DRAM_PAGE_BYTES);
    paging.demand(7, buffer, { ...buffer, writable: true });
    const region = paging.regionOf(0, 7)!;
    paging.map(region, 0, { rights: 2, frame: 0 });
    assert.deepEqual(rig.node.heldAtRest!(), []);
    paging.unmapped(region, 0);
    region.rights[1] = 1;
    paging.putBack({ kind: "range", parts: [], rights: 1, fault: true });
    assert.deepEqual(rig.node.heldAtRest!(), [
      { kind: "leaked", text: "1 jobs of the kernel's thread for pages" },
      { kind: "leaked", text: "2 pages whose mapping is not that of the card's rights" },
    ]);
  });
});
