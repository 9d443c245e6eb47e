/**
 * The verdict of an exploration with interleavings: they come first, as they take no power failure.
 */
import type { Opening } from "../steps/exploration.ts";
import { type Steps, verdictOf } from "../steps/verdict.ts";
import type { ExploreOptions, ExploreProgress, Verdict } from "../types.ts";
import { disturb, type Disturbing, type FoundDisturbed } from "../disturbed/search.ts";
import { interleave, type Interleaved, type Turning } from "./search.ts";

const SHARE = 1 / 2;

/**
 * Asks for interleavings, where they are wanted, for power failures, and then for power failures in disturbed runs.
 * @param more.steps begins the steps of power failures, where these are looked at.
 * @param more.began when the exploration did, by `performance.now()`.
 */
export async function verdictOfAll(
  opening: Opening,
  { turning, disturbing, steps, options, began, onProgress }: {
    readonly turning: Turning;
    readonly disturbing: Disturbing;
    readonly steps: () => Steps;
    readonly options: ExploreOptions;
    readonly began: number;
    readonly onProgress: (progress: ExploreProgress) => void;
  },
): Promise<Verdict> {
  const { races } = opening, isAlone = options.cut === "none";
  const part = races === null ? 0 : isAlone ? 1 : SHARE;
  const interleaved = races === null ? undefined : await interleave(races, options, {
    turning,
    onProgress: ({ runs, share }) => onProgress({ share: part * share, crashPoints: 0, runs }),
  });
  if (isAlone || interleaved !== undefined && interleaved.counterexample !== null) {
    return verdictWithout(opening, interleaved, began);
  }
  const runs = interleaved?.counts.runs;
  const kinds = (["stalls", "frames"] as const).flatMap((kind) =>
    opening[kind] === null ? [] : [{ kind, disturbances: opening[kind] }]
  );
  const each = (1 - part) / (1 + kinds.length);
  const tell = (share: number, crashPoints: number) =>
    onProgress({ share, crashPoints, ...(runs !== undefined && { runs }) });
  let verdict = withInterleavings(
    await verdictOf(opening, {
      steps: steps(),
      options,
      began,
      onProgress: ({ share, crashPoints }) => tell(part + each * share, crashPoints),
    }),
    interleaved,
  );
  for (const [i, { kind, disturbances }] of kinds.entries()) {
    // Behind one that decides, or that was ended, no run is made.
    if (verdict.verdict !== "safe") return verdict;
    const { crashPoints: before } = verdict;
    const found = await disturb(disturbances, options, {
      disturbing,
      began,
      onProgress: ({ share, crashPoints }) =>
        tell(part + each * (1 + i + share), before + crashPoints),
    });
    verdict = { ...withDisturbed(verdict, kind, found), wallMs: performance.now() - began };
  }
  return verdict;
}

function withDisturbed(
  verdict: Verdict,
  kind: "stalls" | "frames",
  { counts, counterexample, why }: FoundDisturbed,
): Verdict {
  const all = { ...verdict, [kind]: counts };
  if (counterexample !== null) {
    return { ...all, verdict: "unsafe", exhaustive: false, counterexample };
  }
  return why === undefined ? all : { ...all, verdict: "partial", why, exhaustive: false };
}

function verdictWithout(
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
