/** A host's counters, by the names that reports and tests use. Times end in Ps, sizes in Bytes. */
import type { Time } from "../../fabric/base/time.ts";
import type { HostCard } from "./host_card.ts";
import { type AddressMap, SCM_BASE } from "./memory/address_map.ts";
import type { MemorySystem } from "./memory/memory_system.ts";
import { SCM_BLOCK_BYTES } from "./memory/scm.ts";
import type { Iommu } from "./memory/iommu.ts";
import type { PageTable } from "./memory/page_table.ts";
import type { Pager } from "./paging/pager.ts";
import type { Processor } from "./cpu/processor.ts";
import type { SharedRegions } from "./cpu/region.ts";

interface Parts {
  readonly cards: readonly HostCard[];
  readonly memory: MemorySystem;
  readonly map: AddressMap;
  readonly pages: PageTable;
  readonly paging: Pager;
  readonly iommu: Iommu | undefined;
  readonly regions: SharedRegions | undefined;
}

export interface HostCounts {
  readonly programs: number;
  readonly hintJobs: { readonly jobs: number; readonly workPs: Time };
}

export function hostStatistics(
  processor: Processor,
  { cards, memory, map, pages, paging, iommu, regions }: Parts,
  { programs, hintJobs }: HostCounts,
): Record<string, number> {
  const sum = (countOf: (card: HostCard) => number) => sumOver(cards, countOf);
  const { agent, ats, cardMemory } = cards[0]!;
  const { llc, physical: { scmImc, scmModules, dramImc, scm, dram } } = memory;
  const blocksOut = sumOver(scmModules, (module) => module.blocksOut);
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
    programs,
    programsRunning: processor.running,
    registerWrites: sum(({ bus }) => bus.registerWrites),
    commands: sum(({ bus }) => bus.commands),
    strayReplies: sum(({ strayReplies }) => strayReplies),
    dmaReads: sum(({ iio }) => iio.reads),
    dmaReadBytes: sum(({ iio }) => iio.readBytes),
    dmaWrites: sum(({ iio }) => iio.writes),
    dmaWriteBytes: sum(({ iio }) => iio.writeBytes),
    dmaBadReads: sum(({ iio }) => iio.badReads),
    dmaBadWrites: sum(({ iio }) => iio.badWrites),
    ...(agent && {
      busLinesGranted: agent.granted,
      busLinesWritten: agent.written,
      busLinesRead: agent.read,
      busSnoopAnswers: agent.snoopAnswers,
    }),
    iioBytesMax: Math.max(...cards.map(({ iio }) => iio.bytesMax)),
    iioBytes: sum(({ iio }) => iio.bufferedBytes),
    llcHits: llc.hits,
    llcMisses: llc.misses,
    llcEvictions: llc.evictions,
    wpqStalls: sum(({ iio }) => iio.stalls),
    wpqStallPs: sum(({ iio }) => iio.stallPs),
    scmWpqLines: scmImc.accepted,
    scmWpqCombined: scmImc.combined,
    scmWpqOverflows: scmImc.overflows,
    scmWpqMax: scmImc.pendingMax,
    // Bytes received by the controller, and written to the medium (P-01: blocks of 256 B).
    scmBytesIn: scmImc.acceptedBytes,
    // Lines that are newer in the LLC.
    ...(dirty > 0 && { scmLinesDirty: dirty }),
    scmLinesOut: sumOver(scmModules, ({ lines }) => lines),
    scmBlocksOut: blocksOut,
    scmBytesOut: blocksOut * SCM_BLOCK_BYTES,
    scmReadModifyWrites: sumOver(scmModules, ({ readModifyWrites }) => readModifyWrites),
    dramWpqLines: dramImc.accepted,
    dramWpqOverflows: dramImc.overflows,
    dramWpqMax: dramImc.pendingMax,
    scmResidentBytes: scm.residentBytes,
    dramResidentBytes: dram.residentBytes,
    dramAllocatedBytes: map.allocatedBytes,
    ...(memory.pluggedLoads > 0 && { pluggedLoads: memory.pluggedLoads }),
    ...(cardMemory && {
      cardStores: sum((card) => card.cardMemory!.stores),
      cardLoads: sum((card) => card.cardMemory!.loads),
      cardStoresRefused: sum((card) => card.cardMemory!.refused),
    }),
    ...pagingStatistics(pages, paging),
    ...(hintJobs.jobs > 0 && { hintJobs: hintJobs.jobs, hintJobsPs: hintJobs.workPs }),
    ...(ats && {
      atsPageRequests: sum((card) => card.ats!.pageRequests),
      atsTranslations: sum((card) => card.ats!.translations),
    }),
    ...regions?.statistics(),
    ...(iommu && {
      iotlbHits: iommu.hits,
      iotlbMisses: iommu.misses,
      iommuFaults: iommu.faults,
    }),
  };
}

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

function sumOver<T>(all: readonly T[], countOf: (each: T) => number): number {
  return all.reduce((sum, each) => sum + countOf(each), 0);
}
