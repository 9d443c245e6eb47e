/**
 * Which instants unplanned failures and returns get: none that a partition has run past, also where that
 * one has failed, or has power again and has done nothing with it, and the timekeeper is a new one.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Report } from "./clock.ts";
import type { RecordedFault } from "./record.ts";
import { CROSSINGS, LOOKAHEAD, NAMES, planWith, Rig } from "./timekeeper_testing.ts";

const ANSWER = { term: 1, grant: 5, taken: [] as Report["taken"] };

function recorded(
  action: "kill" | "start",
  of: { name: string; at: number; incarnation?: number },
): RecordedFault {
  const { name, at, incarnation = 0 } = of;
  return {
    at,
    action,
    partition: name,
    nodes: [name],
    instance: action === "kill" ? `${name}1` : `${name}2`,
    incarnation,
    settledSpan: 1,
    digests: [],
    sent: [],
  };
}

describe("Timekeeper, started again over partitions without power", () => {
  const ALL_DEAD = NAMES.map((name, i) => recorded("kill", { name, at: 5_000 + 1_000 * i }));

  it("lets nothing befall a cable before the last of them died", () => {
    const { keeper } = new Rig({ term: 1, recorded: ALL_DEAD });
    const cut = { action: "cut", cable: 0, direction: "both" } as const;
    assert.deepEqual(keeper.orderLinkFault("1", cut), { at: 7_000, fault: 0 });
    assert.ok("refusal" in keeper.orderLinkFault("2", { ...cut, cable: 1, at: 6_999 }));
  });

  it("gives no partition power before it either: the others would have heard of that", () => {
    const rig = new Rig({ term: 1, recorded: ALL_DEAD });
    rig.keeper.join({ partition: "a", instance: "a2" });
    assert.deepEqual(rig.records.map(({ at, action }) => [action, at]), [["start", 7_000]]);
  });

  it("takes no process for the first one of which the failed one never heard", () => {
    const rig = new Rig({ term: 1, recorded: ALL_DEAD.slice(0, 2) });
    rig.keeper.join({ partition: "c", instance: "c1" });
    assert.equal(rig.inexact.length, 1, "one died unseen");
  });

  it("dates no death before what a neighbour's earlier life had seen", () => {
    const rig = new Rig({
      term: 1,
      recorded: [
        recorded("kill", { name: "b", at: 5_000 }),
        recorded("start", { name: "b", at: 8_000, incarnation: 1 }),
      ],
    });
    rig.report("a", { ...ANSWER, next: 20_000, ran: 1_000 });
    rig.report("c", { ...ANSWER, next: 20_000, ran: 1_000 });
    rig.keeper.died("a", "a1");
    // b has power and has done nothing with it.
    rig.report("b", { ...ANSWER, incarnation: 1, grant: 0, next: 8_000 });
    const deaths = rig.records.filter(({ action }) => action === "kill");
    assert.deepEqual(deaths.map(({ at }) => at), [5_000 - LOOKAHEAD[0]![1]!]);
  });
});

describe("Timekeeper, of processes that carry out power failures by themselves", () => {
  it("reports a run with any other death as inexact: those are not on record", () => {
    const faults = [{ at: 900, action: "kill" as const, node: "b" }];
    const plan = planWith({ faults });
    const partitions = [{ name: "a", nodes: ["a"] }, { name: "bc", nodes: ["b", "c"] }];
    const rig = new Rig({ plan, partitions, crossings: CROSSINGS.slice(0, 2) });
    rig.join("a", "bc");
    rig.report("a", { next: 300 });
    rig.keeper.died("bc", "bc1");
    rig.answerAll();
    assert.equal(rig.inexact.length, 1);
    assert.match(rig.inexact[0]!, /not on record/);
  });
});
