import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fill, findingsOf, recordOf } from "../../../console/checks/record_testing.ts";
import { singleWriter } from "../../../console/checks/shared/single_writer.ts";
import { stateAt, type Told, told, used } from "../../../console/checks/shared/shared_testing.ts";

type State = "M" | "E" | "S" | "I";

/** Findings where home's card and the far one have these states of a line, the far one first. */
function both(far: State, near: State): string[] {
  const notes = [
    stateAt(10, "b-rnic", { cache: "remote", state: far }),
    stateAt(20, "a-rnic", { cache: "local", state: near }),
  ];
  return findingsOf(singleWriter, { notes });
}

describe("C-09: a single writer or many readers", () => {
  it("C-09: is judged for each pair of states", () => {
    const states = ["M", "E", "S", "I"] as const;
    const right = states.flatMap((x) =>
      states.flatMap((y) => both(x, y).length === 0 ? [`${x}${y}`] : [])
    );
    assert.deepEqual(right, ["MI", "EI", "SS", "SI", "IM", "IE", "IS", "II"]);
    assert.deepEqual(both("E", "S"), [
      "line 0 of s is E in b-rnic remote and S in a-rnic local at 20 ps",
    ]);
  });

  it("includes the processor's cache, and the two caches of one card", () => {
    const of = (node: string, cache: "llc" | "local") => {
      const notes = [
        stateAt(10, node, { cache, state: "M" }),
        stateAt(20, "a-rnic", { cache: "remote", state: "S" }),
      ];
      return findingsOf(singleWriter, { notes }).length;
    };
    assert.equal(of("a", "llc"), 1);
    assert.equal(of("a-rnic", "local"), 1);
  });

  it("is about each line alone, and about each instant", () => {
    const other = [
      stateAt(10, "b-rnic", { cache: "remote", state: "M" }),
      stateAt(20, "a-rnic", { cache: "local", state: "M", line: 1 }),
    ];
    assert.deepEqual(findingsOf(singleWriter, { notes: other }), []);
    const handover = [
      stateAt(10, "b-rnic", { cache: "remote", state: "M" }),
      stateAt(20, "a-rnic", { cache: "local", state: "E" }),
      stateAt(20, "b-rnic", { cache: "remote", state: "I" }),
    ];
    assert.deepEqual(findingsOf(singleWriter, { notes: handover }), []);
    const late = handover.with(2, stateAt(21, "b-rnic", { cache: "remote", state: "I" }));
    assert.equal(findingsOf(singleWriter, { notes: late }).length, 1);
  });

  it("has no cache of a card without power (C-10)", () => {
    const notes = [
      stateAt(10, "b-rnic", { cache: "remote", state: "M" }),
      stateAt(20, "a-rnic", { cache: "local", state: "E" }),
    ];
    const power = [{ at: 15, action: "kill", node: "b-rnic" }] as const;
    assert.deepEqual(findingsOf(singleWriter, { notes, power }), []);
    // So each time that its power fails, not the last time alone.
    const back = [
      ...power,
      { at: 18, action: "start", node: "b-rnic" },
      { at: 40, action: "kill", node: "b-rnic" },
      { at: 45, action: "start", node: "b-rnic" },
    ] as const;
    const again = [
      ...notes,
      stateAt(30, "a-rnic", { cache: "local", state: "I" }),
      stateAt(35, "b-rnic", { cache: "remote", state: "E" }),
      stateAt(50, "a-rnic", { cache: "local", state: "M" }),
    ];
    assert.deepEqual(findingsOf(singleWriter, { notes: again, power: back }), []);
    assert.equal(findingsOf(singleWriter, { notes: again, power: back.slice(0, 2) }).length, 1);
    // The host's own failure takes no line out of its card.
    const host = [{ at: 15, action: "kill", node: "b" }] as const;
    assert.equal(findingsOf(singleWriter, { notes, power: host }).length, 1);
    assert.equal(singleWriter.subjects(recordOf({ notes })), 2);
  });

  it("is unchecked of a line of which an access was done and no cache noted a state", () => {
    const load: Told = { from: 10, to: 20, at: 64, found: fill(0) };
    const of = (accesses: readonly Told[], line: number) => {
      const states = [stateAt(10, "a", { cache: "llc", state: "E", line })];
      return findingsOf(singleWriter, { notes: [...used(), ...told(accesses), ...states] });
    };
    assert.deepEqual(of([load], 1), []);
    assert.deepEqual(of([load, load], 0), [
      "line 1 of s: unchecked: load 0 of a/0/put#0 was done, and no cache noted a state",
    ]);
    // None of these needs the line.
    const { found: _, ...without } = load;
    const idle: Told[] = [
      { ...without, result: "fenced" },
      { ...without, op: "flush" },
      { from: 30, at: 64, bytes: fill(1) },
    ];
    assert.deepEqual(of(idle, 0), []);
  });
});
