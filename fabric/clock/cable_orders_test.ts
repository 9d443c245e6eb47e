/** Orders for cables: one instant, one answer, and the partitions that get each. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { LinkFaultRequest } from "../rack/plan/link_plan.ts";
import { CableOrders } from "./cable_orders.ts";
import type { Grant } from "./clock.ts";
import { type Member, newCensus, newMember } from "./member.ts";
import type { Recorded, RecordedLinkFault } from "./record.ts";
import { planWith } from "./timekeeper_testing.ts";

const CUT = { action: "cut", cable: 0, direction: "both" } as const;
const LOSS = { action: "loss", cable: 0, direction: "a" } as const;

describe("CableOrders", () => {
  let members: Member[];
  let records: RecordedLinkFault[];
  let atRest: ((now: number) => void)[];
  let orders: CableOrders;

  beforeEach(() => {
    members = ["a", "b", "c"].map((name, index) =>
      Object.assign(
        newMember({ name, nodes: [name] }, { index, faults: [], census: newCensus() }),
        {
          status: "idle" as const,
          grants: 1,
          ran: 100,
        },
      )
    );
    records = [];
    atRest = [];
    const out = { record: (order: Recorded) => records.push(order as RecordedLinkFault) };
    const whenAtRest = (action: (now: number) => void) => atRest.push(action);
    orders = new CableOrders({ plan: planWith(), members, out, whenAtRest }, []);
  });

  const rest = (now: number) => atRest.splice(0).forEach((action) => action(now));
  const told = () => members.map(({ cables }) => cables.map(({ id }) => id));

  it("are carried out when no partition runs; one that is repeated is answered and not given again", () => {
    assert.deepEqual(orders.order("1", CUT), { waiting: true });
    assert.deepEqual(orders.order("1", CUT), { waiting: true });
    rest(500);
    assert.deepEqual(orders.order("1", CUT), { at: 500, fault: 0 });
    rest(600);
    assert.deepEqual(records.map(({ at, token }) => [at, token]), [[500, "1"]]);
  });

  it("go to the partitions at both ends of the cable, but not to one without power", () => {
    orders.order("1", CUT);
    rest(500);
    assert.deepEqual(told(), [[0], [0], []]);
    Object.assign(members[1]!, { status: "dead" });
    orders.order("2", { ...CUT, cable: 1 });
    rest(600);
    assert.deepEqual(told(), [[0], [0], [1]]);
    assert.deepEqual(members[1]!.cableHistory.map(({ id }) => id), [0, 1], "its next process is");
  });

  it("get an instant of their own where time stands still", () => {
    for (const token of ["1", "2", "3"]) orders.order(token, LOSS as LinkFaultRequest);
    rest(500);
    assert.deepEqual(records.map(({ at }) => at), [500, 501, 502]);
    orders.order("4", { ...LOSS, cable: 1 });
    rest(500);
    assert.equal(records[3]!.at, 500, "it is another cable");
  });

  it("at a time named are refused where a partition may have come to it already", () => {
    assert.deepEqual(orders.order("1", { ...LOSS, at: 100 }), {
      refusal: "100 ps is past: expected 101 ps or later",
    });
    Object.assign(members[2]!, { status: "running", grant: { horizon: 900 } as Grant });
    assert.ok("refusal" in orders.order("2", { ...LOSS, at: 899 }));
    assert.deepEqual(orders.order("3", { ...LOSS, at: 900 }), { at: 900, fault: 0 });
  });
});
