/** How soon what one end of a cable does can matter to the other, and so how far a partition may run alone. */
import { NEVER, type Time } from "../../base/time.ts";
import { createLink, leastDelay, type Link } from "../../link/link.ts";
import { directionsBetween, nodeOf } from "./cabling.ts";
import type { CablePlan, Endpoint, RackPlan } from "./plan.ts";
import { actsOnHead, processingPs } from "./processing.ts";

/** The least delay of a cause to its effect. */
export interface Crossing {
  readonly from: number;
  readonly to: number;
  readonly delayPs: Time;
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
