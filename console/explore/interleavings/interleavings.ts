/**
 * Interleavings of programs that share regions: runs of the rack in which programs are stopped before accesses, or
 * stores kept in their cores' buffers, so that others' accesses come first. From each run the races are taken
 * (`order.ts`), and each is turned round in a run of its own: dynamic partial-order reduction, bounded by the number of
 * preemptions (CHESS: Musuvathi and Qadeer, PLDI 2007: two or three show nearly all mistakes), fewest first. A
 * program that is stopped is what any system does, so each run is one that the machine can have, and a failure in
 * one is a counterexample that `rack run --faults` repeats.
 */
import type { TimedRecord } from "../../../fabric/audit.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { type HoldPlan, type RackPlan, withHolds } from "../../../fabric/rack/plan/plan.ts";
import { eventsMaxOf, type RackRun, runRack } from "../rerun.ts";
import { failureIn } from "../steps/exploration.ts";
import type { Counterexample, ExploredRack, ExploreOptions, Interleavings } from "../types.ts";
import { keyOf, orderOf, type Race, type RunOrder, type Step } from "./order.ts";

/** What a search has found. */
export interface Interleaved {
  readonly counts: Interleavings;
  readonly counterexample: Counterexample | null;
  /** Why not all up to the bound were tried; absent: they were. */
  readonly why?: string;
}

/** A hold, and when it begins: when the step came without it. */
interface Held extends HoldPlan {
  readonly from: Time;
}

/** A run that is to be made: the holds before, and the race that it turns round. */
interface Planned {
  readonly holds: readonly Held[];
  readonly race: Race;
}

/** The second step may come later where the first is held: the hold is made longer so often. */
const LONGER_MOST = 4;

/** Whether there are interleavings to vary. */
export function hasInterleavings({ nodes }: RackPlan): boolean {
  return nodes.some((node) => node.kind === "host" && (node.config.shared?.length ?? 0) > 0);
}

/**
 * Varies the interleavings of a rack whose run without a change does not fail.
 * @returns undefined where that fails, or no two programs access the same bytes.
 */
export function* interleave(
  rack: ExploredRack,
  options: ExploreOptions,
): Generator<Interleavings, Interleaved | undefined> {
  const first = runRack(rack);
  if (failureIn(rack, first, options) !== undefined) return undefined;
  const begun = orderOf(first.notes);
  if (begun.races.length === 0) return undefined;
  const { preemptions: bound = 0, interleavings: most = Infinity } = options;
  const search = new Search(rack, options, first);
  let level = search.planned(begun, []);
  search.see(begun);
  for (let preemptions = 1; level.length > 0; preemptions++) {
    if (preemptions > bound) {
      search.untried += level.length;
      break;
    }
    const next: Planned[] = [];
    for (const [i, planned] of level.entries()) {
      if (search.runs >= most) {
        search.untried += level.length - i + next.length;
        const why =
          `more interleavings with ${preemptions} preemption${preemptions > 1 ? "s" : ""} ` +
          `than were tried (--interleavings ${most})`;
        return { counts: search.counts, counterexample: null, why };
      }
      yield search.counts;
      const found = search.run(planned);
      if (found.counterexample !== undefined) {
        return { counts: search.counts, counterexample: found.counterexample };
      }
      if (found.order !== undefined && search.see(found.order)) {
        next.push(...search.planned(found.order, found.holds));
      }
    }
    level = next;
  }
  const { endless } = search;
  return {
    counts: search.counts,
    counterexample: null,
    ...(endless > 0 && { why: `${endless} interleavings have no end` }),
  };
}

class Search {
  runs = 0;
  untried = 0;
  endless = 0;
  readonly #rack: ExploredRack;
  readonly #options: ExploreOptions;
  readonly #first: RackRun;
  readonly #orders = new Set<string>();
  readonly #asked = new Set<string>();

  constructor(rack: ExploredRack, options: ExploreOptions, first: RackRun) {
    this.#rack = rack;
    this.#options = options;
    this.#first = first;
  }

