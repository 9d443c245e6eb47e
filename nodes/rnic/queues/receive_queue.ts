/**
 * Receive queue: waiters for a receive WQE wait in turn. The card fetches a few WQEs when one is needed; before the
 * queue counts as empty, it reads the host's pointer from space 3 once.
 *
 * Circle of two modules: a queue pair's receives come from its own ring or from a shared one
 * (`shared_receive_queue.ts`), whose queue pairs take their turns here.
 */
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeRecvWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Device } from "../state/device.ts";
import { rights } from "../state/life_cycle.ts";
import { RECV_RETRIES, RECV_RETRY_PS } from "../state/limits.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { isPaused } from "./pause.ts";
import { advanceRead, fetchWqes, findQueue, rereadPointer } from "./queue_information.ts";
import type { QueuePair, RecvWaiter } from "../state/queue_pair.ts";
import { serveShared } from "./shared_receive_queue.ts";
import { clearTimer, setTimer } from "../state/timers.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { complete } from "./completion_queue.ts";
import type { PacketIn, RecvWqe } from "../state/responder_state.ts";
import { type Cqe, type CqeOpcode, PLAIN_CQE } from "../../../fabric/wire/host_bus/cqe.ts";
import { faultFields, type VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { traceFailedReceive } from "../trace/responder_trace.ts";
import { closeMessage } from "../state/responder_changes.ts";

export function wantRecv(device: Device, qp: QueuePair, waiter: RecvWaiter): void {
  qp.rq.waiters.push(waiter);
  if (qp.rq.waiters.length === 1) qp.rq.retries = 0;
  serveReceives(device, qp);
}

export function serveReceives(device: Device, qp: QueuePair): void {
  const { rq } = qp;
  if (rights(qp.state).flushesReceives) return flushReceives(device, qp);
  if (isPaused(device, qp.rqQueue)) {
    refuseWaiters(device, qp);
    if (qp.srq !== undefined && rq.waiters.length > 0) qp.srq.waiting.add(qp);
    return;
  }
  if (qp.srq !== undefined) return serveShared(device, qp, qp.srq);
  while (rq.waiters.length > 0 && rq.fetched.length > 0) {
    if (mustHold(qp, rq.waiters.peek()!) || isWaiting(device, qp, "deliver")) return;
    clearTimer(device, qp, "receive");
    rq.retries = 0;
    device.up.giveReceive(device, qp, { waiter: rq.waiters.shift()!, recv: rq.fetched.shift()! });
  }
  if (rq.waiters.length === 0 || rq.busy) return;
  lookAtQueue(device, qp, false);
}

/**
 * Receive WQEs complete in order: none is given out while an earlier one waits for its memory. A
 * SEND of several packets that has one ends, as its other packets need none.
 */
function mustHold(qp: QueuePair, waiter: RecvWaiter): boolean {
  const { open, granted } = qp.responder;
  return waiter.kind !== "packet" && (open?.recv !== undefined || granted !== undefined);
}

function lookAtQueue(device: Device, qp: QueuePair, reread: boolean): void {
  if (isPaused(device, qp.rqQueue)) return;
  const waiter = { kind: "recv", qp, life: qp.life, reread } as const;
  const entry = findQueue(device, qp.rqQueue, waiter);
  if (entry === undefined) qp.rq.busy = true;
  else resumeReceiveQueue(device, entry, waiter);
}

/** Fetches ahead of any waiter. @returns whether a fetch is under way. */
export function fetchReceives(device: Device, qp: QueuePair): boolean {
  const { rq } = qp;
  if (rq.busy || !rights(qp.state).takesRequests) return rq.busy;
  rq.ahead.isEmpty = false;
  lookAtQueue(device, qp, false);
  return rq.busy;
}

export function resumeReceiveQueue(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly qp: QueuePair; readonly reread: boolean },
): void {
  const { qp } = waiter;
  qp.rq.busy = false;
  if (isPaused(device, qp.rqQueue)) return;
  if (rights(qp.state).flushesReceives) return flushReceiveRing(device, entry, waiter);
  const filled = filledUnits(entry.own, entry.host, entry.depth);
  if (filled === 0 && waiter.reread) {
    qp.rq.ahead.isEmpty = true;
    return refuseWaiters(device, qp);
  }
  qp.rq.busy = true;
  if (filled === 0) {
    rereadPointer(device, entry, { kind: "recv", qp, life: qp.life, reread: true });
    return;
  }
  const owner = { kind: "recv-wqes", qp, life: qp.life } as const;
  fetchWqes(device, entry, { unitBytes: entry.unitBytes, owner });
}

