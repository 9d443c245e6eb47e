import { assert } from "../../../fabric/base/assert.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { formatTime } from "../../../fabric/base/time.ts";
import { RackError } from "../../base/rack_error.ts";
import { countOf } from "../../checks/finding.ts";
import { CoverageCount, type Covered, coveredText } from "../covering/coverage.ts";
import {
  type Again,
  type Counterexample,
  type ExploreOptions,
  type ExploreProgress,
  UNCHECKED,
  type Verdict,
} from "../types.ts";
import type { Opening } from "./exploration.ts";
import type { StepFound } from "./judge_steps.ts";

export interface Step {
  readonly sweep: number;
  readonly step: number;
  readonly found: StepFound;
}

/** Undefined where time has passed without a step. */
export type Steps = AsyncIterable<Step | undefined>;

const TURN_MS = 50;

/**
 * After so many steps whose survivors have no end the exploration stops: each takes seconds, and
 * has made the verdict partial.
 */
const ENDLESS_MOST = 16;

class Counts {
  instants = 0;
  crashPoints = 0;
  paths = 0;
  bounded = 0;
  readonly covered = new CoverageCount();
  readonly again = { recoveries: 0, cut: 0, ways: 0 };
  readonly runs = new Set<string>();
  isCutOff: boolean;
  endless: string | undefined;
  endlessSteps = 0;
  words = 0;
  unexplained = 0;

  constructor({ isCutOff }: Opening) {
    this.isCutOff = isCutOff;
  }

  add(found: StepFound, cut: string): void {
    for (const name of ["instants", "crashPoints", "paths", "bounded"] as const) {
      this[name] += found[name];
    }
    for (const name of ["words", "unexplained"] as const) this[name] += found[name];
    for (const name of ["recoveries", "cut", "ways"] as const) {
      this.again[name] += found.again[name];
    }
    this.covered.merge(found.covered);
    for (const frames of found.runs) this.runs.add(`${cut} ${frames}`);
    this.isCutOff ||= found.isCutOff;
    this.endless ??= found.endless ?? undefined;
    if (found.endless !== null) this.endlessSteps++;
  }
}

interface Exploring {
  readonly opening: Opening;
  readonly options: ExploreOptions;
  readonly counts: Counts;
  readonly began: number;
}

type Conclusion = Pick<Verdict, "verdict" | "why">;

/**
 * The verdict on an exploration.
 * @param more.steps of all its sweeps; those behind the last one that counts are not asked for.
 * @param more.began when it did, by `performance.now()`.
 * @throws Error where a step cannot be judged, or is missing.
 */
export async function verdictOf(
  opening: Opening,
  { steps, options, began, onProgress }: {
    readonly steps: Steps;
    readonly options: ExploreOptions;
    readonly began: number;
    readonly onProgress: (progress: ExploreProgress) => void;
  },
): Promise<Verdict> {
  const exploring: Exploring = { opening, options, counts: new Counts(opening), began };
  if (opening.nothing !== null) {
    return documentOf(exploring, { verdict: "unchecked", why: opening.nothing }, null);
  }
  const { stopped, counterexample } = await takeSteps(exploring, steps, onProgress);
  if (stopped !== undefined) {
    return documentOf(exploring, { verdict: "partial", why: stopped }, null);
  }
  if (counterexample !== undefined) {
    return documentOf(exploring, { verdict: "unsafe" }, counterexample);
  }
  return documentOf(exploring, conclude(exploring), null);
}

function documentOf(
  { opening, options: { from, until }, counts, began }: Exploring,
  conclusion: Conclusion,
  counterexample: Counterexample | null,
): Verdict {
  const wallMs = performance.now() - began;
  const { hosts, judgedBy, writes, promises, failure, slack } = opening;
  const isFailed = conclusion.verdict !== "unsafe" && failure !== null;
  const { verdict, why } = isFailed ? { verdict: "failed", why: failure } as const : conclusion;
  const { instants, crashPoints, paths, bounded, covered, again, runs } = counts;
  const isWindow = from !== undefined || until !== undefined;
  return {
    verdict,
    ...(why !== undefined && { why }),
    hosts,
    ...{ instants, crashPoints, continuations: runs.size, paths, bounded },
    ...{ covered: covered.all(), again },
    exhaustive: verdict === "safe" && bounded === 0 && !isWindow,
    ...{ judgedBy, writes, promises },
    ...(slack !== null && { slack }),
    wallMs,
    perSecond: Math.round(1_000 * crashPoints / wallMs),
    counterexample,
  };
}

