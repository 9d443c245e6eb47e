/**
 * The numbers and times by which `rack explore` is bounded: one description for the command, orders of jobs, the page's
 * form and tests. Without zod, which is too large for a page.
 */
import { PS_PER_US } from "../../fabric/base/time.ts";

/** A whole number, from the least to the most. */
export interface ExploreNumber {
  readonly least: number;
  readonly most: number;
  readonly multipleOf?: number;
  /** Where it is not given; absent: something else holds then, as `what` says. */
  readonly normal?: number;
  /** What it bounds, for people. */
  readonly what: string;
}

const MANY = Number.MAX_SAFE_INTEGER;

export const EXPLORE_NUMBERS = {
  choices: {
    least: 1,
    most: MANY,
    normal: 4096,
    what: "ways to find memory that are tried at one instant; more are covered by so many",
  },
  tear: {
    least: 8,
    most: 4096,
    multipleOf: 8,
    normal: 8,
    what: "what a write in progress leaves whole: a multiple of 8",
  },
  cuts: {
    least: 1,
    most: 2,
    what: "2: the power fails again at every instant of each recovery that writes; 1: it does " +
      "not, which is partial (as 2, with a limit)",
  },
  preemptions: {
    least: 0,
    most: 8,
    normal: 2,
    what: "on shared regions, vary how programs' accesses interleave, with so many preemptions " +
      "in a run; 0: not",
  },
  interleavings: { least: 1, most: MANY, normal: 2000, what: "runs for that at most" },
  limit: {
    least: 1,
    most: MANY,
    what: "stop after so many crash points",
  },
} as const satisfies Readonly<Record<string, ExploreNumber>>;

/** The longest preemption, in ps of virtual time. */
export const EXPLORE_STALL = {
  normal: 50 * PS_PER_US,
  what: "how long a preemption may be",
} as const;

/** Whose power is cut, beside one host by its name; `none` leaves interleavings. */
export const EXPLORE_CUTS = ["each", "all", "none"] as const;
