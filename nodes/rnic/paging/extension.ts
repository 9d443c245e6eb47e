/** Report of memory on demand and the translation cache. */
import type { CardExtension } from "../state/card_extension.ts";
import type { Device } from "../state/device.ts";

export const PAGING = {
  isOf: () => true,
  statistics,
  held: ({ pageEvents, paging: { fills, waits, parked, deliveries } }) => ({
    leaked: [
      ["page faults not raised", pageEvents.length],
      ["fills of translations", fills.size],
      ["accesses that wait for memory", waits.size],
      ["queue pairs with responses behind such an access", parked.size],
      ["receives whose memory is waited for", deliveries.size],
    ],
  }),
} as const satisfies CardExtension;

function statistics({ paging }: Device): Record<string, number> {
  const { counters, cached, lines, onDemand } = paging;
  const wasUsed = onDemand > 0 || Object.values(counters).some((count) => count > 0);
  return wasUsed ? { ...counters, translationLines: lines, cachedLines: cached.size } : {};
}
