/** Interleavings as a part of an exploration: they come first, as they take no power failure; then its verdict. */
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { Opening } from "../steps/exploration.ts";
import type { ExploredRack, ExploreOptions, Verdict } from "../types.ts";
import { hasInterleavings, interleave, type Interleaved } from "./interleavings.ts";

/** Wall time between turns of the event loop. */
const TURN_MS = 50;

/** Of the time that is given, so much is for interleavings. */
const SHARE = 1 / 2;

/** Whether an exploration varies them: not where only some instants are asked for. */
export function areWanted(
  { plan }: Pick<ExploredRack, "plan">,
  { preemptions = 0, from, until }: ExploreOptions,
): boolean {
  return preemptions > 0 && from === undefined && until === undefined && hasInterleavings(plan);
}

/** @returns undefined where there is nothing to vary, or the run without a change fails. */
export async function exploreInterleavings(
  rack: ExploredRack,
  options: ExploreOptions,
): Promise<Interleaved | undefined> {
  if (!areWanted(rack, options)) return undefined;
  const { stopped, forMs = Infinity } = options;
  const began = performance.now();
  let turnEnds = began + TURN_MS;
  const runs = interleave(rack, options);
  for (let next = runs.next();; next = runs.next()) {
    if (next.done) return next.value;
    const now = performance.now();
    if (now >= turnEnds) {
      await sleep(0);
      turnEnds = performance.now() + TURN_MS;
    }
    const why = stopped?.()
      ? "it was interrupted"
      : now - began >= forMs * SHARE
      ? `half of its time of ${forMs / 1_000} s is over`
      : undefined;
    if (why === undefined) continue;
    const counts = next.value;
    const after = `${why} after ${counts.runs} interleavings`;
    return { counts, counterexample: null, why: after };
  }
}

/** The verdict where power failures are not looked at: an interleaving breaks something, or nothing else is wanted. */
export function verdictWithout(
  { hosts, judgedBy, writes, promises, failure }: Opening,
  found: Interleaved | undefined,
  began: number,
): Verdict {
  const { verdict, why } = failure === null
    ? conclusionOf(found)
    : { verdict: "failed", why: failure } as const;
  return {
    verdict,
    ...(why !== undefined && { why }),
    ...{ hosts, instants: 0, crashPoints: 0, continuations: 0, paths: 0, bounded: 0, covered: [] },
    again: { recoveries: 0, cut: 0, ways: 0 },
    exhaustive: false,
    ...{ judgedBy, writes, promises },
    ...(found && { interleavings: found.counts }),
    wallMs: performance.now() - began,
    perSecond: 0,
    counterexample: found?.counterexample ?? null,
  };
}

/** Whether an exploration has nothing more to look at. */
export function isAll(found: Interleaved | undefined, { cut }: ExploreOptions): boolean {
  return cut === "none" || found !== undefined && found.counterexample !== null;
}

function conclusionOf(found: Interleaved | undefined): Pick<Verdict, "verdict" | "why"> {
  if (found === undefined) {
    return { verdict: "unchecked", why: "no two programs access the same bytes of a region" };
  }
  if (found.counterexample !== null) return { verdict: "unsafe" };
  return found.why === undefined ? { verdict: "safe" } : { verdict: "partial", why: found.why };
}

/** The verdict on power failures with what interleavings have shown: safe where both are. */
export function withInterleavings(verdict: Verdict, found: Interleaved | undefined): Verdict {
  if (found === undefined) return verdict;
  const { counts: interleavings, why } = found;
  const is = verdict.verdict;
  if (why === undefined || (is !== "safe" && is !== "partial")) {
    return { ...verdict, interleavings };
  }
  const all = [verdict.why, why].filter((each) => each !== undefined).join("; ");
  return { ...verdict, verdict: "partial", why: all, exhaustive: false, interleavings };
}
