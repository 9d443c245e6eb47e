/** The card's own limits: as many keys as it says, counted as they come and go. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { addWindow, removeWindow } from "../dma/memory_window.ts";
import { createRegionTable } from "../dma/memory_region.ts";
import type { Device } from "../state/device.ts";
import { queryDevice } from "./query_command.ts";

describe("queryDevice", () => {
  it("counts keys to the last, and those that come back", () => {
    const regions = createRegionTable();
    const owners = [undefined, {}, undefined, {}];
    const device = { spaces: { queues: 64 }, owners, regions } as unknown as Device;
    const ask = () => {
      const reply = queryDevice(device);
      assert.ok(reply.status === "ok" && reply.op === "query-device");
      return reply;
    };
    const { keys, freeKeys, freeQueues } = ask();
    assert.equal(freeKeys, keys);
    assert.equal(freeQueues, 62);
    const first = addWindow(regions, { type: 2, pd: 1 })!;
    let count = 1;
    while (addWindow(regions, { type: 2, pd: 1 }) !== undefined) count++;
    assert.equal(count, keys);
    assert.equal(ask().freeKeys, 0);
    removeWindow(regions, first);
    assert.equal(ask().freeKeys, 1);
    assert.notEqual(addWindow(regions, { type: 1, pd: 1 }), undefined);
    assert.equal(ask().freeKeys, 0);
  });
});
