import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import {
  checkedLinkFault,
  isLinkFaultPlan,
  isLinkFaultRequest,
  type LinkFaultPlan,
  opcodesOf,
  refuseLinkFault,
} from "./link_plan.ts";
import { seeded } from "../../base/property_testing.ts";

const CUT: LinkFaultPlan = { id: 0, action: "cut", cable: 2, direction: "both", at: 10 };
const LOSS: LinkFaultPlan = { id: 1, action: "loss", cable: 2, direction: "a", at: 10, share: 0.5 };

describe("opcodesOf", () => {
  it("knows names, how names begin, and classes; no part of a word", () => {
    assert.deepEqual(opcodesOf("RC ACKNOWLEDGE"), [0x11]);
    assert.deepEqual(opcodesOf("RC RDMA READ RESPONSE"), [0x0d, 0x0e, 0x0f, 0x10]);
    assert.ok(opcodesOf("RC").includes(0x11) && !opcodesOf("RC").includes(0x64));
    assert.ok(opcodesOf("response").includes(0x11) && !opcodesOf("response").includes(0x0a));
    assert.deepEqual(opcodesOf("RC ACK"), []);
    assert.deepEqual(opcodesOf(""), []);
  });
});

describe("checkedLinkFault", () => {
  it("begins at its time and lasts for its duration", () => {
    const { id: _, at: __, ...request } = LOSS;
    const fault = checkedLinkFault({ ...request, forPs: 5 }, { id: 3, at: 100 });
    assert.deepEqual(fault, { ...request, id: 3, at: 100, until: 105 });
    assert.equal(checkedLinkFault({ ...request, until: 100 }, { id: 3, at: 100 }), undefined);
  });
});

describe("isLinkFaultRequest, isLinkFaultPlan", () => {
  it("take what the bus brings of them", () => {
    const { id: _, at: __, ...request } = LOSS;
    for (const value of [request, { ...request, at: 5 }, { ...request, forPs: 5 }]) {
      assert.ok(isLinkFaultRequest(value));
      assert.ok(!isLinkFaultPlan(value));
    }
    for (const value of [CUT, LOSS]) {
      assert.ok(isLinkFaultPlan(value));
      assert.ok(!isLinkFaultRequest(value), "a request has no id");
    }
  });

  it("refuse members that are wrong, unknown or missing, and never throw", () => {
    const { id: _, ...request } = LOSS;
    const wrong: readonly object[] = [
      ...[{ action: "lose" }, { cable: -1 }, { direction: "c" }, { share: 0 }, { share: 1.5 }],
      ...[{ nth: 0 }, { only: "RC ACK" }, { holdPs: 0.5 }, { until: "2ms" }, { other: 1 }],
    ];
    for (const each of wrong) assert.ok(!isLinkFaultRequest({ ...request, ...each }));
    assert.ok(!isLinkFaultRequest({ action: "cut" }));
    fc.assert(
      fc.property(fc.anything(), (value) => {
        assert.ok(!isLinkFaultRequest(value) && !isLinkFaultPlan(value));
      }),
      seeded(),
    );
  });
});

describe("refuseLinkFault", () => {
  const heal: LinkFaultPlan = { ...CUT, id: 2, action: "heal", at: 20 };

  it("lets cut and heal take turns", () => {
    assert.equal(refuseLinkFault([], CUT), undefined);
    assert.equal(refuseLinkFault([CUT], heal), undefined);
    assert.equal(refuseLinkFault([CUT, heal], { ...CUT, id: 3, at: 30 }), undefined);
    assert.match(refuseLinkFault([CUT], { ...CUT, id: 3, at: 15 })!.found, /cut already/);
    assert.match(
      refuseLinkFault([CUT, heal], { ...heal, id: 3, at: 30 })!.found,
      /without a fault/,
    );
    assert.match(refuseLinkFault([CUT], { ...heal, direction: "a" })!.expected, /both ways/);
    assert.match(refuseLinkFault([CUT], { ...heal, at: 10 })!.expected, /later/);
  });

  it("knows ways apart, cables too", () => {
    const oneWay: LinkFaultPlan = { ...CUT, direction: "a" };
    assert.equal(refuseLinkFault([oneWay], { ...oneWay, id: 3, direction: "b" }), undefined);
    assert.equal(refuseLinkFault([CUT], { ...CUT, id: 3, cable: 3 }), undefined);
    assert.match(refuseLinkFault([oneWay], { ...heal, direction: "b" })!.found, /without a fault/);
    assert.equal(refuseLinkFault([oneWay], heal), undefined);
  });

  it("lets a heal end every current fault, and no past one", () => {
    assert.equal(refuseLinkFault([LOSS], heal), undefined);
    assert.match(refuseLinkFault([{ ...LOSS, until: 20 }], heal)!.found, /without a fault/);
  });
});
