/**
 * Completer: the effects of responses on work (`rocev2.md` §3.3), and completions in the order of posting.
 *
 * Circle of three modules: a completion lets the requester go on or ends the queue pair (`qp_error.ts`), which
 * completes all remaining work; the requester completes work that crosses no wire.
 */
import { PLAIN_CQE } from "../../../fabric/wire/host_bus/cqe.ts";
import { formatTime, NEVER } from "../../../fabric/base/time.ts";
import { formatAddress } from "../../../fabric/trace/describe.ts";
import { type NakCode, rnrDelayPs } from "../../../fabric/wire/roce/aeth.ts";
import { faultFields, type VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { encodeVerdict, VERIFY_STATUS } from "../../../fabric/wire/roce/verify_eth.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import { complete } from "../queues/completion_queue.ts";
import { checkDrained } from "../queues/queue_events.ts";
import { type Device, schedule, warn } from "../state/device.ts";
import {
  acknowledgeBefore,
  beginProbes,
  beginRnrWait,
  completeOldest,
  passAcknowledged,
  skipAcknowledged,
  spendRetry,
  takeOldest,
  takePersisted,
} from "../state/requester_changes.ts";
import { rnrWaitPs } from "./rnr_wait.ts";
import { enterError, failSends } from "./qp_error.ts";
import { rights } from "../state/life_cycle.ts";
import { psnAdd, psnDistance } from "../state/psn.ts";
import { type PsnsApart, type QueuePair, reloadRetries } from "../state/queue_pair.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { wantRecv } from "../queues/receive_queue.ts";
import { fail, restartFrom } from "./requester.ts";
import { traceFailedWork, traceWork } from "../trace/requester_trace.ts";
import { lastPsnOf, type OutstandingWqe } from "../state/outstanding_wqe.ts";
import { clearTimer, setTimer, startTimer } from "../state/timers.ts";

export function isOutstanding(qp: QueuePair, psn: number): boolean {
  const { requester } = qp;
  return psnDistance(psn, requester.issuedEnd) > 0 &&
    psnDistance(requester.unacknowledged, psn) >= 0;
}

export function workOf(qp: QueuePair, psn: number): OutstandingWqe | undefined {
  const { requester } = qp;
  for (let number = requester.ackCursor; number < requester.work.end; number++) {
    const work = requester.work.at(number);
    if (work === undefined || !work.started) return undefined;
    const index = psnDistance(work.firstPsn, psn);
    if (index < 0) return undefined;
    if (index < work.packets) return work;
  }
  return undefined;
}

/**
 * SEND and WRITE packets up to `psn` count as received. Unanswered work on the way (a READ, an
 * atomic, a verified write as a whole …) stops it: its response was lost, so the requester asks for
 * it again, once (§3.3).
 */
export function acknowledge(device: Device, qp: QueuePair, psn: number): void {
  const lost = takeReceived(device, qp, psn);
  if (lost !== undefined) askAgain(device, qp, lost);
  completeWork(device, qp);
}

function takeReceived(device: Device, qp: QueuePair, psn: number): OutstandingWqe | undefined {
  const { requester } = qp;
  const before = requester.unacknowledged;
  if (psnDistance(before, psn) < 0) return undefined;
  let unanswered: OutstandingWqe | undefined;
  for (;;) {
    const work = requester.work.at(requester.ackCursor);
    if (work === undefined || !work.started) break;
    if (!work.acked && work.plan.wire !== "none") {
      if (psnDistance(work.firstPsn, psn) < 0) break;
      if (work.plan.answered) {
        if (work.plan.streams) takeReception(qp, work, psn);
        if (!work.plan.streams || psnDistance(lastPsnOf(work), psn) >= 0) unanswered = work;
        break;
      }
      const isPart = psnDistance(lastPsnOf(work), psn) < 0;
      acknowledgeBefore(qp, psnAdd(isPart ? psn : lastPsnOf(work), 1));
      if (isPart) break;
      work.acked = true;
    } else if (!work.acked) {
      break;
    }
    passAcknowledged(qp);
  }
  if (requester.unacknowledged !== before) progress(device, qp);
  return unanswered;
}

/**
 * An ACK within a verified write moves the window; the write's last packet is answered instead
 * (V-01).
 */
function takeReception(qp: QueuePair, work: OutstandingWqe, psn: number): void {
  const last = lastPsnOf(work);
  acknowledgeBefore(qp, psnDistance(psn, last) > 0 ? psnAdd(psn, 1) : last);
}

/**
 * "Implied NAK": the answer of the oldest unacknowledged work was lost. Once per progress, as more
 * responses will show the same loss; it costs a retry (§3.3).
 */
export function askAgain(device: Device, qp: QueuePair, work: OutstandingWqe): void {
  if (work.rereadAsked || qp.requester.rnrWaiting) return;
  if (!spendRetry(qp)) return failUnacknowledged(device, qp, "retry-lost-answers");
  work.rereadAsked = true;
  // A verified write's packets are all received; the last one brings the answer.
  const next = work.plan.streams ? lastPsnOf(work) : psnAdd(work.firstPsn, work.responses);
  restartFrom(device, qp, next);
  schedule(device, qp);
}

export function progress(device: Device, qp: QueuePair): void {
  reloadRetries(qp);
  skipAcknowledged(qp);
  if (qp.requester.rnrWaiting) return;
  if (awaitsAnswer(qp)) startTimer(device, qp);
  else clearTimer(device, qp, "requester");
  schedule(device, qp);
}

function awaitsAnswer(qp: QueuePair): boolean {
  const { requester } = qp;
  return requester.unacknowledged !== requester.issuedEnd || requester.persistWaiting.size > 0;
}

/** P-28: the second ACK. A PSN that is not the last of a waiting message is ignored. */
export function takePersistenceAck(device: Device, qp: QueuePair, psn: number): boolean {
  const { requester } = qp;
  const work = requester.persistWaiting.get(psn);
  if (work === undefined || psnDistance(psn, requester.issuedEnd) <= 0) return false;
  // Persistent data was received: this stands in for a lost reception ACK, but does not wait for
  // answers before it, which need not be lost.
  if (isOutstanding(qp, psn)) takeReceived(device, qp, psn);
  takePersisted(qp, psn);
  progress(device, qp);
  if (work.completed && qp.persistCompletion === "reception") {
    wantRecv(device, qp, { kind: "confirmed", work });
  } else {
    completeWork(device, qp);
  }
  return true;
}

/** NAK 0x60: all before `psn` is received. */
export function takeSequenceNak(device: Device, qp: QueuePair, psn: number): void {
  acknowledge(device, qp, psnAdd(psn, -1));
  const { requester } = qp;
  if (requester.unacknowledged !== psn || requester.rnrWaiting) return;
  if (!spendRetry(qp)) return failUnacknowledged(device, qp, "retry-sequence");
  restartFrom(device, qp, psn);
  startTimer(device, qp);
  schedule(device, qp);
}

/** An RNR NAK costs one RNR retry unless those are endless. */
export function takeRnrNak(
  device: Device,
  qp: QueuePair,
  nak: { psn: number; timerCode: number },
): void {
  acknowledge(device, qp, psnAdd(nak.psn, -1));
  const { requester } = qp;
  if (requester.unacknowledged !== nak.psn || requester.rnrWaiting) return;
  if (!rights(qp.state).sends) return;
  if (!beginRnrWait(qp, device.now)) return failUnacknowledged(device, qp, "rnr-retry-exceeded");
  restartFrom(device, qp, nak.psn);
  const delay = rnrWaitPs(device.now - requester.rnrSince!, rnrDelayPs(nak.timerCode));
  if (delay !== NEVER) {
    return setTimer(device, qp, { timer: "requester", time: device.now + delay });
  }
  clearTimer(device, qp, "requester");
  const message = `queue pair ${qp.qpn} retries for ever: RNR NAK (rnrRetry 7): queue pair ` +
    `${qp.attributes.destQpn} of ${
      formatAddress(qp.attributes.destAddress)
    } has had no receive, or no page of its memory, for ` +
    `${formatTime(device.now - requester.rnrSince!)}`;
  warn(device, message);
}

const NAK_FAULT: Readonly<Record<Exclude<NakCode, "psn-sequence-error">, VendorError>> = {
  "invalid-request": "nak-invalid-request",
  "remote-access-error": "nak-remote-access",
  "remote-operational-error": "nak-remote-operational",
  "invalid-rd-request": "nak-invalid-rd-request",
};

/**
 * The work that holds `psn` fails, and the rest is flushed. An answer lost before it is asked for
 * and never learnt (§3.3).
 */
export function takeFatalNak(
  device: Device,
  qp: QueuePair,
  nak: { readonly psn: number; readonly code: keyof typeof NAK_FAULT },
): void {
  const work = workOf(qp, nak.psn);
  if (work === undefined) return;
  // An answer refused in the middle is refused as a whole.
  acknowledge(device, qp, psnAdd(work.plan.answered ? work.firstPsn : nak.psn, -1));
  if (qp.requester.work.at(qp.requester.ackCursor) !== work) return;
  failUnacknowledged(device, qp, NAK_FAULT[nak.code]);
}

function failUnacknowledged(device: Device, qp: QueuePair, fault: VendorError): void {
  const { requester } = qp;
  const number = requester.ackCursor;
  // Received earlier writes that are not known to be persistent will never be reported.
  for (let earlier = requester.work.first; earlier < number; earlier++) {
    requester.work.at(earlier)!.failure ??= "flushed";
  }
  failFrom(device, qp, { work: requester.work.at(number), fault });
}

/** The queue pair fails, too. `work` is undefined where persistence has failed (P-30). */
function failFrom(
  device: Device,
  qp: QueuePair,
  verdict: { readonly work: OutstandingWqe | undefined; readonly fault: VendorError },
): void {
  const { work, fault } = verdict;
  if (work === undefined) enterError(device, qp);
  else fail(device, qp, { work, fault });
}

export function requesterTimer(device: Device, qp: QueuePair): void {
  const { requester } = qp;
  if (requester.rnrWaiting) {
    requester.rnrWaiting = false;
    startTimer(device, qp);
    schedule(device, qp);
    return;
  }
  if (!awaitsAnswer(qp)) return;
  // Answers were dropped here for want of a page, and will be asked for when it has come.
  if (isWaiting(device, qp, "response")) return startTimer(device, qp);
  device.counters.timeouts++;
  const work = requester.work.at(requester.ackCursor);
  if (work !== undefined) work.rereadAsked = false;
  if (!spendRetry(qp)) {
    const fault = timeOutFault(device, qp);
    return failFrom(device, qp, { work: requester.work.peek(), fault });
  }
  if (requester.unacknowledged !== requester.issuedEnd) {
    restartFrom(device, qp, requester.unacknowledged);
  }
  // P-30: messages' last packets go once more.
  device.counters.persistProbes += beginProbes(qp);
  startTimer(device, qp);
  schedule(device, qp);
}

function timeOutFault(device: Device, qp: QueuePair): VendorError {
  const { requester, attributes: { sqPsn } } = qp;
  const { unacknowledged, issuedEnd, apart } = requester;
  if (unacknowledged === issuedEnd) return "retry-persistence";
  if (unacknowledged !== sqPsn) return "retry-exceeded";
  const isApart = apart !== undefined && (apart.isSure || apart.isAsking);
  if (!isApart) return "retry-exceeded";
  noteApart(device, qp, { ...apart, isSure: true });
  return "retry-psns-apart";
}

/**
 * The peer's rq_psn differs from sq_psn here: where that is sure, nothing that is sent takes
 * effect, and the run notes it.
 */
export function noteApart(device: Device, qp: QueuePair, apart: PsnsApart): void {
  if (qp.requester.apart?.isSure === true) return;
  qp.requester.apart = apart;
  const { expected, isAsking, isSure } = apart;
  if (!isSure) return;
  const { sqPsn, destAddress } = qp.attributes;
  const peer = formatAddress(destAddress);
  const what = isAsking ? "refused as ahead" : "acknowledged as duplicates, without effect";
  warn(
    device,
    `queue pair ${qp.qpn} sends from PSN ${sqPsn} (sq_psn) on, ${peer} expects PSN ${expected} (rq_psn): its requests are ${what}`,
  );
}

function isDone(qp: QueuePair, work: OutstandingWqe): boolean {
  if (!work.acked) return false;
  return !work.plan.awaitsPersistence || work.persisted || qp.persistCompletion === "reception";
}

/** Completes work in order as far as it is done; after a failure the rest is flushed. */
export function completeWork(device: Device, qp: QueuePair): void {
  const { requester } = qp;
  for (let work = requester.work.peek(); work !== undefined; work = requester.work.peek()) {
    if (work.failure !== undefined) {
      takeOldest(qp);
      completeSend(device, qp, { work, fault: work.failure });
      return failSends(device, qp);
    }
    if (!isDone(qp, work)) break;
    completeOldest(qp);
    const fault = verifyFault(work);
    if (work.wqe!.signaled || fault !== undefined) completeSend(device, qp, { work, fault });
    if (work.plan.awaitsPersistence && qp.persistCompletion === "reception" && work.persisted) {
      wantRecv(device, qp, { kind: "confirmed", work });
    }
    schedule(device, qp);
  }
  checkDrained(device, qp);
}

/** V-01: a failed verification leaves the queue pair in RTS. */
function verifyFault({ verdict }: OutstandingWqe): VendorError | undefined {
  const isGood = verdict === undefined || verdict.status === VERIFY_STATUS.written;
  return isGood ? undefined : "verify";
}

/** Completes all work with WR_FLUSH_ERR. */
export function flushWork(device: Device, qp: QueuePair): void {
  for (let work = takeOldest(qp); work !== undefined; work = takeOldest(qp)) {
    completeSend(device, qp, { work, fault: work.failure ?? "flushed" });
  }
}

function completeSend(
  device: Device,
  qp: QueuePair,
  result: { readonly work: OutstandingWqe; readonly fault: VendorError | undefined },
): void {
  const { work, fault } = result;
  // A firmware's queue pair has no completion queue.
  if (qp.card !== undefined) return;
  const { wqe, plan, verdict } = work;
  const isDone = fault === undefined || fault === "verify";
  if (device.out.tracing) {
    if (isDone) traceWork(device, qp, { work, stage: "complete" });
    else traceFailedWork(device, qp, { work, fault });
  }
  const persists = plan.awaitsPersistence || wqe?.verify?.persist === true;
  complete(device, qp.sendCq, {
    ...PLAIN_CQE,
    ...(fault !== undefined && faultFields(fault)),
    opcode: isDone ? "requester" : "requester-error",
    qpn: qp.qpn,
    wqeIndex: work.index,
    byteCount: plan.localNeed === 0 ? 0 : work.length,
    wqeOpcode: wqe === undefined ? 0 : WQE_OPCODES[wqe.opcode].code,
    // P-25.
    psn: persists ? lastPsnOf(work) : 0,
    va: persists ? wqe!.remote!.va : 0n,
    verify: isDone && verdict !== undefined ? encodeVerdict(verdict) : 0,
  });
}
