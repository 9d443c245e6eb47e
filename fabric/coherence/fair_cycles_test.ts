import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Link, StateGraph } from "./fair_cycles.ts";

const LINK: Link = { name: "up 1", takesTurns: false };
const TURNS: Link = { name: "req 1", takesTurns: true };

/** A graph of so many states, in all of which bit 0 holds but in the last. */
function graphOf(
  states: number,
  edges: readonly (readonly [from: number, to: number, link?: Link])[],
): StateGraph {
  const graph = new StateGraph();
  for (let state = 0; state < states; state++) graph.holds.push(state === states - 1 ? 0 : 1);
  for (const [from, to, link] of edges) graph.add(from, to, link);
  return graph;
}

describe("StateGraph.staysFor", () => {
  it("finds a circle that no link has to leave", () => {
    const graph = graphOf(3, [[0, 1], [1, 0], [1, 2]]);
    assert.deepEqual(graph.staysFor(0), { state: 0, size: 2 });
    assert.equal(graph.staysFor(1), undefined);
  });

  it("takes no circle in all states of which a link can deliver, and delivers outside of it", () => {
    const graph = graphOf(3, [[0, 1], [1, 0], [0, 2, LINK], [1, 2, LINK]]);
    assert.equal(graph.staysFor(0), undefined);
  });

  it("takes one in which a link delivers, though it can deliver outside of it, too", () => {
    const graph = graphOf(3, [[0, 1], [1, 0, LINK], [0, 2, LINK], [1, 2, LINK]]);
    assert.deepEqual(graph.staysFor(0), { state: 0, size: 2 });
  });

  it("takes one in which a link cannot deliver all the time, unless it takes turns", () => {
    const circle = [[0, 1], [1, 0]] as const;
    assert.deepEqual(graphOf(3, [...circle, [1, 2, LINK]]).staysFor(0), { state: 0, size: 2 });
    assert.equal(graphOf(3, [...circle, [1, 2, TURNS]]).staysFor(0), undefined);
  });

  it("looks at what is left without the states in which a link that takes turns can deliver", () => {
    const edges = [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3, TURNS]] as const;
    assert.deepEqual(graphOf(4, edges).staysFor(0), { state: 0, size: 2 });
  });

  it("finds a circle of as many states as an exploration may have", () => {
    const states = 300_000;
    const ring = Array.from({ length: states }, (_, at) => [at, (at + 1) % states] as const);
    assert.deepEqual(graphOf(states + 1, ring).staysFor(0), { state: 0, size: states });
  });

  it("takes a state that goes to itself, and none in which nothing happens", () => {
    assert.deepEqual(graphOf(2, [[0, 0], [0, 1]]).staysFor(0), { state: 0, size: 1 });
    assert.equal(graphOf(2, [[0, 1]]).staysFor(0), undefined);
  });
});
