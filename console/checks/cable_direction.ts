import type { FrameSeen } from "../../fabric/capture/observation.ts";
import { lookaheadPs } from "../../fabric/rack/plan/lookahead.ts";
import { directionName } from "../../fabric/rack/plan/cable_names.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { CablePlan, Endpoint, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";
import { type Lives, unscriptedDeaths } from "./lives.ts";

interface OnItsWay {
  readonly bytes: Uint8Array;
  readonly sentAt: Time;
  readonly endPs: Time;
  received: number;
  /** This frame, or an equal one that was sent before, has arrived: the other one may be lost. */
  isDoubtful: boolean;
}

export interface Direction {
  readonly name: string;
  readonly cable: CablePlan;
  readonly from: Endpoint;
  readonly to: Endpoint;
  readonly loses: boolean;
  /**
   * Ends of the receiver's lives outside the plan: frames received later count as received then,
   * before they were sent (`fabric/capture`, `countedOf`).
   */
  readonly lastInstants: readonly Time[];
  /** A fault takes frames that are being sent then. */
  readonly lossy: readonly Interval[];
  readonly lateMaxPs: Time;
  longestPs: Time;
  /** The cable is cut, or an end has no power: frames under way may be lost. */
  readonly dark: readonly Interval[];
  /** `reorders` to `copies`: effects of this cable's faults on a frame at any time. */
  readonly reorders: boolean;
  readonly corrupts: number;
  /** Damage may come with a new ICRC over it (V-08). */
  readonly seals: boolean;
  readonly copies: number;
  onItsWay: OnItsWay[];
}

interface Interval {
  readonly from: Time;
  readonly to: Time;
}

/** Takes a frame that the near end sends. */
export function send(direction: Direction, { frame, time, startPs, endPs }: FrameSeen): void {
  direction.longestPs = Math.max(direction.longestPs, endPs - startPs);
  direction.onItsWay.push({ bytes: frame, sentAt: time, endPs, received: 0, isDoubtful: false });
}

/** Takes a frame that the far end receives; returns its errors. */
export function receive(direction: Direction, { frame, time }: FrameSeen): string[] {
  const { onItsWay } = direction;
  let place = onItsWay.findIndex((each) => isSame(each.bytes, frame));
  if (place >= 0 && onItsWay[place]!.received > 0) place = laterAlike(direction, place, time);
  if (place < 0 && direction.corrupts > 0) place = damagedPlace(direction, frame);
  const found = onItsWay[place];
  const isUndated = direction.lastInstants.includes(time);
  if (found === undefined) {
    return isUndated ? [] : ["receives a frame that was not sent, or once too often"];
  }
  const wrong: string[] = [];
  if (time < found.sentAt + direction.cable.latencyPs && !isUndated) {
    wrong.push("receives a frame sooner than it can be there");
  }
  const isLost = (each: OnItsWay) => each.received === 0 && mayBeLost(direction, each);
  const passed = direction.reorders ? [] : onItsWay.slice(0, place);
  if (passed.some((each) => each.received === 0 && !isLost(each))) {
    wrong.push("receives a frame before an earlier one");
  }
  if (isLost(found)) doubtNext(direction, { place, time });
  found.received++;
  if (found.received >= direction.copies) onItsWay.splice(place, 1);
  // Earlier frames that may be lost can no longer arrive.
  onItsWay.splice(0, passed.length, ...passed.filter((each) => !isLost(each)));
  // A duplicate arrives soon or not at all.
  if (direction.copies > 1) direction.onItsWay = withoutOld(onItsWay);
  return wrong;
}

/**
 * An equal frame that arrives at `time` is a duplicate of the one at `place` or a later frame:
 * without IPv4's identification RoCEv1 sends the very bytes again. It is the later one if that can
 * have arrived, and passes no other on the way.
 */
function laterAlike(direction: Direction, place: number, time: Time): number {
  const { onItsWay, cable, reorders } = direction;
  const { bytes } = onItsWay[place]!;
  for (let i = place + 1; i < onItsWay.length; i++) {
    const each = onItsWay[i]!;
    if (each.received > 0) continue;
    if (isSame(each.bytes, bytes)) return time < each.sentAt + cable.latencyPs ? place : i;
    if (!reorders && !mayBeLost(direction, each)) return place;
  }
  return place;
}

/** Frames that no fault may have taken and that did not arrive, with the time they are due. */
export function* unreceived(direction: Direction): Generator<{ sentAt: Time; dueAt: Time }> {
  for (const frame of direction.onItsWay) {
    if (frame.received > 0 || mayBeLost(direction, frame)) continue;
    yield { sentAt: frame.sentAt, dueAt: dueOf(direction, frame) };
  }
}

function dueOf({ cable, lateMaxPs, longestPs }: Direction, { endPs }: OnItsWay): Time {
  // A held frame leaves behind the one that has overtaken it.
  return endPs + cable.latencyPs + lateMaxPs + (lateMaxPs > 0 ? 2 * longestPs : 0);
}

/**
 * The frame at `place` may be lost, and the one that arrives at `time` may be a later equal one (a
 * PAUSE, a membership report): then that one counts as possibly lost as well.
 */
function doubtNext(
  { onItsWay, cable }: Direction,
  { place, time }: { readonly place: number; readonly time: Time },
): void {
  const { bytes } = onItsWay[place]!;
  const next = onItsWay.find((each, i) =>
    i > place && each.received === 0 && time >= each.sentAt + cable.latencyPs &&
    isSame(each.bytes, bytes)
  );
  if (next !== undefined) next.isDoubtful = true;
}

