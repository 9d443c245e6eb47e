/**
 * The requester's side: looks ahead in a send queue (H-02), and announces work elements in batches (H-03, H-05).
 * `hold.ts` makes them wait behind their hint.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import {
  HINT_ETH_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
  HINT_TRAILER_BYTES,
  type HintEncoding,
} from "../../../fabric/wire/roce/hint_eth.ts";
import {
  bytesOf,
  entryBytes,
  type HintEntry,
  type HintGroup,
  type HintMessage,
} from "../../../fabric/wire/roce/hint.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { FrameHint } from "../state/tx_frame.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Device } from "../state/device.ts";
import type { HeldWork, HintEnd, Hints } from "./state/hint_state.ts";
import { beginJob, takesTime } from "./work.ts";
import { rights } from "../state/life_cycle.ts";
import { LIMITS } from "../state/limits.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";
import { packetsOf, psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { askAgain, type HintRoute, routeOf, senderOf } from "./agree.ts";
import { scopesOf, type Turn, turnOf } from "./back_off.ts";
import { groupElements, kindsOf, splitGroups, type WorkElement } from "./build_hint.ts";
import { hold } from "./hold.ts";
import { type Sender, sendHint, sendRange, sendToGroup, takeSequence } from "./send_hint.ts";
import { traceHintOut } from "./trace.ts";

/** Hints of a queue pair whose answers are waited for, though their work has been started. */
const BATCHES_MAX = 16;

/** Announces the queue pair's due work. Called before its next request is begun. */
export function lookAhead(device: Device, hints: Hints, qp: QueuePair): void {
  const end = hints.ends.get(qp);
  if (end === undefined || end.life !== qp.life || !rights(qp.state).startsWork) return;
  const { cursor, work } = qp.requester;
  const until = Math.min(work.end, cursor + hints.plan.depth);
  // In most turns all is announced already; a peer that has said nothing may have to be asked.
  if (end.lookedTo >= until && end.agreed !== undefined) return;
  const sender = { hints, qp, end };
  const route = routeOf(hints, qp);
  if (route === undefined) return askAgain(device, hints, qp);
  if (RIDES[route.encoding] !== undefined) return;
  // A full look-ahead goes on when its first request does.
  const isMoreComing = until === cursor + hints.plan.depth
    ? until < work.end && !isHeld(end, cursor)
    : qp.sq.busy || qp.sq.mayHaveMore;
  // A batch may be as long as the look-ahead, so half of that is enough.
  const enough = Math.min(end.batch, Math.ceil(hints.plan.depth / 2));
  let isAnnounced = false;
  while (end.lookedTo < until) {
    const from = Math.max(end.lookedTo, cursor);
    // The next request waits for no batch to fill.
    if (until - from < enough && isMoreComing && from !== cursor) break;
    const batchEnd = Math.min(until, from + end.batch);
    const turn = turnOf(sender, from, batchEnd);
    if (turn === "passed-over") {
      end.lookedTo = batchEnd;
      end.isAnnouncing = false;
      continue;
    }
    announce(device, route, [
      { ...sender, from, until: batchEnd, turn },
      ...route.by === qp ? [] : workOfOthers(sender, route),
    ]);
    isAnnounced = true;
  }
  if (isAnnounced) lookAheadOfOthers(device, hints);
}

function isHeld({ batches }: HintEnd, number: number): boolean {
  return batches.some(({ first, end, held }) => held && number >= first && number < end);
}

/**
 * H-05: announces work that waits in other queue pairs, of whatever responder, before the first request of this one
 * begins [0015, 0108]. A queue pair that is not in line for a turn has announced all, or has no work on the chip.
 */
function lookAheadOfOthers(device: Device, hints: Hints): void {
  if (hints.isLooking) return;
  hints.isLooking = true;
  const { roundRobin } = device;
  for (let number = roundRobin.first; number < roundRobin.end; number++) {
    lookAhead(device, hints, roundRobin.at(number)!);
  }
  hints.isLooking = false;
}

/** H-07: other operations whose packets can have a hint: one behind the headers needs no payload. */
const RIDES: Readonly<Partial<Record<HintEncoding, ReadonlySet<OpcodeRow["operation"]>>>> = {
  "header": new Set(["send", "write", "read-request"]),
  "payload": new Set(["send", "write"]),
};

/**
 * H-07: announces due work in a packet that is begun anyway, as far as there is room within the path MTU. The
 * packet's own request needs no hint any more; work without a hint is not held back for it.
 */
