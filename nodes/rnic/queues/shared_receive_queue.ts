/**
 * Shared receive queues (`rocev2.md` §4.5). A waiter waits at its queue pair (`receive_queue.ts`);
 * the queue pairs take turns here. A WQE that a queue pair holds when it is reset goes back: none
 * is lost.
 */
import { takeDeliveries } from "../paging/memory_waits.ts";
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeSrqWqe } from "../../../fabric/wire/host_bus/srq_wqe.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import { releaseReceives } from "../state/responder_changes.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { isPaused } from "./pause.ts";
import { advanceRead, fetchWqes, findQueue, rereadPointer } from "./queue_information.ts";
import { createRingAhead, type QueuePair, type SharedReceiveQueue } from "../state/queue_pair.ts";
import { refuseWaiters, serveReceives } from "./receive_queue.ts";
import { clearTimer } from "../state/timers.ts";

export function createSharedReceiveQueue(
  srqn: number,
  plan: Pick<SharedReceiveQueue, "ring" | "stride" | "pd">,
): SharedReceiveQueue {
  return {
    srqn,
    ...plan,
    users: 0,
    limit: 0,
    busy: false,
    fetched: new Fifo(),
    waiting: new Set(),
    ahead: createRingAhead(),
  };
}

export function serveShared(device: Device, qp: QueuePair, srq: SharedReceiveQueue): void {
  const { rq } = qp;
  while (rq.waiters.length > 0 && srq.fetched.length > 0) {
    clearTimer(device, qp, "receive");
    rq.retries = 0;
    device.up.giveReceive(device, qp, { waiter: rq.waiters.shift()!, recv: srq.fetched.shift()! });
  }
  if (rq.waiters.length > 0) srq.waiting.add(qp);
  if (srq.waiting.size > 0 || srq.limit > 0) lookAtShared(device, srq);
}

export function serveWaiting(device: Device, srq: SharedReceiveQueue): void {
  const turn = [...srq.waiting];
  srq.waiting.clear();
  for (const qp of turn) serveReceives(device, qp);
}

export function lookAtShared(device: Device, srq: SharedReceiveQueue): void {
  if (srq.busy || isPaused(device, srq.srqn)) return;
  const waiter = { kind: "srq", srq, reread: false } as const;
  const entry = findQueue(device, srq.srqn, waiter);
  if (entry === undefined) srq.busy = true;
  else resumeShared(device, entry, waiter);
}

/** Fetches ahead of any waiter. @returns whether a fetch is under way. */
export function fetchShared(device: Device, srq: SharedReceiveQueue): boolean {
  const { ahead } = srq;
  ahead.isEmpty = false;
  ahead.isWanted = true;
  lookAtShared(device, srq);
  // A paused queue is not looked at, nor for hints when it goes on.
  if (!srq.busy) ahead.isWanted = false;
  return srq.busy;
}

/**
 * Notifies the host of its limit, fetches WQEs, or refuses the waiters; first and last only by a
 * pointer just read from space 3.
 */
export function resumeShared(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly srq: SharedReceiveQueue; readonly reread: boolean },
): void {
  const { srq, reread } = waiter;
  const { ahead } = srq;
  srq.busy = false;
  if (!isAlive(device, srq) || isPaused(device, srq.srqn)) {
    ahead.isWanted = false;
    return;
  }
  const { own, depth } = entry;
  const filled = filledUnits(own, entry.host, depth);
  const isLow = srq.limit > 0 && srq.fetched.length + filled < srq.limit;
  const isWanted = srq.waiting.size > 0 && srq.fetched.length === 0;
  if (!reread && (isLow || ((isWanted || ahead.isWanted) && filled === 0))) {
    srq.busy = true;
    rereadPointer(device, entry, { kind: "srq", srq, reread: true });
    return;
  }
  if (isLow) {
    srq.limit = 0;
    raiseEvent(device, { type: "SRQ_LIMIT_REACHED", srqn: srq.srqn });
  }
  const isWantedAhead = ahead.isWanted;
  ahead.isWanted = false;
  if (filled === 0 && reread) ahead.isEmpty = true;
  if (filled > 0 && (isWanted || isWantedAhead)) {
    srq.busy = true;
    fetchWqes(device, entry, { unitBytes: entry.unitBytes, owner: { kind: "srq-wqes", srq } });
  }
  if (!isWanted) serveWaiting(device, srq);
  else if (filled === 0) refuseAllWaiters(device, srq);
}

/** `data` is undefined where the host refused the read. */
export function takeShared(
  device: Device,
  fetched: {
    readonly srq: SharedReceiveQueue;
    readonly entry: QueueEntry;
    readonly units: number;
  },
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { srq, entry, units } = fetched;
  entry.pins--;
  srq.busy = false;
  if (!isAlive(device, srq)) return;
  if (data === undefined) return failShared(device, srq);
  for (let i = 0; i < units; i++) {
    const bytes = data.subarray(i * entry.unitBytes, (i + 1) * entry.unitBytes);
    const { slot, sges } = decodeSrqWqe(bytes);
    srq.fetched.push({ position: slot, sges });
  }
  advanceRead(device, entry, units);
  serveWaiting(device, srq);
}

/** Waiters for persistence stay until the next doorbell. */
function refuseAllWaiters(device: Device, srq: SharedReceiveQueue): void {
  const turn = [...srq.waiting];
  srq.waiting.clear();
  for (const qp of turn) {
    refuseWaiters(device, qp);
    if (qp.rq.waiters.length > 0) srq.waiting.add(qp);
  }
}

export function returnReceives(device: Device, qp: QueuePair): void {
  const { srq, responder } = qp;
  if (srq === undefined) return;
  srq.waiting.delete(qp);
  const waiting = takeDeliveries(device, qp).map(({ recv }) => recv);
  const held = [...waiting, responder.open?.recv, responder.granted];
  releaseReceives(qp);
  for (const recv of held) if (recv !== undefined) srq.fetched.push(recv);
  serveWaiting(device, srq);
}

function isAlive(device: Device, srq: SharedReceiveQueue): boolean {
  return device.sharedReceiveQueues.get(srq.srqn) === srq;
}

export function failShared(device: Device, srq: SharedReceiveQueue): void {
  raiseEvent(device, { type: "SRQ_ERR", srqn: srq.srqn });
  for (const qp of device.queuePairs.values()) {
    if (qp.srq === srq) device.up.failFatally(device, qp);
  }
}
