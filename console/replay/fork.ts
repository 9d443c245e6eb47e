/**
 * A run up to an instant at which the power of a host is cut instead. Nothing of the run, nor of a
 * rack that is up, is touched.
 */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { refuseNative } from "../rack/native/native.ts";
import { sourceOf } from "./source.ts";
import type { ReplayTarget } from "./source.ts";
import { explorePrepared } from "../explore/explore_scenario.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploreOptions,
  type ExploreProgress,
  type Verdict,
} from "../explore/types.ts";

export interface ForkedCut {
  readonly host: string;
  readonly at: Time;
}

export interface ForkedVerdict {
  readonly scenario: string;
  readonly seed: number;
  readonly run: string;
  readonly variant: string;
  readonly verdict: Verdict;
}

export function cutOptions(
  { host, at }: ForkedCut,
  { claims }: { readonly claims: boolean },
): ExploreOptions {
  return { ...EXPLORE_DEFAULTS, cut: { host }, from: at, until: at + 1, claims };
}

/**
 * Cuts the power of a host at one instant of a run, with everything that caches may have written
 * back by then.
 * @throws Refusal for a run, host or instant that is not there, and for a run that cannot be
 * replayed exactly.
 */
export async function exploreRunAt(
  target: ReplayTarget,
  { host, at }: ForkedCut,
  { claims = false, stopped, onProgress = () => {} }: {
    readonly claims?: boolean;
    readonly stopped?: () => boolean;
    readonly onProgress?: (progress: ExploreProgress) => void;
  } = {},
): Promise<ForkedVerdict> {
  const { plan, orders, runFile, run, variant, until } = await sourceOf(target);
  refuseNative(plan);
  const hosts = plan.nodes.flatMap(({ kind, name }) => kind === "host" ? [name] : []);
  if (!hosts.includes(host)) {
    throw refusal("host", { found: `"${host}"`, expected: oneOf(hosts, host) });
  }
  if (until !== null && at > until) {
    const expected = `an instant up to ${formatTime(until)}, as far as the run has come`;
    throw refusal("atPs", { found: formatTime(at), expected });
  }
  const { inputs, programs } = runFile;
  const verdict = await explorePrepared({ plan, inputs, programs, orders }, {
    ...cutOptions({ host, at }, { claims }),
    ...(stopped && { stopped }),
  }, onProgress);
  return { scenario: plan.scenario, seed: plan.seed, run, variant, verdict };
}