  get counts(): Interleavings {
    const { runs, untried } = this;
    const { preemptions = 0, stall: stallPs } = this.#options;
    const limits = { preemptions, ...(stallPs !== undefined && { stallPs }) };
    return { runs, orders: this.#orders.size, ...limits, untried };
  }

  /** @returns whether no run before ordered its accesses alike. */
  see({ key }: RunOrder): boolean {
    if (this.#orders.has(key)) return false;
    this.#orders.add(key);
    return true;
  }

  /** Its races, each to be turned round: with the holds before them, as those behind change nothing by then. */
  planned({ races }: RunOrder, holds: readonly Held[]): Planned[] {
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
      // What a card does for verbs cannot be held.
      if (race.first.kind === "dma" || this.#isTooLong(race.first, race.second.end)) {
        this.untried++;
        return [];
      }
      return [{ holds: kept, race }];
    });
  }

  #isTooLong({ begin }: Step, until: Time): boolean {
    return until - begin > (this.#options.stall ?? Infinity);
  }

  run({ holds, race: { first, second } }: Planned): {
    readonly holds: readonly Held[];
    readonly order?: RunOrder;
    readonly counterexample?: Counterexample;
  } {
    let until = second.end;
    for (let tries = 1;; tries++) {
      const all = [...holds, { ...holdOf(first, until), from: first.begin }];
      const plans = all.map(({ from: _, ...plan }) => plan);
      const rack = { ...this.#rack, plan: withHolds(this.#rack.plan, plans) };
      const run = runRack(rack, { eventsMax: eventsMaxOf(this.#first) });
      this.runs++;
      if (run.isEndless) {
        this.endless++;
        return { holds: all };
      }
      const order = orderOf(run.notes);
      const failure = failureIn(rack, run, this.#options);
      if (failure !== undefined) {
        return {
          holds: all,
          counterexample: counterexampleOf(run, { order, holds: plans, failure }),
        };
      }
      const later = stepIn(order, second), held = stepIn(order, first);
      const isTurned = later === undefined || held === undefined || held.begin >= later.end;
      if (isTurned || tries >= LONGER_MOST || this.#isTooLong(first, later.end)) {
        if (!isTurned) this.untried++;
        return { holds: all, order };
      }
      until = later.end;
    }
  }
}

function stepIn({ steps }: RunOrder, step: Step): Step | undefined {
  const key = keyOf(step);
  return steps.find((each) => keyOf(each) === key);
}

function keyOfHold({ by, step, number }: HoldPlan): string {
  return keyOf({ by, kind: step, number });
}

function holdOf({ node, by, kind, number }: Step, until: Time): HoldPlan {
  return { node, by, step: kind === "store" ? "store" : "access", number, until };
}

function counterexampleOf(
  run: RackRun,
  { order, holds, failure }: {
    readonly order: RunOrder;
    readonly holds: readonly HoldPlan[];
    readonly failure: { readonly checker: string; readonly found: string };
  },
): Counterexample {
  return {
    hosts: [],
    atPs: Math.max(...holds.map(({ until }) => until)),
    writebacks: [],
    faults: run.plan.faults,
    isReplayable: true,
    places: [],
    promised: [],
    ...failure,
    holds,
    ladder: accessesText(run.notes, order),
    operation: null,
  };
}

/** Most accesses that are shown. */
const SHOWN = 60;

/** The accesses of a run in the order in which they took effect, one on a line. */
function accessesText(notes: readonly TimedRecord[], { steps }: RunOrder): string {
  const found = new Map<string, string>();
  for (const { by, note } of notes) {
    if (note.kind === "accessed") found.set(`${by} ${note.id}`, note.bytes?.toHex() ?? "");
  }
  const width = Math.max(0, ...steps.map(({ by }) => by.length));
  const lines = steps.map(({ by, kind, note, end }) => {
    const what = kind === "store" ? "store, from its buffer," : note.op;
    const old = found.get(`${by} ${note.id}`);
    const bytes = [
      ...(note.bytes === undefined ? [] : [`of ${note.bytes.toHex()}`]),
      ...(old ? [`finds ${old}`] : []),
    ].join(", ");
    const place = `${note.length} B at 0x${note.offset.toString(16)} of ${note.region}`;
    return `${formatTime(end).padStart(14)}  ${by.padEnd(width)}  ${what} ${place} ${bytes}`;
  });
  const left = lines.length - SHOWN;
  return [...(left > 0 ? [`… ${left} before`] : []), ...lines.slice(-SHOWN)].join("\n");
}
