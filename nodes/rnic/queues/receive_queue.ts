/**
 * Receive queue: whoever needs a receive WQE waits in turn. WQEs are fetched by DMA when one is
 * needed, a few at once; before "empty" is believed, the host's pointer is read from space 3 once.
 */
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeRecvWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Device } from "../state/device.ts";
import { fetchWqes } from "./fetch_wqes.ts";
import { rights } from "../state/life_cycle.ts";
import { RECV_RETRIES, RECV_RETRY_PS } from "../state/limits.ts";
import { confirmOnRecv, deliverToHost } from "../persistence/pm_module.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { advanceRead, findQueue, rereadPointer } from "./queue_information.ts";
import type { QueuePair, RecvWaiter } from "../state/queue_pair.ts";
import { flushReceiveRing, flushReceives } from "../requester/qp_error.ts";
import { serveShared } from "./shared_receive_queue.ts";
import { grantRecv, refuseRecv } from "../responder/stalled_packets.ts";
import type { RecvWqe } from "../state/responder_state.ts";
import { clearTimer, setTimer } from "../state/timers.ts";

/** Asks for a receive WQE. The waiter gets it in its turn, maybe at once. */
export function wantRecv(device: Device, qp: QueuePair, waiter: RecvWaiter): void {
  qp.rq.waiters.push(waiter);
  if (qp.rq.waiters.length === 1) qp.rq.retries = 0;
  serveReceives(device, qp);
}

/** Serves waiters from what is on the chip, and fetches where that does not suffice. */
export function serveReceives(device: Device, qp: QueuePair): void {
  const { rq } = qp;
  if (rights(qp.state).flushesReceives) return flushReceives(device, qp);
  if (qp.srq !== undefined) return serveShared(device, qp, qp.srq);
  while (rq.waiters.length > 0 && rq.fetched.length > 0) {
    if (mustHold(qp, rq.waiters.peek()!)) return;
    clearTimer(device, qp, "receive");
    rq.retries = 0;
    giveReceive(device, qp, { waiter: rq.waiters.shift()!, recv: rq.fetched.shift()! });
  }
  if (rq.waiters.length === 0 || rq.busy) return;
  lookAtQueue(device, qp, false);
}

/**
 * Receive WQEs complete in their order: while a SEND of several packets has one, the next may not
 * complete. The SEND's other packets need none, so it comes to its end.
 */
function mustHold(qp: QueuePair, waiter: RecvWaiter): boolean {
  const { open, granted } = qp.responder;
  return waiter.kind !== "packet" && (open?.recv !== undefined || granted !== undefined);
}

/** Gives a receive WQE to who waited for it. */
export function giveReceive(
  device: Device,
  qp: QueuePair,
  turn: { readonly waiter: RecvWaiter; readonly recv: RecvWqe },
): void {
  const { waiter, recv } = turn;
  switch (waiter.kind) {
    case "packet":
      return grantRecv(device, qp, recv);
    case "persist":
      return deliverToHost(device, qp, { record: waiter.record, recv });
    case "confirmed":
      return confirmOnRecv(device, qp, { work: waiter.work, recv });
  }
}

function lookAtQueue(device: Device, qp: QueuePair, reread: boolean): void {
  const waiter = { kind: "recv", qp, life: qp.life, reread } as const;
  const entry = findQueue(device, qp.rqQueue, waiter);
  if (entry === undefined) qp.rq.busy = true;
  else resumeReceiveQueue(device, entry, waiter);
}

/** The queue's information is there: fetches WQEs, looks once more, or tells the first waiter "none". */
export function resumeReceiveQueue(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly qp: QueuePair; readonly reread: boolean },
): void {
  const { qp } = waiter;
  qp.rq.busy = false;
  if (rights(qp.state).flushesReceives) return flushReceiveRing(device, entry, waiter);
  const filled = filledUnits(entry.own, entry.host, entry.depth);
  if (filled === 0 && waiter.reread) return tellEmpty(device, qp);
  qp.rq.busy = true;
  if (filled === 0) {
    rereadPointer(device, entry, { kind: "recv", qp, life: qp.life, reread: true });
    return;
  }
  const owner = { kind: "recv-wqes", qp, life: qp.life } as const;
  fetchWqes(device, entry, { unitBytes: entry.unitBytes, owner });
}

/** Takes fetched receive WQEs and serves who waits. */
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
  advanceRead(entry, units);
  serveReceives(device, qp);
}

/**
 * No receive WQE is posted. A packet is refused (RNR NAK); what concerns persistence is never lost
 * (P-30) and looked after again, ever more rarely, until a doorbell or a duplicate asks anew.
 */
export function tellEmpty(device: Device, qp: QueuePair): void {
  const { rq } = qp;
  // A packet does not wait behind persistent messages: it is refused wherever it stands.
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
  if (refused) refuseRecv(device, qp);
}

/** The receive timer has fired: looks at the host's pointer again. */
export function retryReceives(device: Device, qp: QueuePair): void {
  if (qp.srq !== undefined) return serveReceives(device, qp);
  if (qp.rq.waiters.length > 0 && !qp.rq.busy) lookAtQueue(device, qp, false);
}

/** A duplicate of a message that still waits for a receive WQE: looks at once, from the start. */
export function urgeReceives(device: Device, qp: QueuePair): void {
  qp.rq.retries = 0;
  retryReceives(device, qp);
}
