/**
 * Where a region's copies are kept, by who accesses it more (C-04): home's card where home's cores do, else the far
 * card. Pure: counts of one window after the other in, a place out. Who counts, and what moves copies, is elsewhere:
 * cores count their accesses, far cards report theirs, a program on home's core judges (decision 17, [0026, 0075]).
 */
import type { Placement } from "./messages.ts";

/** Accesses of a region in one window: of home's cores, and of all far cards together. */
export interface Frequencies {
  readonly home: number;
  readonly far: number;
}

/** What it takes to move copies, as a move purges every line of the region. */
export interface JudgeRules {
  /** How many times as many accesses the other side must have. */
  readonly factor: number;
  /** In so many windows, one after the other. */
  readonly windows: number;
  /** Fewer accesses in a window say nothing, and change nothing. */
  readonly least: number;
}

export interface Judgement {
  readonly place: Placement["place"];
  /** Windows so far, one after the other, that spoke for the other place. */
  readonly against: number;
}

/** Choices: a tenth of noise moves nothing, a lasting change moves within three windows. */
export const JUDGE_RULES: JudgeRules = { factor: 1.25, windows: 2, least: 8 };

/** The plain rule, which a fresh region follows: local where home's frequency is higher, so a tie goes to `remote`. */
export function placeFor({ home, far }: Frequencies): Placement["place"] {
  return home > far ? "local" : "remote";
}

/** The judgement after one more window. Its `place` is another than before where copies are to move now. */
export function judgePlacement(
  { place, against }: Judgement,
  counts: Frequencies,
  { factor, windows, least }: JudgeRules = JUDGE_RULES,
): Judgement {
  const { home, far } = counts;
  if (home + far < least) return { place, against };
  const [here, there] = place === "local" ? [home, far] : [far, home];
  if (placeFor(counts) === place || there < factor * here) return { place, against: 0 };
  if (against + 1 < windows) return { place, against: against + 1 };
  return { place: place === "local" ? "remote" : "local", against: 0 };
}
