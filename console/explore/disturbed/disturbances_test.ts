import { deepEqual as same, equal, ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import { matrixScenario } from "../matrix.ts";
import type { RackRun } from "../rerun.ts";
import type { ExploredRack } from "../types.ts";
import { type Disturbance, framesOfRun, stallsOfRun } from "./disturbances.ts";

const [variant] = variants(parseScenario(
  matrixScenario({
    ...{ method: "send-flush", update: "single", arch: "ddio", ddio: "off", domain: "adr" },
    receiveBuffer: "dram",
  }),
  "matrix.yaml",
));
const rack: ExploredRack = { plan: makePlan(variant!), inputs: {}, own: {} };
const PS = 5_000_000, ALL = 10_000;

/** A run of which something is told at these times. */
function told(...times: number[]): RackRun {
  const reports = times.map((time) => ({ time, node: "a", topic: "told", value: 1 }));
  const run = { notes: [], reports, histories: new Map() };
  return run as unknown as RackRun;
}

const everything = told(0, Infinity);
const byTime = (all: readonly Disturbance[]) => all.map(({ at, kind }) => `${at} ${kind}`).sort();

for (const [name, of] of Object.entries({ stallsOfRun, framesOfRun })) {
  const all = of(rack, { recording: everything, most: ALL, ps: PS });

  it(`${name}: has what begins from the first word that is told up to the last, without its instant`, () => {
    equal(all.count, all.chosen.length);
    const times = [...new Set(all.chosen.map(({ at }) => at))].sort((x, y) => x - y);
    ok(times.length > 10, `${times.length}`);
    for (const [i, k] of [[0, 1], [2, 5], [4, times.length - 1]] as const) {
      const from = times[i]!, to = times[k]!;
      const found = of(rack, { recording: told(to, from), most: ALL, ps: PS });
      const inside = all.chosen.filter(({ at }) => at >= from && at < to);
      same(byTime(found.chosen), byTime(inside));
      equal(found.count, inside.length);
    }
    same(of(rack, { recording: told(5), most: ALL, ps: PS }), { count: 0, chosen: [] });
    same(of(rack, { recording: told(), most: ALL, ps: PS }), { count: 0, chosen: [] });
  });

  it(`${name}: one of each kind comes before the second of any, and a bound leaves out the rest`, () => {
    const kinds = new Set(all.chosen.map(({ kind }) => kind));
    ok(kinds.size > 3 && all.count > kinds.size, `${kinds.size} of ${all.count}`);
    const first = all.chosen.slice(0, kinds.size);
    equal(new Set(first.map(({ kind }) => kind)).size, kinds.size);
    const few = of(rack, { recording: everything, most: kinds.size, ps: PS });
    same(few, { count: all.count, chosen: first });
  });
}

it("framesOfRun: each frame of a cable is lost, late and overtaken, by its number of those of its instant", () => {
  const { chosen } = framesOfRun(rack, { recording: everything, most: ALL, ps: PS });
  const groups = Map.groupBy(
    chosen,
    ({ at, frame }) => `${at} ${frame!.cable} ${frame!.direction}`,
  );
  for (const [place, group] of groups) {
    const by = Map.groupBy(group, ({ frame }) => frame!.action);
    const numbers = (["loss", "delay", "reorder"] as const).map((action) =>
      (by.get(action) ?? []).map(({ frame }) => frame!.nth!).sort((x, y) => x - y)
    );
    const expected = Array.from({ length: group.length / 3 }, (_, i) => i + 1);
    same(numbers, [expected, expected, expected], place);
  }
  for (const { at, frame, stall } of chosen) {
    equal(stall, undefined);
    equal(frame!.at, at);
    equal(frame!.id, 0, "no other fault has it");
    if (frame!.action === "delay") equal(frame!.delayPs, PS);
    if (frame!.action === "reorder") same([frame!.overtakenBy, frame!.holdPs], [1, PS]);
  }
});

it("stallsOfRun: a thread's rests and a card's messages are numbered, each stands still as asked for", () => {
  const { chosen } = stallsOfRun(rack, { recording: everything, most: ALL, ps: PS });
  const by = Map.groupBy(chosen, ({ stall }) => stall!.by);
  ok([...by.keys()].some((name) => name.includes("rnic")) && by.size > 2, [...by.keys()].join());
  for (const [name, own] of by) {
    const sorted = own.toSorted((x, y) => x.stall!.number - y.stall!.number);
    same(sorted.map(({ stall }) => stall!.number), sorted.map((_, i) => i + 1), name);
    same(sorted.map(({ at }) => at), sorted.map(({ at }) => at).sort((x, y) => x - y));
    for (const { at, stall } of own) {
      same([stall!.at, stall!.ps, stall!.node], [at, PS, name[0]]);
    }
  }
});
