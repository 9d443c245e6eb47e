/**
 * The list of actions follows from the seed; where exactly an action hits depends on the machine.
 */
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import { IMPAIRMENTS, type LinkFaultRequest } from "../../fabric/rack/plan/link_plan.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { PartitionPlan } from "../../fabric/rack/assembly/topology.ts";
import type { Rng } from "../../fabric/base/rng.ts";
import { formatTime, PS_PER_US, type Time } from "../../fabric/base/time.ts";

/** Besides partitions, which have other names. */
export const TIMEKEEPER = "timekeeper", BROKER = "nats";

export type ChaosAction =
  & {
    readonly at: Time;
  }
  & (
    /** `kill -9`; power returns after so long, or, with null, when the round is healed. */
    | { readonly kind: "kill"; readonly process: string; readonly backMs: number | null }
    | { readonly kind: "pause"; readonly process: string; readonly forMs: number }
    | { readonly kind: "link"; readonly request: LinkFaultRequest }
  );

export interface RunTimes {
  /** Programs are at work from here on, and the last is done at `length`. */
  readonly from: Time;
  readonly length: Time;
  /**
   * From the first write, or access to a shared region, to the last confirmation; all of the above
   * where no program notes one.
   */
  readonly busy: Interval;
}

export interface Interval {
  readonly from: Time;
  readonly to: Time;
}

export interface Target extends RunTimes {
  readonly plan: RackPlan;
  readonly partitions: readonly Pick<PartitionPlan, "name" | "nodes">[];
  /** Processes of other machines get no signals: only what the bus carries is done. */
  readonly isByBus?: boolean;
}

const ACTIONS_MAX = 6;
/** Longest absence of a process: a round takes seconds, and processes wait 10 s for the bus. */
const BACK_MS = 150, PAUSE_MS = 300;
const SHARE_OF_RUN = 0.5;

export function pick<T>(rng: Rng, from: readonly T[]): T {
  return from[rng.below(from.length)]!;
}

/**
 * One to {@link ACTIONS_MAX} actions by time: half of them while data is on its way, a quarter
 * while programs are at work, the others while they connect, or machines boot. One of three is at
 * the time of another: a message to a killed broker is lost only if its sender is killed, too.
 */
export function drawActions(rng: Rng, target: Target): ChaosAction[] {
  const { from, length, busy } = target;
  const at = { from, to: length };
  const intervals = [busy, busy, at, { from: from / 2, to: length }] as const;
  const count = 1 + rng.below(ACTIONS_MAX);
  const times: Time[] = [];
  for (let i = 0; i < count; i++) {
    const within = pick(rng, intervals);
    const own = Math.round(within.from + (within.to - within.from) * rng.unit());
    times.push(rng.below(3) === 0 ? times.at(-1) ?? own : own);
  }
  return times.sort((x, y) => x - y).flatMap((at) => {
    const action = drawAction(rng, at, target);
    return [action, ...drawOtherHalf(rng, action, target)];
  });
}

/**
 * One of three kills of a host or of its card is one of both, whose power returns in any order and
 * at any distance.
 */
function drawOtherHalf(rng: Rng, action: ChaosAction, { partitions }: Target): ChaosAction[] {
  if (action.kind !== "kill") return [];
  const { process } = action;
  const other = partitions.find(({ name }) =>
    hostOfRnic(name) === process || name === hostOfRnic(process)
  );
  if (other === undefined || rng.below(3) > 0) return [];
  return [{ ...action, process: other.name, backMs: rng.below(BACK_MS) }];
}

const KINDS = [
  "kill",
  "kill",
  "kill",
  "infrastructure",
  "pause",
  "pause",
  "link",
  "link",
  "link",
] as const;
const KINDS_BY_BUS = ["kill", "link"] as const;

function drawAction(rng: Rng, at: Time, target: Target): ChaosAction {
  const kind = pick<typeof KINDS[number]>(rng, target.isByBus ? KINDS_BY_BUS : KINDS);
  const names = target.partitions.map(({ name }) => name);
  const forMs = 1 + rng.below(PAUSE_MS);
  // One in three stays without power until the round is healed.
  const backMs = rng.below(3) === 0 ? null : rng.below(BACK_MS);
  if (kind === "kill") return { at, kind, process: pick(rng, names), backMs };
  if (kind === "pause") {
    return { at, kind, process: pick(rng, [...names, ...INFRASTRUCTURE]), forMs };
  }
  if (kind === "link") return { at, kind, request: drawFault(rng, target) };
  // The timekeeper comes back at once, by itself.
  const process = pick(rng, INFRASTRUCTURE);
  return { at, kind: "kill", process, backMs: process === BROKER ? rng.below(BACK_MS) : 0 };
}

const INFRASTRUCTURE = [TIMEKEEPER, BROKER] as const;

/** A slow cable breaks nothing that a late frame does not. */
const DRAWN = IMPAIRMENTS.filter((action) => action !== "rate");

function drawFault(rng: Rng, { plan, from, length }: Target): LinkFaultRequest {
  const cables = plan.cables.flatMap(({ kind }, cable) => kind === "network" ? [cable] : []);
  const cable = pick(rng, cables);
  const direction = pick(rng, ["a", "b", "both", "both"] as const);
  const action = pick(rng, [...DRAWN, "cut", "cut"] as const);
  const forPs = Math.max(1, Math.round((length - from) * SHARE_OF_RUN * rng.unit()));
  const share = pick(rng, [0.01, 0.05, 0.2, 1]);
  const where = { action, cable, direction } as const;
  switch (action) {
    case "cut":
      return where;
    case "delay":
      return { ...where, forPs, delayPs: (1 + rng.below(20)) * PS_PER_US, jitterPs: PS_PER_US };
    case "reorder":
      return {
        ...where,
        forPs,
        share: Math.min(share, 0.2),
        overtakenBy: 1 + rng.below(4),
        holdPs: 20 * PS_PER_US,
      };
    case "duplicate":
      return { ...where, forPs, share };
    case "loss":
    case "corrupt":
      // A share of 1 is a cut that no device detects.
      return { ...where, forPs, share };
  }
}

/** `at 1 us kill b`, `at 1 us pause tor for 120 ms`. */
export function actionText(action: ChaosAction, plan: RackPlan): string {
  const at = `at ${formatTime(action.at)}`;
  switch (action.kind) {
    case "kill":
      return `${at} kill ${action.process}${
        action.backMs === null ? "" : `, back after ${action.backMs} ms`
      }`;
    case "pause":
      return `${at} pause ${action.process} for ${action.forMs} ms`;
    case "link": {
      const { request } = action;
      const until = request.forPs === undefined ? "" : ` for ${formatTime(request.forPs)}`;
      return `${at} ${request.action} ${targetName(plan, request)}${until}`;
    }
  }
}