export function rideAlong(
  device: Device,
  hints: Hints,
  packet: { readonly qp: QueuePair; readonly row: OpcodeRow; readonly payloadBytes: number },
): FrameHint | undefined {
  const { qp, row, payloadBytes } = packet;
  if (RIDES[qp.hintEncoding ?? hints.plan.encoding]?.has(row.operation) !== true) return undefined;
  const route = row.vendor ? undefined : routeOf(hints, qp);
  if (route?.by !== qp) return undefined;
  const { end } = route;
  const form = route.encoding === "header" ? "header" : "payload";
  const trailer = form === "header" ? 0 : HINT_TRAILER_BYTES;
  let room = qp.attributes.pathMtu - payloadBytes - HINT_ETH_BYTES - trailer;
  const spans: Turned[] = [];
  const isCarrier = hints.plan.transport === "carrier" &&
    hints.carriers.get(qp.path.address) === qp;
  for (
    const span of [
      ...aheadOf({ hints, qp, end }),
      ...isCarrier ? waitingOfOthers({ hints, qp, end }, route) : [],
    ]
  ) {
    const { until, left } = fitting(span, room);
    if (until === span.from) break;
    // Turns are taken where there is room: a probe that is due waits for that.
    const turned = turnedOf(span);
    if (turned === undefined) continue;
    room = left;
    spans.push({ ...turned, until });
  }
  const { messages: [message] } = announceIn(device, route, { spans, isMade: true });
  if (message !== undefined && device.out.tracing) {
    traceHintOut(device, message, `in a packet of QP ${qp.qpn}, ${form}`);
  }
  if (message === undefined) return undefined;
  const bytes = bytesOf(message) + trailer;
  assert(payloadBytes + bytes <= qp.attributes.pathMtu, "A packet is too long with its hint");
  return { form, message, bytes };
}

/** How much of a queue pair's work has room in a hint, as a group with its lists of objects, and the room left. */
function fitting(
  { hints, qp, from, until: end }: Span,
  room: number,
): { until: number; left: number } {
  let left = room - HINT_GROUP_BYTES, until = from;
  for (; until < end; until++) {
    const { wqe } = qp.requester.work.at(until)!;
    const { objects = [] } = wqe ?? {};
    const bytes = entryBytes({ objects, ...(hints.plan.operands && operandsOf(wqe)) });
    if (bytes > left) break;
    left -= bytes;
  }
  return { until, left };
}

/** The queue pair's work behind the request that is begun. */
function aheadOf(sender: Sender): Span[] {
  const { hints: { plan }, qp: { requester: { cursor, work } }, end } = sender;
  const from = Math.max(end.lookedTo, cursor + 1);
  const until = Math.min(work.end, cursor + plan.depth, from + end.batch);
  return from < until ? [{ ...sender, from, until }] : [];
}

/** Undefined where the span goes without a hint, as those before it have brought nothing; it is not looked at again. */
function turnedOf(span: Span): Turned | undefined {
  const { end, from, until } = span;
  const turn = turnOf(span, from, until);
  if (turn !== "passed-over") return { ...span, turn };
  end.isAnnouncing = false;
  end.lookedTo = until;
  return undefined;
}

interface Span extends Sender {
  readonly from: number;
  readonly until: number;
}

/** Spans to be announced, all or as a probe. */
interface Turned extends Span {
  readonly turn: Turn;
}

/** H-02, H-05: work of the other queue pairs of the same responder, for a group of all responders. */
function workOfOthers(sender: Sender, route: HintRoute): Turned[] {
  return waitingOfOthers(sender, route).flatMap((span) => turnedOf(span) ?? []);
}

