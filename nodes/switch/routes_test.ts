import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { changeRoutes, createRoutes, isWithdrawn, takeWithdrawal } from "./routes.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

const NEAR = 0x0200_0000_0001, FAR = 0xfe00_0000_0002;
const CONVERGENCE_PS = 1_000;

/** A spine with two cables to each of two leaves. */
const SPINE: SwitchPlan = {
  ports: 4,
  mode: "cut-through",
  latencyPs: 1,
  queueBytes: 1,
  forwarding: [],
  multipath: [[[NEAR], [0, 1]], [[FAR], [2, 3]]],
  convergencePs: CONVERGENCE_PS,
};
/** The second leaf: a host on port 0, the spine on 1 and 2. */
const LEAF: SwitchPlan = { ...SPINE, ports: 3, multipath: [[[NEAR], [1, 2]]] };

describe("changeRoutes", () => {
  it("sends nothing while a path is left, and the lost addresses when none is", () => {
    const spine = createRoutes(SPINE);
    const up = new Set([1, 2, 3]);
    const isUp = (port: number) => up.has(port);
    assert.deepEqual(changeRoutes(spine, { port: 0, up: false }, isUp), []);
    up.delete(1);
    const told = changeRoutes(spine, { port: 1, up: false }, isUp);
    assert.deepEqual(told.map(({ port }) => port), [2, 3]);
    const leaf = createRoutes(LEAF);
    assert.ok(takeWithdrawal(leaf, { port: 1, now: 50 }, told[0]!.bytes));
    const at = (now: number) => isWithdrawn(leaf, 1, { mac: NEAR, now });
    assert.deepEqual([at(50), at(1_049), at(1_050)], [false, false, true]);
    assert.equal(isWithdrawn(leaf, 2, { mac: NEAR, now: 9_999 }), false);
    up.add(0);
    const healed = changeRoutes(spine, { port: 0, up: true }, isUp);
    assert.deepEqual(healed.map(({ port }) => port), [2, 3]);
    takeWithdrawal(leaf, { port: 1, now: 5_000 }, healed[0]!.bytes);
    assert.deepEqual([at(5_000), at(5_999), at(6_000)], [true, true, false]);
  });

  it("sends withdrawals to a neighbour that comes up, and nothing where all is well", () => {
    const spine = createRoutes(SPINE);
    assert.deepEqual(changeRoutes(spine, { port: 2, up: true }, (port) => port >= 1), []);
    const [told, ...others] = changeRoutes(spine, { port: 2, up: true }, (port) => port >= 2);
    assert.deepEqual([told?.port, others], [2, []]);
  });

  it("forgets what a neighbour said when the cable to it changes", () => {
    const leaf = createRoutes(LEAF);
    const spine = createRoutes(SPINE);
    const told = changeRoutes(spine, { port: 0, up: false }, (port) => port >= 2);
    takeWithdrawal(leaf, { port: 1, now: 0 }, told[0]!.bytes);
    changeRoutes(leaf, { port: 1, up: false }, () => false);
    assert.equal(isWithdrawn(leaf, 1, { mac: NEAR, now: 9_999 }), false);
  });
});

describe("takeWithdrawal", () => {
  it("lets each message take effect in its own time, however soon the next one comes", () => {
    const leaf = createRoutes(LEAF);
    const spine = createRoutes(SPINE);
    const lost = changeRoutes(spine, { port: 0, up: false }, (port) => port >= 2)[0]!.bytes;
    for (let now = 0; now < 5 * CONVERGENCE_PS; now += CONVERGENCE_PS / 4) {
      takeWithdrawal(leaf, { port: 1, now }, lost);
      assert.equal(isWithdrawn(leaf, 1, { mac: NEAR, now }), now >= CONVERGENCE_PS, `at ${now}`);
    }
  });

  it("takes none from a host, and refuses any other bytes", () => {
    const told = changeRoutes(createRoutes(SPINE), { port: 0, up: false }, (port) => port >= 2);
    assert.equal(takeWithdrawal(createRoutes(LEAF), { port: 0, now: 0 }, told[0]!.bytes), false);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        assert.equal(takeWithdrawal(createRoutes(LEAF), { port: 1, now: 0 }, bytes), false);
      }),
      seeded(),
    );
  });
});
