/** A coherent card's counters, for the run's report (C-11). */
import type { Device } from "../state/device.ts";

/** Empty of a card without shared regions. */
export function coherenceStatistics({ coherence }: Device): Record<string, number> {
  if (coherence === undefined) return {};
  const { counters: { sent, received, busSent, busReceived, ...numbers }, home, fars } = coherence;
  const all: Record<string, number> = {};
  for (
    const [prefix, counts] of [
      ["coherenceSent", sent],
      ["coherenceReceived", received],
      ["lineSent", busSent],
      ["lineReceived", busReceived],
    ] as const
  ) {
    for (const [kind, count] of [...counts].sort(([x], [y]) => (x < y ? -1 : 1))) {
      all[`${prefix}${kind}`] = count;
    }
  }
  let remoteLines = 0;
  for (const { card } of fars.values()) remoteLines += card.lines.size;
  return {
    ...all,
    remoteCacheHits: numbers.remoteHits,
    remoteCacheMisses: numbers.remoteMisses,
    remoteCacheLines: remoteLines,
    remoteCacheLinesMost: numbers.remoteLinesMost,
    localCacheHits: numbers.localHits,
    localCacheMisses: numbers.localMisses,
    localCacheLines: home?.card.local.lines.size ?? 0,
    localCacheLinesMost: numbers.localLinesMost,
    directoryLines: home?.card.lines.size ?? 0,
    directoryLinesMost: numbers.directoryMost,
    coherenceRecalls: numbers.recalls,
    coherenceEvictions: numbers.evictions,
    linesLost: numbers.linesLost,
    leasesEnded: numbers.leasesEnded,
    coherenceMalformed: numbers.malformed,
  };
}