async function takeSteps(
  exploring: Exploring,
  steps: Steps,
  onProgress: (progress: ExploreProgress) => void,
): Promise<{ readonly stopped?: string; readonly counterexample?: Counterexample }> {
  const { opening: { sweeps }, options, counts, began } = exploring;
  let turnEnds = began, share = 0, taken = 0;
  // Crash points are counted where all of an instant is judged: a limit ends at the same one each time.
  const { limit: _, ...ofTime } = options;
  for await (const next of steps) {
    const now = performance.now();
    const isInstant = next !== undefined && next.step < sweeps[next.sweep]!.instants;
    const stopped = whyStop(exploring, isInstant ? options : ofTime, now - began);
    if (stopped !== undefined) return { stopped };
    if (next !== undefined) {
      const { sweep, step, found } = next, { cut, instants } = sweeps[sweep]!;
      counts.add(found, cut);
      taken++;
      const { counterexample, unknown, failed } = found;
      if (failed !== null) throw new RackError(failed.message, failed.code);
      if (counterexample !== null) return { counterexample };
      if (unknown !== null) return { stopped: unknown };
      if (counts.endlessSteps >= ENDLESS_MOST) {
        return { stopped: `${counts.endless}; stopped after ${sizeText(exploring)}` };
      }
      share = (sweep + (step + 1) / (instants + 1)) / sweeps.length;
    }
    if (now < turnEnds) continue;
    onProgress({ share, crashPoints: counts.crashPoints });
    await sleep(0);
    turnEnds = performance.now() + TURN_MS;
  }
  const all = sweeps.reduce((sum, { instants }) => sum + instants + 1, 0);
  assert(taken === all, `Only ${taken} of ${all} steps were judged`);
  return {};
}

const NOTHING_READ = "recovery reads nothing that the run has written";

function conclude({ opening, options, counts }: Exploring): Conclusion {
  const { judgedBy, isRobust } = opening;
  const why = counts.endless ?? whyUnsure(opening, counts, options.cuts === 1) ??
    whyUnexplained(counts);
  if (why !== undefined) return { verdict: "partial", why };
  if (judgedBy.length === 0) return { verdict: "unchecked", why: UNCHECKED };
  // Without a word that the run has written, robustness has judged nothing.
  const isEmpty = isRobust && counts.words === 0 && judgedBy.length === 1;
  return isEmpty ? { verdict: "unchecked", why: NOTHING_READ } : { verdict: "safe" };
}

function whyUnexplained({ unexplained }: Counts): string | undefined {
  if (unexplained === 0) return undefined;
  const words = countOf(unexplained, "word");
  return `recovery read ${words} with a content that no write of the run explains`;
}

/**
 * Undefined where the run proves that there is no violation. @param isOnce second power failures
 * were left out on request.
 */
function whyUnsure(
  { endPs }: Opening,
  { instants, bounded, covered, again, isCutOff }: Counts,
  isOnce: boolean,
): string | undefined {
  if (isCutOff) {
    return "the scenario's `until` ends a run, with or without the power failure, before it is over";
  }
  if (instants === 0) return `there was no instant to cut at: the run ends at ${formatTime(endPs)}`;
  const reasons = [
    ...(bounded > 0 ? [whyBounded(bounded, covered.all())] : []),
    ...(again.cut < again.recoveries ? [whyNotAgain(again, isOnce)] : []),
  ];
  return reasons.length > 0 ? reasons.join("; ") : undefined;
}

export function whyNotAgain({ recoveries, cut, ways }: Again, isOnce: boolean): string {
  if (isOnce) {
    return `${countOf(recoveries, "recovery that writes was", "recoveries that write were")} not ` +
      "cut again (--cuts 1)";
  }
  return `the power failed again during ${cut} of ${recoveries} recoveries that write, ` +
    `with ${countOf(ways, "way")} to find memory: --cuts 2 has it fail during all`;
}

function whyBounded(bounded: number, covered: readonly Covered[]): string {
  const others = bounded - covered.reduce((sum, { instants }) => sum + instants, 0);
  const tried = [
    ...covered.map(coveredText),
    ...(others > 0 ? [`at ${countOf(others, "instant")} some choices alone`] : []),
  ];
  return `not every choice was tried (--choices), but ${tried.join("; ")}`;
}

function whyStop(
  exploring: Exploring,
  { limit = Infinity, forMs = Infinity, stopped }: ExploreOptions,
  elapsedMs: number,
): string | undefined {
  const size = () => `after ${sizeText(exploring)}`;
  if (stopped?.()) return `it was interrupted ${size()}`;
  if (exploring.counts.crashPoints >= limit) return `${limit} crash points were asked for`;
  return elapsedMs >= forMs ? `its time of ${forMs / 1_000} s is over ${size()}` : undefined;
}

function sizeText({ opening: { futures, endPs }, counts: { instants, runs } }: Exploring): string {
  if (futures === null) return `${countOf(instants, "instant")} of a run of ${formatTime(endPs)}`;
  return `${runs.size} of about ${futures} runs of the rack, one for each frame ` +
    "that a host sends before its power fails";
}
