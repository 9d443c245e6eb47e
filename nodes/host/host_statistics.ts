/** A host's counters, by the names that reports and tests use. Times end in Ps, sizes in Bytes. */
import { type AddressMap, SCM_BASE } from "./memory/address_map.ts";
import type { CoherentAgent } from "./memory/coherent_agent.ts";
import type { CardMemory } from "./memory/card_memory.ts";
import type { Iio } from "./memory/iio.ts";
import type { MemorySystem } from "./memory/memory_system.ts";
import type { Iommu } from "./memory/iommu.ts";
import type { PageTable } from "./memory/page_table.ts";
import type { Ats } from "./paging/ats.ts";
import type { HintThread } from "./paging/hint_thread.ts";
import type { Pager } from "./paging/pager.ts";
import type { HostRegions } from "./coherence/shared_regions.ts";
import type { Processor } from "./cpu/processor.ts";

interface Parts {
  readonly iio: Iio;
  readonly memory: MemorySystem;
  readonly map: AddressMap;
  readonly pages: PageTable;
  readonly paging: Pager;
  readonly iommu: Iommu | undefined;
  readonly cardMemory: CardMemory | undefined;
  readonly hintThread: HintThread;
  readonly ats: Ats | undefined;
  readonly agent: CoherentAgent | undefined;
  readonly regions: HostRegions | undefined;
}

/** Counts of what has no part of its own. */
export interface HostCounts {
  readonly programs: number;
  readonly registerWrites: number;
  readonly commands: number;
  readonly strayReplies: number;
}

/** Counters since power-on. */
export function hostStatistics(
  processor: Processor,
  { iio, memory, map, pages, paging, iommu, cardMemory, hintThread, ats, regions, agent }: Parts,
  counts: HostCounts,
): Record<string, number> {
  const { llc, physical: { scmImc, scmBuffer, dramImc, scm, dram } } = memory;
  const isOfScm = (line: number) => memory.physical.addressOf(line) >= SCM_BASE;
  const dirty = llc.dirtyLines().filter(isOfScm).length;
  const cores = Object.fromEntries(
    processor.cpuPs.map((cpuPs, core) => [`core${core}.cpuPs`, cpuPs]),
  );
  return {
    cpuPs: processor.cpuPs.reduce((sum, cpuPs) => sum + cpuPs, 0),
    pollPs: processor.pollPs,
    ...cores,
    interrupts: processor.interrupts,
    programs: counts.programs,
    programsRunning: processor.running,
    registerWrites: counts.registerWrites,
    commands: counts.commands,
    strayReplies: counts.strayReplies,
    dmaReads: iio.reads,
    dmaReadBytes: iio.readBytes,
    dmaWrites: iio.writes,
    dmaWriteBytes: iio.writeBytes,
    dmaBadReads: iio.badReads,
    dmaBadWrites: iio.badWrites,
    ...(agent && {
      busLinesGranted: agent.granted,
      busLinesWritten: agent.written,
      busLinesRead: agent.read,
      busSnoopAnswers: agent.snoopAnswers,
    }),
    iioBytesMax: iio.bytesMax,
    iioBytes: iio.bufferedBytes,
    llcHits: llc.hits,
    llcMisses: llc.misses,
    llcEvictions: llc.evictions,
    wpqStalls: iio.stalls,
    wpqStallPs: iio.stallPs,
    scmWpqLines: scmImc.accepted,
    scmWpqCombined: scmImc.combined,
    scmWpqOverflows: scmImc.overflows,
    scmWpqMax: scmImc.pendingMax,
    // Bytes that the controller has received, and bytes written to the medium (P-01: blocks of 256
    // B).
    scmBytesIn: scmImc.acceptedBytes,
    // Lines of SCM that are newer in the LLC: what was stored, and has not come to the controller.
    ...(dirty > 0 && { scmLinesDirty: dirty }),
    scmLinesOut: scmBuffer.lines,
    scmBlocksOut: scmBuffer.blocksOut,
    scmBytesOut: scmBuffer.bytesOut,
    scmReadModifyWrites: scmBuffer.readModifyWrites,
    dramWpqLines: dramImc.accepted,
    dramWpqOverflows: dramImc.overflows,
    dramWpqMax: dramImc.pendingMax,
    scmResidentBytes: scm.residentBytes,
    dramResidentBytes: dram.residentBytes,
    dramAllocatedBytes: map.allocatedBytes,
    ...(memory.pluggedLoads > 0 && { pluggedLoads: memory.pluggedLoads }),
    ...(cardMemory && {
      cardStores: cardMemory.stores,
      cardLoads: cardMemory.loads,
      cardStoresRefused: cardMemory.refused,
    }),
    ...pagingStatistics(pages, paging),
    ...(hintThread.jobs > 0 && { hintJobs: hintThread.jobs, hintJobsPs: hintThread.workPs }),
    ...(ats && { atsPageRequests: ats.pageRequests, atsTranslations: ats.translations }),
    ...regions?.statistics(),
    ...(iommu && {
      iotlbHits: iommu.hits,
      iotlbMisses: iommu.misses,
      iommuFaults: iommu.faults,
    }),
  };
}

/** Only where memory has been on demand. */
function pagingStatistics(pages: PageTable, paging: Pager): Record<string, number> {
  const counts = {
    cardPageFaults: paging.faults,
    pagePrefetches: paging.prefetches,
    pagesMapped: paging.pagesMapped,
    pageInvalidations: paging.invalidations,
    pagesTaken: pages.takenAway,
    minorFaults: pages.minorFaults,
    majorFaults: pages.majorFaults,
  };
  return Object.values(counts).some((count) => count > 0) ? counts : {};
}
