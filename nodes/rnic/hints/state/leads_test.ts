import { deepStrictEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../../fabric/base/time.ts";
import {
  createLeads,
  type Lead,
  LEAD_BOUNDS_PS,
  leadsIn,
  leadStatistics,
  noteLead,
} from "./leads.ts";

const lead = (us: number): Lead => ({ at: us * PS_PER_US, counted: undefined });
const at = (us: number) => us * PS_PER_US;

describe("noteLead", () => {
  it("H-30: counts an operation once, where it first needed something, with the worst that was found", () => {
    const leads = createLeads();
    const one = lead(100);
    noteLead(leads, one, "useful", at(103));
    noteLead(leads, one, "useful", at(190));
    same(leadStatistics(leads), { "hintLead-useful-2": 1 }, "2 to 5 us");
    noteLead(leads, one, "late", at(700));
    same(leadStatistics(leads), { "hintLead-late-2": 1 });
    noteLead(leads, one, "wasted", at(900));
    noteLead(leads, one, "useful", at(900));
    same(leadStatistics(leads), { "hintLead-late-2": 1 });
  });

  it("H-30: what was given up is wasted, unless something else of the operation is used", () => {
    const leads = createLeads();
    const one = lead(0), other = lead(0);
    noteLead(leads, one, "wasted", at(60_000));
    noteLead(leads, other, "wasted", at(60_000));
    noteLead(leads, one, "useful", at(60_001));
    const last = LEAD_BOUNDS_PS.length;
    same(leadStatistics(leads), { [`hintLead-useful-${last}`]: 1, [`hintLead-wasted-${last}`]: 1 });
    // It counts when it is used, not when it was given up.
    const third = lead(0);
    noteLead(leads, third, "wasted", at(3));
    noteLead(leads, third, "useful", at(30));
    equal(leads.useful[LEAD_BOUNDS_PS.indexOf(at(50))], 1);
  });

  it("has each bound in the class above it, and gives back what a card's counters say", () => {
    const leads = createLeads();
    for (const bound of [...LEAD_BOUNDS_PS.keys()]) {
      noteLead(leads, { at: 0, counted: undefined }, "useful", LEAD_BOUNDS_PS[bound]!);
      noteLead(leads, { at: 0, counted: undefined }, "late", LEAD_BOUNDS_PS[bound]! - 1);
    }
    same(leads.useful, [0, ...LEAD_BOUNDS_PS.map(() => 1)]);
    same(leads.late, [...LEAD_BOUNDS_PS.map(() => 1), 0]);
    same(leadsIn({ hintsIn: 3, ...leadStatistics(leads) }), leads);
    equal(Object.values(leadStatistics(createLeads())).length, 0);
  });
});
