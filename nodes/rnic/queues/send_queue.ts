/**
 * Send queue: WQEs fetched several units at once, assembled across fetches and the ring's end
 * (Q-01).
 */
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { copyOf, viewOf } from "../../../fabric/base/slab.ts";
import { decodeSendWqe, unitsOfWqe, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { type Device, schedule } from "../state/device.ts";
import { addWork } from "../state/requester_changes.ts";
import { rights } from "../state/life_cycle.ts";
import { LIMITS } from "../state/limits.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { isPaused } from "./pause.ts";
import { joined } from "./ring_move.ts";
import { advanceRead, fetchWqes, findQueue, rereadPointer } from "./queue_information.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { createWork } from "../state/outstanding_wqe.ts";

export function fetchWork(device: Device, qp: QueuePair): void {
  const { sq, requester } = qp;
  const { startsWork, flushesSends } = rights(qp.state);
  if (!sq.mayHaveMore || sq.busy || isPaused(device, qp.sqQueue) || !(startsWork || flushesSends)) {
    return;
  }
  if (requester.work.length >= LIMITS.workPerQueuePair) return;
  const entry = findQueue(device, qp.sqQueue, { kind: "send", qp, life: qp.life });
  if (entry === undefined) sq.busy = true;
  else resumeSendQueue(device, entry, qp);
}

export function resumeSendQueue(device: Device, entry: QueueEntry, qp: QueuePair): void {
  qp.sq.busy = false;
  if (isPaused(device, qp.sqQueue)) return;
  const filled = filledUnits(entry.own, entry.host, entry.depth);
  qp.sq.mayHaveMore = filled > 0 || entry.rung;
  if (!qp.sq.mayHaveMore) return;
  qp.sq.busy = true;
  // so the classic scheme recovers, where a doorbell has found the card at work.
  if (filled === 0) return rereadPointer(device, entry, { kind: "send", qp, life: qp.life });
  const owner = { kind: "send-wqes", qp, life: qp.life } as const;
  const units = device.hints && device.up.unitsAhead(device.hints, qp);
  fetchWqes(device, entry, { unitBytes: WQE_UNIT_BYTES, owner, units });
}

export function takeWork(
  device: Device,
  fetch: { readonly qp: QueuePair; readonly entry: QueueEntry; readonly units: number },
  data: Uint8Array<ArrayBuffer>,
): void {
  const { qp, entry, units } = fetch;
  const { sq } = qp;
  sq.busy = false;
  const start = sq.partial === undefined ? entry.own : sq.partialPosition;
  const bytes = sq.partial === undefined ? data : joined(sq.partial, data);
  advanceRead(device, entry, units);
  sq.partial = undefined;
  let at = 0;
  while (at < bytes.length) {
    const position = (start + at / WQE_UNIT_BYTES) % entry.depth;
    const taken = takeWqe(qp, bytes.subarray(at), position);
    if (taken === 0) {
      sq.partial = copyOf(bytes.subarray(at));
      sq.partialPosition = position;
      break;
    }
    at += taken * WQE_UNIT_BYTES;
  }
  if (rights(qp.state).flushesSends) device.up.flushWork(device, qp);
  else schedule(device, qp);
  fetchWork(device, qp);
}

/**
 * @returns the WQE's units; 0 where some are missing. Bytes that are no WQE take one unit.
 */
function takeWqe(qp: QueuePair, bytes: Uint8Array, position: number): number {
  const units = unitsOfWqe(viewOf(bytes));
  if (units !== undefined && bytes.length < units * WQE_UNIT_BYTES) return 0;
  const wqe = units === undefined ? undefined : decodeSendWqe(bytes);
  const work = createWork(wqe, position);
  addWork(qp, work);
  return units ?? 1;
}
