import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type FaultRow, faultTable } from "./fault_report.ts";

function row(variant: string, more: Partial<FaultRow>): FaultRow {
  const target = "a-rnic/tor", terms = "1%";
  return {
    variant,
    fault: 0,
    action: "loss",
    target,
    terms,
    seen: 0,
    hit: 0,
    directions: [],
    ...more,
  };
}

function linesOf(rows: readonly FaultRow[]): string[] {
  const lines = faultTable(rows).split("\n").map((line) => line.trim().replaceAll(/ +/g, " "));
  return lines.filter((line) => !line.startsWith("-"));
}

describe("faultTable", () => {
  it("has what one run's faults did", () => {
    assert.deepEqual(linesOf([row("v", { seen: 40, hit: 3 })]), [
      "fault cable terms frames of what",
      "loss a-rnic/tor 1% 3 40 lost",
    ]);
  });

  it("has each fault once for all runs of a scenario, and says in how many it took something", () => {
    const rows = ["v", "w", "x"].flatMap((variant, i) => [
      row(variant, { seen: 10, hit: i }),
      row(variant, { fault: 1, action: "cut", seen: 5, hit: 5 }),
      // The same words, and another fault.
      row(variant, { fault: 2, seen: 1, hit: 0 }),
    ]);
    assert.deepEqual(linesOf(rows), [
      "fault cable terms frames of what in runs",
      "loss a-rnic/tor 1% 3 30 lost 2 of 3",
      "cut a-rnic/tor 1% 15 15 lost 3 of 3",
      "loss a-rnic/tor 1% 0 3 lost 0 of 3",
    ]);
  });
});
