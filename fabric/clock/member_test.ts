/** What is known of one partition, and what follows from it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../base/time.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import {
  dropPastFaults,
  effectiveNext,
  type Member,
  newCensus,
  newMember,
  noteInbound,
  noteTaken,
} from "./member.ts";
import { members } from "./timekeeper_testing.ts";

describe("noteInbound", () => {
  it("keeps the earliest of all that has not been taken, whichever report it was in", () => {
    const [b] = members("b") as [Member];
    for (const [count, earliest] of [[1, 800], [2, 500], [3, 700]] as const) {
      noteInbound(b, { from: "a", incarnation: 0, count, earliest });
    }
    assert.deepEqual(b.inbound, [{ from: "a", incarnation: 0, count: 3, earliest: 500 }]);
    assert.equal(effectiveNext(b), 500);
  });

  it("takes what one life has sent for none of what the next one has", () => {
    const [b] = members("b") as [Member];
    noteTaken(b, [["a", 0, 5]]);
    noteInbound(b, { from: "a", incarnation: 0, count: 5, earliest: 500 });
    noteInbound(b, { from: "a", incarnation: 1, count: 3, earliest: 600 });
    assert.deepEqual(b.inbound.map(({ incarnation, count }) => [incarnation, count]), [[1, 3]]);
  });
});

describe("effectiveNext", () => {
  it("counts a cable's fault from where the partition has come to, and as its power comes", () => {
    const cut = (at: number): LinkFaultPlan => ({
      id: at,
      action: "cut",
      cable: 0,
      direction: "both",
      at,
    });
    const [b] = members("b") as [Member];
    for (const at of [1_500, 2_000]) {
      Object.assign(b, { ran: 2_000, cables: [cut(at)] });
      assert.equal(effectiveNext(b), NEVER, "it can only be told of it");
    }
    for (const at of [2_001, 3_000]) {
      Object.assign(b, { cables: [cut(at)] });
      assert.equal(effectiveNext(b), at);
    }
    Object.assign(b, { bootAt: 4_000 });
    assert.equal(effectiveNext(b), 4_000);
  });
});

describe("dropPastFaults", () => {
  it("drops what was planned before the return of power and returns, and keeps a failure at its instant", () => {
    const faults = ([[1, "kill"], [5, "start"], [9, "kill"], [10, "kill"]] as const)
      .map(([at, action]) => ({ at, action, node: "b" }));
    const b = newMember({ name: "b", nodes: ["b"] }, { index: 0, faults, census: newCensus() });
    dropPastFaults(b, 9);
    assert.deepEqual(b.faults.map(({ at }) => at), [9, 10]);
  });
});
