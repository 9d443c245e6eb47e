import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { eventsOf } from "./instants.ts";
import type { Observation } from "./observation.ts";
import { seeded } from "../base/property_testing.ts";

function step(time: number, node: number, event: number, text: string): Observation {
  return { kind: "step", time, node, event, step: { step: "x", text } };
}

/** Events of some nodes, a list for each, by time. */
const histories = fc.array(
  fc.array(fc.tuple(fc.nat(6), fc.integer({ min: 1, max: 3 })), { maxLength: 8 }),
  { minLength: 1, maxLength: 5 },
).map((nodes) =>
  nodes.map((events, node) =>
    events.map(([time, seen], i) => ({ time, seen, i })).sort((x, y) => x.time - y.time)
      .map(({ time, seen }, event) =>
        Array.from({ length: seen }, (_, k) => step(time, node, event, `${node}.${event}.${k}`))
      )
  )
);

/** The nodes as one partition, whose events of an instant come in the order of `turns`. */
function packed(nodes: readonly Observation[][][], turns: readonly number[]): Observation[] {
  const rest = nodes.map((events) => [...events]);
  const all: Observation[] = [];
  for (let turn = 0; rest.some((events) => events.length > 0); turn++) {
    const time = Math.min(...rest.map(([first]) => first?.[0]?.time ?? Infinity));
    const ready = rest.filter(([first]) => first?.[0]?.time === time);
    // Counted by the partition: other numbers than in another packing.
    const event = ready[(turns[turn % turns.length] ?? 0) % ready.length]!.shift()!;
    all.push(...event.map((each) => ({ ...each, event: turn })));
  }
  return all;
}

describe("eventsOf", () => {
  it("gives one order, however nodes are packed and take turns", () => {
    fc.assert(
      fc.property(
        histories,
        fc.array(fc.nat(4), { minLength: 1 }),
        fc.nat(5),
        (nodes, turns, cut) => {
          const textOf = (sources: Observation[][]) =>
            [...eventsOf(sources)].map(({ time, node, seen }) => [
              time,
              node,
              seen.map((each) => each.kind === "step" && each.step.text),
            ]);
          const apart = textOf(nodes.map((events) => events.flat()));
          assert.deepEqual(textOf([packed(nodes, turns)]), apart);
          const halves = [nodes.slice(0, cut), nodes.slice(cut)];
          assert.deepEqual(textOf(halves.map((half) => packed(half, turns))), apart);
        },
      ),
      seeded(),
    );
  });

  it("keeps apart what two events of one node and instant did", () => {
    const seen = [step(5, 1, 7, "a"), step(5, 1, 7, "b"), step(5, 1, 8, "c")];
    assert.deepEqual([...eventsOf([seen])].map(({ seen }) => seen.length), [2, 1]);
    assert.deepEqual([...eventsOf([[], []])], []);
  });
});
