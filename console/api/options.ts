/**
 * The options of commands that the API has, too: one table each for the command, orders and jobs, the page's form and
 * tests of a protocol's author. The choices of a scenario are `CHOICES` in `fabric/rack/plan/vocabulary.ts`. Without
 * zod, which is too large for a page.
 */
import type { OptionRow, ValuesOf } from "../../fabric/rack/plan/option_rows.ts";
import { type OptionNames, optionRefusal } from "../../fabric/rack/plan/problem.ts";
import { formatExact, PS_PER_US } from "../../fabric/base/time.ts";

const MANY = Number.MAX_SAFE_INTEGER;

/** A run's promises are those of its methods, or their claims. */
export const CLAIMS = {
  type: "switch",
  what: "judge what methods claim as though it were promised",
  label: "judge claims as promises",
} as const satisfies OptionRow;

/** @param what is done by several processes at a time: by fewer where memory has no room, see `workersFor`. */
export function jobsRow(what: string) {
  return {
    type: "whole",
    least: 1,
    most: 1_024,
    what: `${what} at a time; else as many as there are cores`,
    label: "Processes",
  } as const satisfies OptionRow;
}

export const EXPLORE_OPTIONS = {
  jobs: jobsRow("processes that explore"),
  cut: {
    type: "host",
    words: ["each", "all", "none"],
    what:
      "power of a host, of each in turn, of all at once, or none, which leaves interleavings; " +
      "else of the hosts that are written to",
    label: "Power of",
  },
  claims: CLAIMS,
  robust: {
    type: "switch",
    what: "judge what recoveries read by robustness, also where a protocol has a check",
    label: "ask for robustness, too",
  },
  choices: {
    type: "whole",
    least: 1,
    most: MANY,
    normal: 4096,
    what: "ways to find memory that are tried at one instant; more are covered by so many",
  },
  tear: {
    type: "whole",
    least: 8,
    most: 4096,
    multipleOf: 8,
    normal: 8,
    what: "what a write in progress leaves whole: a multiple of 8",
  },
  cuts: {
    type: "whole",
    least: 1,
    most: 2,
    what: "2: the power fails again at every instant of each recovery that writes; 1: it does " +
      "not, which is partial; else as 2, with a limit",
  },
  preemptions: {
    type: "whole",
    least: 0,
    most: 8,
    normal: 2,
    what: "on shared regions, vary how programs' accesses interleave, with so many preemptions " +
      "in a run; 0: not",
  },
  stall: {
    type: "time",
    normal: 50 * PS_PER_US,
    what: "how long a preemption may be, how long each stall is, and how late a frame",
    label: "Each at most",
  },
  stalls: {
    type: "whole",
    least: 0,
    most: MANY,
    normal: 64,
    what: "runs in each of which one core or card stands still, one of each kind of place first; " +
      "0: none, a verdict on this timing alone",
    label: "Runs with a stall at most",
  },
  frames: {
    type: "whole",
    least: 0,
    most: MANY,
    normal: 0,
    what: "runs in each of which one frame is lost, late or overtaken at one of its hops, one of " +
      "each kind first",
    label: "Runs with a frame lost or late at most",
  },
  interleavings: {
    type: "whole",
    least: 1,
    most: MANY,
    normal: 2000,
    what: "runs for that at most",
    label: "Interleavings at most",
  },
  from: { type: "time", what: "only instants from this virtual time on" },
  until: { type: "time", what: "only instants before this one" },
  limit: { type: "whole", least: 1, most: MANY, what: "stop after so many crash points" },
  for: { type: "wall-time", what: "stop after so much wall time" },
} as const satisfies Readonly<Record<string, OptionRow>>;

/** Refuses options that leave nothing to explore. @throws Refusal */
export function refuseNothing(
  { cut, preemptions = EXPLORE_OPTIONS.preemptions.normal, from, until }: ValuesOf<
    typeof EXPLORE_OPTIONS
  >,
): void {
  const namesIn = (names: OptionNames) => (option: keyof typeof EXPLORE_OPTIONS) =>
    names(option, EXPLORE_OPTIONS[option]);
  const isWindow = from !== undefined || until !== undefined;
  if (cut === "none" && (preemptions === 0 || isWindow)) {
    throw optionRefusal((names) => {
      const named = namesIn(names);
      const other = preemptions === 0
        ? `${named("preemptions")} 0`
        : named(from === undefined ? "until" : "from");
      const found = `"none" with ${other}, which leaves nothing to explore`;
      return { path: named("cut"), found, expected: "one of the two" };
    });
  }
  if (from !== undefined && until !== undefined && from >= until) {
    throw optionRefusal((names) => {
      const named = namesIn(names);
      const expected = `a time before ${named("until")} (${formatExact(until)})`;
      return { path: named("from"), found: formatExact(from), expected };
    });
  }
}

/** The verdicts of `rack explore` on a variant; only `safe` promises something. */
export const VERDICTS = ["safe", "unsafe", "partial", "failed", "unchecked"] as const;

export const SWEEP_OPTIONS = {
  jobs: jobsRow("combinations"),
  limit: {
    type: "whole",
    least: 1,
    most: 86_400,
    normal: 600,
    what: "seconds after which a combination is ended",
  },
} as const satisfies Readonly<Record<string, OptionRow>>;

export const STEP_OPTIONS = {
  events: {
    type: "whole",
    least: 1,
    most: 100_000,
    normal: 1,
    what: "so many instants at which something happens",
  },
} as const satisfies Readonly<Record<string, OptionRow>>;

export const CHAOS_OPTIONS = {
  jobs: jobsRow("rounds, one played and the others replayed,"),
  for: { type: "wall-time", normal: 60_000, what: "begin no round after so long" },
  rounds: {
    type: "whole",
    least: 1,
    most: 1_000_000,
    what: "at most so many rounds",
    label: "Rounds at most",
  },
  from: { type: "whole", least: 0, most: MANY, what: "begin with this round: to try one again" },
} as const satisfies Readonly<Record<string, OptionRow>>;
