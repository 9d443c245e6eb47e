/** What a report says of memory on demand and of the translation cache, where either was ever in use. */
import type { Device } from "../state/device.ts";

export function pagingStatistics({ paging }: Device): Record<string, number> {
  const { counters, cached, lines, onDemand } = paging;
  const wasUsed = onDemand > 0 || Object.values(counters).some((count) => count > 0);
  return wasUsed ? { ...counters, translationLines: lines, cachedLines: cached.size } : {};
}
