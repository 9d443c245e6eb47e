/**
 * End-to-end credits (`rocev2.md` §1.4, §3.2): the AETH of a responder's answers has the number of its receive
 * WQEs; beyond them the requester sends one SEND at most, and only its first packet. A responder that does not know
 * the number sends 0x1F, and nothing is held back.
 */
import { ackSyndrome, type Aeth, CREDITS, parseSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { type Device, schedule } from "../state/device.ts";
import { psnAdd, psnDistance } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";

/**
 * Receive WQEs that this responder knows to be posted, from doorbells and its own reads: the host may have posted
 * more, never less. Undefined where the queue's information is not on the chip.
 */
export function postedReceives(device: Device, qp: QueuePair): number | undefined {
  // WQEs of a shared queue are promised to no requester (§4.5).
  if (qp.srq !== undefined) return undefined;
  const entry = device.cache.find(qp.rqQueue);
  if (entry === undefined) return undefined;
  const { rq, responder } = qp;
  const { open, granted } = responder;
  // The MSN does not include the incoming message, so its WQE counts.
  const held = open?.recv !== undefined || granted !== undefined ? 1 : 0;
  const posted = rq.fetched.length + filledUnits(entry.own, entry.host, entry.depth) + held;
  return Math.max(0, posted - rq.waiters.length);
}

/** Syndrome of an ACK that this responder sends now. */
export function creditSyndrome(device: Device, qp: QueuePair): number {
  return ackSyndrome(postedReceives(device, qp));
}

/** Takes over the credits of an answer. An older answer never takes any back. */
export function takeCredits(device: Device, qp: QueuePair, aeth: Aeth): void {
  const syndrome = parseSyndrome(aeth.syndrome);
  if (syndrome.kind !== "ack") return;
  const { requester } = qp;
  const credits = CREDITS[syndrome.creditCode];
  const limit = credits === undefined ? undefined : psnAdd(aeth.msn, credits);
  const known = requester.creditLimit;
  if (limit !== undefined && known !== undefined && psnDistance(known, limit) <= 0) return;
  requester.creditLimit = limit;
  if (known !== undefined) schedule(device, qp);
}

/**
 * Whether the SEND whose turn it is may be started: within the limit, or the first beyond it. With all work before
 * it acknowledged it may go whatever the limit, as the answer with a newer one may have been lost.
 */
export function mayStart({ requester }: QueuePair): boolean {
  const { creditLimit, nextSsn, ackCursor, cursor } = requester;
  if (creditLimit === undefined || psnDistance(creditLimit, nextSsn) <= 1) return true;
  return ackCursor === cursor;
}

/** Whether a SEND beyond the limit has to wait behind its first packet, which asks for an ACK. */
export function mustPause({ requester }: QueuePair, work: OutstandingWqe): boolean {
  const { creditLimit, unacknowledged } = requester;
  return creditLimit !== undefined && work.plan.wire === "send" && work.packets > 1 &&
    psnDistance(creditLimit, work.ssn) > 0 && psnDistance(work.firstPsn, unacknowledged) <= 0;
}
