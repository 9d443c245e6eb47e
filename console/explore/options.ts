/** What is asked of an exploration: by the command, a job or a test. */
import { formatExact } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { EXPLORE_CUTS, type EXPLORE_NUMBERS } from "../api/explore_options.ts";
import { type Cut, EXPLORE_DEFAULTS, type ExploreOptions } from "./types.ts";

/** {@link ExploreOptions}, each of which may be absent, with numbers that were checked by {@link EXPLORE_NUMBERS}. */
type Given = {
  readonly [Name in keyof ExploreOptions]?:
    | (Name extends keyof typeof EXPLORE_NUMBERS ? number : ExploreOptions[Name])
    | undefined;
};

/** Options, with the defaults of what is not given. */
export function exploreOptions(given: Given): ExploreOptions {
  const known = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...EXPLORE_DEFAULTS, ...Object.fromEntries(known) };
}

/** Whose power is cut, by a word or the name of a host. */
export function cutOf(text: string): Cut {
  return EXPLORE_CUTS.find((each) => each === text) ?? { host: text };
}

/**
 * Refuses options that leave nothing to explore.
 * @param named how an option is called where it was given. @throws Refusal
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
