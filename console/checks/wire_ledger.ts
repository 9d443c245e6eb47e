/**
 * Frames on the cables of a rack, as both ends of each saw them: what one end sent and the other has not
 * yet received, and what cannot be explained. It sees frames as the run goes on, so it holds what is on its
 * way and what was lost, not all that was ever sent.
 */
import { type FrameSeen, isFrameSeen, type Observation } from "../../fabric/capture/observation.ts";
import { lookaheadPs } from "../../fabric/rack/plan/cabling.ts";
import { directionName } from "../../fabric/rack/plan/cable_names.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { CablePlan, Endpoint, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { ICRC_BYTES } from "../../fabric/wire/roce/icrc.ts";
import { AnswerLedger } from "./answer_ledger.ts";
import { RateLedger } from "./rate_ledger.ts";
import { SwitchLedger } from "./switch_ledger.ts";
import { faultsOf, lifeAt, type Lives, unscriptedDeaths } from "./lives.ts";
import { type Finding, FINDINGS_MAX } from "./finding.ts";

/** Sent, and not received as often as it may be. */
interface OnItsWay {
  readonly bytes: Uint8Array;
  readonly sentAt: Time;
  /** When its last bit has left the sender. */
  readonly endPs: Time;
  received: number;
  /** It, or one like it that was sent before, has arrived: the other one may be lost. */
  isDoubtful: boolean;
}

/** One direction of a cable. */
interface Direction {
  readonly name: string;
  readonly cable: CablePlan;
  readonly from: Endpoint;
  readonly to: Endpoint;
  /** Whether any frame may be lost, whenever that is. */
  readonly loses: boolean;
  /**
   * Last instants of the receiving end's lives that no plan has ended: what it received later counts as
   * received then, before it was sent (`fabric/capture`, `countedOf`).
   */
  readonly lastInstants: readonly Time[];
  /** When a fault of this cable takes frames that are being sent. */
  readonly lossy: readonly Interval[];
  /** How much later than by itself a frame may arrive. */
  readonly lateMaxPs: Time;
  /** What the longest of its frames takes from its first to its last bit. */
  longestPs: Time;
  /** When the cable is cut, or an end has no power: what is on its way then may be gone. */
  readonly dark: readonly Interval[];
  /** What faults of this cable may do to a frame, whenever that is. */
  readonly reorders: boolean;
  readonly corrupts: number;
  /** Damage may come with an ICRC that was made anew over it (V-08). */
  readonly seals: boolean;
  readonly copies: number;
  onItsWay: OnItsWay[];
}

/** From an instant on, and up to one, both of them included. */
interface Interval {
  readonly from: Time;
  readonly to: Time;
}

/** A frame that was sent over a cable and did not arrive. */
export interface Unreceived {
  readonly direction: string;
  readonly from: string;
  readonly to: string;
  readonly sentAt: Time;
  /** By when it should have been there. */
  readonly dueAt: Time;
}

export class WireLedger {
  /** Frames that cannot be explained by what was sent. */
  readonly findings: Finding[] = [];
  /** Frames of nodes that had no power. */
  readonly withoutPower: Finding[] = [];
  /** Frames seen at ends of cables. */
  frames = 0;
  readonly answers: AnswerLedger;
  readonly rates: RateLedger;
  readonly #lives: Lives;
  readonly #plan: RackPlan;
  readonly #leaving = new Map<string, Direction>();
  readonly #arriving = new Map<string, Direction>();
  /** By index of the node. */
  readonly #switches = new Map<number, SwitchLedger>();

