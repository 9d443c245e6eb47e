import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { makePlan, partitionsOf } from "../../../fabric/rack/assembly/topology.ts";
import type { LinkFaultPlan } from "../../../fabric/rack/plan/link_plan.ts";
import type { FaultPlan } from "../../../fabric/rack/plan/plan.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { repeatOf, type RepeatOptions } from "./repeated.ts";

const [variant] = variants(parseScenario("name: pair\nhosts: { a: {}, b: {} }\n", "pair.yaml"), {});
const PLAN = makePlan(variant!);
const PROGRAM = { run: "list", at: 0, service: false, options: {} };

type Row = readonly [at: number, action: FaultPlan["action"], node?: string];

const faultsOf = (rows: readonly Row[]): FaultPlan[] =>
  rows.map(([at, action, node = "b"]) => ({ at, action, node }));

function linkFault(id: number, at: number): LinkFaultPlan {
  return { id, at, cable: 0, from: null, until: null, action: "cut" } as unknown as LinkFaultPlan;
}

/** A run of this plan, with what happened to it, again up to 1 000. */
function repeated(
  { scripted = [], happened = [], packing = "node", links = [], ordered = [], ...options }:
    & { scripted?: Row[]; happened?: Row[]; packing?: "node" | "machine" | "all" }
    & { links?: LinkFaultPlan[]; ordered?: LinkFaultPlan[] }
    & Partial<RepeatOptions>,
) {
  const plan = { ...PLAN, faults: faultsOf(scripted), linkFaults: links };
  const partitions = partitionsOf(plan, packing);
  const runFile = { plan, partitions } as unknown as RunFile;
  const orders = [[300, 0], [999, 5], [1_000, 6]].map(([time, counter]) => {
    return { time: time!, host: "b", life: 1, counter: counter!, program: PROGRAM };
  });
  const now = { ...plan, faults: faultsOf(happened), linkFaults: [...links, ...ordered] };
  const found = repeatOf({ runFile, plan: now, orders }, { at: 1_000, ...options });
  const rows = found.plan.faults.map(({ at, action, node }) => `${action} ${node} ${at}`);
  return { ...found, rows };
}

describe("repeatOf", () => {
  it("has what happened before the instant, and what the plan still has behind it", () => {
    const { rows } = repeated({
      scripted: [[500, "kill"], [700, "start"], [2_000, "kill"], [3_000, "start"]],
      happened: [[500, "kill"], [700, "start"], [800, "kill", "a"], [1_500, "kill", "a"]],
    });
    assert.deepEqual(rows, [
      "kill b 500",
      "start b 700",
      "kill a 800",
      "kill b 2000",
      "start b 3000",
    ]);
  });

  it("has a planned failure that came when the device had no power only where it is yet to come", () => {
    const scripted: Row[] = [[500, "kill"], [700, "start"]];
    assert.deepEqual(repeated({ scripted, happened: [[400, "kill"]] }).rows, [
      "kill b 400",
      "kill b 500",
      "start b 700",
    ]);
    const back: Row[] = [[400, "kill"], [600, "start"]];
    assert.deepEqual(repeated({ scripted, happened: back }).rows, [
      "kill b 400",
      "start b 600",
    ], "the plan's failure was before, and its return is none");
  });

  it("has a planned failure once that came at its time, and its return where that is yet to come", () => {
    const scripted: Row[] = [[500, "kill"], [1_200, "start"]];
    assert.deepEqual(repeated({ scripted, happened: [[500, "kill"]] }).rows, [
      "kill b 500",
      "start b 1200",
    ]);
    // It came by an order before the plan would have taken it: the plan's is still to come.
    assert.deepEqual(repeated({ scripted, happened: [[499, "kill"]] }).rows, [
      "kill b 499",
      "kill b 500",
      "start b 1200",
    ]);
  });

  it("has at a checkpoint all that was on record or planned, also what takes effect at the instant", () => {
    const scripted: Row[] = [[1_000, "kill", "a"]];
    const happened: Row[] = [[900, "kill"], [1_000, "start"]];
    const planned = faultsOf([[5_000, "kill"]]);
    const { rows } = repeated({ scripted, happened, planned, withPending: true });
    assert.deepEqual(rows, ["kill b 900", "start b 1000", "kill a 1000", "kill b 5000"]);
  });

  it("has the orders of before, and the least number behind all of them", () => {
    const { orders, ordersFrom } = repeated({});
    assert.deepEqual(orders.map(({ at, counter, incarnation }) => [at, counter, incarnation]), [
      [300, 0, 1],
      [999, 5, 1],
    ]);
    assert.equal(ordersFrom, 2 ** 20);
  });

  it("has faults of cables that were ordered before, apart from the plan's own", () => {
    const links = [linkFault(0, 4_000)], ordered = [linkFault(1, 900), linkFault(2, 1_100)];
    const found = repeated({ links, ordered });
    assert.deepEqual(found.plan.linkFaults, links);
    assert.deepEqual(found.links.map(({ fault }) => fault.id), [1]);
    const pending = repeated({ links, ordered, withPending: true }).links;
    assert.deepEqual(pending.map(({ fault }) => fault.id), [1, 2]);
  });

  it("gives each device a process where devices that share one lose power, or all are in one", () => {
    const names = (found: ReturnType<typeof repeated>) => found.partitions.map(({ name }) => name);
    assert.deepEqual(names(repeated({ packing: "machine" })), ["a", "b", "tor"]);
    const all = ["a", "a-rnic", "b", "b-rnic", "tor"];
    assert.deepEqual(names(repeated({ packing: "machine", happened: [[500, "kill"]] })), all);
    assert.deepEqual(names(repeated({ packing: "all" })), all);
  });
});
