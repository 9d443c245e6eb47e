import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Deadlines } from "../../../fabric/base/deadlines.ts";
import { createDevice } from "../device.ts";
import { regionPlan } from "../testing/region_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { connect, disconnect, newLink } from "./link.ts";
import { coherenceSlots, createCoherence } from "./serve.ts";

describe("a link of two cards", () => {
  it("decision 8: gives all that its queue pairs have back, however often a far card begins a new life", () => {
    const shared = [regionPlan()];
    const device = createDevice("a", rnicPlan("a", { shared }), { seed: 1 });
    device.deadlines = new Deadlines(8 * (coherenceSlots(device) + 8));
    const coherence = createCoherence(device)!;
    const taken = () => [
      device.slots.filter((qp) => qp !== undefined).length,
      device.queuePairs.size,
      coherence.links.size,
    ];
    const before = taken();
    const numbers = new Set<number>();
    for (let life = 1; life <= 5; life++) {
      const of = { role: "home", peer: 0x0a00_0002, agent: 1, life } as const;
      const link = newLink(device, coherence, of);
      connect(device, coherence, { link, peer: { qpn: 0xc0_0000, psn: 7 } });
      assert.deepEqual(taken(), before.map((count) => count + 3));
      assert.equal(new Set(link.queuePairs.map(({ slot }) => slot)).size, 3);
      numbers.add(link.firstQpn).add(link.firstPsn);
      disconnect(device, coherence, link);
      assert.deepEqual(taken(), before);
      assert.deepEqual(link.queuePairs, []);
    }
    assert.equal(numbers.size, 10, "no number or first PSN is that of an earlier link");
  });
});
