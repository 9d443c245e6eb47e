/**
 * Interleavings of programs that share regions: programs are stopped before accesses, or stores
 * kept in their cores' buffers, so that others' accesses come first. From each run the races are
 * taken (`order.ts`), and each is reversed in a run of its own: dynamic partial-order reduction,
 * bounded by the number of preemptions (CHESS: Musuvathi and Qadeer, PLDI 2007: two or three show
 * nearly all mistakes), fewest first. Any system may stop a program, so each run is one that the
 * machine can have, and a failure in one is a counterexample that `rack run --faults` repeats.
 *
 * The stop is timed. So an order that no stopping of programs makes (two messages on a cable, verbs
 * of a card later) is not tried, and a race is not reversed where the second program waits for the
 * first. Programs that wait for each other by the clock keep their order, as a stop is short
 * (`stall`).
 */
import type { TimedRecord } from "../../../fabric/audit.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { type HoldPlan, type RackPlan, withHolds } from "../../../fabric/rack/plan/plan.ts";
import { eventsMaxOf, type RackRun, runRack } from "../rerun.ts";
import { failureIn } from "../failures.ts";
import type { Counterexample, ExploredRack, ExploreOptions } from "../types.ts";
import {
  keyOf,
  orderOf,
  type Race,
  type RunOrder,
  type RunRaces,
  type StepPlace,
} from "./order.ts";

/** `from`: when the step came without it. */
export interface Held extends HoldPlan {
  readonly from: Time;
}

/** A run to be made; `holds` are the earlier ones. Plain data. */
export interface Planned {
  readonly holds: readonly Held[];
  readonly race: Race;
}

/** Plain data. */
export interface Turned {
  /** The rack's; the last one counts. */
  readonly runs: number;
  readonly holds: readonly Held[];
  /** The second step came first in it. */
  readonly isTurned: boolean;
  /** Null: the run has no end. */
  readonly found: RunRaces | null;
  readonly counterexample: Counterexample | null;
}

/** The second step may come later where the first is held: the most times that the hold is made longer. */
const LONGER_MOST = 4;

export function hasInterleavings({ nodes }: RackPlan): boolean {
  return nodes.some((node) => node.kind === "host" && (node.config.shared?.length ?? 0) > 0);
}

/** False for a step of a card for a verb. */
export function canHold(
  { kind, begin }: StepPlace,
  until: Time,
  { stall = Infinity }: Pick<ExploreOptions, "stall">,
): boolean {
  return kind !== "dma" && until - begin <= stall;
}

/**
 * Makes a run in which a race is reversed, or up to {@link LONGER_MOST} of them with longer holds.
 * @param more.recording the run without a change.
 */
export function turnRound(
  { holds, race: { first, second } }: Planned,
  { rack, options, recording }: {
    readonly rack: ExploredRack;
    readonly options: ExploreOptions;
    readonly recording: RackRun;
  },
): Turned {
  let until = second.end;
  for (let runs = 1;; runs++) {
    const all = [...holds, { ...holdOf(first, until), from: first.begin }];
    const plans = all.map(({ from: _, ...plan }) => plan);
    const held = { ...rack, plan: withHolds(rack.plan, plans) };
    const more = { eventsMax: eventsMaxOf(recording) };
    const longer = withTimeFor(all, held), run = runRack(longer, more);
    const made = { runs, holds: all };
    const withoutEnd = { ...made, isTurned: true, found: null, counterexample: null };
    if (run.isEndless) return withoutEnd;
    const order = orderOf(run.notes), { key, races } = order, found = { key, races };
    const failure = failureIn(longer, run, options);
    if (failure !== undefined) {
      // A failure that does not occur with the scenario's own end cannot be repeated by `rack run`.
      const own = longer === held ? failure : failureIn(held, runRack(held, more), options);
      if (own?.checker !== failure.checker || own.found !== failure.found) return withoutEnd;
      const counterexample = counterexampleOf(run, { order, holds: plans, failure });
      return { ...made, isTurned: true, found, counterexample };
    }
    const later = stepIn(order, second), stopped = stepIn(order, first);
    const isTurned = later === undefined || stopped === undefined || stopped.begin >= later.end;
    if (isTurned || runs >= LONGER_MOST || !canHold(first, later.end, options)) {
      return { ...made, isTurned, found, counterexample: null };
    }
    until = later.end;
  }
}

function withTimeFor(holds: readonly Held[], rack: ExploredRack): ExploredRack {
  const { until } = rack.plan;
  if (until === null) return rack;
  const held = holds.reduce((sum, hold) => sum + Math.max(0, hold.until - hold.from), 0);
  return { ...rack, plan: { ...rack.plan, until: until + held } };
}

function stepIn({ steps }: RunOrder, step: StepPlace): StepPlace | undefined {
  const key = keyOf(step);
  return steps.find((each) => keyOf(each) === key);
}

export function keyOfHold({ by, step, number }: HoldPlan): string {
  return keyOf({ by, kind: step, number });
}

function holdOf({ node, by, kind, number }: StepPlace, until: Time): HoldPlan {
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

const SHOWN = 60;

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
