/**
 * A run in which one thing goes otherwise than in the plain one: a core or card stands still for a while, as where a
 * system preempts a thread, a cache misses or a DMA engine is held up, or a frame is lost, late or overtaken. It is a
 * run that the machine can have, so what a power failure breaks in it is a mistake of the protocol.
 */
import { hashBytes, PRIME1, PRIME4 } from "../../../fabric/base/hash.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { failureIn } from "../failures.ts";
import type { RackRun } from "../rerun.ts";
import { type Exploration, openExploration } from "../steps/exploration.ts";
import { isLast, type StepFound, StepJudge } from "../steps/judge_steps.ts";
import type { Counterexample, ExploredRack, ExploreOptions } from "../types.ts";
import type { Disturbance } from "./disturbances.ts";

/** Plain data. */
export interface Disturbed {
  /** Equal for runs in which everything that counts comes in the same order. */
  readonly key: string;
  /** Null where an earlier run has been judged that has this key. */
  readonly judged: Judged | null;
}

interface Judged {
  readonly instants: number;
  readonly crashPoints: number;
  readonly bounded: number;
  readonly isCutOff: boolean;
  readonly endless: string | null;
  readonly unknown: string | null;
  readonly counterexample: Counterexample | null;
}

/** Makes runs with a disturbance each, and judges those whose order none before has had. */
export class DisturbedJudge {
  readonly #exploration: Exploration;
  readonly #known: Set<string>;

  constructor(exploration: Exploration) {
    this.#exploration = exploration;
    this.#known = new Set([keyOf(exploration.recording)]);
  }

  /** @throws Error where a run fails in the explorer itself. */
  judge(disturbance: Disturbance): Disturbed {
    const { rack, options } = this.#exploration;
    const { stalls: _, frames: _frames, preemptions: _preemptions, ...others } = options;
    const disturbed = { ...rack, plan: withDisturbance(rack.plan, disturbance, options) };
    const window = windowOf(disturbance);
    const { exploration, opening } = openExploration(disturbed, { ...others, ...window });
    const key = keyOf(exploration.recording);
    if (this.#known.has(key)) return { key, judged: null };
    this.#known.add(key);
    const counts = { instants: 0, crashPoints: 0, bounded: 0 };
    const found = (more: Partial<Judged>): Disturbed => {
      const nothing = { endless: null, unknown: null, counterexample: null };
      return { key, judged: { ...counts, isCutOff: opening.isCutOff, ...nothing, ...more } };
    };
    if (opening.failure !== null) {
      return found({
        counterexample: failedWith(disturbed, exploration, { disturbance, options }),
      });
    }
    const firstTurns = options.inOrder ? exploration.sweeps.length : exploration.sweeps.length / 2;
    const judge = new StepJudge(exploration);
    for (const [sweep, { instants }] of opening.sweeps.slice(0, firstTurns).entries()) {
      for (let step = 0; step < instants; step++) {
        const each = foundAt(judge, sweep, step);
        counts.instants += each.instants;
        counts.crashPoints += each.crashPoints;
        counts.bounded += each.bounded;
        const { counterexample, unknown, failed, endless } = each;
        if (failed !== null) throw new Error(failed.message);
        if (endless !== null) return found({ endless });
        if (!isLast(each)) continue;
        return found({
          unknown,
          counterexample: counterexample && { ...counterexample, ...causeOf(disturbance) },
        });
      }
    }
    return found({});
  }
}

/** Of a stall's length: what it delays may take as long again until all is told. */
const WINDOW = 2;

/** A frame that is lost comes again after a time-out. */
function windowOf({ at, stall }: Disturbance): Pick<ExploreOptions, "from" | "until"> {
  return { from: at, ...(stall && { until: at + WINDOW * stall.ps }) };
}

/** A run's end by the scenario comes as much later. */
function withDisturbance(
  plan: RackPlan,
  { stall, frame }: Disturbance,
  { stall: ps = 0 }: ExploreOptions,
): RackPlan {
  const { until, linkFaults = [] } = plan;
  return {
    ...plan,
    ...(stall && { stalls: [stall] }),
    ...(frame && { linkFaults: [...linkFaults, frame] }),
    until: until === null ? null : until + ps,
  };
}

function causeOf(
  { stall, frame }: Disturbance,
): Pick<Counterexample, "stalls" | "linkFaults"> {
  return { ...(stall && { stalls: [stall] }), ...(frame && { linkFaults: [frame] }) };
}

function foundAt(judge: StepJudge, sweep: number, step: number): StepFound {
  const judging = judge.judge({ sweep, step, spent: 0 });
  for (;;) {
    const next = judging.next();
    if (next.done === true) return next.value;
  }
}

function failedWith(
  rack: ExploredRack,
  { recording }: Exploration,
  { disturbance, options }: {
    readonly disturbance: Disturbance;
    readonly options: ExploreOptions;
  },
): Counterexample {
  const failure = failureIn(rack, recording, options)!;
  return {
    hosts: [],
    atPs: disturbance.at,
    writebacks: [],
    faults: rack.plan.faults,
    isReplayable: true,
    places: [],
    promised: [],
    ...failure,
    ...causeOf(disturbance),
    ladder: "",
    operation: null,
  };
}

/**
 * The order of what decides: changes of each host's SCM, what programs note and report, and frames of cards. Instants
 * are not in it, as no power failure falls between two that are equal.
 */
function keyOf({ notes, reports, histories, sendings }: RackRun): string {
  const all: { readonly at: Time; readonly what: string }[] = [];
  for (const { time, node, by, note } of notes) {
    const id = "id" in note ? note.id : "";
    all.push({ at: time, what: `${node} ${by} ${note.kind} ${id}` });
  }
  for (const { time, node, topic } of reports) all.push({ at: time, what: `${node} ${topic}` });
  for (const [host, { entries }] of histories) {
    for (const entry of entries) {
      const place = entry.kind === "durable" ? entry.offset : "line" in entry ? entry.line : "";
      all.push({ at: entry.at, what: `${host} ${entry.kind} ${place}` });
    }
  }
  for (const [rnic, { frames }] of sendings) {
    for (const at of frames) all.push({ at, what: `${rnic} frame` });
  }
  const order = all.sort((x, y) => x.at - y.at).map(({ what }) => what).join("\n");
  const bytes = new TextEncoder().encode(order);
  return [PRIME1, PRIME4].map((seed) => (hashBytes(bytes, seed) >>> 0).toString(16)).join("-");
}
