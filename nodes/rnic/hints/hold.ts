/**
 * The requester's side, behind a hint: work that waits (H-06), and the effects of its answer (H-22).
 *
 * After a NAK a request goes at once, and meets what it would have met without a hint ({@link AFTER_NAK} has the
 * other effects); after silence it goes when the patience is over. A peer that was silent three times in a row gets
 * no more hints until it says what it wants.
 */
import { Fifo } from "../../../fabric/base/fifo.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { HINT_BATCH, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { HintReason } from "../../../fabric/wire/roce/hint_eth.ts";
import type { HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { type Device, schedule } from "../state/device.ts";
import type { Batch, HeldWork, HintEnd, Hints, Hold } from "./state/hint_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { takeNeedless, takeProbeAnswer } from "./back_off.ts";
import type { Sender } from "./send_hint.ts";
import { traceHintAnswered } from "./trace.ts";

const SILENCES_MAX = 3;

/** True if hints let the next work element start. */
export function mayFollowHint(
  device: Device,
  hints: Hints,
  { qp, number }: { readonly qp: QueuePair; readonly number: number },
): boolean {
  const { ends, counters } = hints;
  const end = ends.get(qp);
  if (end === undefined || end.batches.length === 0 || end.life !== qp.life) return true;
  const batch = end.batches.find((each) => number < each.end);
  if (batch !== undefined && number >= batch.first) {
    if (batch.held || !keepInterval(device, { hints, qp, end }, number)) {
      end.heldSince ??= device.now;
      return false;
    }
  }
  if (end.heldSince !== undefined) {
    counters.hintHoldPs += device.now - end.heldSince;
    end.heldSince = undefined;
  }
  return true;
}

/** H-06 [0121]: announced work begins at an interval. @returns whether that of this number may now. */
function keepInterval(device: Device, { hints, qp, end }: Sender, number: number): boolean {
  const { intervalPs } = hints.plan;
  if (intervalPs === 0 || number <= end.permitted) return true;
  if (device.now < end.nextAt) {
    // Asked more often than the queue pair needs to be woken.
    if (end.wakeAt !== end.nextAt) {
      addHold(hints, intervalPs, { at: end.nextAt, qp, life: qp.life });
    }
    end.wakeAt = end.nextAt;
    return false;
  }
  end.permitted = number;
  end.nextAt = device.now + intervalPs;
  return true;
}

/**
 * H-06: the work elements of a hint wait until it leaves, and then for a time, or for its answer.
 * @returns the work that {@link endMaking} is to be called with.
 */
export function hold(
  device: Device,
  { hints, qp, end, from, until }: Sender & { readonly from: number; readonly until: number },
  hint: Omit<Batch, "first" | "end" | "held">,
): HeldWork | undefined {
  const { unsent, waitPs, unanswered } = hint;
  const held = unsent > 0 || waitPs > 0;
  if (!held && unanswered.size === 0 && hints.plan.intervalPs === 0) return undefined;
  const batch: Batch = { ...hint, first: from, end: until, held };
  end.batches.push(batch);
  const work = { qp, life: qp.life, batch };
  if (unsent === 0) beginHold(device, hints, work);
  return work;
}

/** A message of the hint leaves, or never will: behind the last one, the work's wait begins. */
export function endMaking(device: Device, hints: Hints, held: readonly HeldWork[]): void {
  for (const work of held) if (--work.batch.unsent === 0) beginHold(device, hints, work);
}

function beginHold(device: Device, hints: Hints, { qp, life, batch }: HeldWork): void {
  const { waitPs } = batch;
  if (waitPs > 0) return addHold(hints, waitPs, { at: device.now + waitPs, qp, life, batch });
  if (!batch.held) return;
  batch.held = false;
  if (life === qp.life) schedule(device, qp);
}

/** Holds of equal length are in the order of their ends. */
function addHold({ holds }: Hints, waitPs: Time, hold: Hold): void {
  let sameWait = holds.get(waitPs);
  if (sameWait === undefined) holds.set(waitPs, sameWait = new Fifo());
  sameWait.push(hold);
}

export function endHolds(device: Device, hints: Hints): void {
  if (hints.holds.size === 0) return;
  for (const sameWait of hints.holds.values()) {
    for (let next = sameWait.peek(); next !== undefined; next = sameWait.peek()) {
      if (next.at > device.now) break;
      sameWait.shift();
      endHold(device, hints, next);
    }
  }
}

function endHold(device: Device, hints: Hints, { qp, life, batch }: Hold): void {
  if (life !== qp.life || batch?.held === false) return;
  if (batch !== undefined) {
    batch.held = false;
    if (hints.plan.follow === "after-ack" && batch.leads) noteSilence(hints, batch);
  }
  schedule(device, qp);
}

/** When a hold ends, or a miss is to be told. */
export function holdsWakeAt({ now }: Device, { holds, missed }: Hints): Time {
  if (missed.length > 0) return now;
  if (holds.size === 0) return NEVER;
  let wakeAt: Time = NEVER;
  for (const [waitPs, sameWait] of holds) {
    let next = sameWait.peek();
    // An answered hold needs no waking.
    while (next !== undefined && (next.batch?.held === false || next.life !== next.qp.life)) {
      sameWait.shift();
      next = sameWait.peek();
    }
    if (next === undefined) holds.delete(waitPs);
    else wakeAt = Math.min(wakeAt, next.at);
  }
  return wakeAt;
}

function noteSilence(hints: Hints, { carrier, unanswered }: Batch): void {
  hints.counters.hintsUnanswered += unanswered.size;
  const end = hints.ends.get(carrier);
  if (end !== undefined && ++end.silences >= SILENCES_MAX) end.agreed = 0;
}

/** H-22: the peer answers a hint that went by this queue pair. */
export function takeAnswer(device: Device, sender: Sender, message: HintMessage): void {
  const { hints, qp, end } = sender;
  const { type, reason, kinds, answer } = message;
  if (device.out.tracing) traceHintAnswered(device, qp, message);
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
  if (type === "prepared") takeNeedless(device, sender, message.groups);
  // A duplicate, or an answer to a hint that is forgotten, or that asked for none.
  if (!isKnown) {
    // Unasked, a peer names the queue pairs for which hints have been needless.
    if (type === "refused" || message.groups.length === 0) hints.counters.hintAnswersUnknown++;
    return;
  }
  end.silences = 0;
  if (type === "prepared") hints.counters.hintsPrepared++;
  else countElements(hints, message);
  // Of several NAKs of one hint the last one is counted.
  if (type === "refused" && !answer) hints.counters.hintsRefused++;
  if (AFTER_NAK[reason].takesKinds) end.agreed = kinds & hints.plan.kinds;
}

/** H-22: the counter of each reason. */
const NAK_COUNTERS = {
  refusal: "hintElementsRefused",
  inability: "hintElementsUnable",
  error: "hintElementsFailed",
} as const;

/**
 * H-22: the requester's reaction to elements that were not prepared for. Their requests go in any case, and are
 * checked, or wait for what is missing, as without hints.
 */
const AFTER_NAK: Readonly<
  Record<HintReason, {
    readonly says: keyof typeof NAK_COUNTERS;
    /** Adaptive batches are halved: the responder can do fewer at a time. */
    readonly shrinks: boolean;
    /** The peer names the kinds that it wants from now on, and gets no others. */
    readonly takesKinds: boolean;
  }>
> = {
  "none": { says: "refusal", shrinks: true, takesKinds: false },
  "not-wanted": { says: "refusal", shrinks: false, takesKinds: true },
  "quota": { says: "inability", shrinks: true, takesKinds: false },
  // The request itself will be refused, which ends the queue pair: nothing is left to adapt.
  "no-access": { says: "refusal", shrinks: false, takesKinds: false },
  "unknown-qp": { says: "refusal", shrinks: false, takesKinds: false },
  "error": { says: "error", shrinks: false, takesKinds: false },
};

function countElements({ counters }: Hints, { reason, groups }: HintMessage): void {
  const counter = NAK_COUNTERS[AFTER_NAK[reason].says];
  for (const { entries } of groups) counters[counter] += entries.length;
}

/** Ends the wait of a queue pair's announced work. @returns whether it waited. */
function endWait(
  device: Device,
  { hints, qp, end }: Sender,
  { message, carrier }: { readonly message: HintMessage; readonly carrier: QueuePair },
): boolean {
  const { sequence } = message;
  const batch = end.batches.find((each) =>
    each.carrier === carrier && each.unanswered.has(sequence)
  );
  if (batch === undefined) return false;
  if (hints.plan.batch === "adaptive") {
    adapt(hints.plan, end, { batch, message, cursor: qp.requester.cursor });
  }
  takeProbeAnswer({ hints, qp, batch }, message);
  // Another NAK follows, about other elements of the hint.
  if (message.answer) return true;
  batch.unanswered.delete(sequence);
  if (batch.unanswered.size === 0 && batch.held) {
    batch.held = false;
    schedule(device, qp);
  }
  return true;
}

/**
 * H-02: batches grow while hints are in time, and shrink where they come late or are refused. Where no request
 * waits, every hint is late for the first of its work: only work farther behind can be in time.
 */
function adapt(
  { follow }: HintPlan,
  end: HintEnd,
  answer: {
    readonly batch: Batch;
    readonly message: HintMessage;
    readonly cursor: number;
  },
): void {
  const { batch: { first }, message: { type, reason }, cursor } = answer;
  const isLate = follow !== "at-once" && cursor >= first;
  const { least, most } = HINT_BATCH;
  if (type === "prepared" ? isLate : AFTER_NAK[reason].shrinks) {
    end.batch = Math.max(least, end.batch >> 1);
  } else if (type === "prepared") end.batch = Math.min(most, 2 * end.batch);
}
