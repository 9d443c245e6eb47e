import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../base/property_testing.ts";
import { NEVER } from "../../base/time.ts";
import { Distances } from "./distances.ts";
import { allDistances, type Graph, graphs } from "./distances_testing.ts";

/** Hosts behind their RNICs at switches, and the cables between these. */
function rack(
  hosts: readonly number[],
  switchCables: readonly (readonly [number, number])[],
): Graph {
  const crossings: Graph["crossings"][number][] = [];
  const connect = (a: number, b: number) => {
    crossings.push({ from: a, to: b, delayPs: 7 }, { from: b, to: a, delayPs: 7 });
  };
  for (const [a, b] of switchCables) connect(a, b);
  let count = hosts.length;
  for (const [at, each] of hosts.entries()) {
    for (let i = 0; i < each; i++) {
      connect(at, count);
      connect(count, count + 1);
      count += 2;
    }
  }
  return { count, crossings };
}

describe("Distances", () => {
  it("are the shortest ways over the cables, whatever hangs from what", () => {
    fc.assert(
      fc.property(graphs(14), (graph) => {
        const distances = new Distances(graph.count, graph.crossings);
        const expected = allDistances(graph);
        for (const [from, row] of expected.entries()) {
          assert.deepEqual(row, row.map((_, to) => distances.between(from, to)));
        }
      }),
      seeded({ numRuns: 500 }),
    );
  });

  it("have a matrix of the switches alone, as a host hangs from a switch behind its RNIC", () => {
    const star = new Distances(2_001, rack([1_000], []).crossings);
    assert.deepEqual(star.cores, [0]);
    assert.equal(star.chains.length, 1_000);
    const leaves = [0, 1, 2, 3], spines = [4, 5];
    const cables = leaves.flatMap((leaf) => spines.map((spine) => [leaf, spine] as const));
    const leafSpine = rack([10, 10, 10, 10, 0, 0], cables);
    const { cores, chains } = new Distances(leafSpine.count, leafSpine.crossings);
    assert.deepEqual(cores, [...leaves, ...spines]);
    assert.ok(chains.every(({ members }) => members.length === 2));
  });

  it("never reach what no cable leads to", () => {
    const apart = new Distances(2, []);
    assert.equal(apart.between(0, 1), NEVER);
    assert.equal(apart.between(1, 1), 0);
  });
});
