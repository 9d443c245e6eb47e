/**
 * The observer of stale pointers. A stale-pointer event is a doorbell handled with a pointer older
 * than the one that was stored in the host's view when it rang; later stores do not count. Both schemes are
 * measured here, by the host's own times: the doorbell has its pointer's, or the note that goes with it
 * (`RegisterWrite.stored`). The card's behaviour does not depend on it.
 */
import type { Device } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { DoorbellContent } from "../state/queues.ts";
import { traceStale } from "../trace/queue_trace.ts";

/** A doorbell is being handled with the pointer of the entry. */
export function observeHandled(
  device: Device,
  entry: QueueEntry,
  { write, stored = write }: DoorbellContent,
): void {
  if (stored === undefined || entry.stamp >= stored.stamp) return;
  device.counters.stalePointers++;
  if (device.out.tracing) traceStale(device, entry, stored);
}
