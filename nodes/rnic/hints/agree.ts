/**
 * H-09: which peers get hints. A card tells the peers of its queue pairs which kinds it wants, by its state; a peer
 * that has said nothing gets none, one that wants no more gets no more. A card that does not know the operation
 * code drops the question in silence (`rocev2.md` §2.3).
 */
import {
  type HintKind,
  type HintPlan,
  refuseEncoding,
} from "../../../fabric/rack/plan/hint_plan.ts";
import { PS_PER_NS, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import {
  HINT_KINDS,
  type HintEncoding,
  type HintOperation,
  type HintReason,
  type HintType,
} from "../../../fabric/wire/roce/hint_eth.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { type Device, schedule } from "../state/device.ts";
import {
  createEnd,
  type HintEnd,
  type HintGroupEnd,
  type Hints,
  type Scope,
} from "./state/hint_state.ts";
import { rights } from "../state/life_cycle.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { missedFor, takeMissed } from "./back_off.ts";
import { type Sender, sendHint, takeSequence } from "./send_hint.ts";

/** A lost question is asked again, as often as a connection's (`nodes/host/cm`). */
const ASKED_MAX = 3;
const ASK_AGAIN_PS = 100 * PS_PER_US;

/** True if the queue pair takes part: its program decides, else the firmware's policy. */
export function takesPart({ plan }: Hints, { type, hints }: QueuePair): boolean {
  if (type === "ud" || hints === "off") return false;
  return hints !== undefined || plan.queuePairs === "all";
}

/** The way of a queue pair's hints. The sender's queue pair and end agree on them and get their answers. */
export interface HintRoute extends Sender {
  readonly by: QueuePair;
  readonly encoding: HintEncoding;
  /** The group that has the hints for all peers, if they go by one. */
  readonly group: HintGroupEnd | undefined;
}

/**
 * The way of the queue pair's hints (H-08): the carrier of all queue pairs with that peer (figure 8), where there
 * is one and the plan has it so, else its own packets (figure 7). Undefined where the peer wants none, or where
 * hints of that encoding cannot go there.
 */
export function routeOf(hints: Hints, qp: QueuePair): HintRoute | undefined {
  const { plan } = hints;
  const [member, group] = groupFor(hints, qp) ?? [];
  const carrier = carrierOf(hints, qp);
  const by = member ?? carrier ?? qp;
  const { hintEncoding: encoding = plan.encoding } = by;
  const way = member !== undefined ? "multicast" : carrier !== undefined ? "carrier" : by.type;
  if (refuseEncoding(encoding, way) !== undefined) return undefined;
  // For hints to a group, the queue pair itself agrees and is answered.
  const word = senderOf(hints, carrier ?? qp);
  return word?.end.agreed ? { hints, qp: word.qp, end: word.end, by, encoding, group } : undefined;
}

/**
 * H-08, figure 8: the queue pair, RC or UC [0113], that has the hints of all between the two cards; none while it
 * may not send: then each queue pair has its own.
 */
function carrierOf({ plan, carriers }: Hints, { path }: QueuePair): QueuePair | undefined {
  const carrier = plan.transport === "carrier" ? carriers.get(path.address) : undefined;
  return carrier !== undefined && rights(carrier.state).sends ? carrier : undefined;
}

/** H-08, figure 9: the queue pair that has the hints for all peers, this one's included. */
function groupFor({ plan, groups }: Hints, qp: QueuePair): [QueuePair, HintGroupEnd] | undefined {
  if (plan.transport !== "multicast" && plan.transport !== "trusted") return undefined;
  for (const [member, group] of groups) {
    if (rights(member.state).sends && isInScope(plan, member, qp)) return [member, group];
  }
  return undefined;
}

/** H-08: whether a group covers this queue pair: a trusted one covers all, another one its application's. */
export function isInScope({ transport }: HintPlan, member: QueuePair, qp: QueuePair): boolean {
  return transport === "trusted" || member.pd === qp.pd;
}

export function senderOf(hints: Hints, qp: QueuePair): Sender | undefined {
  const end = hints.ends.get(qp);
  if (end?.life !== qp.life || !rights(qp.state).sends) return undefined;
  return { hints, qp, end };
}

/** The queue pair is gone, or starts anew. */
export function leaveHints({ ends, carriers }: Hints, qp: QueuePair): void {
  ends.delete(qp);
  if (carriers.get(qp.path.address) === qp) carriers.delete(qp.path.address);
}

/** The queue pair's end in this life, made anew in a new life; undefined where it takes no part. */
export function endOf(hints: Hints, qp: QueuePair): HintEnd | undefined {
  if (!takesPart(hints, qp)) return undefined;
  const known = hints.ends.get(qp);
  if (known?.life === qp.life) return known;
  const end = createEnd(hints.plan, qp);
  hints.ends.set(qp, end);
  return end;
}

/**
 * Kinds that would help here now: pages of memory that is not pinned, translations that do not all fit on the chip,
 * contexts that do not; atomics' words always, where the plan says that the host tells of their changes. A queue
 * pair's own hint needs its context as the request does, so only a carrier's or group's warms contexts up.
 */
export function wantedKinds(device: Device, { plan, carriers, groups }: Hints): number {
  const { paging, queuePairs, plan: { queueCache } } = device;
  const isCrowded = carriers.size + groups.size > 0 && 2 * queuePairs.size > queueCache.entries;
  const kinds = (paging.onDemand > 0 ? HINT_KINDS.prefetch | HINT_KINDS.receive : 0) |
    (paging.lines > paging.capacityLines || isCrowded ? HINT_KINDS.warmUp : 0) | HINT_KINDS.atomic;
  return kinds & plan.kinds;
}

/** The queue pair is in RTS: tells its peer what is wanted here, and asks for the same. */
export function offerHints(device: Device, hints: Hints, qp: QueuePair): void {
  const end = endOf(hints, qp);
  if (end === undefined) return;
  if (qp.hints === "carrier") hints.carriers.set(qp.path.address, qp);
  ask(device, { hints, qp, end });
}

function ask(device: Device, sender: Sender): void {
  const { end } = sender;
  end.asked++;
  end.askedAt = device.now;
  tell(device, sender, { answer: true });
}

/** Asks a silent peer again on the queue pair that its hints would go by: the question may be lost. */
export function askAgain(device: Device, hints: Hints, qp: QueuePair): void {
  const sender = senderOf(hints, carrierOf(hints, qp) ?? qp);
  if (sender === undefined || sender.end.agreed !== undefined) return;
  const { asked, askedAt } = sender.end;
  if (asked < ASKED_MAX && device.now >= askedAt + ASK_AGAIN_PS) ask(device, sender);
}

/** The peer says what it wants: work that has not been started is announced from now on, or no more. */
export function takeWanted(device: Device, sender: Sender, message: HintMessage): void {
  const { hints, qp, end } = sender;
  const { agreed } = end;
  end.agreed = message.kinds & hints.plan.kinds;
  end.waits = agreedWaits(hints.plan, message);
  end.silences = 0;
  // The kinds that it wants anew may be absent there, whatever it has said of the others.
  const isOther = agreed !== undefined && agreed !== end.agreed;
  takeMissed(hints, qp, isOther ? { ...message, reason: "none" } : message);
  if (message.answer || end.told !== wantedKinds(device, hints)) {
    tell(device, sender, { answer: false });
  }
  schedule(device, qp);
}

/** @param answer asks the peer to say the same. */
function tell(
  device: Device,
  sender: Sender,
  { answer, missed }: { readonly answer: boolean; readonly missed?: readonly Scope[] },
): void {
  const { hints, qp, end } = sender;
  const kinds = wantedKinds(device, hints);
  end.told = kinds;
  const { reason, groups } = missedFor(hints, qp, missed);
  const word = wordOf(hints, { type: "wanted", kinds, reason, answer });
  sendHint(device, sender, { ...word, groups: [...waitsFor(sender, kinds), ...groups] });
}

const OPERATION_OF: Readonly<Record<HintKind, HintOperation>> = {
  prefetch: "read",
  warmUp: "read",
  atomic: "fetch-add",
  receive: "send",
};

/** H-06 [0121]: how long requests should wait, for each wanted kind whose preparation takes time here. */
function waitsFor({ hints: { plan }, qp }: Sender, kinds: number): HintGroup[] {
  const entries = Object.entries(plan.waitsPs).flatMap(([kind, waitPs]): HintEntry[] => {
    const bit = HINT_KINDS[kind as HintKind];
    if ((kinds & bit) === 0) return [];
    const length = Math.min(Math.ceil(waitPs / PS_PER_NS), 0xffff_ffff);
    const none = { messages: 0, sequence: 0, rkey: 0, va: 0n, objects: [] };
    return [{
      kinds: bit,
      operation: OPERATION_OF[kind as HintKind],
      length,
      ...none,
    }];
  });
  if (entries.length === 0) return [];
  return [{ sourceQpn: qp.qpn, destQpn: qp.attributes.destQpn, entries }];
}

function agreedWaits({ patiencePs }: HintPlan, { groups }: HintMessage): Map<number, Time> {
  const waits = new Map<number, Time>();
  for (const { entries } of groups) {
    for (const { kinds, length } of entries) {
      if (KIND_BITS.has(kinds)) waits.set(kinds, Math.min(length * PS_PER_NS, patiencePs));
    }
  }
  return waits;
}

const KIND_BITS: ReadonlySet<number> = new Set(Object.values(HINT_KINDS));

/** Memory has come or gone, so that the wanted kinds have changed: tells the peers that know the old ones. */
export function tellChange(device: Device, hints: Hints): void {
  const kinds = wantedKinds(device, hints);
  if (hints.wanted === kinds) return;
  hints.wanted = kinds;
  for (const [qp, end] of hints.ends) {
    if (end.life !== qp.life || end.agreed === undefined || end.told === kinds) continue;
    if (rights(qp.state).sends) tell(device, { hints, qp, end }, { answer: false });
  }
}

/** H-22: tells peers of misses that no hint had announced: their hints about them are needed again. */
export function tellMissed(device: Device, hints: Hints): void {
  for (const { qp, scopes } of hints.missed.splice(0)) {
    const sender = senderOf(hints, qp);
    if (sender !== undefined) tell(device, sender, { answer: false, missed: scopes });
  }
}

/** A message without groups. Only an answer carries the number of a hint. */
export function wordOf(
  hints: Hints,
  word: {
    readonly type: HintType;
    readonly kinds?: number;
    readonly reason?: HintReason;
    readonly sequence?: number;
    readonly answer?: boolean;
  },
): HintMessage {
  const { type, kinds = 0, reason = "none", answer = false } = word;
  const sequence = word.sequence ?? takeSequence(hints);
  return { type, kinds, reason, sequence, answer, groups: [] };
}
