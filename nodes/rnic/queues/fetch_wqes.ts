/** Fetching WQEs: as many units as are filled, as one read may bring, and as the ring has to its end. */
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import type { Device } from "../state/device.ts";
import { dmaRead } from "../dma/dma.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { Continuation } from "../state/dma_state.ts";

type Fetch = Extract<Continuation, { readonly units: number }>;
/** Whom the fetched WQEs are for. */
type Owner<F = Fetch> = F extends Fetch ? Omit<F, "entry" | "units"> : never;

/** Reads the next units of a queue, at least one of which is filled; its entry stays until they come. */
export function fetchWqes(
  device: Device,
  entry: QueueEntry,
  fetch: { readonly unitBytes: number; readonly owner: Owner },
): void {
  const { own, host, depth, wqeAddress } = entry;
  const { unitBytes, owner } = fetch;
  const filled = filledUnits(own, host, depth);
  const units = Math.min(filled, device.timing.wqeFetchUnits, depth - own);
  entry.pins++;
  device.counters.wqeReads++;
  dmaRead(device, {
    address: wqeAddress + own * unitBytes,
    length: units * unitBytes,
    noSnoop: false,
    continuation: { ...owner, entry, units },
  });
}
