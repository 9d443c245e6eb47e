/** What is known of one partition, and the arithmetic over all of them. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../base/time.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { Grant } from "./clock.ts";
import { Grants } from "./grants.ts";
import { Horizons } from "./horizon.ts";
import {
  dropPastFaults,
  effectiveNext,
  type Member,
  newMember,
  noteInbound,
  noteTaken,
} from "./member.ts";

/** Partitions of one node each, up and idle. */
function members(...names: string[]): Member[] {
  return names.map((name, index) => {
    const member = newMember({ name, nodes: [name] }, { index, faults: [] });
    return Object.assign(member, { status: "idle", next: NEVER, instance: `${name}1`, grants: 1 });
  });
}

const GRANT: Grant = {
  term: 0,
  incarnation: 0,
  id: 1,
  horizon: 5_000,
  expect: [],
  confirmed: [],
  links: [],
  runs: [],
  cables: [],
  lost: [],
  stopOn: "",
};

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
    Object.assign(b, { ran: 2_000, cables: [cut(1_500)] });
    assert.equal(effectiveNext(b), NEVER, "it can only be told of it");
    b.cables.push(cut(3_000));
    assert.equal(effectiveNext(b), 3_000);
    b.bootAt = 4_000;
    assert.equal(effectiveNext(b), 4_000);
  });
});

describe("dropPastFaults", () => {
  it("drops what was planned up to the return of power, and the return itself", () => {
    const faults = ([[1, "kill"], [5, "start"], [9, "kill"], [10, "kill"]] as const)
      .map(([at, action]) => ({ at, action, node: "b" }));
    const b = newMember({ name: "b", nodes: ["b"] }, { index: 0, faults });
    dropPastFaults(b, 9);
    assert.deepEqual(b.faults.map(({ at }) => at), [10]);
  });
});

describe("Horizons", () => {
  /** What q does reaches p later than what p does reaches q. */
  const LOOKAHEAD = [[NEVER, 100], [700, NEVER]];

  it("counts the way from the others to the partition, not the way back", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], LOOKAHEAD);
    Object.assign(a, { next: 1_000 });
    Object.assign(b, { next: 1_000 });
    horizons.refresh();
    assert.deepEqual([horizons.ofOthers(a), horizons.ofOthers(b)], [1_700, 1_100]);
  });

  it("lets a partition begin where no other has passed the first thing that it can cause", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], LOOKAHEAD);
    b.bootAt = 300;
    // b's first effect is at a at 1 000; what ran last there is the instant before, or that one.
    for (const [ran, may] of [[999, true], [1_000, false]] as const) {
      a.ran = ran;
      assert.equal(horizons.mayBegin(b), may);
    }
  });

  it("dates a failure behind all that a partition that still runs may do", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const horizons = new Horizons([a, b], LOOKAHEAD);
    Object.assign(a, { status: "running", grant: GRANT, ran: 10 });
    assert.equal(horizons.earliestFailure(b), GRANT.horizon - 700);
  });
});

describe("Grants", () => {
  function grantsOf(of: readonly Member[]): { grants: Grants; sent: Grant[]; lost: string[] } {
    const sent: Grant[] = [], lost: string[] = [];
    const grants = new Grants({
      byName: new Map(of.map((member) => [member.name, member])),
      term: 0,
      send: (_, grant) => sent.push(grant),
      onLost: (why) => lost.push(why),
    });
    return { grants, sent, lost };
  }

  it("confirm to the life that sent what was taken, and not to the next one", () => {
    const [a, b] = members("a", "b") as [Member, Member];
    const { grants } = grantsOf([a, b]);
    for (const [incarnation, confirmed] of [[0, [["b", 3]]], [1, []]] as const) {
      a.incarnation = incarnation;
      b.grant = { ...GRANT, expect: [["a", 0, 3]] };
      grants.settle(b);
      assert.deepEqual([...a.toConfirm], confirmed);
      a.toConfirm.clear();
      // The same from a partition that answers a new timekeeper.
      grants.learn(b, { ...REPORT, taken: [["a", 0, 3]] });
      assert.deepEqual([...a.toConfirm], confirmed);
      a.toConfirm.clear();
    }
  });

  it("give up after a while what a dead process or an earlier life had sent, and nothing else", () => {
    const [a, b, c, d] = members("a", "b", "c", "d") as [Member, Member, Member, Member];
    const { grants, sent, lost } = grantsOf([a, b, c, d]);
    const expect = [["a", 0, 1], ["b", 0, 1], ["c", 0, 1]] as const;
    a.status = "dead";
    b.incarnation = 1;
    Object.assign(d, { status: "running", grant: { ...GRANT, expect }, sinceMs: 1_000 });
    grants.repeat(d, 3_000);
    assert.deepEqual([sent.at(-1)!.lost, lost], [[], []]);
    grants.repeat(d, 3_001);
    assert.deepEqual(sent.at(-1)!.lost, [["a", 0], ["b", 0]]);
    assert.equal(lost.length, 1);
  });
});

const REPORT = {
  term: 0,
  partition: "b",
  incarnation: 0,
  grant: 1,
  reached: 0,
  next: NEVER,
  now: 0,
  ran: 0,
  events: 0,
  sent: [],
  digests: [],
  stopped: false,
} as const;
