import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createKeptReports } from "./kept_reports.ts";

describe("createKeptReports", () => {
  it("keeps the newest of what orders, services and cards report, and all of the plan's programs", () => {
    const kept = createKeptReports();
    const times = (topic: string) =>
      kept.reports.filter((each) => each.topic === topic).map(({ time }) => time);
    for (let time = 0; time < 5000; time++) {
      kept.keep({ time, node: "a", topic: "result", value: { order: time, status: "done" } });
      kept.keep({ time, node: "a", topic: "served", value: { object: "x" } });
      kept.keep({ time, node: "a", topic: "recovered", value: undefined });
      kept.keep({ time, node: "a", topic: "progress", value: { order: time } });
    }
    assert.equal(kept.reports.length, 1000 + 1000 + 5000);
    assert.deepEqual([times("result")[0], times("result").at(-1)], [4000, 4999]);
    assert.deepEqual([times("served")[0], times("served").at(-1)], [4000, 4999]);
  });
});
