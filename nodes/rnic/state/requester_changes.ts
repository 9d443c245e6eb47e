/**
 * The events of a requester: the functions that write its fields, each named after its event. The protocol
 * (`requester/`, `queues/`) decides which of them happens.
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

/** A WQE has been fetched. */
export function addWork(qp: QueuePair, work: OutstandingWqe): void {
  const { work: all, cpuAcks } = own(qp);
  all.push(work);
  if (work.wqe?.opcode === "persistence-ack") cpuAcks.push(work);
}

/** Takes the next persistence ACK of the CPU, to be carried out ahead of its turn. */
export function takeCpuAck(qp: QueuePair): OutstandingWqe | undefined {
  return own(qp).cpuAcks.shift();
}

/** Starts the work: it gets its PSNs and its SSN. */
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

/** The frame at the cursor is begun; behind the last one of a message the cursor goes to the next work. */
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

/** The work at the cursor is done without a frame. */
export function passWork(qp: QueuePair): void {
  const requester = own(qp);
  if (requester.ackCursor === requester.cursor) requester.ackCursor++;
  requester.cursor++;
}

/**
 * Counts a begun frame, which asks for an ACK where `needed`, or where none was asked for long.
 * @returns whether it asks.
 */
export function countTowardsAck(qp: QueuePair, needed: boolean): boolean {
  const requester = own(qp);
  requester.sinceAckReq++;
  if (!needed && requester.sinceAckReq < LIMITS.ackEveryPackets) return false;
  requester.sinceAckReq = 0;
  return true;
}

/**
 * Goes back to `psn`, which is not acknowledged. A READ goes on behind its last response that has come, other
 * answered work at its start; a verified write's packets are acknowledged as a WRITE's, so it goes on behind those.
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

/** All PSNs before this one are acknowledged. */
export function acknowledgeBefore(qp: QueuePair, psn: number): void {
  own(qp).unacknowledged = psn;
}

/** The oldest work that was neither received nor answered is now. */
export function passAcknowledged(qp: QueuePair): void {
  own(qp).ackCursor++;
}

/** A restart need not repeat packets that were acknowledged meanwhile. */
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

/** A packet of the answer to the work, or all of it, has been taken. */
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

/** The oldest work leaves the chip, whatever its state. */
export function takeOldest(qp: QueuePair): OutstandingWqe | undefined {
  return own(qp).work.shift();
}

/** The oldest work completes. Work that crosses no wire may, though a restart has yet to pass it again. */
export function completeOldest(qp: QueuePair): void {
  const requester = own(qp);
  const work = requester.work.shift()!;
  if (requester.ackCursor < requester.work.first) {
    requester.ackCursor = requester.work.first;
    skipAcknowledged(qp);
  }
  work.completed = true;
}

/** From SQE back to RTS: moves the cursors past flushed work. */
export function skipFlushed(qp: QueuePair): void {
  const requester = own(qp);
  requester.cursor = requester.work.first;
  requester.ackCursor = requester.work.first;
  requester.cursorPacket = 0;
}

/**
 * Spends a retry for something that is sent again.
 * @returns whether there was one left.
 */
export function spendRetry(qp: QueuePair): boolean {
  const requester = own(qp);
  if (requester.retriesLeft === 0) return false;
  requester.retriesLeft--;
  return true;
}

const ENDLESS_RNR = 7;

/**
 * Starts a wait after an RNR NAK, at the cost of an RNR retry.
 * @returns whether there was one left.
 */
export function beginRnrWait(qp: QueuePair, now: Time): boolean {
  const requester = own(qp);
  if (requester.rnrRetriesLeft === 0) return false;
  if (qp.attributes.rnrRetry !== ENDLESS_RNR) requester.rnrRetriesLeft--;
  requester.rnrWaiting = true;
  requester.rnrSince ??= now;
  return true;
}

/** P-28: the second ACK of the work whose last packet has this PSN. */
export function takePersisted(qp: QueuePair, psn: number): void {
  const { persistWaiting } = own(qp);
  persistWaiting.get(psn)!.persisted = true;
  persistWaiting.delete(psn);
}

/**
 * P-30: persistence ACKs are to be asked for again.
 * @returns for how many works.
 */
export function beginProbes(qp: QueuePair): number {
  const { probes, persistWaiting } = own(qp);
  probes.clear();
  for (const work of persistWaiting.values()) {
    if (work.acked && !work.persisted) probes.push(work);
    if (probes.length >= LIMITS.persistProbes) break;
  }
  return probes.length;
}

/** The next work whose persistence ACK is asked for again. */
export function takeProbe(qp: QueuePair): OutstandingWqe | undefined {
  return own(qp).probes.shift();
}

/** The queue pair stops: it waits for no answer any more. */
export function abandonRequests(qp: QueuePair): void {
  const requester = own(qp);
  requester.persistWaiting.clear();
  requester.probes.clear();
  requester.rnrWaiting = false;
}