function mayBeLost(direction: Direction, frame: OnItsWay): boolean {
  const { loses, lossy, dark } = direction;
  if (loses || frame.isDoubtful) return true;
  const { sentAt } = frame;
  if (lossy.some(({ from, to }) => from <= sentAt && to >= sentAt)) return true;
  if (dark.length === 0) return false;
  const dueAt = dueOf(direction, frame);
  return dark.some(({ from, to }) => from <= dueAt && to >= sentAt);
}

const DOUBLES_MAX = 64;

function withoutOld(onItsWay: OnItsWay[]): OnItsWay[] {
  let spare = onItsWay.filter(({ received }) => received > 0).length - DOUBLES_MAX;
  return spare <= 0 ? onItsWay : onItsWay.filter(({ received }) => received === 0 || spare-- <= 0);
}

/** The direction that begins at the end `from`. */
export function directionOf(
  plan: RackPlan,
  { index, from, lives }: {
    readonly index: number;
    readonly from: "a" | "b";
    readonly lives: Lives;
  },
): Direction {
  const cable = plan.cables[index]!;
  const { a, b } = cable;
  const to = from === "a" ? b : a;
  const { linkFaults = [] } = plan;
  const faults = linkFaults.filter((fault) =>
    fault.cable === index && (fault.direction === "both" || fault.direction === from)
  );
  const countOf = (action: string) => faults.filter((fault) => fault.action === action).length;
  const intervals = (isMeant: (fault: LinkFaultPlan) => boolean) =>
    faults.filter(isMeant).map((fault) => intervalOf(fault, faults));
  // No device detects a cut of one direction: all frames are lost.
  const isOneWay = ({ direction }: LinkFaultPlan) => direction !== "both";
  const noticeA = lookaheadPs(plan, cable, { near: a, far: b });
  const noticeB = lookaheadPs(plan, cable, { near: b, far: a });
  const cuts = intervals((fault) => fault.action === "cut" && !isOneWay(fault));
  return {
    name: directionName(plan, { cable: index, from }),
    cable,
    from: cable[from],
    to,
    loses: [a, b].some(({ node }) => unscriptedDeaths(plan, lives, node).length > 0),
    lastInstants: unscriptedDeaths(plan, lives, to.node).map((at) => at - 1),
    lossy: intervals((fault) =>
      fault.action === "loss" || (fault.action === "cut" && isOneWay(fault))
    ),
    longestPs: 0,
    lateMaxPs: faults.reduce((sum, fault) => sum + lateMaxOf(fault), 0),
    dark: [
      ...darkOf(lives, { near: a, noticePs: noticeA }),
      ...darkOf(lives, { near: b, noticePs: noticeB }),
      ...cuts.map(({ from, to }) => ({ from, to: to + Math.max(noticeA, noticeB) })),
    ],
    reorders: countOf("reorder") > 0,
    corrupts: countOf("corrupt"),
    seals: faults.some(({ sealed }) => sealed === true),
    copies: countOf("duplicate") > 0 ? 2 : 1,
    onItsWay: [],
  };
}

function intervalOf(fault: LinkFaultPlan, all: readonly LinkFaultPlan[]): Interval {
  const heals = all.filter(({ action, direction, at }) =>
    action === "heal" && at > fault.at && (direction === "both" || direction === fault.direction)
  );
  return { from: fault.at, to: Math.min(fault.until ?? Infinity, ...heals.map(({ at }) => at)) };
}

const HOLD_PS: Time = 100_000_000;

function lateMaxOf({ action, delayPs = 0, jitterPs = 0, holdPs = HOLD_PS }: LinkFaultPlan): Time {
  if (action === "delay") return delayPs + jitterPs;
  return action === "reorder" ? holdPs : 0;
}

/** A failure counts until the other end has detected its end. */
function darkOf(
  { lives }: Lives,
  { near, noticePs }: { readonly near: Endpoint; readonly noticePs: Time },
): Interval[] {
  const own = lives.get(near.node) ?? [];
  return own.filter(({ to }) => to !== Infinity)
    .map(({ to }, i) => ({ from: to, to: (own[i + 1]?.from ?? Infinity) + noticePs }));
}

export function isSame(x: Uint8Array, y: Uint8Array): boolean {
  if (x === y) return true;
  if (x.length !== y.length) return false;
  // From the end: successive frames have like headers, and different check sums.
  for (let i = x.length - 1; i >= 0; i--) if (x[i] !== y[i]) return false;
  return true;
}

function damagedPlace({ onItsWay, corrupts, seals }: Direction, frame: Uint8Array): number {
  let least = corrupts + 1, place = -1;
  for (const [i, { bytes }] of onItsWay.entries()) {
    const bits = flippedBits(bytes, frame, seals);
    if (bits >= least) continue;
    least = bits;
    place = i;
  }
  return place;
}

/** Infinity for different lengths; without the ICRC where faults seal it. */
function flippedBits(x: Uint8Array, y: Uint8Array, seals: boolean): number {
  if (x.length !== y.length) return Infinity;
  const end = seals ? x.length - ICRC_BYTES : x.length;
  let count = 0;
  for (let i = 0; i < end; i++) {
    for (let bits = x[i]! ^ y[i]!; bits !== 0; bits &= bits - 1) count++;
  }
  return count;
}
