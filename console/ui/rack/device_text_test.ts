import { strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Node } from "../../api/rack.ts";
import { busText, deviceText } from "./device_text.ts";

function node(kind: Node["kind"], config: Node["config"]): Node {
  return { name: "n", kind, process: "n", host: null, config };
}

describe("busText", () => {
  it("C-01 (in part): says which bus a host's card is on", () => {
    equal(busText(node("host", { attach: "coherent" })), "coherent bus");
    equal(busText(node("host", {})), "PCIe");
  });
});

describe("deviceText", () => {
  it("C-01 (in part): of a card with shared regions, what its two caches have", () => {
    const frames = { queuePairs: 6, framesIn: 20, framesOut: 10 };
    equal(deviceText(node("rnic", {}), frames), "6 queue pairs · 10 ↑ 20 ↓");
    const lines = { ...frames, remoteCacheLines: 3, localCacheLines: 4 };
    equal(deviceText(node("rnic", {}), lines), "lines: 3 remote, 4 local · 10 ↑ 20 ↓");
  });
});
