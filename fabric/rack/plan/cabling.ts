import { createLink, leastDelay, type Link } from "../../link/link.ts";
import { NEVER, type Time } from "../../base/time.ts";
import type { CablePlan, Endpoint, NodePlan, RackPlan } from "./plan.ts";
import { actsOnHead, processingPs } from "./processing.ts";

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

function nodeOf({ nodes }: Pick<RackPlan, "nodes">, end: Endpoint): NodePlan {
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

/** The least delay of a cause to its effect. */
export interface Crossing {
  readonly from: number;
  readonly to: number;
  readonly delayPs: Time;
}

/** Partitions have numbers in the order of their list. */
function* directionsBetween(
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

/** Several cables between two partitions count as one. */
export function crossings(
  plan: RackPlan,
  partitions: ReadonlyArray<{ readonly nodes: readonly string[] }>,
): Crossing[] {
  const least = new Map<number, Crossing>();
  for (const { cable, from, to, ...ends } of directionsBetween(plan.cables, partitions)) {
    const delayPs = lookaheadPs(plan, cable, ends);
    const key = from * partitions.length + to;
    if (delayPs < (least.get(key)?.delayPs ?? NEVER)) least.set(key, { from, to, delayPs });
  }
  return [...least.values()];
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

export function linkTo(plan: RackPlan, cable: CablePlan, far: Endpoint): Link {
  return createLink({
    latencyPs: cable.latencyPs,
    bitsPerSecond: cable.bitsPerSecond,
    kind: cable.kind,
    attach: cable.attach,
    headOnly: actsOnHead(nodeOf(plan, far)),
  });
}

/**
 * The lookahead of the clock, and the time after which `far` detects that `near` lost or got power:
 * a process may die at its very next event, and no peer has run past the notice.
 */
export function lookaheadPs(
  plan: RackPlan,
  cable: CablePlan,
  ends: { near: Endpoint; far: Endpoint },
): Time {
  return processingPs(nodeOf(plan, ends.near)) + leastDelay(linkTo(plan, cable, ends.far));
}
