/**
 * Frames on the cables of a rack, as both ends of each saw them: what one end sent and the other has not
 * yet received, and what cannot be explained. It is told as the run goes on, so it holds what is on its
 * way and what was lost, not all that was ever sent.
 */
import {
  isMessageSeen,
  type MessageSeen,
  type Observation,
} from "../../fabric/capture/observation.ts";
import { directionName } from "../../fabric/rack/cable_names.ts";
import type { CablePlan, Endpoint, RackPlan } from "../../fabric/rack/plan.ts";
import type { Time } from "../../fabric/time/time.ts";
import { ICRC_BYTES } from "../../fabric/wire/icrc.ts";
import { faultsOf, type Finding, FINDINGS_MAX, lifeAt, type RunRecord } from "./run_record.ts";

/** Sent, and not received as often as it may be. */
interface OnItsWay {
  readonly bytes: Uint8Array;
  readonly sentAt: Time;
  /** When its last bit has left the sender. */
  readonly endPs: Time;
  received: number;
}

/** One direction of a cable. */
interface Direction {
  readonly name: string;
  readonly cable: CablePlan;
  readonly from: Endpoint;
  readonly to: Endpoint;
  /** What faults of this cable may do to a frame, whenever that is. */
  readonly loses: boolean;
  readonly reorders: boolean;
  readonly corrupts: number;
  /** Damage may come with an ICRC that was made anew over it (V-08). */
  readonly seals: boolean;
  readonly copies: number;
  onItsWay: OnItsWay[];
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

/** Lives of nodes, as {@link RunRecord} has them. */
type Lives = Pick<RunRecord, "lives">;

export class WireLedger {
  /** Frames that cannot be explained by what was sent. */
  readonly findings: Finding[] = [];
  /** Frames of nodes that had no power. */
  readonly ofTheDead: Finding[] = [];
  /** Frames seen at ends of cables. */
  frames = 0;
  readonly #lives: Lives;
  readonly #plan: RackPlan;
  readonly #leaving = new Map<string, Direction>();
  readonly #arriving = new Map<string, Direction>();

  constructor(plan: RackPlan, lives: Lives["lives"]) {
    this.#plan = plan;
    this.#lives = { lives };
    for (const [index, cable] of plan.cables.entries()) {
      if (cable.kind !== "network") continue;
      for (const from of ["a", "b"] as const) {
        const direction = directionOf(plan, { index, cable, from, lives: this.#lives });
        this.#leaving.set(keyOf(direction.from), direction);
        this.#arriving.set(keyOf(direction.to), direction);
      }
    }
  }

  see(observation: Observation): void {
    if (!isMessageSeen(observation) || observation.frame === undefined) return;
    const { port, kind, frame, time } = observation;
    const node = this.#plan.nodes[observation.node]!.name;
    const place = keyOf({ node, port });
    this.frames++;
    if (lifeAt(this.#lives, node, time) < 0 && this.ofTheDead.length < FINDINGS_MAX) {
      this.ofTheDead.push({
        text: `${node} has ${kind} a frame at ${time} ps without power`,
        time,
      });
    }
    if (kind === "sent") this.#send(this.#leaving.get(place)!, { ...observation, frame });
    else this.#receive(this.#arriving.get(place)!, { ...observation, frame });
  }

  /** What did not arrive over cables that lose nothing. */
  *unreceived(): Generator<Unreceived> {
    for (const { name, from, to, cable, loses, onItsWay } of this.#leaving.values()) {
      if (loses) continue;
      for (const { received, sentAt, endPs } of onItsWay) {
        if (received > 0) continue;
        const dueAt = endPs + cable.latencyPs;
        yield { direction: name, from: from.node, to: to.node, sentAt, dueAt };
      }
    }
  }

  #send(direction: Direction, seen: MessageSeen & { readonly frame: Uint8Array }): void {
    const { frame, time, endPs } = seen;
    direction.onItsWay.push({ bytes: frame, sentAt: time, endPs, received: 0 });
  }

  #receive(direction: Direction, seen: MessageSeen & { readonly frame: Uint8Array }): void {
    const { frame, time } = seen;
    const { onItsWay, corrupts } = direction;
    let place = onItsWay.findIndex((each) => isSame(each.bytes, frame));
    if (place < 0 && corrupts > 0) place = damagedPlace(direction, frame);
    const found = onItsWay[place];
    if (found === undefined) {
      return this.#find(direction, time, "receives a frame that was not sent, or once too often");
    }
    if (time < found.sentAt + direction.cable.latencyPs) {
      this.#find(direction, time, `receives a frame sooner than it can be there`);
    }
    if (place > 0 && !direction.reorders && onItsWay.slice(0, place).some(isUnreceived)) {
      if (!direction.loses) this.#find(direction, time, "receives a frame before an earlier one");
    }
    found.received++;
    this.#forget(direction, place);
  }

  /** What has come as often as it can, and what cannot come any more as a later frame has. */
  #forget(direction: Direction, place: number): void {
    const { onItsWay, reorders, copies, loses } = direction;
    if (onItsWay[place]!.received >= copies) onItsWay.splice(place, 1);
    // What was doubled comes a second time soon or not at all.
    if (copies > 1) direction.onItsWay = withoutOld(direction.onItsWay);
    else if (!reorders && loses) onItsWay.splice(0, place);
  }

  #find({ name, to }: Direction, time: Time, what: string): void {
    if (this.findings.length >= FINDINGS_MAX) return;
    this.findings.push({ text: `${to.node} ${what} (${name}, ${time} ps)`, time });
  }
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
  const of = (action: string) => faults.filter((fault) => fault.action === action).length;
  return {
    name: directionName(plan, { cable: index, from }),
    cable,
    from: cable[from],
    to: cable[from === "a" ? "b" : "a"],
    // What is on its way from or to a node that loses power may be gone, too.
    loses: of("loss") + of("cut") > 0 || hasDied(lives, cable.a) || hasDied(lives, cable.b),
    reorders: of("reorder") > 0,
    corrupts: of("corrupt"),
    seals: faults.some(({ sealed }) => sealed === true),
    copies: of("duplicate") > 0 ? 2 : 1,
    onItsWay: [],
  };
}

function hasDied({ lives }: Lives, { node }: Endpoint): boolean {
  return (lives.get(node) ?? []).some(({ to }) => to !== Infinity);
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