export function takeReceives(
  device: Device,
  fetch: { readonly qp: QueuePair; readonly entry: QueueEntry; readonly units: number },
  data: Uint8Array<ArrayBuffer>,
): void {
  const { qp, entry, units } = fetch;
  qp.rq.busy = false;
  for (let i = 0; i < units; i++) {
    const bytes = data.subarray(i * entry.unitBytes, (i + 1) * entry.unitBytes);
    qp.rq.fetched.push({ position: (entry.own + i) % entry.depth, sges: decodeRecvWqe(bytes) });
  }
  advanceRead(device, entry, units);
  serveReceives(device, qp);
}

/**
 * A packet is refused (RNR NAK). Waiters for persistence are never lost (P-30): they look again,
 * ever more rarely, until a doorbell or a duplicate.
 */
export function refuseWaiters(device: Device, qp: QueuePair): void {
  const { rq } = qp;
  // A packet does not wait behind persistent messages.
  const kept: RecvWaiter[] = [];
  let refused = false;
  for (let waiter = rq.waiters.shift(); waiter !== undefined; waiter = rq.waiters.shift()) {
    if (waiter.kind === "packet") refused = true;
    else kept.push(waiter);
  }
  for (const waiter of kept) rq.waiters.push(waiter);
  if (kept.length > 0 && rq.retries < RECV_RETRIES) {
    const time = device.now + RECV_RETRY_PS * 2 ** rq.retries;
    rq.retries++;
    setTimer(device, qp, { timer: "receive", time });
  }
  if (refused) device.up.refuseRecv(device, qp);
}

export function retryReceives(device: Device, qp: QueuePair): void {
  if (qp.srq !== undefined) return serveReceives(device, qp);
  if (qp.rq.waiters.length > 0 && !qp.rq.busy) lookAtQueue(device, qp, false);
}

/** A duplicate's message waits: it looks at once, with the retries counted anew. */
export function refetchReceives(device: Device, qp: QueuePair): void {
  qp.rq.retries = 0;
  retryReceives(device, qp);
}

export function flushReceives(device: Device, qp: QueuePair): void {
  const { rq } = qp;
  rq.waiters.clear();
  if (qp.srq !== undefined) return;
  for (let recv = rq.fetched.shift(); recv !== undefined; recv = rq.fetched.shift()) {
    flushReceive(device, qp, recv);
  }
  if (!rq.busy) lookAtQueue(device, qp, false);
}

/** Flushes by the known pointer, then by the one in space 3. */
function flushReceiveRing(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly qp: QueuePair; readonly reread: boolean },
): void {
  const { qp } = waiter;
  const filled = filledUnits(entry.own, entry.host, entry.depth);
  for (let i = 0; i < filled; i++) {
    flushReceive(device, qp, { position: (entry.own + i) % entry.depth });
  }
  advanceRead(device, entry, filled);
  qp.rq.busy = !waiter.reread;
  if (!waiter.reread) {
    rereadPointer(device, entry, { kind: "recv", qp, life: qp.life, reread: true });
  }
}

/** Completes a receive (§3.4, §3.8). */
export function completeReceive(
  device: Device,
  qp: QueuePair,
  done: {
    readonly recv: RecvWqe;
    readonly input: PacketIn;
    readonly byteCount: number;
    readonly opcode: CqeOpcode;
  },
): void {
  const { recv, input: { packet }, byteCount, opcode } = done;
  completeUnlessPaused(device, qp, {
    ...PLAIN_CQE,
    opcode,
    qpn: qp.qpn,
    wqeIndex: recv.position & 0xffff,
    byteCount,
    immediate: packet.immdt?.immediate ?? packet.ieth?.rkey ?? 0,
    sourceQpn: packet.deth?.sourceQpn ?? PLAIN_CQE.sourceQpn,
    solicited: packet.bth.solicited,
  });
}

/** The receive could not take its message, and ends with it. */
export function failReceive(
  device: Device,
  qp: QueuePair,
  failed: { readonly recv: RecvWqe; readonly fault: VendorError },
): void {
  closeMessage(qp);
  const { recv: { position }, fault } = failed;
  if (device.out.tracing) traceFailedReceive(device, qp, { position, fault });
  flushReceive(device, qp, { position, fault });
}

export function flushReceive(
  device: Device,
  qp: QueuePair,
  { position, fault = "flushed" }: { readonly position: number; readonly fault?: VendorError },
): void {
  completeUnlessPaused(device, qp, {
    ...PLAIN_CQE,
    ...faultFields(fault),
    opcode: "responder-error",
    qpn: qp.qpn,
    wqeIndex: position & 0xffff,
  });
}

function completeUnlessPaused(device: Device, qp: QueuePair, cqe: Cqe): void {
  const pause = device.pauses.get(qp.rqQueue);
  if (pause === undefined) complete(device, qp.recvCq, cqe);
  else pause.held.push({ cqn: qp.recvCq, cqe });
}
