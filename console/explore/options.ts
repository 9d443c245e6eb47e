import { formatExact } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { ValuesOf } from "../../fabric/rack/plan/option_rows.ts";
import type { EXPLORE_OPTIONS } from "../api/options.ts";
import { EXPLORE_DEFAULTS, type ExploreOptions } from "./types.ts";

export function exploreOptions(
  { for: forMs, jobs: _, ...given }: ValuesOf<typeof EXPLORE_OPTIONS>,
): ExploreOptions {
  return { ...EXPLORE_DEFAULTS, ...given, ...(forMs !== undefined && { forMs }) };
}

/**
 * Refuses options that leave nothing to explore.
 * @param named how an option is called where it was given.
 * @throws Refusal
 */
export function refuseNothing(
  { cut, preemptions = EXPLORE_DEFAULTS.preemptions, from, until }: Pick<
    ExploreOptions,
    "cut" | "preemptions" | "from" | "until"
  >,
  named: (option: "cut" | "preemptions" | "from" | "until") => string,
): void {
  const isWindow = from !== undefined || until !== undefined;
  if (cut === "none" && (preemptions === 0 || isWindow)) {
    const other = preemptions === 0
      ? `${named("preemptions")} 0`
      : named(from === undefined ? "until" : "from");
    throw refusal(named("cut"), {
      found: `"none" with ${other}, which leaves nothing to explore`,
      expected: "one of the two",
    });
  }
  if (from !== undefined && until !== undefined && from >= until) {
    const expected = `a time before ${named("until")} (${formatExact(until)})`;
    throw refusal(named("from"), { found: formatExact(from), expected });
  }
}
