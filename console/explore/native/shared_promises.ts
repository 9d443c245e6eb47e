/**
 * Promises that several hosts keep together, as a log that is done when a majority has a record. A program that prints
 * `promised/2 WHAT` says that from now on, whatever power failure of all hosts at once comes, the recoveries of at least two
 * of them print `found WHAT`.
 */
import type { WritebackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RackRun } from "../rerun.ts";
import {
  FOUND,
  malformedShared,
  type Said,
  SHARED,
  sharedIn,
  type SharedPromise,
} from "./promises.ts";

/** What a recovery has printed on memory that power failures of its host at [from, until) leave. */
export interface Outcome {
  readonly host: string;
  readonly from: Time;
  readonly until: Time;
  readonly writebacks: readonly WritebackPlan[];
  readonly lines: readonly string[];
}

/** Too few hosts have kept a promise when the power of all failed at `at`. */
export interface SharedBreach {
  readonly at: Time;
  readonly found: string;
  readonly promised: readonly Said[];
  /** Of all hosts whose memory lacks it then. */
  readonly writebacks: readonly WritebackPlan[];
}

/** Why a promise of the run cannot be judged, or undefined. @param hosts how many have a recovery. */
export function whyNotJudged(run: Pick<RackRun, "reports">, hosts: number): string | undefined {
  const malformed = malformedShared(run);
  if (malformed !== undefined) {
    const { by, node, what } = malformed;
    return `${by} of ${node} has printed "${SHARED}${what}": expected "${SHARED}COUNT WHAT"`;
  }
  const most = sharedIn(run).find(({ count }) => count > hosts);
  if (most === undefined) return undefined;
  const { by, node, count, what } = most;
  return `${by} of ${node} has promised "${what}" by ${count} hosts, of which ${hosts} have a recovery`;
}

/** Why a run does not keep a promise: which hosts lack it. */
export function lackingText(
  { by, node, count, what }: SharedPromise,
  { hosts, lacking }: { readonly hosts: number; readonly lacking: readonly string[] },
): string {
  return `${by} of ${node} has promised "${what}" by ${count} of ${hosts} hosts, ` +
    `which the recoveries of ${lacking.join(", ")} do not find`;
}

/** Takes the outcomes of all hosts' images, in any order. */
export class SharedPromises {
  readonly #hosts: number;
  readonly #lacking: ReadonlyMap<SharedPromise, Outcome[]>;

  /** @param hosts how many have a recovery. */
  constructor(shared: readonly SharedPromise[], hosts: number) {
    this.#hosts = hosts;
    this.#lacking = new Map(shared.map((each) => [each, []]));
  }

  /** The first promise that too few hosts keep, by this outcome and those before it. */
  add(outcome: Outcome): SharedBreach | undefined {
    for (const [promise, lacking] of this.#lacking) {
      const from = Math.max(outcome.from, promise.time + 1);
      if (from >= outcome.until || outcome.lines.includes(`${FOUND}${promise.what}`)) continue;
      lacking.push({ ...outcome, from });
      const breach = this.#breachOf(promise, { ...outcome, from });
      if (breach !== undefined) return breach;
    }
    return undefined;
  }

  /** Hosts that lack it at one instant of the newest outcome's span: its begin, or that of another's. */
  #breachOf(promise: SharedPromise, { from, until }: Outcome): SharedBreach | undefined {
    const outcomes = this.#lacking.get(promise)!;
    const begins = outcomes.map((each) => Math.max(from, each.from)).filter((at) => at < until);
    for (const at of new Set(begins)) {
      const there = new Map(
        outcomes.filter((each) => each.from <= at && at < each.until).map((
          each,
        ) => [each.host, each]),
      );
      if (this.#hosts - there.size >= promise.count) continue;
      const lacking = [...there.keys()].sort();
      const writebacks = [...there.values()].flatMap((each) => each.writebacks)
        .sort((x, y) => x.at - y.at || x.from - y.from);
      const found = lackingText(promise, { hosts: this.#hosts, lacking });
      return { at, found, promised: [promise], writebacks };
    }
    return undefined;
  }
}
