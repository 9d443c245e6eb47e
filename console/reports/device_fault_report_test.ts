import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { deviceFaultRows, deviceFaultTable } from "./device_fault_report.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

const PLAN = makePlan(
  variants(parseScenario(
    `name: x
hosts: { a: {}, b: {} }
faults:
  - { scm: b, stuck: 70000, bit: 3, value: 0 }
  - { rnic: b, flip: 0.5%, where: bus, from: 10us, until: 1ms, count: 9 }
  - { rnic: a, flip: all, nth: 3 }
`,
    "x.yaml",
  ))[0]!,
);

describe("deviceFaultRows", () => {
  it("V-08 (in part), V-10 (in part): has each fault with what it did, in the scenario's order, cells last", () => {
    const statistics = {
      "a-rnic": { flip2Seen: 4, flip2Hit: 1 },
      "b-rnic": { flip1Seen: 200, flip1Hit: 2 },
    };
    const rows = deviceFaultRows("v", { plan: PLAN, finals: [{ statistics }] });
    assert.deepEqual(rows, [
      {
        variant: "v",
        kind: "flip",
        target: "b-rnic",
        terms: "0.5% on the bus to memory, at most 9, from 10 us, until 1 ms",
        seen: 200,
        hit: 2,
      },
      {
        variant: "v",
        kind: "flip",
        target: "a-rnic",
        terms: "number 3 in the buffer before the check",
        seen: 4,
        hit: 1,
      },
      {
        variant: "v",
        kind: "stuck",
        target: "b",
        terms: "bit 3 of SCM byte 70000 is 0",
        seen: null,
        hit: null,
      },
    ]);
    assert.match(deviceFaultTable(rows), /flip +b-rnic +0\.5% on the bus .* +2 +200/);
    // For people, each fault once for all runs of a scenario; a cell counts nothing.
    const both = deviceFaultTable([...rows, ...rows.map((row) => ({ ...row, variant: "w" }))]);
    assert.match(both, /flip +b-rnic +0\.5% on the bus .* +4 +400 +2 of 2/);
    assert.match(both, /stuck +b +bit 3 of SCM byte 70000 is 0 +2$/m);
    assert.equal(both.split("\n").length, deviceFaultTable(rows).split("\n").length);
  });

  it("V-08 (in part): counts 0 of a card that has said nothing", () => {
    const [first] = deviceFaultRows("v", { plan: PLAN, finals: [] });
    assert.deepEqual([first?.seen, first?.hit], [0, 0]);
  });
});
