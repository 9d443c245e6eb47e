import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { moduleRows, moduleTable } from "./module_report.ts";

const PLAN = makePlan(
  variants(parseScenario(
    [
      "name: x",
      "defaults: { attach: coherent, scm: { size: 1MiB }, dram: 2MiB, queues: 64 }",
      "hosts: { a: {}, b: {} }",
      "shared: [{ name: s, home: a, far: [b], bytes: 64 }]",
    ].join("\n"),
    "x.yaml",
  ))[0]!,
);

/** Home's access at a time, which ends by what its core has paid. */
function access(ticket: number, op: string, time: number, by: object): TraceLine[] {
  const took = Object.values(by).reduce((sum, ps) => sum + ps, 0), end = time + took;
  return [
    { time, node: "a", step: `home-${op}`, text: "", shared: [0, 0], access: ticket },
    {
      ...{ time: end, node: "a", step: "core-end", text: "", access: ticket },
      spent: { untilPs: end, by },
    },
  ];
}

describe("moduleRows", () => {
  const rows = moduleRows({ label: "x", plan: PLAN }, [
    ...access(0, "load", 1_000, { LLC: 20 }),
    ...access(1, "load", 2_000, { memory: 80 }),
    ...access(2, "store", 3_000, { core: 5, memory: 81 }),
    // It has not ended.
    ...access(3, "store", 4_000, { core: 5 }).slice(0, 1),
  ]);

  it("C-11: has means of each access by module, which are its mean", () => {
    assert.deepEqual(rows.map(({ access, accesses, meanPs }) => [access, accesses, meanPs]), [
      ["home load", 2, 50],
      ["home store", 1, 86],
    ]);
    const [{ modulesPs }] = rows as [typeof rows[number]];
    assert.deepEqual([modulesPs.LLC, modulesPs.memory, modulesPs.network], [10, 40, 0]);
  });

  it("C-11: has no column of a module in which no time has passed, and no row of a run without a trace", () => {
    const table = moduleTable(rows);
    assert.match(table, /core +LLC +memory\n/);
    assert.match(table, /s +home store +1 +86 ps +5 ps +81 ps/);
    assert.deepEqual(moduleRows({ label: "x", plan: PLAN }, []), []);
  });
});
