import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Reported } from "../rack/run_variant.ts";
import { placementRows, placementText } from "./placement_report.ts";

const PLAN = makePlan(
  variants(parseScenario(
    [
      "name: x",
      "defaults: { attach: coherent, scm: { size: 1MiB }, dram: 2MiB, queues: 64 }",
      "hosts: { a: {}, b: {} }",
      "shared:",
      "  - { name: s, home: a, far: [b], bytes: 64, judge: { margin: 10, window: 50us } }",
      "  - { name: t, home: b, far: [a], bytes: 64, placement: local }",
    ].join("\n"),
    "x.yaml",
  ))[0]!,
);

const move = (time: number, node: string, value: object) => {
  return { time, node, topic: "region-moved", value };
};
const OUTCOME = {
  finals: [{
    statistics: {
      a: {
        "region.s.windows": 4,
        "region.s.homeAccesses": 30,
        "region.s.farAccesses": 10,
        "region.s.moves": 1,
      },
      b: {},
    },
    reports: [
      move(7e6, "a", { region: "s", place: "local", home: 9, far: 1, windowPs: 5e7 }),
      move(9e6, "a", {
        ...{ region: "s", place: "remote", home: 1, far: 9, windowPs: 5e7 },
        refused: "no card",
      }),
      move(11e6, "b", { region: "t", place: "remote" }),
      // A program of another host that reports so has moved nothing.
      move(12e6, "b", { region: "s", place: "remote" }),
    ],
  }],
} as unknown as Reported;

describe("placementRows", () => {
  const rows = placementRows({ label: "x", plan: PLAN }, OUTCOME);

  it("C-04: has what the judge counted and did, for each region of any program", () => {
    const [s, t] = rows;
    const { moves, ...judged } = s!;
    assert.deepEqual(judged, {
      variant: "x",
      region: "s",
      home: "a",
      far: ["b"],
      placement: "auto",
      judge: { marginPercent: 10, windows: 2, windowPs: 50e6 },
      windows: 4,
      homeAccesses: 30,
      farAccesses: 10,
      place: "local",
    });
    assert.deepEqual(moves.map(({ at, place, refused }) => [at, place, refused]), [
      [7e6, "local", undefined],
      [9e6, "remote", "no card"],
    ]);
    assert.deepEqual([t!.judge, t!.windows, t!.place], [null, null, "remote"]);
  });

  it("C-04: has copies where the plan has them again once home, or its card, has begun anew", () => {
    const lives = (node: string, from: number) => ({
      ...OUTCOME,
      record: {
        reports: OUTCOME.finals[0]!.reports,
        lives: new Map([[node, [{ from: 0, to: from - 1 }, { from, to: Infinity }]]]),
      },
    } as unknown as Reported);
    const placesOf = (outcome: Reported) =>
      placementRows({ label: "x", plan: PLAN }, outcome).map(({ place }) => place);
    assert.deepEqual(placesOf(lives("a-rnic", 8e6)), ["remote", "remote"]);
    assert.deepEqual(placesOf(lives("b", 12e6)), ["local", "local"]);
    assert.deepEqual(placesOf(lives("a", 6e6)), ["local", "remote"]);
    // Of another host's card.
    assert.deepEqual(placesOf(lives("b-rnic", 8e6)), ["local", "remote"]);
    const faults = [{ at: 8e6, action: "kill", node: "a-rnic" } as const, {
      ...{ at: 9e6, action: "start", node: "a-rnic" } as const,
    }];
    const [s] = placementRows({ label: "x", plan: { ...PLAN, faults } }, OUTCOME);
    assert.equal(s!.place, "remote", "by the plan's faults where there is no record");
  });

  it("C-04: is a table of judged and moved regions, and a line for each move", () => {
    const [table, ...lines] = placementText(rows);
    assert.match(table!, /s +margin 10 %, 2 windows of 50 us +4 +7\.5 +2\.5 +1 +local/);
    assert.match(table!, /t +programs +1 +remote/);
    assert.deepEqual(lines, [
      "s: at 7 us copies move to local: 9 accesses of home, 1 of far in 50 us",
      "s: at 9 us copies stay (no card): 1 accesses of home, 9 of far in 50 us",
      "t: at 11 us copies move to remote: by a program",
    ]);
    assert.deepEqual(placementText([{ ...rows[1]!, moves: [] }]), [], "the scenario has decided");
  });
});
