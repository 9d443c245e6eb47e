/**
 * The requester's side: looks ahead in a send queue (H-02), announces work elements in batches (H-03), and holds
 * them back behind their hint as the plan says (H-06).
 *
 * What a request does when its hint is not answered as hoped: after a refusal it goes at once, and meets what it
 * would have met without; after silence it goes when the patience is over. A peer that was silent three times in a
 * row gets no more hints until it says what it wants.
 */
import { HINT_BATCH } from "../../../fabric/rack/plan/hint_plan.ts";
import {
  HINT_ENTRY_BYTES,
  HINT_ETH_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
  HINT_TRAILER_BYTES,
  type HintEncoding,
  type HintOperation,
} from "../../../fabric/wire/roce/hint_eth.ts";
import {
  bytesOf,
  type HintEntry,
  type HintGroup,
  type HintMessage,
} from "../../../fabric/wire/roce/hint.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { FrameHint } from "../state/tx_frame.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type Device, schedule } from "../state/device.ts";
import type { Batch, HintEnd, Hints } from "../state/hints/hint_state.ts";
import { rights } from "../state/life_cycle.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";
import { packetsOf, psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { askAgain, type HintRoute, routeOf, wordsOf } from "./agree.ts";
import { groupElements, kindsOf, splitGroups, type WorkElement } from "./build_hint.ts";
import { type Sender, sendHint, sendRange, sendToGroup, takeSequence } from "./send_hint.ts";

/** Hints without an answer, in a row, after which a peer gets no more. */
const SILENCES_MAX = 3;
/** Hints of a queue pair whose answers are waited for, though their work has been started. */
const BATCHES_MAX = 16;

/** Announces what is to be announced of the queue pair's work. Called before its next request is begun. */
export function lookAhead(device: Device, hints: Hints, qp: QueuePair): void {
  const end = hints.ends.get(qp);
  if (end === undefined || end.life !== qp.life || !rights(qp.state).startsWork) return;
  const sender = { hints, qp, end };
  const route = routeOf(hints, qp);
  if (route === undefined) {
    if (end.agreed === undefined && qp.type === "rc") askAgain(device, sender);
    return;
  }
  if (RIDES[route.encoding] !== undefined) return;
  const { cursor, work } = qp.requester;
  const until = Math.min(work.end, cursor + hints.plan.depth);
  const isMoreComing = qp.sq.busy || qp.sq.mayHaveMore;
  while (end.lookedTo < until) {
    const from = Math.max(end.lookedTo, cursor);
    // The next request waits for no batch to fill.
    if (until - from < end.batch && isMoreComing && from !== cursor) return;
    announce(device, route, [
      { ...sender, from, until: Math.min(until, from + end.batch) },
      ...route.by === qp ? [] : workOfOthers(sender, route),
    ]);
  }
}

/** H-07: packets that a hint may be in besides: one behind the headers, where the operation has a payload or not. */
const RIDES: Readonly<Partial<Record<HintEncoding, ReadonlySet<OpcodeRow["operation"]>>>> = {
  "header": new Set(["send", "write", "read-request"]),
  "payload": new Set(["send", "write"]),
};

/**
 * H-07: announces in a packet that is begun anyway what is to be announced, as far as it has room within the path
 * MTU. The packet's own request needs no hint any more; work of which no hint has gone is not held back for it.
 */
export function rideAlong(
  device: Device,
  hints: Hints,
  packet: { readonly qp: QueuePair; readonly row: OpcodeRow; readonly payloadBytes: number },
): FrameHint | undefined {
  const { qp, row, payloadBytes } = packet;
  if (RIDES[qp.hintEncoding ?? hints.plan.encoding]?.has(row.operation) !== true) return undefined;
  const end = hints.ends.get(qp);
  if (end === undefined || end.life !== qp.life || row.vendor) return undefined;
  const route = routeOf(hints, qp);
  if (route?.by !== qp) return undefined;
  const form = route.encoding === "header" ? "header" : "payload";
  const trailer = form === "header" ? 0 : HINT_TRAILER_BYTES;
  let room = qp.attributes.pathMtu - payloadBytes - HINT_ETH_BYTES - trailer;
  const spans: Span[] = [];
  const isCarrier = hints.plan.transport === "carrier" &&
    hints.carriers.get(qp.path.address) === qp;
  for (
    const span of [
      ...aheadOf({ hints, qp, end }),
      ...isCarrier ? workOfOthers({ hints, qp, end }, route) : [],
    ]
  ) {
    const most = Math.floor((room - HINT_GROUP_BYTES) / HINT_ENTRY_BYTES);
    if (most < 1) break;
    const until = Math.min(span.until, span.from + most);
    room -= HINT_GROUP_BYTES + (until - span.from) * HINT_ENTRY_BYTES;
    spans.push({ ...span, until });
  }
  const [message] = spans.length === 0 ? [] : announceIn(device, route, spans);
  return message && { form, message, bytes: bytesOf(message) + trailer };
}

/** What waits in the queue pair behind the request that is begun. */
function aheadOf(sender: Sender): Span[] {
  const { hints: { plan }, qp: { requester: { cursor, work } }, end } = sender;
  const from = Math.max(end.lookedTo, cursor + 1);
  const until = Math.min(work.end, cursor + plan.depth, from + end.batch);
  return from < until ? [{ ...sender, from, until }] : [];
}

/** Work elements [from, until) of a queue pair. */
interface Span extends Sender {
  readonly from: number;
  readonly until: number;
}

/** H-02, H-05: what waits in the other queue pairs of the same responder goes along, to a group in those of all. */
function workOfOthers({ hints, qp }: Sender, { by }: HintRoute): Span[] {
  const spans: Span[] = [];
  for (const [other, end] of hints.ends) {
    if (other === qp || end.life !== other.life || !rights(other.state).startsWork) continue;
    if (routeOf(hints, other)?.by !== by) continue;
    const { cursor, work } = other.requester;
    const from = Math.max(end.lookedTo, cursor);
    const until = Math.min(work.end, cursor + hints.plan.depth, from + end.batch);
    if (from < until) spans.push({ hints, qp: other, end, from, until });
  }
  return spans;
}

/** Whether the work element, which is next, may be started as far as hints are concerned. */
export function mayFollowHint(
  device: Device,
  { ends, counters }: Hints,
  { qp, number }: { readonly qp: QueuePair; readonly number: number },
): boolean {
  const end = ends.get(qp);
  if (end === undefined || end.batches.length === 0 || end.life !== qp.life) return true;
  const batch = end.batches.find((each) => number < each.end);
  if (batch !== undefined && number >= batch.first && batch.held) {
    end.heldSince ??= device.now;
    return false;
  }
  if (end.heldSince !== undefined) {
    counters.hintHoldPs += device.now - end.heldSince;
    end.heldSince = undefined;
  }
  return true;
}

/** Hints are forgotten that nothing waits for: their work has been started, their answers are here. */
function forgetStarted({ qp, end: { batches } }: Sender): void {
  const { cursor } = qp.requester;
  for (let [first] = batches; first !== undefined && first.end <= cursor; [first] = batches) {
    if (first.unanswered.size > 0 && batches.length < BATCHES_MAX) return;
    batches.shift();
  }
}

/**
 * Sends one hint about work elements of one or several queue pairs, as several messages where a packet is too
 * short. The first span is of the queue pair whose turn it is.
 */
function announce(device: Device, route: HintRoute, spans: readonly Span[]): void {
  const { hints, by, group } = route;
  for (const message of announceIn(device, route, spans)) {
    if (group !== undefined) sendToGroup(device, { hints, by, group }, message);
    else if (route.encoding !== "flagged") sendHint(device, route, message);
    else {
      const { answer, groups: [{ entries: [entry] }] } = message as RangeMessage;
      sendRange(device, { hints, qp: by }, { entry, answer });
    }
  }
}

/** The messages of one hint, which are counted, and which work is held back behind. */
function announceIn(device: Device, route: HintRoute, spans: readonly Span[]): HintMessage[] {
  const { hints } = route;
  const { counters, plan } = hints;
  const groups: HintGroup[] = [];
  let elements = 0;
  for (const { qp, end, from, until, ...rest } of spans) {
    forgetStarted({ ...rest, qp, end });
    end.lookedTo = until;
    const its = elementsOf(qp, from, until);
    elements += its.length;
    groups.push(...groupElements(its, wordOf(route, qp).end.agreed!));
  }
  const room = route.group === undefined
    ? route.by.attributes.pathMtu
    : device.plan.mtu - HINT_ETH_BYTES;
  const parts = route.encoding === "flagged"
    ? rangesOf(groups, route.by)
    : splitGroups(groups, room);
  if (parts.length === 0) return [];
  const answer = plan.follow === "after-ack" || plan.batch === "adaptive";
  const messages = parts.map((part): HintMessage => {
    // A range has no number but its request's PSN.
    const sequence = route.encoding === "flagged"
      ? part[0]!.entries[0]!.sequence
      : takeSequence(hints);
    const kinds = kindsOf(part);
    return { type: "announce", kinds, reason: "none", sequence, answer, groups: part };
  });
  counters.hintsSent += messages.length;
  counters.hintElements += elements;
  for (const [i, span] of spans.entries()) {
    const { qp: carrier } = wordOf(route, span.qp);
    // Of what goes to all, each queue pair is answered for itself.
    const isEach = route.group !== undefined;
    const its = isEach ? messages.filter((message) => concerns(message, span.qp)) : messages;
    const unanswered = new Set(answer ? its.map(({ sequence }) => sequence) : []);
    if (its.length > 0) hold(device, span, { carrier, leads: isEach || i === 0, unanswered });
  }
  return messages;
}

/** By whom a queue pair whose hints go that way agrees and is answered. */
function wordOf(route: HintRoute, qp: QueuePair): Sender {
  return route.group === undefined ? route : wordsOf(route.hints, qp)!;
}

function concerns({ groups }: HintMessage, { qpn }: QueuePair): boolean {
  return groups.some(({ sourceQpn }) => sourceQpn === qpn);
}

/** A message for each range that a READ or WRITE of no bytes can name; UC has no READ. */
function rangesOf(groups: readonly HintGroup[], { type }: QueuePair): HintGroup[][] {
  return groups.flatMap(({ entries, ...ends }) =>
    entries.flatMap((entry) => {
      const isThere = entry.operation === "write" || (entry.operation === "read" && type === "rc");
      const kinds = entry.kinds & HINT_KINDS.prefetch;
      return isThere && kinds !== 0 ? [[{ ...ends, entries: [{ ...entry, kinds }] }]] : [];
    })
  );
}

/** One of {@link rangesOf}. */
type RangeMessage = HintMessage & {
  readonly groups: readonly [{ readonly entries: readonly [HintEntry] }];
};

/** H-06: the work elements of a hint wait for the delay, or for its answer. */
function hold(
  device: Device,
  { hints, qp, end, from, until }: Span,
  hint: Pick<Batch, "carrier" | "leads" | "unanswered">,
): void {
  const { follow, delayPs, patiencePs } = hints.plan;
  const waitPs = follow === "at-once" ? 0 : follow === "delay" ? delayPs : patiencePs;
  const held = waitPs > 0;
  if (!held && hint.unanswered.size === 0) return;
  const startAt = held ? device.now + waitPs : NEVER;
  const batch: Batch = { ...hint, first: from, end: until, startAt, held };
  end.batches.push(batch);
  if (held) hints.holds.push({ at: batch.startAt, qp, life: qp.life, batch });
}

/** Ends holds whose time has come. Called in every step. */
export function endHolds(device: Device, hints: Hints): void {
  const { holds, plan } = hints;
  for (let next = holds.peek(); next !== undefined && next.at <= device.now; next = holds.peek()) {
    holds.shift();
    const { qp, life, batch } = next;
    if (life !== qp.life || !batch.held) continue;
    batch.held = false;
    if (plan.follow === "after-ack" && batch.leads) noteSilence(hints, batch);
    schedule(device, qp);
  }
}

/** When {@link endHolds} has something to do. */
export function holdsWakeAt({ holds }: Hints): Time {
  let next = holds.peek();
  // What was answered needs no waking.
  while (next !== undefined && (!next.batch.held || next.life !== next.qp.life)) {
    holds.shift();
    next = holds.peek();
  }
  return next?.at ?? NEVER;
}

function noteSilence(hints: Hints, { carrier, unanswered }: Batch): void {
  hints.counters.hintsUnanswered += unanswered.size;
  const end = hints.ends.get(carrier);
  if (end !== undefined && ++end.silences >= SILENCES_MAX) end.agreed = 0;
}

/** H-22: the peer has prepared itself for a hint that went by this queue pair, or has not. */
export function takeAnswer(device: Device, sender: Sender, message: HintMessage): void {
  const { hints, qp, end } = sender;
  const { type, reason, kinds } = message;
  let isKnown = false;
  for (
    const [announced, its] of hints.carriers.get(qp.path.address) === qp
      ? hints.ends
      : [[qp, end] as const]
  ) {
    if (
      its.life === announced.life &&
      endWait(device, { ...sender, qp: announced, end: its }, { message, carrier: qp })
    ) isKnown = true;
  }
  // A duplicate, or one about a hint that is forgotten.
  if (!isKnown) return;
  end.silences = 0;
  if (type === "prepared") hints.counters.hintsPrepared++;
  else hints.counters.hintsRefused++;
  if (reason === "not-wanted") end.agreed = kinds & hints.plan.kinds;
}

/** Work of a queue pair that was announced need not wait any more. @returns whether it was. */
function endWait(
  device: Device,
  { hints, qp, end }: Sender,
  { message, carrier }: { readonly message: HintMessage; readonly carrier: QueuePair },
): boolean {
  const { type, sequence } = message;
  const batch = end.batches.find((each) =>
    each.carrier === carrier && each.unanswered.has(sequence)
  );
  if (batch === undefined) return false;
  batch.unanswered.delete(sequence);
  if (hints.plan.batch === "adaptive") adapt(end, { batch, type, cursor: qp.requester.cursor });
  if (batch.unanswered.size === 0 && batch.held) {
    batch.held = false;
    schedule(device, qp);
  }
  return true;
}

/** H-02: batches grow while hints are in time, and shrink where they come late or are refused. */
function adapt(
  end: HintEnd,
  answer: {
    readonly batch: Batch;
    readonly type: HintMessage["type"];
    readonly cursor: number;
  },
): void {
  const { batch: { first }, type, cursor } = answer;
  const isUseful = type === "prepared" && cursor <= first;
  const { least, most } = HINT_BATCH;
  end.batch = isUseful ? Math.min(most, 2 * end.batch) : Math.max(least, end.batch >> 1);
}

const OPERATIONS: Readonly<Partial<Record<OutstandingWqe["plan"]["wire"], HintOperation>>> = {
  "send": "send",
  "write": "write",
  "write-verify": "write",
  "atomic-write": "write",
  "read-request": "read",
  "fetch-add": "fetch-add",
  "compare-swap": "compare-swap",
};

/** H-01: the elements [from, until) with the PSNs that they will have, if none before them fails. */
function elementsOf(qp: QueuePair, from: number, until: number): WorkElement[] {
  const { requester: { cursor, nextPsn, work }, attributes: { destQpn, pathMtu } } = qp;
  const elements: WorkElement[] = [];
  let psn = nextPsn;
  for (let number = cursor; number < until; number++) {
    const each = work.at(number)!;
    if (each.started) continue;
    const sequence = psn;
    if (each.plan.wire !== "none") psn = psnAdd(psn, packetsOf(each.length, pathMtu));
    const operation = OPERATIONS[each.plan.wire];
    if (number < from || operation === undefined || each.failure !== undefined) continue;
    const { va, rkey } = each.wqe!.remote ?? UNTAGGED;
    const length = WORDS.has(each.plan.wire) ? ATOMIC_BYTES : each.length;
    // Without data key and address mean nothing (`rocev2.md` §1.3).
    if (length === 0 && operation !== "send") continue;
    const tagged = operation === "send" ? { ...UNTAGGED, length: 0 } : { va, rkey, length };
    elements.push({ sourceQpn: qp.qpn, destQpn, operation, sequence, ...tagged, objects: [] });
  }
  return elements;
}

const UNTAGGED = { va: 0n, rkey: 0 } as const;
const WORDS: ReadonlySet<OutstandingWqe["plan"]["wire"]> = new Set([
  "fetch-add",
  "compare-swap",
  "atomic-write",
]);
