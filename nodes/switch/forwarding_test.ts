import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { FLOOD, lookUp, RESERVED, UNKNOWN } from "./forwarding.ts";

const PLAN: SwitchPlan = {
  ports: 2,
  mode: "cut-through",
  latencyPs: 150_000,
  queueBytes: 1 << 20,
  forwarding: [[0x0200_0000_0001, 0], [0xfe00_0000_0002, 1]],
};

function header(mac: number): Uint8Array {
  const bytes = new Uint8Array(14);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.floor(mac / 2 ** 32));
  view.setUint32(2, mac % 2 ** 32);
  return bytes;
}

describe("lookUp", () => {
  const table = new Map(PLAN.forwarding);
  const cases: readonly (readonly [name: string, mac: number, verdict: number])[] = [
    ["an RNIC's address goes to its port", 0x0200_0000_0001, 0],
    ["an address with high bits set too", 0xfe00_0000_0002, 1],
    ["an address that no RNIC has is unknown", 0x0200_0000_0003, UNKNOWN],
    ["broadcast is flooded", 0xffff_ffff_ffff, FLOOD],
    ["IPv4 multicast is flooded", 0x0100_5e00_0001, FLOOD],
    ["just below the reserved groups is flooded", 0x0180_c1ff_ffff, FLOOD],
    ["a pause frame's group stays on its link", 0x0180_c200_0001, RESERVED],
    ["the last reserved group", 0x0180_c200_000f, RESERVED],
    ["just above the reserved groups is flooded", 0x0180_c200_0010, FLOOD],
  ];
  for (const [name, mac, verdict] of cases) {
    it(name, () => assert.equal(lookUp(table, header(mac)), verdict));
  }
});
