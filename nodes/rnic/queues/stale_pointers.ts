/**
 * Observer of stale pointers: doorbells handled with a pointer older than the one
 * stored, in the host's view, when they rang; later stores do not count. Both schemes are measured
 * by the host's own times: the doorbell's pointer, or its note (`RegisterWrite.stored`). The card's
 * behaviour does not depend on it.
 */
import type { Device } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { DoorbellContent } from "../state/queues.ts";
import { traceStale } from "../trace/queue_trace.ts";

export function observeHandled(
  device: Device,
  entry: QueueEntry,
  { write, stored = write }: DoorbellContent,
): void {
  if (stored === undefined || entry.stamp >= stored.stamp) return;
  device.counters.stalePointers++;
  if (device.out.tracing) traceStale(device, entry, stored);
}
