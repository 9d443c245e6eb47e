import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { verifiedTable } from "./verified_report.ts";

describe("verifiedTable", () => {
  it("V-10: has a row for each put that had its writes checked, and ? for what nobody can know", () => {
    const counts = { level: "check", caught: 4, rewrites: 3, skipped: 0, overlooked: 0 };
    const ends = { from: "a", to: "b", messages: 16 } as const;
    const text = verifiedTable([
      { ...ends, method: "write-only", ddio: "off" },
      { ...ends, method: "write-verify", ddio: "off", verified: { ...counts, missed: 7 } },
      { ...ends, method: "write-verify", ddio: "on", verified: { ...counts, missed: null } },
    ]);
    const rows = text.trimEnd().split("\n").slice(2).map((line) => line.trim().split(/\s+/));
    assert.deepEqual(rows, [
      ["write-verify", "off", "a", "b", "check", "16", "4", "3", "7", "0"],
      ["write-verify", "on", "a", "b", "check", "16", "4", "3", "?", "0"],
    ]);
  });
});
