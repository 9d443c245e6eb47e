/**
 * The functions that write a requester's fields, one per event; `requester/` and `queues/` decide
 * which event happens.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { LIMITS } from "./limits.ts";
import { lastPsnOf, type OutstandingWqe } from "./outstanding_wqe.ts";
import { psnAdd, psnDistance } from "./psn.ts";
import type { QueuePair, Requester } from "./queue_pair.ts";
import type { Writable } from "./writable.ts";

function own({ requester }: QueuePair): Writable<Requester> {
  return requester as Writable<Requester>;
}

export function addWork(qp: QueuePair, work: OutstandingWqe): void {
  const { work: all, cpuAcks } = own(qp);
  all.push(work);
  if (work.wqe?.opcode === "persistence-ack") cpuAcks.push(work);
}

export function takeCpuAck(qp: QueuePair): OutstandingWqe | undefined {
  return own(qp).cpuAcks.shift();
}

export function startWork(qp: QueuePair, work: OutstandingWqe): void {
  const requester = own(qp);
  const { answered, takesSlot, awaitsPersistence } = work.plan;
  work.started = true;
  work.firstPsn = requester.nextPsn;
  requester.nextPsn = psnAdd(requester.nextPsn, work.packets);
  if (work.packets > 0) {
    work.ssn = requester.nextSsn;
    requester.nextSsn = psnAdd(requester.nextSsn, 1);
  }
  if (answered) requester.unanswered++;
  if (takesSlot) requester.slotsTaken++;
  if (awaitsPersistence) requester.persistWaiting.set(lastPsnOf(work), work);
}

/** Behind a message's last frame the cursor goes to the next work. */
export function passFrame(qp: QueuePair, work: OutstandingWqe): void {
  const requester = own(qp);
  const index = requester.cursorPacket;
  const isOfAnswer = work.plan.psnsOf === "answer";
  const end = psnAdd(work.firstPsn, isOfAnswer ? work.packets : index + 1);
  if (psnDistance(requester.issuedEnd, end) > 0) requester.issuedEnd = end;
  if (isOfAnswer || index === work.packets - 1) {
    requester.cursor++;
    requester.cursorPacket = 0;
  } else {
    requester.cursorPacket++;
  }
}

export function passWork(qp: QueuePair): void {
  const requester = own(qp);
  if (requester.ackCursor === requester.cursor) requester.ackCursor++;
  requester.cursor++;
}

/** A frame asks for an ACK where `needed`, or after many frames. @returns whether it asks. */
export function countTowardsAck(qp: QueuePair, needed: boolean): boolean {
  const requester = own(qp);
  requester.sinceAckReq++;
  if (!needed && requester.sinceAckReq < LIMITS.ackEveryPackets) return false;
  requester.sinceAckReq = 0;
  return true;
}

/**
 * A READ goes on behind its last response, other answered work restarts, a verified write goes on
 * behind acknowledged packets, as a WRITE does.
 */
export function goBackTo(qp: QueuePair, psn: number): void {
  const requester = own(qp);
  requester.probes.clear();
  requester.sinceAckReq = 0;
  for (let number = requester.ackCursor; number < requester.work.end; number++) {
    const work = requester.work.at(number)!;
    if (!work.started) break;
    const index = psnDistance(work.firstPsn, psn);
    if (index >= work.packets) continue;
    requester.cursor = number;
    const { answered, streams } = work.plan;
    requester.cursorPacket = answered && !streams ? work.responses : Math.max(0, index);
    return;
  }
}

export function acknowledgeBefore(qp: QueuePair, psn: number): void {
  own(qp).unacknowledged = psn;
}

export function passAcknowledged(qp: QueuePair): void {
  own(qp).ackCursor++;
}

/** A restart need not repeat what was acknowledged meanwhile. */
export function skipAcknowledged(qp: QueuePair): void {
  const requester = own(qp);
  if (requester.cursor < requester.ackCursor) {
    requester.cursor = requester.ackCursor;
    requester.cursorPacket = 0;
  }
  const work = requester.work.at(requester.cursor);
  if (work === undefined || !work.started || work.packets === 0) return;
  const known = work.plan.answered && !work.plan.streams
    ? work.responses
    : psnDistance(work.firstPsn, requester.unacknowledged);
  if (known > requester.cursorPacket && known < work.packets) requester.cursorPacket = known;
}

export function takeAnswered(
  qp: QueuePair,
  { work, psn }: { readonly work: OutstandingWqe; readonly psn: number },
): void {
  const requester = own(qp);
  work.rereadAsked = false;
  requester.unacknowledged = psnAdd(psn, 1);
  if (work.responses < work.packets) return;
  work.acked = true;
  requester.unanswered--;
  if (work.plan.takesSlot) requester.slotsTaken--;
  requester.ackCursor++;
}

export function takeOldest(qp: QueuePair): OutstandingWqe | undefined {
  return own(qp).work.shift();
}

/** Work that crosses no wire may complete though a restart has yet to pass it. */
export function completeOldest(qp: QueuePair): void {
  const requester = own(qp);
  const work = requester.work.shift()!;
  if (requester.ackCursor < requester.work.first) {
    requester.ackCursor = requester.work.first;
    skipAcknowledged(qp);
  }
  work.completed = true;
}

export function skipFlushed(qp: QueuePair): void {
  const requester = own(qp);
  requester.cursor = requester.work.first;
  requester.ackCursor = requester.work.first;
  requester.cursorPacket = 0;
}

export function spendRetry(qp: QueuePair): boolean {
  const requester = own(qp);
  if (requester.retriesLeft === 0) return false;
  requester.retriesLeft--;
  return true;
}

const ENDLESS_RNR = 7;

/** @returns whether an RNR retry was left. */
export function beginRnrWait(qp: QueuePair, now: Time): boolean {
  const requester = own(qp);
  if (requester.rnrRetriesLeft === 0) return false;
  if (qp.attributes.rnrRetry !== ENDLESS_RNR) requester.rnrRetriesLeft--;
  requester.rnrWaiting = true;
  requester.rnrSince ??= now;
  return true;
}

/** Takes the work with this last PSN (P-28). */
export function takePersisted(qp: QueuePair, psn: number): void {
  const { persistWaiting } = own(qp);
  persistWaiting.get(psn)!.persisted = true;
  persistWaiting.delete(psn);
}

/** P-30. @returns for how many works persistence ACKs are asked for. */
export function beginProbes(qp: QueuePair): number {
  const { probes, persistWaiting } = own(qp);
  probes.clear();
  for (const work of persistWaiting.values()) {
    if (work.acked && !work.persisted) probes.push(work);
    if (probes.length >= LIMITS.persistProbes) break;
  }
  return probes.length;
}

export function takeProbe(qp: QueuePair): OutstandingWqe | undefined {
  return own(qp).probes.shift();
}

export function abandonRequests(qp: QueuePair): void {
  const requester = own(qp);
  requester.persistWaiting.clear();
  requester.probes.clear();
  requester.rnrWaiting = false;
}
