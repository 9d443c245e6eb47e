/**
 * Faults of one direction of a cable, at its sender. Each draws from its own stream, named after
 * fault, direction and life of the sender, as a frame is passed to the transmitter: the result
 * depends on neither packing nor other faults. None makes a frame earlier: the lookahead stays
 * valid.
 */
import type { Frame } from "../node.ts";
import { type LinkFaultCount, type LinkFaultPlan, opcodesOf } from "../rack/plan/link_plan.ts";
import { type Rng, rngFor } from "../base/rng.ts";
import { NEVER, type Time } from "../base/time.ts";
import { headOf } from "../wire/roce/packet.ts";
import { frameOpcode, framePayload, sealFrame } from "../wire/roce/frame_peek.ts";
import { copyOf } from "../base/slab.ts";

const OVERTAKEN_BY = 3;
const HOLD_PS: Time = 100_000_000;

export interface DirectionOptions {
  readonly seed: number;
  readonly name: string;
}

interface ActiveFault {
  readonly plan: LinkFaultPlan;
  readonly opcodes: ReadonlySet<number> | undefined;
  /** Its own end, or the first heal after its beginning. */
  until: Time;
  rng: Rng;
  seen: number;
  hit: number;
}

export interface HeldFrame {
  readonly frame: Frame;
  readonly doubled: boolean;
  readonly number: number;
  readonly arrival: Time;
  readonly tailPs: Time;
  /** Frames that have yet to overtake it; Infinity where only time counts. */
  remaining: number;
}

export interface DirectionFaults extends DirectionOptions {
  readonly active: ActiveFault[];
  readonly heals: Time[];
  held: HeldFrame[];
  /** When the last frame's last bit arrives: the next frame begins no earlier. */
  lineFreeAt: Time;
  /** Frames lost to a cut of both ways, by fault. */
  readonly cutOff: Map<number, number>;
  readonly fate: Fate;
}

export interface CableFaults {
  readonly leaving: DirectionFaults;
  /** Only frames that a cut has lost before this end. */
  readonly arriving: DirectionFaults;
}

export interface Fate {
  lost: boolean;
  frame: Frame;
  doubled: boolean;
  delayPs: Time;
  /** It is sent at this rate; Infinity: at the cable's. */
  bitsPerSecond: number;
  /** Held back until this many frames have overtaken it; 0: not held. */
  overtakenBy: number;
  /** With `overtakenBy`, the maximum wait; alone, the time that it is held; 0: not held. */
  holdPs: Time;
  struck: LinkFaultPlan[];
}

const NO_FRAME: Frame = { kind: "frame", bytes: new Uint8Array(0) };

export function createDirectionFaults(options: DirectionOptions): DirectionFaults {
  return {
    ...options,
    active: [],
    heals: [],
    held: [],
    lineFreeAt: 0,
    cutOff: new Map(),
    fate: {
      lost: false,
      frame: NO_FRAME,
      doubled: false,
      delayPs: 0,
      bitsPerSecond: Infinity,
      overtakenBy: 0,
      holdPs: 0,
      struck: [],
    },
  };
}

/** The result is independent of the order of calls. */
export function addLinkFault(faults: DirectionFaults, plan: LinkFaultPlan, life: number): void {
  if (plan.action === "heal") {
    faults.heals.push(plan.at);
    for (const fault of faults.active) {
      if (plan.at > fault.plan.at) fault.until = Math.min(fault.until, plan.at);
    }
    return;
  }
  const { heals } = faults;
  const until = heals.reduce(
    (least, at) => at > plan.at ? Math.min(least, at) : least,
    plan.until ?? NEVER,
  );
  const opcodes = plan.only === undefined ? undefined : new Set(opcodesOf(plan.only));
  const rng = streamOf(faults, { id: plan.id, life });
  faults.active.push({ plan, opcodes, until, rng, seen: 0, hit: 0 });
  faults.active.sort((x, y) => x.plan.id - y.plan.id);
}

function streamOf({ seed, name }: DirectionOptions, fault: { id: number; life: number }): Rng {
  return rngFor(seed, `fault/${fault.id}/${name}/${fault.life}`);
}

