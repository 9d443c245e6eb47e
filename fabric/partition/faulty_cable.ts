/** Cables at their ends: when frames are sent on, and how both ends detect a cut. */
import {
  addLinkFault,
  createDirectionFaults,
  type Fate,
  faultCounts,
  type HeldFrame,
} from "../link/fault.ts";
import { wireBytes } from "../link/link.ts";
import type { Frame } from "../node.ts";
import { directionName } from "../rack/plan/cable_names.ts";
import type { LinkFaultCount, LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import { cableCounter, changeLink, type LocalNode, type Port } from "./local_node.ts";
import { compareEvents, type Event, EVENT_KINDS, ownEvent } from "./event_queue.ts";
import { type Time, transferTime } from "../base/time.ts";

export interface Passing {
  readonly message: Frame;
  readonly arrival: Time;
  readonly tailPs: Time;
}

export function addFaultAt(
  plan: RackPlan,
  at: { readonly localNode: LocalNode; readonly port: Port },
  fault: LinkFaultPlan,
): void {
  const { localNode, port } = at;
  const { seed } = plan;
  const { cable, end } = port;
  const other = end === "a" ? "b" : "a";
  const faults = port.faults ??= {
    leaving: createDirectionFaults({ seed, name: directionName(plan, { cable, from: end }) }),
    arriving: createDirectionFaults({ seed, name: directionName(plan, { cable, from: other }) }),
  };
  if (fault.direction !== other) addLinkFault(faults.leaving, fault, localNode.life);
  if (isCutOfBoth(fault)) addLinkFault(faults.arriving, fault, localNode.life);
}

function isCutOfBoth({ action, direction }: LinkFaultPlan): boolean {
  return action === "cut" && direction === "both";
}

/**
 * The delay is that for a peer without power; undefined where the node detects nothing: a cut of
 * one way is silent.
 */
export function cableChange(
  { localNode, number }: { readonly localNode: LocalNode; readonly number: number },
  fault: LinkFaultPlan,
): Event | undefined {
  const isHeal = fault.action === "heal" && fault.direction === "both";
  if (!isHeal && !isCutOfBoth(fault)) return undefined;
  return ownEvent(localNode.index, 0, {
    time: fault.at + localNode.ports[number]!.carrierPs,
    kind: EVENT_KINDS.link,
    counter: cableCounter(fault.id, number),
    input: { kind: "link", port: number, up: isHeal },
  });
}

/**
 * Cables that are cut, or whose peer has no power; on a host bus, that there is no card yet, or no
 * host.
 */
export function foundAtPowerOn(localNode: LocalNode, time: Time): Event[] {
  return localNode.ports.flatMap((port, number) => {
    if (port === undefined || port.up) return [];
    const input = { kind: "link", port: number, up: false } as const;
    return [ownEvent(localNode.index, 0, { time, kind: EVENT_KINDS.link, counter: number, input })];
  });
}

/**
 * From before a partition had power, together with those before it in `history`. They may be added
 * in any order.
 */
export function recallChange(
  history: Map<Port, Event[]>,
  { localNode, number }: { readonly localNode: LocalNode; readonly number: number },
  change: Event,
): void {
  const port = localNode.ports[number]!;
  const changes = [...history.get(port) ?? [], change].sort(compareEvents);
  history.set(port, changes);
  port.cutBy = undefined;
  for (const each of changes) changeLink(localNode, each);
}

/**
 * `post` sends the frames that arrive, including released ones.
 * @param sent.number of the frame, for the case that it is held. @param sent.fate of it, which was
 * transmitted at the rate in it.
 * @returns the deadline of a held frame's release; else undefined.
 */
export function sendThrough(
  port: Port,
  sent: { readonly now: Time; readonly fate: Fate; readonly number: number },
  post: (passing: Passing) => void,
): Time | undefined {
  const { leaving } = port.faults!;
  const { now, number, fate } = sent;
  const { lost, frame, doubled, delayPs, overtakenBy, holdPs } = fate;
  if (lost) return undefined;
  const { tailPs } = port.link;
  const arrival = port.link.arrival + delayPs;
  if (overtakenBy > 0) {
    leaving.held.push({ frame, doubled, number, arrival, tailPs, remaining: overtakenBy });
    return now + holdPs;
  }
  if (holdPs > 0) {
    const late = arrival + holdPs;
    leaving.held.push({ frame, doubled, number, arrival: late, tailPs, remaining: Infinity });
    return now + holdPs;
  }
  putOnLine(port, { frame, doubled, arrival, tailPs }, post);
  overtake(port, post);
  return undefined;
}

/** Behind all sent before; not before `arrival`. */
function putOnLine(
  { link, faults }: Port,
  { frame, doubled, arrival, tailPs }: Pick<HeldFrame, "frame" | "doubled" | "arrival" | "tailPs">,
  post: (passing: Passing) => void,
): void {
  const { leaving } = faults!;
  const serialisationPs = transferTime(wireBytes(frame), link.bitsPerSecond);
  let endPs = Math.max(arrival + tailPs, leaving.lineFreeAt + serialisationPs);
  post({ message: frame, arrival: endPs - tailPs, tailPs });
  if (doubled) {
    endPs += serialisationPs;
    post({ message: frame, arrival: endPs - tailPs, tailPs });
  }
  leaving.lineFreeAt = endPs;
}

function overtake(port: Port, post: (passing: Passing) => void): void {
  const { leaving } = port.faults!;
  const { held } = leaving;
  if (held.length === 0) return;
  for (const each of held) each.remaining--;
  leaving.held = held.filter(({ remaining }) => remaining > 0);
  for (const each of held) if (each.remaining <= 0) putOnLine(port, each, post);
}

export function releaseHeld(
  localNode: LocalNode,
  release: Pick<Event, "time" | "counter">,
  post: (port: Port, passing: Passing) => void,
): void {
  for (const port of localNode.ports) {
    const leaving = port?.faults?.leaving;
    const held = leaving?.held.find(({ number }) => number === release.counter);
    if (port === undefined || leaving === undefined || held === undefined) continue;
    leaving.held = leaving.held.filter((each) => each !== held);
    if (!port.up) return;
    const arrival = Math.max(held.arrival, release.time + port.noticePs);
    return putOnLine(port, { ...held, arrival }, (passing) => post(port, passing));
  }
}

export function countsOf(localNode: LocalNode): LinkFaultCount[] {
  return localNode.ports.flatMap((port) => {
    const faults = port?.faults;
    return faults === undefined
      ? []
      : [...faultCounts(faults.leaving), ...faultCounts(faults.arriving)];
  });
}
