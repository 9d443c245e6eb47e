/**
 * Memory that may have to be waited for: lines of translations on the chip, pages that were asked for, and the
 * waiters for either. `paging/` changes it.
 */
import { ENTRIES_PER_LINE, type HintRequest, type TranslationTable } from "./translation_table.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { PacketIn, PersistRecord, RecvWqe } from "./responder_state.ts";

/** Waiters for memory; a queue pair has at most one of each kind. */
export const MEMORY_WAITERS = [
  "request",
  "gap",
  "gather",
  "read",
  "atomic",
  "response",
  "deliver",
  "staged",
  "look",
] as const;
export type MemoryWaiter = typeof MEMORY_WAITERS[number];

export interface MemoryWait {
  readonly kind: MemoryWaiter;
  readonly qp: QueuePair;
  readonly life: number;
  readonly since: Time;
  missing: number;
  readonly pages: readonly WantedPage[];
}

export interface WantedPage {
  readonly table: TranslationTable;
  readonly page: number;
  readonly rights: 1 | 2;
}

export interface DueEvent {
  readonly at: Time;
  readonly table: TranslationTable;
  readonly event: PageFault;
  /** Of hints. */
  readonly hint?: HintRequest | undefined;
  /** Hints have asked the host for all of it before: it is not raised where the pages have come meanwhile. */
  readonly repeats: boolean;
}

export type PageFault = Extract<RnicEvent, { type: "PAGE_FAULT" }>;

export interface Fill {
  readonly table: TranslationTable;
  readonly line: number;
  readonly version: number;
  readonly waits: MemoryWait[];
}

/** The host takes pages back: the reply waits until no access to their frames is under way. */
export interface Invalidation {
  readonly id: number;
  readonly frames: ReadonlySet<number>;
  readonly pageBytes: number;
}

export interface Paging {
  readonly plan: Pick<RnicPlan, "translations" | "pageFault">;
  /** Lines on the chip, the next to be evicted in front; `id` of the table and number of the line. */
  readonly cached: Map<number, { readonly table: TranslationTable; readonly line: number }>;
  readonly capacityLines: number;
  readonly tables: Set<TranslationTable>;
  lines: number;
  /** Tables of on-demand regions. */
  onDemand: number;
  nextTable: number;
  readonly fills: Map<number, Fill>;
  readonly waits: Map<number, MemoryWait>;
  /** Accesses whose lines have come: they use them even if other lines have displaced them. */
  readonly admitted: Map<number, MemoryWait>;
  /** By slot: responses behind the one that waits; none where they are dropped. */
  readonly parked: Map<number, PacketOf[]>;
  /** By slot: messages whose RECV's memory waits, in order. */
  readonly deliveries: Map<number, Delivery[]>;
  /** By slot: since when the peer's request has been refused for a page. */
  readonly refusedSince: Map<number, { readonly life: number; readonly since: Time }>;
  readonly invalidations: Invalidation[];
  readonly memory: TableMemory;
  readonly counters: PagingCounters;
}

type PacketOf = Pick<PacketIn, "packet" | "row">;

/** A persistent message, and the RECV that tells the host's CPU of it (P-26). */
export interface Delivery {
  readonly record: PersistRecord;
  readonly recv: RecvWqe;
}

/** Host memory for tables that is free again, by size. */
export interface TableMemory {
  next: number;
  end: number;
  readonly free: Map<number, number[]>;
}

/** The report's counters where memory is paged or not all translations fit. */
export interface PagingCounters {
  translationHits: number;
  translationMisses: number;
  translationEvictions: number;
  /** Events at the driver, the pages that they asked for at once, and those ahead. */
  pageFaults: number;
  pagesAsked: number;
  pageFaultsMerged: number;
  pageFaultRnrNaks: number;
  pageFaultDrops: number;
  pageFaultPauses: number;
  /** Responses that were dropped because their memory was absent: they are asked for again. */
  pageFaultResponses: number;
  pageStallPs: number;
  pagesMapped: number;
  pagesInvalidated: number;
}

export function createPaging(plan: Pick<RnicPlan, "translations" | "pageFault">): Paging {
  return {
    plan,
    cached: new Map(),
    capacityLines: Math.ceil(plan.translations.entries / ENTRIES_PER_LINE),
    tables: new Set(),
    lines: 0,
    onDemand: 0,
    nextTable: 0,
    fills: new Map(),
    waits: new Map(),
    admitted: new Map(),
    parked: new Map(),
    deliveries: new Map(),
    refusedSince: new Map(),
    invalidations: [],
    memory: { next: 0, end: 0, free: new Map() },
    counters: {
      translationHits: 0,
      translationMisses: 0,
      translationEvictions: 0,
      pageFaults: 0,
      pagesAsked: 0,
      pageFaultsMerged: 0,
      pageFaultRnrNaks: 0,
      pageFaultDrops: 0,
      pageFaultPauses: 0,
      pageFaultResponses: 0,
      pageStallPs: 0,
      pagesMapped: 0,
      pagesInvalidated: 0,
    },
  };
}

/** Whether an access can find a translation missing; if not, the card looks at none. */
export function mayMiss({ onDemand, lines, cached }: Paging): boolean {
  return onDemand > 0 || cached.size < lines;
}
