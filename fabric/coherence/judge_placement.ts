/**
 * The place of a region's copy (C-04), as home's core judges it from counts of accesses (decision 17; the
 * document's [0026, 0075]). A program calls it at the end of each window, with the counts of its own cores
 * and the far cards' reports.
 *
 * - The rule: home accesses it more often than far → `local`; else, also for a tie, → `remote`.
 * - A fresh region follows the rule at its first window with an access.
 * - A move has to be worth it: the rule holds by a margin, for some consecutive windows (hysteresis).
 * - A window without an access is neutral: it neither moves a copy nor breaks such a series.
 *
 * A scenario's words replace margin and windows, and a user's file the rule itself ({@link JudgeRule}).
 */
import { assert } from "../base/assert.ts";
import type { Time } from "../base/time.ts";
import { JUDGE_PLAN, type JudgeRules } from "../rack/plan/shared_region.ts";
import type { Placement } from "../wire/roce/coherence_messages.ts";

/** Number of accesses to a region in a window. */
export interface WindowCounts {
  /** Accesses of home's cores. */
  readonly home: number;
  /** Accesses of all far cores. */
  readonly far: number;
}

/** The judge's memory of a region. */
export interface Judgement {
  /** The card that keeps the copies: home's, `local`, or the far one. */
  readonly place: Placement["place"];
  /** No window with an access has ended. */
  readonly isFresh: boolean;
  /** Consecutive windows in favour of a move. */
  readonly forMove: number;
}

/** A window, as input of a user's own rule. */
export interface JudgedWindow extends WindowCounts, JudgeRules, Judgement {
  /** The region's name. */
  readonly region: string;
  /** The time of the judgement. */
  readonly now: Time;
  /** The window's length. */
  readonly windowPs: Time;
}

/**
 * A rule in place of {@link judgePlacement}: it returns the new place of the copies. `forMove`
 * counts the consecutive windows in which it was for the other place by the margin, as the
 * project's own rule does.
 */
export type JudgeRule = (window: JudgedWindow) => Placement["place"];

/** For a region registered now: no counts, and a tie goes to `remote`. */
export const FRESH_JUDGEMENT: Judgement = { place: "remote", isFresh: true, forMove: 0 };

/** The rule (C-04): "if the local computer's access frequency is higher than the far one's". */
export function placeFor({ home, far }: WindowCounts): Placement["place"] {
  return home > far ? "local" : "remote";
}

function isForMove({ place }: Judgement, counts: WindowCounts, marginPercent: number): boolean {
  const scaled = (count: number) => count * (100 + marginPercent);
  const { home, far } = counts;
  return place === "remote" ? home * 100 > scaled(far) : far * 100 >= scaled(home);
}

/**
 * The judgement after a window. The copy has to be moved if `place` has changed.
 * @throws AssertionError for invalid rules or counts.
 */
export function judgePlacement(
  before: Judgement,
  counts: WindowCounts,
  { marginPercent, windows }: JudgeRules = JUDGE_PLAN,
): Judgement {
  const { home, far } = counts;
  assert(
    [home, far, marginPercent].every((each) => Number.isSafeInteger(each) && each >= 0) &&
      Number.isSafeInteger(windows) && windows >= 1,
    `Cannot judge ${home} and ${far} accesses by a margin of ${marginPercent} % for ${windows} ` +
      "windows: expected whole numbers, 0 or more, and at least one window",
  );
  if (home + far === 0) return before;
  if (before.isFresh) return { place: placeFor(counts), isFresh: false, forMove: 0 };
  const forMove = isForMove(before, counts, marginPercent) ? before.forMove + 1 : 0;
  if (forMove < windows) return { ...before, forMove };
  return { place: before.place === "local" ? "remote" : "local", isFresh: false, forMove: 0 };
}

/**
 * The judgement by a user's own rule. It is not called for windows without an access.
 * @throws Error for an invalid answer.
 */
export function judgeByRule(rule: JudgeRule, window: JudgedWindow): Judgement {
  const { region, now, windowPs, place, isFresh, forMove, home, far, marginPercent, windows } =
    window;
  const before = { place, isFresh, forMove };
  if (home + far === 0) return before;
  const counts = { home, far }, rules = { marginPercent, windows };
  const found: unknown = rule({ region, now, windowPs, ...before, ...counts, ...rules });
  if (found !== "local" && found !== "remote") {
    throw new Error(
      `Cannot judge region ${region}: its rule answers ${
        String(found)
      }: expected "local" or "remote"`,
    );
  }
  const isForOther = isForMove(before, counts, marginPercent);
  return { place: found, isFresh: false, forMove: found === place && isForOther ? forMove + 1 : 0 };
}
