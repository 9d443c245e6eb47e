/**
 * End-to-end credits (`rocev2.md` §1.4, §3.2): the AETH has the number of the responder's receive
 * WQEs; beyond them the requester sends one SEND at most, and only its first packet. An unknown
 * number is 0x1F, and nothing is held back.
 */
import { ackSyndrome, type Aeth, CREDITS, parseSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { type Device, schedule } from "../state/device.ts";
import { psnAdd, psnDistance } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";

/**
 * The card knows doorbells and its own reads: the host may have posted more, never less. @returns
 * undefined where the queue's information is not on the chip.
 */
export function postedReceives(device: Device, qp: QueuePair): number | undefined {
  // §4.5: a shared queue's are promised to no requester.
  if (qp.srq !== undefined) return undefined;
  const entry = device.cache.find(qp.rqQueue);
  if (entry === undefined) return undefined;
  const { rq, responder } = qp;
  const { open, granted } = responder;
  const held = open?.recv !== undefined || granted !== undefined ? 1 : 0;
  const posted = rq.fetched.length + filledUnits(entry.own, entry.host, entry.depth) + held;
  return Math.max(0, posted - rq.waiters.length);
}

export function creditSyndrome(device: Device, qp: QueuePair): number {
  return ackSyndrome(postedReceives(device, qp));
}

/** An older answer takes no credits back. */
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
 * A SEND within the limit, or the first beyond it, may start. When all earlier work is acknowledged
 * any may: the answer with a newer limit may have been lost.
 */
export function mayStart({ requester }: QueuePair): boolean {
  const { creditLimit, nextSsn, ackCursor, cursor } = requester;
  if (creditLimit === undefined || psnDistance(creditLimit, nextSsn) <= 1) return true;
  return ackCursor === cursor;
}

/** A SEND beyond the limit waits behind its first packet, which asks for an ACK. */
export function mustPause({ requester }: QueuePair, work: OutstandingWqe): boolean {
  const { creditLimit, unacknowledged } = requester;
  return creditLimit !== undefined && work.plan.wire === "send" && work.packets > 1 &&
    psnDistance(creditLimit, work.ssn) > 0 && psnDistance(work.firstPsn, unacknowledged) <= 0;
}
