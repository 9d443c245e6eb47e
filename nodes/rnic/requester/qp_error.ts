/**
 * What happens to a queue pair that fails: it stops, and everything posted, on the chip or still in
 * the rings, completes with WR_FLUSH_ERR in order (`rocev2.md` §4.1).
 */
import { PORTS } from "../../../fabric/node.ts";
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { flushWork } from "./completer.ts";
import { complete, PLAIN_CQE } from "../queues/completion_queue.ts";
import type { Device } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { writeState } from "../queues/install.ts";
import { advanceRead, findQueue, rereadPointer } from "../queues/queue_information.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { cancelLine } from "../transmit/send.ts";
import { fetchWork } from "../queues/send_queue.ts";
import { clearTimers } from "../state/timers.ts";
import { forgetVerified } from "../state/verify_state.ts";
import type { CompletionQueue } from "../state/queues.ts";

/** Takes the queue pair to ERR and flushes it. */
export function enterError(device: Device, qp: QueuePair): void {
  if (qp.state === "err" || qp.state === "reset") return;
  qp.state = "err";
  announceState(device, qp);
  stopWork(device, qp);
  // The WQE of a message that was coming in is the oldest receive.
  const { open, granted } = qp.responder;
  if (open?.recv !== undefined) flushOneReceive(device, qp, open.recv.position);
  if (granted !== undefined) flushOneReceive(device, qp, granted.position);
  qp.responder.open = undefined;
  qp.responder.granted = undefined;
  flushWork(device, qp);
  qp.sq.mayHaveMore = true;
  fetchWork(device, qp);
  flushReceives(device, qp);
  if (qp.srq !== undefined) raiseEvent(device, { type: "QP_LAST_WQE_REACHED", qpn: qp.qpn });
}

/** Tells the host the state by space 1; a shared receive queue has no queue pair's state. */
export function announceState(device: Device, qp: QueuePair): void {
  writeState(device, qp.sqQueue, qp.state);
  if (qp.srq === undefined) writeState(device, qp.rqQueue, qp.state);
}

/**
 * A send has failed. A connection ends with it; a queue pair that promises nothing goes to SQE, where
 * it still receives and from where it can be taken back to RTS (`rocev2.md` §4.1).
 */
export function failSends(device: Device, qp: QueuePair): void {
  if (qp.type === "rc") return enterError(device, qp);
  if (qp.state !== "rts" && qp.state !== "sqd") return;
  qp.state = "sqe";
  announceState(device, qp);
  cancelLine(device, qp.requester.line);
  flushWork(device, qp);
  qp.sq.mayHaveMore = true;
  fetchWork(device, qp);
}

/** From SQE back to RTS: what was flushed is behind the requester's cursors. */
export function skipFlushed({ requester }: QueuePair): void {
  requester.cursor = requester.work.first;
  requester.ackCursor = requester.work.first;
  requester.cursorPacket = 0;
}

/** Gives up what is under way: frames, timers, packets that wait, answers that are owed. */
export function stopWork(device: Device, qp: QueuePair): void {
  const { requester, responder } = qp;
  cancelLine(device, requester.line);
  cancelLine(device, responder.line);
  clearTimers(device, qp);
  requester.persistWaiting.clear();
  requester.probes.clear();
  requester.rnrWaiting = false;
  forgetVerified(device, qp);
  responder.stalled.clear();
  responder.responses.clear();
  responder.pendingAck = undefined;
  qp.rq.waiters.clear();
}

/** Tells the host's driver about the queue pair. */
export function raiseEvent(device: Device, event: RnicEvent): void {
  device.out.send(PORTS.rnicBus, { kind: "event", event }, device.stageAt);
}

/** The RNIC cannot read what it needs of the queue pair: class of errors that no WQE can tell. */
export function failFatally(device: Device, qp: QueuePair): void {
  if (qp.state === "err" || qp.state === "reset") return;
  raiseEvent(device, { type: "QP_FATAL", qpn: qp.qpn });
  enterError(device, qp);
}

/** A full completion queue takes its queue pairs along (`rocev2.md` §4.4, class G). */
export function failQueuePairsOf(device: Device, cq: CompletionQueue): void {
  for (const qp of device.queuePairs.values()) {
    if (qp.sendCq === cq.cqn || qp.recvCq === cq.cqn) failFatally(device, qp);
  }
}

/** Flushes the receives on the chip, then those in the ring. */
export function flushReceives(device: Device, qp: QueuePair): void {
  const { rq } = qp;
  rq.waiters.clear();
  // What is in a shared queue is for its other queue pairs.
  if (qp.srq !== undefined) return;
  for (let recv = rq.fetched.shift(); recv !== undefined; recv = rq.fetched.shift()) {
    flushOneReceive(device, qp, recv.position);
  }
  if (rq.busy) return;
  const waiter = { kind: "recv", qp, life: qp.life, reread: false } as const;
  const entry = findQueue(device, qp.rqQueue, waiter);
  if (entry === undefined) rq.busy = true;
  else flushReceiveRing(device, entry, waiter);
}

/** Flushes what the ring holds by the pointer known, then once more by the one in space 3. */
export function flushReceiveRing(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly qp: QueuePair; readonly reread: boolean },
): void {
  const { qp } = waiter;
  const filled = filledUnits(entry.own, entry.host, entry.depth);
  for (let i = 0; i < filled; i++) flushOneReceive(device, qp, (entry.own + i) % entry.depth);
  advanceRead(entry, filled);
  qp.rq.busy = !waiter.reread;
  if (!waiter.reread) {
    rereadPointer(device, entry, { kind: "recv", qp, life: qp.life, reread: true });
  }
}

function flushOneReceive(device: Device, qp: QueuePair, position: number): void {
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode: "responder-error",
    status: "WR_FLUSH_ERR",
    qpn: qp.qpn,
    wqeIndex: position & 0xffff,
  });
}
