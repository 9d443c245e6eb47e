/** A partition that begins in the middle of a run: what it takes up, and what it leaves be. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { toyRack } from "../runner/clock_testing.ts";
import type { Node } from "../node.ts";
import { Partition } from "./partition.ts";
import type { CablePlan, FaultPlan, ProgramPlan, WritebackPlan } from "../rack/plan/plan.ts";
import { NEVER, type Time } from "../base/time.ts";

const PROGRAM: ProgramPlan = { run: "get", at: 0, service: false, options: {} };
const BOOT: Time = 50_000;

/** a and b are one process, c is elsewhere; what happens to the two is kept. */
function returned(
  faults: readonly FaultPlan[] = [],
  writebacks: readonly WritebackPlan[] = [],
): { partition: Partition; seen: string[] } {
  const seen: string[] = [];
  const create = (name: string, life: number): Node => ({
    name,
    kind: "switch",
    processingPs: 1_000,
    step: (now, { kind }) => void seen.push(`${name} ${life}: ${kind} at ${now}`),
    wakeAt: () => NEVER,
    statistics: () => ({}),
  });
  const cable = { kind: "bus" as const, latencyPs: 1_000, bitsPerSecond: 100e9 };
  const cables: CablePlan[] = [
    { ...cable, a: { node: "a", port: 0 }, b: { node: "b", port: 0 } },
    { ...cable, a: { node: "b", port: 1 }, b: { node: "c", port: 0 } },
  ];
  const plan = { ...toyRack(1, { names: ["a", "b", "c"], cables }), faults, writebacks };
  const partitionOf = new Map([["a", "ab"], ["b", "ab"], ["c", "c"]]);
  const partition = new Partition({
    plan,
    nodes: ["a", "b"],
    partitionOf,
    create,
    scriptedFaults: true,
    returnDelay: () => NEVER,
  });
  partition.powerOn(BOOT, new Map([["a", { life: 1 }], ["b", { life: 1 }]]));
  return { partition, seen };
}

describe("A partition that has power again", () => {
  it("runs a program that was ordered of it before the first thing that it did", () => {
    const { partition, seen } = returned();
    partition.run("a", { time: BOOT, counter: 0, program: PROGRAM });
    partition.advance(BOOT + 1);
    assert.deepEqual(seen, [
      `a 1: power at ${BOOT}`,
      `b 1: power at ${BOOT}`,
      `a 1: run at ${BOOT}`,
    ]);
  });

  it("does not lose power once more as it had by the plan, but does as it will", () => {
    const { partition, seen } = returned([
      { at: 20_000, action: "kill", node: "a" },
      { at: 60_000, action: "start", node: "a" },
      { at: 80_000, action: "kill", node: "a" },
      { at: 90_000, action: "start", node: "a" },
    ]);
    assert.equal(partition.next, BOOT);
    partition.advance(NEVER);
    const ofA = seen.filter((line) => line.startsWith("a") && line.includes("power"));
    assert.deepEqual(ofA, [`a 1: power at ${BOOT}`, "a 2: power at 90000"]);
  });

  it("applies early write-backs in whichever life, of its own nodes only", () => {
    const at = BOOT + 5;
    const early = { from: 64, to: 72, buffered: false };
    const { partition, seen } = returned([], [
      { ...early, node: "b", at },
      { ...early, node: "c", at },
      { ...early, node: "b", at: BOOT - 1 },
    ]);
    partition.advance(at + 1);
    assert.deepEqual(seen.slice(2), [`b 1: writeback at ${at}`]);
  });
});
