/**
 * H-02, H-22: hints that bring nothing get rare. The responder knows of each whether anything had to be fetched for
 * it, and says so of queue pairs whose last {@link NEEDLESS_HINTS} needed nothing; the requester announces every
 * second batch then, and with each answer that says the same half as many. A hint that was needed, work that has to
 * be sent again, and a request that met what no hint had announced each make it announce all again, at once.
 */
import type { HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import type { Device } from "../state/device.ts";
import type { Batch, HintElement, HintEnd, Hints } from "../state/hints/hint_state.ts";
import { NEEDLESS_HINTS } from "../state/hints/needless.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { WorkElement } from "./build_hint.ts";
import type { Sender } from "./send_hint.ts";

/** Of the batches every 2^6-th is announced, at least: a hint is a few percent of its work, this is nothing. */
const RARITY_MAX = 6;

/** Keys of a queue pair that are told apart. */
const KEYS_MAX = 64;

/**
 * Whether the work elements [from, until), a batch, go without a hint. One that is due, a probe, has its answer asked
 * for, and so has one with a key of which nothing was announced so far: its memory may well not be there.
 */
export function isPassedOver(
  { hints: { counters }, qp, end }: Sender,
  from: number,
  until: number,
): boolean {
  if (end.rarity === 0 || hasNewKey(qp, end, { from, until })) {
    return false;
  }
  if (++end.passedOver < 2 ** end.rarity) {
    counters.hintBatchesPassedOver++;
    return true;
  }
  end.passedOver = 0;
  return false;
}

function hasNewKey(
  { requester: { work } }: QueuePair,
  { keys }: HintEnd,
  { from, until }: { readonly from: number; readonly until: number },
): boolean {
  if (keys.size >= KEYS_MAX) return false;
  for (let number = from; number < until; number++) {
    const remote = work.at(number)?.wqe?.remote;
    if (remote !== undefined && !keys.has(remote.rkey)) return true;
  }
  return false;
}

/** What was announced of the queue pair has these keys. */
export function noteKeys({ keys }: HintEnd, elements: readonly WorkElement[]): void {
  for (const { rkey } of elements) if (keys.size < KEYS_MAX) keys.add(rkey);
}

/** All that waits in the queue pair is announced again. */
export function announceAgain(hints: Hints, qp: QueuePair): void {
  const end = hints.ends.get(qp);
  if (end !== undefined) end.rarity = end.passedOver = 0;
}

/** The peer has said anew what it wants: of all queue pairs that it says so for. */
export function announceAllAgain(hints: Hints, by: QueuePair): void {
  announceAgain(hints, by);
  if (hints.carriers.get(by.path.address) !== by) return;
  for (const qp of hints.ends.keys()) {
    if (qp.path.address === by.path.address) announceAgain(hints, qp);
  }
}

/** A probe's answer: hints get rarer still where it was needless, too. */
export function takeProbeAnswer(
  { qp, end, batch }: { readonly qp: QueuePair; readonly end: HintEnd; readonly batch: Batch },
  { type, reason, groups }: HintMessage,
): void {
  if (!batch.probes || end.rarity === 0) return;
  if (type === "prepared") {
    const isNeedless = groups.some(({ sourceQpn }) => sourceQpn === qp.qpn);
    end.rarity = isNeedless ? Math.min(end.rarity + 1, RARITY_MAX) : 0;
  } else if (reason === "quota" || reason === "error") end.rarity = 0;
}

/** The peer names queue pairs whose hints have been needless for long: they get rare, where they are not. */
export function takeNeedless(
  { queuePairs }: Device,
  { hints, qp: by }: { readonly hints: Hints; readonly qp: QueuePair },
  groups: readonly HintGroup[],
): void {
  if (hints.plan.backOff === "off") return;
  for (const { sourceQpn, destQpn } of groups) {
    const qp = queuePairs.get(sourceQpn);
    // A peer has a say in what goes to itself alone.
    const isTheirs = qp !== undefined && qp.path.address === by.path.address &&
      qp.attributes.destQpn === destQpn;
    const end = isTheirs ? hints.ends.get(qp) : undefined;
    if (end !== undefined && end.rarity === 0) end.rarity = 1;
  }
}

/** As responder: of the queue pairs that a hint is about those to which hints have been needless for long. */
export function needlessOf(
  { queuePairs }: Device,
  hints: Hints,
  elements: readonly HintElement[],
): HintGroup[] {
  const groups: HintGroup[] = [];
  for (const { ends: { destQpn, sourceQpn } } of elements) {
    if (groups.at(-1)?.destQpn === destQpn) continue;
    const target = queuePairs.get(destQpn);
    const end = target && hints.ends.get(target);
    if (end !== undefined && end.needless >= NEEDLESS_HINTS) {
      groups.push({ destQpn, sourceQpn, entries: [] });
    }
  }
  return groups;
}
