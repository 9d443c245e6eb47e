/** Derived from a plan's cables: the link of each direction, and the lookahead. */
import { createLink, leastDelay, type Link } from "../../link/link.ts";
import type { Time } from "../../base/time.ts";
import type { CablePlan, Endpoint, RackPlan } from "./plan.ts";
import { actsOnHead, processingPs } from "./processing.ts";

function nodeOf(plan: RackPlan, end: Endpoint) {
  return plan.nodes.find(({ name }) => name === end.node)!;
}

/** The other partitions that each partition has a cable to. */
export function neighboursOf(
  { cables }: Pick<RackPlan, "cables">,
  partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>,
): Map<string, Set<string>> {
  const home = new Map(partitions.flatMap(({ name, nodes }) => nodes.map((node) => [node, name])));
  const neighbours = new Map(partitions.map(({ name }) => [name, new Set<string>()]));
  for (const { a, b } of cables) {
    const [x, y] = [home.get(a.node)!, home.get(b.node)!];
    if (x === y) continue;
    neighbours.get(x)!.add(y);
    neighbours.get(y)!.add(x);
  }
  return neighbours;
}

/** The direction of a cable that ends at `far`. */
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
 * Minimum time from any cause at `near` to its effect at `far`: processing, serialisation, latency.
 * It is the lookahead of the clock, and the time after which `far` detects that `near` lost or got
 * power: so a process may die at its very next event, and no peer has run past the notice.
 */
export function lookaheadPs(
  plan: RackPlan,
  cable: CablePlan,
  ends: { near: Endpoint; far: Endpoint },
): Time {
  return processingPs(nodeOf(plan, ends.near)) + leastDelay(linkTo(plan, cable, ends.far));
}
