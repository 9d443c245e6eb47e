import { parseTarget } from "../plan/cable_names.ts";
import type { LinkFaultSection } from "../scenario/fault_schema.ts";
import { IMPAIRMENT_ROWS, IMPAIRMENTS, type LinkFaultPlan } from "../plan/link_plan.ts";
import type { Time } from "../../base/time.ts";
import type { CablePlan } from "../plan/plan.ts";
import { listOf } from "../plan/problem.ts";

export interface LinkFaultScenario extends Omit<LinkFaultPlan, "id" | "cable" | "direction"> {
  readonly target: string;
}

/** `key` undefined: the whole item. */
export interface FaultProblem {
  readonly key?: string;
  readonly found: string;
  readonly expected: string;
}

export function readLinkFault(section: LinkFaultSection): LinkFaultScenario | FaultProblem {
  const { link, from, until, nth, count, only, jitter, by } = section;
  const said = IMPAIRMENTS.filter((action) => section[action] !== undefined);
  const [action] = said;
  if (action === undefined || said.length > 1) {
    const found = action === undefined ? "a cable and no fault" : said.join(" and ");
    return { found, expected: `one of ${listOf(IMPAIRMENTS)}` };
  }
  for (const [key, owner] of OWNERS) {
    if (section[key] === undefined || owner === action) continue;
    const isShared = key === "share" && IMPAIRMENT_ROWS[action].amount === "share";
    const expected = isShared ? `the share as ${action}: 1%` : `it with ${owner} only`;
    return { key, found: `${key} with ${action}`, expected };
  }
  const share = action === "delay" || action === "rate" ? section.share ?? 1 : section[action]!;
  const terms = { from, until, nth, count, share };
  const refusal = refuseTerms(terms);
  if (refusal !== undefined) return refusal;
  const isBounded = share < 1 ||
    [from, until, nth, count].some((value) => value !== undefined);
  if (!isBounded) {
    const expected = "a share below all, or from, until, count or nth";
    return { found: `${action} of all frames for good`, expected };
  }
  return {
    target: link,
    action,
    ...termsOf(terms),
    ...(only !== undefined && { only }),
    ...(section.delay !== undefined && { delayPs: section.delay }),
    ...(section.rate !== undefined && { bitsPerSecond: section.rate }),
    ...(jitter !== undefined && { jitterPs: jitter }),
    ...(by !== undefined && { overtakenBy: by }),
    ...(section.hold !== undefined && { holdPs: section.hold }),
    ...(section.past !== undefined && { sealed: true as const }),
  };
}

/** `share` is 1 for all frames or segments. */
interface Terms {
  readonly from?: Time | undefined;
  readonly until?: Time | undefined;
  readonly nth?: number | undefined;
  readonly count?: number | undefined;
  readonly share: number;
}

export function refuseTerms(terms: Terms): FaultProblem | undefined {
  const { from = 0, until, nth, count, share } = terms;
  if (nth !== undefined && (share < 1 || count !== undefined)) {
    return { key: "nth", found: "nth and a share or count", expected: "nth alone, with all" };
  }
  if (until !== undefined && until <= from) {
    return { key: "until", found: "an end before the beginning", expected: "a time after from" };
  }
  return undefined;
}

export function termsOf({ from = 0, until, nth, count, share }: Terms) {
  return {
    at: from,
    ...(until !== undefined && { until }),
    ...(share < 1 && { share }),
    ...(nth !== undefined && { nth }),
    ...(count !== undefined && { count }),
  };
}

export const OWNERS = [
  ["share", "delay"],
  ["jitter", "delay"],
  ["by", "reorder"],
  ["hold", "reorder"],
  ["past", "corrupt"],
] as const;

/** A fault's id is its index. The targets have been checked. */
export function resolveLinkFaults(
  rack: { readonly cables: readonly CablePlan[] },
  faults: readonly LinkFaultScenario[],
): LinkFaultPlan[] {
  return faults.flatMap(({ target, ...fault }, id) => {
    const found = parseTarget(rack, target);
    return "expected" in found ? [] : [{ id, ...fault, ...found }];
  });
}
