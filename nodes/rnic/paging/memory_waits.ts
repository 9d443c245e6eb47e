/** Accesses that wait for translations or pages, per queue pair and kind, resumed in order. */
import type { Device } from "../state/device.ts";
import {
  type Delivery,
  MEMORY_WAITERS,
  type MemoryWait,
  type MemoryWaiter,
  type WantedPage,
} from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";

function numberOf(qp: QueuePair, kind: MemoryWaiter): number {
  return qp.slot * MEMORY_WAITERS.length + MEMORY_WAITERS.indexOf(kind);
}

/** An access that waits must not be begun again. */
export function isWaiting({ paging }: Device, qp: QueuePair, kind: MemoryWaiter): boolean {
  if (paging.waits.size === 0) return false;
  const wait = paging.waits.get(numberOf(qp, kind));
  return wait !== undefined && wait.qp === qp && wait.life === qp.life;
}

export function beginWait(
  { paging, now }: Device,
  { qp, kind, pages }: Pick<MemoryWait, "qp" | "kind" | "pages">,
): MemoryWait {
  const wait: MemoryWait = { qp, kind, pages, life: qp.life, since: now, missing: 0 };
  const number = numberOf(qp, kind);
  paging.waits.delete(number);
  paging.waits.set(number, wait);
  return wait;
}

export function resumeWait(device: Device, wait: MemoryWait): void {
  const { paging, now } = device;
  const number = numberOf(wait.qp, wait.kind);
  if (paging.waits.get(number) !== wait) return;
  paging.waits.delete(number);
  if (wait.life !== wait.qp.life) return;
  // The stall of a refused request is counted when it has come again.
  if (wait.pages.length > 0 && wait.kind !== "gap" && wait.kind !== "request") {
    paging.counters.pageStallPs += now - wait.since;
  }
  if (wait.pages.length === 0) paging.admitted.set(number, wait);
  device.up.memoryReady(device, wait);
}

/** An admission is returned once. */
export function takeAdmission(
  { paging }: Device,
  { qp, kind }: { readonly qp: QueuePair; readonly kind: MemoryWaiter },
): boolean {
  if (paging.admitted.size === 0) return false;
  const number = numberOf(qp, kind);
  const wait = paging.admitted.get(number);
  if (wait === undefined) return false;
  paging.admitted.delete(number);
  return wait.qp === qp && wait.life === qp.life;
}

export function takeDeliveries(device: Device, qp: QueuePair): readonly Delivery[] {
  if (!isWaiting(device, qp, "deliver")) return [];
  const { deliveries, waits } = device.paging;
  const waiting = deliveries.get(qp.slot) ?? [];
  deliveries.delete(qp.slot);
  waits.delete(numberOf(qp, "deliver"));
  return waiting;
}

/** A page of a deregistered region is not waited for. */
export function resumeMapped(device: Device): void {
  const { paging } = device;
  for (const wait of [...paging.waits.values()]) {
    if (wait.pages.length === 0 || wait.missing > 0) continue;
    if (wait.pages.every((wanted) => isThere(device, wanted))) resumeWait(device, wait);
  }
}

function isThere({ paging }: Device, { table, page, rights }: WantedPage): boolean {
  return !paging.tables.has(table) || table.demand![page]!.rights >= rights;
}
