/**
 * A queue pair that fails stops, and all posted work, on the chip or in the rings, completes with
 * WR_FLUSH_ERR in order (`rocev2.md` §4.1).
 */
import { flushWork } from "./completer.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import { abandonRequests } from "../state/requester_changes.ts";
import { abandonAnswers, releaseReceives } from "../state/responder_changes.ts";
import { raiseBehind } from "../queues/queue_events.ts";
import { writeState } from "../queues/install.ts";
import { enterState, type QueuePair } from "../state/queue_pair.ts";
import { cancelLine } from "../transmit/send.ts";
import { fetchWork } from "../queues/send_queue.ts";
import { traceFailure } from "../trace/trace.ts";
import { clearTimers } from "../state/timers.ts";
import { takeDeliveries } from "../paging/memory_waits.ts";
import { forgetVerified } from "../state/verify_state.ts";
import type { CompletionQueue } from "../state/queues.ts";
import { flushReceive, flushReceives } from "../queues/receive_queue.ts";

export function enterError(device: Device, qp: QueuePair): void {
  if (qp.state === "err" || qp.state === "reset") return;
  enterState(qp, "err");
  traceFailure(device, qp);
  if (qp.card !== undefined) {
    stopWork(device, qp);
    flushWork(device, qp);
    return device.up.cardQueuePairFailed(device, qp);
  }
  announceState(device, qp);
  stopWork(device, qp);
  // The oldest receive is the incoming message's.
  const { open, granted } = qp.responder;
  for (const { recv } of takeDeliveries(device, qp)) flushReceive(device, qp, recv);
  if (open?.recv !== undefined) flushReceive(device, qp, open.recv);
  if (granted !== undefined) flushReceive(device, qp, granted);
  releaseReceives(qp);
  flushWork(device, qp);
  qp.sq.mayHaveMore = true;
  fetchWork(device, qp);
  flushReceives(device, qp);
  if (qp.srq === undefined) return;
  raiseBehind(device, qp.recvCq, { type: "QP_LAST_WQE_REACHED", qpn: qp.qpn });
}

/** Writes the state into space 1. */
export function announceState(device: Device, qp: QueuePair): void {
  writeState(device, qp.sqQueue, qp.state);
  if (qp.srq === undefined) writeState(device, qp.rqQueue, qp.state);
}

/**
 * RC goes to ERR; UC and UD to SQE, where they still receive and from where a program can take them
 * back to RTS (`rocev2.md` §4.1).
 */
export function failSends(device: Device, qp: QueuePair): void {
  if (qp.type === "rc") return enterError(device, qp);
  if (qp.state !== "rts" && qp.state !== "sqd") return;
  enterState(qp, "sqe");
  traceFailure(device, qp);
  announceState(device, qp);
  cancelLine(device, qp.requester.line);
  flushWork(device, qp);
  qp.sq.mayHaveMore = true;
  fetchWork(device, qp);
}

export function stopWork(device: Device, qp: QueuePair): void {
  cancelLine(device, qp.requester.line);
  cancelLine(device, qp.responder.line);
  clearTimers(device, qp);
  abandonRequests(qp);
  forgetVerified(device, qp);
  abandonAnswers(qp);
  qp.rq.waiters.clear();
}

/** The queue pair's information cannot be read: no WQE can report it. */
export function failFatally(device: Device, qp: QueuePair): void {
  if (qp.state === "err" || qp.state === "reset") return;
  raiseEvent(device, { type: "QP_FATAL", qpn: qp.qpn });
  enterError(device, qp);
}

/** The completion queue has overflowed (`rocev2.md` §4.4, class G). */
export function failQueuePairsOf(device: Device, cq: CompletionQueue): void {
  for (const qp of device.queuePairs.values()) {
    if (qp.sendCq === cq.cqn || qp.recvCq === cq.cqn) failFatally(device, qp);
  }
}
