import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { choosePort, createMultipath, flowHash } from "./ecmp.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

const FAR = 0x0200_0000_0009;
const PLAN: SwitchPlan = {
  ports: 6,
  mode: "cut-through",
  latencyPs: 1,
  queueBytes: 1,
  forwarding: [],
  multipath: [[[FAR], [2, 3, 4, 5]]],
};

/** The first 42 bytes of a RoCEv2 frame to {@link FAR}. */
function frame(sourcePort: number): Uint8Array {
  const bytes = new Uint8Array(42);
  bytes.set([2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45]);
  bytes.set([17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9], 23);
  bytes.set([sourcePort >> 8, sourcePort & 255, 0x12, 0xb7], 34);
  return bytes;
}

const multipath = createMultipath("leaf1", PLAN, { seed: 7 })!;
const allUp = () => true;
const flows = Array.from({ length: 4096 }, (_, i) => frame(0xc000 + i));

describe("choosePort", () => {
  it("spreads flows over all ports, about evenly", () => {
    const counts = new Map<number, number>();
    for (const flow of flows) {
      const port = choosePort(multipath, flow, allUp)!;
      counts.set(port, (counts.get(port) ?? 0) + 1);
    }
    assert.deepEqual([...counts.keys()].toSorted(), [2, 3, 4, 5]);
    for (const count of counts.values()) assert.ok(count > 900 && count < 1150, String(count));
  });

  it("keeps a flow on its port, whatever else the frame holds", () => {
    fc.assert(
      fc.property(fc.nat(0x3fff), fc.nat(255), (port, ttl) => {
        const flow = frame(0xc000 + port);
        const other = Uint8Array.from(flow);
        other[22] = ttl;
        other[15] = 3;
        assert.equal(choosePort(multipath, other, allUp), choosePort(multipath, flow, allUp));
      }),
      seeded(),
    );
  });

  it("moves only the flows of a port that is down, and moves them back", () => {
    for (const flow of flows.slice(0, 256)) {
      const before = choosePort(multipath, flow, allUp)!;
      const without = choosePort(multipath, flow, (port) => port !== 3)!;
      assert.notEqual(without, 3);
      if (before !== 3) assert.equal(without, before);
    }
  });

  it("answers a port that is down where all are, and none for an address that it does not know", () => {
    assert.equal(choosePort(multipath, flows[0]!, () => false), 2);
    const stranger = Uint8Array.from(flows[0]!);
    stranger[5] = 77;
    assert.equal(choosePort(multipath, stranger, allUp), undefined);
  });

  it("chooses differently on another switch", () => {
    const other = createMultipath("leaf2", PLAN, { seed: 7 })!;
    const same = flows.filter((flow) =>
      choosePort(multipath, flow, allUp) === choosePort(other, flow, allUp)
    );
    assert.ok(same.length > 900 && same.length < 1150, String(same.length));
  });
});

describe("flowHash", () => {
  it("works on any bytes of a frame's length", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 14, maxLength: 60 }), (bytes) => {
        const hash = flowHash(bytes, 1);
        assert.ok(Number.isInteger(hash) && hash >= 0 && hash < 2 ** 32);
      }),
      seeded(),
    );
  });
});