  constructor(plan: RackPlan, lives: Lives["lives"]) {
    this.#plan = plan;
    this.#lives = { lives };
    this.answers = new AnswerLedger(plan, this.#lives);
    this.rates = new RateLedger(plan, this.#lives);
    for (const [index, cable] of plan.cables.entries()) {
      if (cable.kind !== "network") continue;
      for (const from of ["a", "b"] as const) {
        const direction = directionOf(plan, { index, cable, from, lives: this.#lives });
        this.#leaving.set(keyOf(direction.from), direction);
        this.#arriving.set(keyOf(direction.to), direction);
      }
    }
    for (const [index, { name, kind }] of plan.nodes.entries()) {
      if (kind !== "switch") continue;
      const ports = plan.cables.filter(({ a, b }) => a.node === name || b.node === name).length;
      this.#switches.set(index, new SwitchLedger(ports));
    }
  }

  see(observation: Observation): void {
    if (!isFrameSeen(observation)) return;
    const { port, kind, frame, time } = observation;
    const node = this.#plan.nodes[observation.node]!.name;
    const place = keyOf({ node, port });
    this.frames++;
    this.answers.see(observation);
    this.rates.see(observation);
    const life = lifeAt(this.#lives, node, time);
    if (life < 0 && this.withoutPower.length < FINDINGS_MAX) {
      this.withoutPower.push({
        text: `${node} has ${kind} a frame at ${time} ps without power`,
        time,
      });
    }
    const inside = this.#switches.get(observation.node);
    if (kind === "sent") {
      const direction = this.#leaving.get(place)!;
      const hasIt = inside?.send(frame, { port, time, life }) ?? true;
      if (!hasIt) this.#find(direction, { node, time, what: "sends a frame that it has not got" });
      this.#send(direction, observation);
    } else {
      inside?.receive(frame, { port, time, life });
      this.#receive(this.#arriving.get(place)!, observation);
    }
  }

  /** What did not arrive over cables that lose nothing. */
  *unreceived(): Generator<Unreceived> {
    for (const direction of this.#leaving.values()) {
      const { name, from, to, onItsWay } = direction;
      for (const frame of onItsWay) {
        if (frame.received > 0 || mayBeLost(direction, frame)) continue;
        const { sentAt } = frame;
        const dueAt = dueOf(direction, frame);
        yield { direction: name, from: from.node, to: to.node, sentAt, dueAt };
      }
    }
  }

  #send(direction: Direction, seen: FrameSeen): void {
    const { frame, time, startPs, endPs } = seen;
    direction.longestPs = Math.max(direction.longestPs, endPs - startPs);
    direction.onItsWay.push({ bytes: frame, sentAt: time, endPs, received: 0, isDoubtful: false });
  }

  #receive(direction: Direction, seen: FrameSeen): void {
    const { frame, time } = seen;
    const { onItsWay, corrupts } = direction;
    let place = onItsWay.findIndex((each) => isSame(each.bytes, frame));
    if (place < 0 && corrupts > 0) place = damagedPlace(direction, frame);
    const found = onItsWay[place];
    const { node } = direction.to;
    const wrong = (what: string) => this.#find(direction, { node, time, what });
    const isUndated = direction.lastInstants.includes(time);
    if (found === undefined) {
      if (isUndated) return;
      return wrong("receives a frame that was not sent, or once too often");
    }
    if (time < found.sentAt + direction.cable.latencyPs && !isUndated) {
      wrong("receives a frame sooner than it can be there");
    }
    const isOvertaking = place > 0 && !direction.reorders;
    if (isOvertaking && onItsWay.slice(0, place).some((each) => isMissing(direction, each))) {
      wrong("receives a frame before an earlier one");
    }
    if (isUnreceived(found) && mayBeLost(direction, found)) doubtNext(direction, { place, time });
    found.received++;
    this.#forget(direction, place);
  }

  /** What has come as often as it can, and what cannot come any more as a later frame has. */
  #forget(direction: Direction, place: number): void {
    const { onItsWay, reorders, copies } = direction;
    if (onItsWay[place]!.received >= copies) onItsWay.splice(place, 1);
    if (!reorders && place > 0) {
      const isLost = (each: OnItsWay) => isUnreceived(each) && mayBeLost(direction, each);
      const earlier = onItsWay.splice(0, place);
      onItsWay.unshift(...earlier.filter((each) => !isLost(each)));
    }
    // What was doubled comes a second time soon or not at all.
    if (copies > 1) direction.onItsWay = withoutOld(direction.onItsWay);
  }

  #find(
    { name }: Direction,
    { node, time, what }: { readonly node: string; readonly time: Time; readonly what: string },
  ): void {
    if (this.findings.length >= FINDINGS_MAX) return;
    this.findings.push({ text: `${node} ${what} (${name}, ${time} ps)`, time });
  }
}

/** By when a frame is there, if it is not lost. */
function dueOf({ cable, lateMaxPs, longestPs }: Direction, { endPs }: OnItsWay): Time {
  // What is held back is let go behind a frame that has overtaken it.
  return endPs + cable.latencyPs + lateMaxPs + (lateMaxPs > 0 ? 2 * longestPs : 0);
}

/**
 * What arrives at `time` is taken for the frame at `place`, which may be lost. Where another one like it
 * (a PAUSE, a membership report) could be there by then, it may be that one, and this one lost.
 */
function doubtNext(
  { onItsWay, cable }: Direction,
  { place, time }: { readonly place: number; readonly time: Time },
): void {
  const { bytes } = onItsWay[place]!;
  const next = onItsWay.find((each, i) =>
    i > place && isUnreceived(each) && time >= each.sentAt + cable.latencyPs &&
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

function isMissing(direction: Direction, frame: OnItsWay): boolean {
  return isUnreceived(frame) && !mayBeLost(direction, frame);
}

/** Frames that were received once, and could come again, of one direction. */
const DOUBLES_MAX = 64;

function withoutOld(onItsWay: OnItsWay[]): OnItsWay[] {
  let spare = onItsWay.filter(({ received }) => received > 0).length - DOUBLES_MAX;
  return spare <= 0 ? onItsWay : onItsWay.filter(({ received }) => received === 0 || spare-- <= 0);
}

function isUnreceived({ received }: OnItsWay): boolean {
  return received === 0;
}

function directionOf(
  plan: RackPlan,
  { index, cable, from, lives }: {
    readonly index: number;
    readonly cable: CablePlan;
    readonly from: "a" | "b";
    readonly lives: Lives;
  },
): Direction {
  const faults = faultsOf(plan, index).filter(({ direction }) =>
    direction === "both" || direction === from
  );
  const noticePs = (near: "a" | "b", far: "a" | "b") =>
    lookaheadPs(plan, cable, { near: cable[near], far: cable[far] });
  const of = (action: string) => faults.filter((fault) => fault.action === action).length;
  return {
    name: directionName(plan, { cable: index, from }),
    cable,
    from: cable[from],
    to: cable[from === "a" ? "b" : "a"],
    loses: [cable.a, cable.b].some(({ node }) => unscriptedDeaths(plan, lives, node).length > 0),
    lastInstants: unscriptedDeaths(plan, lives, cable[from === "a" ? "b" : "a"].node)
      .map((at) => at - 1),
    lossy: faults.filter((fault) => fault.action === "loss" || isCutOfOneWay(fault))
      .map((fault) => intervalOf(fault, faults)),
    longestPs: 0,
    lateMaxPs: faults.reduce((sum, fault) => sum + lateMaxOf(fault), 0),
    dark: [
      ...darkOf(lives, { near: cable.a, noticePs: noticePs("a", "b") }),
      ...darkOf(lives, { near: cable.b, noticePs: noticePs("b", "a") }),
      ...faults.filter((fault) => fault.action === "cut" && !isCutOfOneWay(fault)).map((fault) => {
        const { from, to } = intervalOf(fault, faults);
        return { from, to: to + Math.max(noticePs("a", "b"), noticePs("b", "a")) };
      }),
    ],
    reorders: of("reorder") > 0,
    corrupts: of("corrupt"),
    seals: faults.some(({ sealed }) => sealed === true),
    copies: of("duplicate") > 0 ? 2 : 1,
    onItsWay: [],
  };
}

/** No device notices it: it is like a loss of all frames. */
function isCutOfOneWay({ action, direction }: LinkFaultPlan): boolean {
  return action === "cut" && direction !== "both";
}

/** From its beginning to its own end, or to the first heal of all that it concerns. */
function intervalOf(fault: LinkFaultPlan, all: readonly LinkFaultPlan[]): Interval {
  const heals = all.filter(({ action, direction, at }) =>
    action === "heal" && at > fault.at && (direction === "both" || direction === fault.direction)
  );
  return { from: fault.at, to: Math.min(fault.until ?? Infinity, ...heals.map(({ at }) => at)) };
}

/** How long what is to be overtaken waits for that at most, unless a fault says it. */
const HOLD_PS: Time = 100_000_000;

function lateMaxOf({ action, delayPs = 0, jitterPs = 0, holdPs = HOLD_PS }: LinkFaultPlan): Time {
  if (action === "delay") return delayPs + jitterPs;
  return action === "reorder" ? holdPs : 0;
}

/** When an end of a cable has no power, or has it again and the other one does not know. */
function darkOf(
  { lives }: Lives,
  { near, noticePs }: { readonly near: Endpoint; readonly noticePs: Time },
): Interval[] {
  const own = lives.get(near.node) ?? [];
  return own.filter(({ to }) => to !== Infinity)
    .map(({ to }, i) => ({ from: to, to: (own[i + 1]?.from ?? Infinity) + noticePs }));
}

function keyOf({ node, port }: Endpoint): string {
  return `${node}:${port}`;
}

function isSame(x: Uint8Array, y: Uint8Array): boolean {
  if (x === y) return true;
  if (x.length !== y.length) return false;
  // From the end: headers of frames in a row are alike, their check sums are not.
  for (let i = x.length - 1; i >= 0; i--) if (x[i] !== y[i]) return false;
  return true;
}

/** The frame on its way that this one is most like, which faults may have made of it; −1: none. */
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

/**
 * How many bits differ; infinitely many where the lengths do. An ICRC that was made anew counts nothing:
 * that it is true of the rest is the receiver's to see.
 */
function flippedBits(x: Uint8Array, y: Uint8Array, seals: boolean): number {
  if (x.length !== y.length) return Infinity;
  const end = seals ? x.length - ICRC_BYTES : x.length;
  let count = 0;
  for (let i = 0; i < end; i++) {
    for (let bits = x[i]! ^ y[i]!; bits !== 0; bits &= bits - 1) count++;
  }
  return count;
}
