import { congestionStatistics } from "../transmit/congestion.ts";
import type { Device } from "../state/device.ts";
import { flipStatistics } from "../state/flips.ts";
import { EXTENSIONS } from "../extensions.ts";
import type { CounterReader } from "../state/card_extension.ts";

const WHERE_COUNTED = [
  "loopbackFrames",
  "loopbackBytes",
  "pointerWrites",
  "storesRefused",
  "contextMisses",
  "doorbellsLost",
  "doorbellsCoalesced",
  "doorbellsDropped",
] as const;

export function statisticsOf(device: Device, reader: CounterReader): Record<string, number> {
  const all: Record<string, number> = { ...device.counters };
  if (all["locksGranted"] === 0 && all["locksDenied"] === 0) {
    for (const name of ["locksGranted", "locksDenied", "locksTakenBack"]) delete all[name];
  }
  for (const name of WHERE_COUNTED) if (all[name] === 0) delete all[name];
  // also 0, where the scenario compares schemes.
  if (all["stalePointers"] === 0 && device.plan.queuePlan === undefined) {
    delete all["stalePointers"];
  }
  // DMA reads of queue information per doorbell.
  const { doorbells, doorbellReads } = device.counters;
  all["dmaReadsPerDoorbell"] = doorbells === 0 ? 0 : doorbellReads / doorbells;
  all["cachedQueues"] = device.cache.size;
  all["queuePairs"] = device.queuePairs.size;
  all["completionQueues"] = device.completionQueues.size;
  all["sharedReceiveQueues"] = device.sharedReceiveQueues.size;
  all["memoryRegions"] = device.regions.slots.filter((slot) => slot !== undefined).length;
  for (const [reason, count] of [...device.drops].sort(([x], [y]) => (x < y ? -1 : 1))) {
    all[`drop-${reason}`] = count;
  }
  return Object.assign(
    all,
    device.port?.counters,
    congestionStatistics(device),
    flipStatistics(device.flips),
    ...EXTENSIONS.map(({ statistics }) => statistics?.(device, reader)),
  );
}
