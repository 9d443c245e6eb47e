/**
 * Runs of one number of preemptions depend only on those with fewer, so several processes make
 * them; results are taken in the order of the plan, and a verdict is the same for any number of
 * processes.
 */
import { countOf } from "../../checks/finding.ts";
import type { Counterexample, ExploreOptions, Interleavings } from "../types.ts";
import { canHold, type Held, keyOfHold, type Planned, type Turned } from "./interleavings.ts";
import { inOrderOf } from "../steps/lanes.ts";
import { keyOf, type RunRaces } from "./order.ts";

export interface Interleaved {
  readonly counts: Interleavings;
  readonly counterexample: Counterexample | null;
  /** Absent: all up to the bound were tried. */
  readonly why?: string;
}

/** A lane, from 0 on, makes one run at a time. */
export interface Turning {
  /** By lane: resolves when it can make runs; rejects where it cannot, and the others make all. */
  readonly ready: readonly Promise<unknown>[];
  turn(planned: Planned, lane: number): Promise<Turned>;
}

/** `share`: of the runs that are known to come, in [0, 1]. */
export interface SearchProgress {
  readonly runs: number;
  readonly share: number;
}

/**
 * Searches from a run without a change.
 * @param options.stopped and `forMs`: where either ends the search, runs that are under way are not waited for.
 * @returns undefined where no two programs access the same bytes.
 * @throws what a run throws.
 */
export async function interleave(
  begun: RunRaces,
  options: ExploreOptions,
  { turning, onProgress }: {
    readonly turning: Turning;
    readonly onProgress: (progress: SearchProgress) => void;
  },
): Promise<Interleaved | undefined> {
  if (begun.races.length === 0) return undefined;
  const { preemptions: bound = 0, interleavings: most = Infinity } = options;
  const whyStop = stopper(options);
  const search = new Search(options);
  let level = search.planned(begun, []), share = 0;
  search.see(begun);
  for (let preemptions = 1; level.length > 0; preemptions++) {
    if (preemptions > bound) {
      search.untried += level.length;
      break;
    }
    const next: Planned[] = [];
    let taken = 0;
    const left = (why: string): Interleaved => {
      search.untried += level.length - taken + next.length;
      return { counts: search.counts, counterexample: null, why };
    };
    if (search.runs >= most) return left(whyMost(preemptions, most));
    for await (const turned of inOrderOf(level, { ready: turning.ready, run: turning.turn })) {
      const why = whyStop(search.runs);
      if (why !== undefined) return left(why);
      if (turned === undefined) continue;
      taken++;
      const { counterexample } = search.take(turned);
      if (counterexample !== null) return { counts: search.counts, counterexample };
      if (turned.found !== null && search.see(turned.found)) {
        next.push(...search.planned(turned.found, turned.holds));
      }
      const { runs } = search;
      const known = level.length - taken + (preemptions < bound ? next.length : 0);
      // More become known on the way, and no bar goes backwards.
      share = Math.max(share, runs / Math.max(runs, Math.min(runs + known, most)));
      onProgress({ runs, share });
      if (taken < level.length && runs >= most) return left(whyMost(preemptions, most));
    }
    level = next;
  }
  const { endless } = search;
  const why = endless > 0
    ? `${countOf(endless, "interleaving has", "interleavings have")} no end`
    : undefined;
  return { counts: search.counts, counterexample: null, ...(why !== undefined && { why }) };
}

const SHARE = 1 / 2;

function stopper({ stopped, forMs = Infinity }: ExploreOptions) {
  const began = performance.now();
  return (runs: number): string | undefined => {
    const why = stopped?.()
      ? "it was interrupted"
      : performance.now() - began >= forMs * SHARE
      ? `half of its time of ${forMs / 1_000} s is over`
      : undefined;
    return why && `${why} after ${runs} interleavings`;
  };
}

function whyMost(preemptions: number, most: number): string {
  const more = `more interleavings with ${countOf(preemptions, "preemption")}`;
  return `${more} than were tried (--interleavings ${most})`;
}

class Search {
  runs = 0;
  untried = 0;
  endless = 0;
  readonly #options: ExploreOptions;
  readonly #orders = new Set<string>();
  readonly #asked = new Set<string>();

  constructor(options: ExploreOptions) {
    this.#options = options;
  }

  get counts(): Interleavings {
    const { runs, untried } = this;
    const { preemptions = 0, stall: stallPs } = this.#options;
    const limits = { preemptions, ...(stallPs !== undefined && { stallPs }) };
    return { runs, orders: this.#orders.size, ...limits, untried };
  }

  see({ key }: RunRaces): boolean {
    if (this.#orders.has(key)) return false;
    this.#orders.add(key);
    return true;
  }

  take(turned: Turned): Turned {
    this.runs += turned.runs;
    if (turned.found === null) this.endless++;
    if (!turned.isTurned) this.untried++;
    return turned;
  }

  planned({ races }: RunRaces, holds: readonly Held[]): Planned[] {
    return races.flatMap((race): Planned[] => {
      const kept = holds.filter((hold) =>
        hold.from < race.first.begin && keyOfHold(hold) !== keyOf(race.first)
      );
      const asked = [
        ...kept.map((hold) => `${keyOfHold(hold)} ${hold.until}`),
        keyOf(race.first),
        keyOf(race.second),
      ].join("; ");
      if (this.#asked.has(asked)) return [];
      this.#asked.add(asked);
      if (!canHold(race.first, race.second.end, this.#options)) {
        this.untried++;
        return [];
      }
      return [{ holds: kept, race }];
    });
  }
}
