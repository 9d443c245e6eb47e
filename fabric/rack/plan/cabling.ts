import type { CablePlan, Endpoint, NodePlan, RackPlan } from "./plan.ts";

/** Indexes a plan's list at the first look-up: each device of a large rack looks up. */
function indexed<Row extends object, Index>(make: (rows: Row) => Index): (rows: Row) => Index {
  const known = new WeakMap<Row, Index>();
  return (rows) => {
    let index = known.get(rows);
    if (index === undefined) {
      index = make(rows);
      known.set(rows, index);
    }
    return index;
  };
}

export const nodeIndexes = indexed((nodes: readonly NodePlan[]): ReadonlyMap<string, number> =>
  new Map(nodes.map(({ name }, i) => [name, i]))
);

export function nodeOf({ nodes }: Pick<RackPlan, "nodes">, end: Endpoint): NodePlan {
  return nodes[nodeIndexes(nodes).get(end.node)!]!;
}

export interface CableEnd {
  readonly cable: number;
  readonly end: "a" | "b";
  readonly near: Endpoint;
  readonly far: Endpoint;
}

export const cableEndsByNode = indexed(
  (cables: readonly CablePlan[]): ReadonlyMap<string, readonly CableEnd[]> => {
    const ends = cables.flatMap(({ a, b }, cable): CableEnd[] => [
      { cable, end: "a", near: a, far: b },
      { cable, end: "b", near: b, far: a },
    ]);
    return Map.groupBy(ends, ({ near }) => near.node);
  },
);

/** Partitions have numbers in the order of their list. */
export function* directionsBetween(
  cables: readonly CablePlan[],
  partitions: ReadonlyArray<{ readonly nodes: readonly string[] }>,
) {
  const home = new Map(partitions.flatMap(({ nodes }, i) => nodes.map((name) => [name, i])));
  for (const cable of cables) {
    for (const [near, far] of [[cable.a, cable.b], [cable.b, cable.a]] as const) {
      const from = home.get(near.node)!, to = home.get(far.node)!;
      if (from !== to) yield { cable, near, far, from, to };
    }
  }
}

export function neighboursOf(
  { cables }: Pick<RackPlan, "cables">,
  partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>,
): Map<string, Set<string>> {
  const neighbours = new Map(partitions.map(({ name }) => [name, new Set<string>()]));
  for (const { from, to } of directionsBetween(cables, partitions)) {
    neighbours.get(partitions[from]!.name)!.add(partitions[to]!.name);
  }
  return neighbours;
}
