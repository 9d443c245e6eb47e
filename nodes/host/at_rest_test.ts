import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SCM_BASE } from "./memory/address_map.ts";
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
});