export function beginLife(faults: DirectionFaults, life: number): void {
  for (const fault of faults.active) {
    fault.rng = streamOf(faults, { id: fault.plan.id, life });
    fault.seen = 0;
    fault.hit = 0;
  }
  faults.held = [];
  faults.lineFreeAt = 0;
  faults.cutOff.clear();
}

/** Valid until the next call. */
export function decideFate(faults: DirectionFaults, now: Time, frame: Frame): Fate {
  const { fate } = faults;
  fate.lost = false;
  fate.frame = frame;
  fate.doubled = false;
  fate.delayPs = 0;
  fate.bitsPerSecond = Infinity;
  fate.overtakenBy = 0;
  fate.holdPs = 0;
  if (fate.struck.length > 0) fate.struck = [];
  for (const fault of faults.active) {
    if (!fate.lost && isTaken(fault, now, frame)) strike(fault, fate);
  }
  return fate;
}

function isTaken(fault: ActiveFault, now: Time, frame: Frame): boolean {
  const { plan, opcodes } = fault;
  // The ends of the cable handle a cut of both ways.
  if (plan.action === "cut" && plan.direction === "both") return false;
  if (now < plan.at || now >= fault.until) return false;
  if (opcodes !== undefined && !opcodes.has(frameOpcode(headOf(frame)))) return false;
  if (plan.sealed && framePayload(frame.bytes) === undefined) return false;
  fault.seen++;
  if (plan.nth !== undefined && fault.seen !== plan.nth) return false;
  if (plan.count !== undefined && fault.hit >= plan.count) return false;
  if (plan.share !== undefined && fault.rng.unit() >= plan.share) return false;
  fault.hit++;
  return true;
}

function strike({ plan, rng }: ActiveFault, fate: Fate): void {
  fate.struck.push(plan);
  switch (plan.action) {
    case "loss":
    case "cut":
      fate.lost = true;
      return;
    case "corrupt":
      fate.frame = plan.sealed
        ? withFlippedPayload(fate.frame, rng)
        : withFlippedBit(fate.frame, rng);
      return;
    case "duplicate":
      fate.doubled = true;
      return;
    case "reorder":
      fate.overtakenBy = plan.overtakenBy ?? (plan.holdPs === undefined ? OVERTAKEN_BY : 0);
      fate.holdPs = plan.holdPs ?? HOLD_PS;
      return;
    case "rate":
      fate.bitsPerSecond = Math.min(fate.bitsPerSecond, plan.bitsPerSecond ?? Infinity);
      return;
    case "delay":
      fate.delayPs += plan.delayPs ?? 0;
      if (plan.jitterPs !== undefined) fate.delayPs += Math.floor(rng.unit() * (plan.jitterPs + 1));
      return;
  }
}

/**
 * From the destination address to the ICRC: damage inside a device, as the FCS turns damage on the
 * cable into loss.
 */
function withFlippedBit(frame: Frame, rng: Rng): Frame {
  const { length } = frame.bytes;
  if (length === 0) return frame;
  const bytes = copyOf(frame.bytes);
  const bit = rng.below(8 * length);
  bytes[bit >>> 3]! ^= 1 << (bit & 7);
  return { kind: "frame", bytes };
}

/** With a valid ICRC (V-08). */
function withFlippedPayload(frame: Frame, rng: Rng): Frame {
  const payload = framePayload(frame.bytes);
  if (payload === undefined) return frame;
  const bytes = copyOf(frame.bytes);
  const bit = rng.below(8 * (payload.to - payload.from));
  bytes[payload.from + (bit >>> 3)]! ^= 1 << (bit & 7);
  sealFrame(bytes);
  return { kind: "frame", bytes };
}

export function countCutOff(faults: DirectionFaults, fault: number): void {
  faults.cutOff.set(fault, (faults.cutOff.get(fault) ?? 0) + 1);
}

export function faultCounts({ name, active, cutOff }: DirectionFaults): LinkFaultCount[] {
  return active.map(({ plan: { id }, seen, hit }) => ({
    fault: id,
    direction: name,
    seen: seen + (cutOff.get(id) ?? 0),
    hit: hit + (cutOff.get(id) ?? 0),
  }));
}
