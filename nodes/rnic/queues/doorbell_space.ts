/**
 * The doorbell space: noticed doorbells that are not served, first in, first out. One is
 * lost where the space is full, and, by the plan's faults, on its way or overwritten by its
 * successor. The pointer is in space 3 all the same: for send queues the host's `doorbell_watch.ts`
 * rings again; a receive queue's space 3 is read before it counts as empty.
 */
import type { Device } from "../state/device.ts";
import type { TakenDoorbell } from "../state/queues.ts";
import { traceLostDoorbell } from "../trace/queue_trace.ts";

const PER_MILLION = 1_000_000;

export function noticeDoorbell(device: Device, doorbell: TakenDoorbell): boolean {
  const { counters, doorbellRng, doorbellPlan: { lostPpm = 0 } } = device;
  counters.doorbells++;
  if (lostPpm === 0 || doorbellRng.below(PER_MILLION) >= lostPpm) return true;
  counters.doorbellsLost++;
  traceLostDoorbell(device, doorbell, "lost on its way");
  return false;
}

export function pushDoorbell(device: Device, doorbell: TakenDoorbell): void {
  const { counters, doorbells, doorbellPlan: { slots } } = device;
  if (isCoalesced(device, doorbell)) {
    counters.doorbellsCoalesced++;
  } else if (slots !== undefined && doorbells.length >= slots) {
    counters.doorbellsDropped++;
    traceLostDoorbell(device, doorbell, "all doorbell slots are taken");
  } else {
    doorbells.push(doorbell);
  }
}

function isCoalesced(device: Device, doorbell: TakenDoorbell): boolean {
  const { doorbells, doorbellRng, doorbellPlan: { coalescedPpm = 0 } } = device;
  if (coalescedPpm === 0) return false;
  for (let at = doorbells.first; at < doorbells.end; at++) {
    const pending = doorbells.at(at)!;
    if (pending.queue !== doorbell.queue) continue;
    if (doorbellRng.below(PER_MILLION) >= coalescedPpm) return false;
    traceLostDoorbell(device, pending, "a later one is written over it");
    Object.assign(pending, { wqe: undefined, write: undefined, stored: undefined }, doorbell);
    return true;
  }
  return false;
}

/** A queue made anew does not have the WQEs that these doorbells announce. */
export function dropDoorbells(device: Device, queue: number): void {
  const { doorbells, counters } = device;
  for (let left = doorbells.length; left > 0; left--) {
    const doorbell = doorbells.shift()!;
    if (doorbell.queue !== queue) doorbells.push(doorbell);
    else {
      counters.doorbellsRefused++;
      traceLostDoorbell(device, doorbell, "its queue has begun anew, or is gone");
    }
  }
}

/**
 * The queue is made anew or gone, or its pointer came by another way, so the WQE is fetched instead
 * of taken from BlueFlame pieces.
 */
export function forgetPieces(device: Device, queue: number): void {
  device.blueFlame.delete(2 * queue);
  device.blueFlame.delete(2 * queue + 1);
}