function waitingOfOthers({ hints, qp }: Sender, { by }: HintRoute): Span[] {
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
function announce(device: Device, route: HintRoute, spans: readonly Turned[]): void {
  const { hints, qp, end, by, encoding, group } = route;
  const { life } = by;
  const isMade = !takesTime(hints, "announce");
  const { messages, held } = announceIn(device, route, { spans, isMade });
  for (const message of messages) {
    const elements = message.groups.reduce((sum, { entries }) => sum + entries.length, 0);
    const behind = held.filter(({ qp }) => group === undefined || concerns(message, qp));
    const way = { qp, life, end, by, encoding, group };
    const item = { kind: "hint", ...way, message, held: behind } as const;
    if (beginJob(device, hints, { job: "announce", item, elements })) continue;
    sendAnnouncement(device, route, message);
  }
}

/** Sends a hint that is made. */
export function sendAnnouncement(device: Device, route: HintRoute, message: HintMessage): void {
  const { hints, by, group, encoding } = route;
  if (device.out.tracing) {
    const how = group === undefined ? `by QP ${by.qpn}, ${encoding}` : `to a group by QP ${by.qpn}`;
    traceHintOut(device, message, how);
  }
  if (group !== undefined) sendToGroup(device, { hints, by, group }, message);
  else if (encoding !== "flagged") sendHint(device, route, message);
  else {
    const { answer, groups: [{ entries: [entry] }] } = message as RangeMessage;
    sendRange(device, { hints, qp: by }, { entry, answer });
  }
}

/**
 * Makes and counts the messages of one hint, and holds back the work behind them.
 * @param isMade they leave at once; else the work that waits for them is returned as well.
 */
function announceIn(
  device: Device,
  route: HintRoute,
  { spans, isMade }: { readonly spans: readonly Turned[]; readonly isMade: boolean },
): { readonly messages: readonly HintMessage[]; readonly held: readonly HeldWork[] } {
  const { hints } = route;
  const { counters, plan } = hints;
  const groups: HintGroup[] = [];
  let elements = 0;
  for (const span of spans) {
    const { qp, end, from, until } = span;
    forgetStarted(span);
    end.lookedTo = until;
    end.isAnnouncing = true;
    const its = elementsOf(qp, { from, until, hasOperands: plan.operands });
    elements += its.length;
    groups.push(...groupElements(its, wordOf(route, qp).end.agreed!));
  }
  const room = route.group === undefined
    ? route.by.attributes.pathMtu
    : device.plan.mtu - HINT_ETH_BYTES;
  const parts = route.encoding === "flagged"
    ? rangesOf(groups, route.by)
    : splitGroups(groups, room);
  if (parts.length === 0) return { messages: [], held: [] };
  // A probe is sent to learn whether hints are needed again.
  const answer = plan.follow === "after-ack" || plan.batch === "adaptive" ||
    spans.some(({ turn }) => turn === "probe");
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
  countObjects(hints, parts);
  const held: HeldWork[] = [];
  if (isMade && !answer && plan.follow === "at-once" && plan.intervalPs === 0) {
    return { messages, held };
  }
  for (const [i, span] of spans.entries()) {
    const { qp: carrier, end: { waits } } = wordOf(route, span.qp);
    // Each queue pair gets its own answer to a group's hint.
    const isEach = route.group !== undefined;
    const its = isEach ? messages.filter((message) => concerns(message, span.qp)) : messages;
    if (its.length === 0) continue;
    const unanswered = new Set(answer ? its.map(({ sequence }) => sequence) : []);
    const { follow } = plan;
    const waitPs = follow === "agreed"
      ? longestWait(waits, parts.flat(), span)
      : WAITS[follow](plan);
    const unsent = isMade ? 0 : its.length;
    const leads = isEach || i === 0;
    const probes = span.turn === "probe";
    const scopes = probes ? [...scopesOf(hints, span.qp, span)] : [];
    const way = { carrier, leads, probes, scopes };
    const work = hold(device, span, { ...way, unanswered, unsent, waitPs });
    if (work !== undefined) held.push(work);
  }
  return { messages, held };
}

/**
 * H-03: counts lists of objects that go out, and the calls that they save: one for each further object [0013,
 * 0075].
 */
function countObjects({ counters }: Hints, parts: readonly (readonly HintGroup[])[]): void {
  for (const groups of parts) {
    for (const { entries } of groups) {
      for (const { objects } of entries) {
        if (objects.length === 0) continue;
        counters.hintObjectLists++;
        counters.hintCallsSaved += objects.length - 1;
      }
    }
  }
}

/** The queue pair and end that agree, and are answered, on that route. */
function wordOf(route: HintRoute, qp: QueuePair): Sender {
  return route.group === undefined ? route : senderOf(route.hints, qp)!;
}

function concerns({ groups }: HintMessage, { qpn }: QueuePair): boolean {
  return groups.some(({ sourceQpn }) => sourceQpn === qpn);
}

/** A message for each range that a READ or WRITE of no bytes can name; UC has no READ, and none has a list. */
function rangesOf(groups: readonly HintGroup[], { type }: QueuePair): HintGroup[][] {
  return groups.flatMap(({ entries, ...ends }) =>
    entries.flatMap((entry) => {
      const isThere = entry.operation === "write" || (entry.operation === "read" && type === "rc");
      const kinds = entry.kinds & HINT_KINDS.prefetch;
      return isThere && kinds !== 0
        ? [[{ ...ends, entries: [withoutList({ ...entry, kinds })] }]]
        : [];
    })
  );
}

/** A READ or WRITE of no bytes has room for RETH's range alone. */
function withoutList({ parts: _, ...entry }: HintEntry): HintEntry {
  return { ...entry, objects: [] };
}

type RangeMessage = HintMessage & {
  readonly groups: readonly [{ readonly entries: readonly [HintEntry] }];
};

/** H-06: how long work waits behind its hint, at most, where the peer has no say in it. */
const WAITS: Readonly<Record<Exclude<HintPlan["follow"], "agreed">, (plan: HintPlan) => Time>> = {
  "at-once": () => 0,
  "delay": ({ delayPs }) => delayPs,
  "after-ack": ({ patiencePs }) => patiencePs,
};

/** H-06: the longest wait that the peer asks for the kinds of a queue pair's part of a hint. */
function longestWait(
  waits: ReadonlyMap<number, Time>,
  groups: readonly HintGroup[],
  { qp }: Span,
): Time {
  const kinds = kindsOf(groups.filter(({ sourceQpn }) => sourceQpn === qp.qpn));
  let longest = 0;
  for (const [kind, waitPs] of waits) if ((kinds & kind) !== 0) longest = Math.max(longest, waitPs);
  return longest;
}

/** H-01: the elements [from, until) with the PSNs that they will have if none before them fails. */
function elementsOf(
  qp: QueuePair,
  { from, until, hasOperands }: Pick<Span, "from" | "until"> & { readonly hasOperands: boolean },
): WorkElement[] {
  const { requester: { cursor, nextPsn, work }, attributes: { destQpn, pathMtu } } = qp;
  const elements: WorkElement[] = [];
  let psn = nextPsn;
  for (let number = cursor; number < until; number++) {
    const each = work.at(number)!;
    if (each.started) continue;
    const sequence = psn;
    if (each.plan.wire !== "none") psn = psnAdd(psn, packetsOf(each.length, pathMtu));
    const { hint: operation, data } = each.plan;
    if (number < from || operation === undefined || each.failure !== undefined) continue;
    const { va, rkey } = each.wqe!.remote ?? UNTAGGED;
    const length = data === "word" || data === "word room" ? ATOMIC_BYTES : each.length;
    // Without data, key and address mean nothing (`rocev2.md` §1.3).
    if (length === 0 && operation !== "send") continue;
    const { objects = [] } = each.wqe!;
    const ends = { sourceQpn: qp.qpn, destQpn };
    const told = hasOperands ? operandsOf(each.wqe) : undefined;
    elements.push(
      operation === "send"
        ? { ...ends, operation, sequence, va: 0n, rkey: 0, length: 0, objects }
        : { ...ends, operation, sequence, va, rkey, length, objects, ...told },
    );
  }
  return elements;
}

/** A WQE's operand data for its hint [0086]. */
function operandsOf(wqe: OutstandingWqe["wqe"]): Pick<WorkElement, "operands" | "parts"> {
  return { operands: wqe?.atomic, parts: wqe?.parts };
}

const UNTAGGED = { va: 0n, rkey: 0 } as const;
/** One read of WQEs brings a page of them at most. */
const AHEAD_UNITS_MAX = 64;

/**
 * H-02: units of the send queue that the next read should bring, so that the rest of an announced list is announced
 * together; undefined where no work is. The first units of a list are read, and begun, as without hints.
 */
export function unitsAhead(hints: Hints, qp: QueuePair): number | undefined {
  const end = hints.ends.get(qp);
  const { work } = qp.requester;
  if (end?.life !== qp.life || !end.isAnnouncing || work.length === 0) return undefined;
  const last = work.at(work.end - 1)!, before = work.at(work.end - 2);
  // One WQE alone says nothing of their size, nor do two about the ring's end.
  const unitsOfWqe = Math.max(1, last.position - (before ?? last).position);
  const room = LIMITS.workPerQueuePair - work.length;
  return Math.min(end.batch * unitsOfWqe, AHEAD_UNITS_MAX, Math.max(room, 0));
}
