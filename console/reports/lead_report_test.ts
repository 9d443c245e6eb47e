import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { leadRows, leadTable } from "./lead_report.ts";

function rowsOf(counters: Readonly<Record<string, number>>) {
  const text = "name: x\nhosts: { a: {}, b: { hints: on } }\n";
  const plan = makePlan(variants(parseScenario(text, "x.yaml"))[0]!);
  const outcome = { finals: [{ statistics: { "b-rnic": counters } }] };
  return leadRows({ label: "x", plan }, outcome as unknown as Parameters<typeof leadRows>[1]);
}

describe("leadRows", () => {
  it("H-30: are the classes from the first to the last that has any, those between included", () => {
    const rows = rowsOf({ "hintLead-useful-8": 5, "hintLead-late-6": 2, "hintLead-wasted-13": 1 });
    assert.deepEqual(rows[0], {
      variant: "x",
      node: "b-rnic",
      fromPs: 50e6,
      toPs: 100e6,
      useful: 0,
      late: 2,
      wasted: 0,
    });
    assert.deepEqual(rows.map(({ useful, late, wasted }) => [useful, late, wasted]), [
      [0, 2, 0],
      [0, 0, 0],
      [5, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 1],
    ]);
    const lines = leadTable(rows).split("\n");
    assert.match(lines[2]!, /^b-rnic +50 us to 100 us +0 +2 +0 +#{10}$/);
    assert.match(lines[4]!, /200 us to 500 us +5 +0 +0 +#{24}$/);
    assert.match(lines.at(-1)!, /from 10 ms on +0 +0 +1 +#{5}$/);
  });

  it("H-30: there are none where hints have had nothing fetched", () => {
    assert.deepEqual(rowsOf({ hintsIn: 4 }), []);
  });
});
