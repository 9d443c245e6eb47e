import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { NEVER } from "../../fabric/base/time.ts";
import {
  createRoutes,
  forgetNeighbour,
  isWithdrawn,
  nextWithdrawalAt,
  type Routes,
  takeWithdrawal,
  withdrawals,
} from "./routes.ts";
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

/** What a change of the link at `port` leads to, with the links that are up behind it. */
function change(routes: Routes, port: number, isUp: (port: number) => boolean) {
  forgetNeighbour(routes, port);
  return withdrawals(routes, { now: 0, isUp });
}

describe("withdrawals", () => {
  it("sends nothing while a path is left, and the lost addresses when none is", () => {
    const spine = createRoutes(SPINE);
    const up = new Set([1, 2, 3]);
    const isUp = (port: number) => up.has(port);
    assert.deepEqual(change(spine, 0, isUp), []);
    up.delete(1);
    const told = change(spine, 1, isUp);
    assert.deepEqual(told.map(({ port }) => port), [2, 3]);
    const leaf = createRoutes(LEAF);
    assert.ok(takeWithdrawal(leaf, { port: 1, now: 50 }, told[0]!.bytes));
    const at = (now: number) => isWithdrawn(leaf, 1, { mac: NEAR, now });
    assert.deepEqual([at(50), at(1_049), at(1_050)], [false, false, true]);
    assert.equal(isWithdrawn(leaf, 2, { mac: NEAR, now: 9_999 }), false);
    up.add(0);
    const healed = change(spine, 0, isUp);
    assert.deepEqual(healed.map(({ port }) => port), [2, 3]);
    takeWithdrawal(leaf, { port: 1, now: 5_000 }, healed[0]!.bytes);
    assert.deepEqual([at(5_000), at(5_999), at(6_000)], [true, true, false]);
  });

  it("sends withdrawals to a neighbour that comes up, and nothing where all is well", () => {
    const spine = createRoutes(SPINE);
    assert.deepEqual(change(spine, 2, (port) => port >= 1), []);
    const isUp = (port: number) => port >= 2;
    assert.deepEqual(change(spine, 0, isUp).map(({ port }) => port), [2, 3]);
    assert.deepEqual(change(spine, 2, isUp).map(({ port }) => port), [2]);
  });

  it("forgets what a neighbour said when the cable to it changes", () => {
    const leaf = createRoutes(LEAF);
    const spine = createRoutes(SPINE);
    const told = change(spine, 0, (port) => port >= 2);
    takeWithdrawal(leaf, { port: 1, now: 0 }, told[0]!.bytes);
    change(leaf, 1, () => false);
    assert.equal(isWithdrawn(leaf, 1, { mac: NEAR, now: 9_999 }), false);
  });
});

describe("withdrawals of withdrawals", () => {
  const HERE = 0x0200_0000_0003;
  /** An aggregation switch: an edge with HERE on port 0, cores that lead to NEAR and FAR on 1 and 2. */
  const AGGREGATION: SwitchPlan = {
    ...SPINE,
    ports: 3,
    multipath: [[[HERE], [0]], [[NEAR, FAR], [1, 2]]],
  };
  const isUp = () => true;
  const lost = (macs: readonly number[]) => {
    const core = createRoutes({ ...SPINE, multipath: [[macs, [0]], [[HERE], [1]]] });
    return change(core, 0, (port) => port === 1)[0]!.bytes;
  };

  it("are sent when the last way is withdrawn in effect, to those who do not lie on it", () => {
    const routes = createRoutes(AGGREGATION);
    takeWithdrawal(routes, { port: 1, now: 0 }, lost([NEAR, FAR]));
    assert.equal(nextWithdrawalAt(routes, { now: 0, isUp }), NEVER, "a way is left");
    takeWithdrawal(routes, { port: 2, now: 500 }, lost([NEAR]));
    assert.deepEqual(withdrawals(routes, { now: 500, isUp }), []);
    assert.equal(nextWithdrawalAt(routes, { now: 500, isUp }), 500 + CONVERGENCE_PS);
    const told = withdrawals(routes, { now: 500 + CONVERGENCE_PS, isUp });
    assert.deepEqual(told.map(({ port }) => port), [0], "cores are on the way themselves");
    const edge = createRoutes({ ...LEAF, multipath: [[[NEAR, FAR], [1, 2]]] });
    takeWithdrawal(edge, { port: 1, now: 0 }, told[0]!.bytes);
    const now = CONVERGENCE_PS;
    const isGone = [NEAR, FAR].map((mac) => isWithdrawn(edge, 1, { mac, now }));
    assert.deepEqual(isGone, [true, false], "FAR has a way over the other core");
    assert.deepEqual(withdrawals(routes, { now: 9_999, isUp }), [], "each is told once");
  });

  it("are due when a cable goes and the other way's withdrawal is not in effect yet", () => {
    const routes = createRoutes(AGGREGATION);
    takeWithdrawal(routes, { port: 1, now: 0 }, lost([NEAR, FAR]));
    const isOneUp = (port: number) => port !== 2;
    forgetNeighbour(routes, 2);
    assert.deepEqual(withdrawals(routes, { now: 10, isUp: isOneUp }), []);
    assert.equal(nextWithdrawalAt(routes, { now: 10, isUp: isOneUp }), CONVERGENCE_PS);
    assert.equal(withdrawals(routes, { now: CONVERGENCE_PS, isUp: isOneUp }).length, 1);
  });
});

describe("takeWithdrawal", () => {
  it("lets each message take effect in its own time, however soon the next one comes", () => {
    const leaf = createRoutes(LEAF);
    const spine = createRoutes(SPINE);
    const lost = change(spine, 0, (port) => port >= 2)[0]!.bytes;
    for (let now = 0; now < 5 * CONVERGENCE_PS; now += CONVERGENCE_PS / 4) {
      takeWithdrawal(leaf, { port: 1, now }, lost);
      assert.equal(isWithdrawn(leaf, 1, { mac: NEAR, now }), now >= CONVERGENCE_PS, `at ${now}`);
    }
  });

  it("takes none from a host, and refuses any other bytes", () => {
    const told = change(createRoutes(SPINE), 0, (port) => port >= 2);
    assert.equal(takeWithdrawal(createRoutes(LEAF), { port: 0, now: 0 }, told[0]!.bytes), false);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        assert.equal(takeWithdrawal(createRoutes(LEAF), { port: 1, now: 0 }, bytes), false);
      }),
      seeded(),
    );
  });
});
