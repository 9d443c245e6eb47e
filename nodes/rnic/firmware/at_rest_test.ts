import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createDevice } from "../device.ts";
import { EVERY_ACCESS, go, pair, post } from "../testing/pair_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { heldAtRest } from "./at_rest.ts";

describe("heldAtRest", () => {
  it("has nothing of a new card", () => {
    assert.deepEqual(heldAtRest(createDevice("a", rnicPlan("a"), { seed: 1 })), []);
  });

  it("tells what was not given back as leaked: a tag, room for verified writes", () => {
    const device = createDevice("a", rnicPlan("a"), { seed: 1 });
    device.dma.gather.freeTags.pop();
    device.verify.stagedBytes = 8;
    assert.deepEqual(heldAtRest(device), [
      { kind: "leaked", text: "1 tags of DMA reads lost" },
      { kind: "leaked", text: "8 bytes staged for no queue pair" },
    ]);
  });

  it("tells a request that a peer never answers as asked", () => {
    const p = pair({ fate: () => "drop" }, {
      attributes: { accessFlags: EVERY_ACCESS, timeout: 0 },
    });
    p.rig.leavesRequests = true;
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(p.rig.a.rnic.heldAtRest!(), [
      { kind: "asked", text: `1 requests that have not ended of queue pair ${p.a.qpn}` },
    ]);
  });
});
