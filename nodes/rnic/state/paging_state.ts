/** Translations on the chip, pages asked for, and the waiters for either. */
import { ENTRIES_PER_LINE, type HintRequest, type TranslationTable } from "./translation_table.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { PacketIn, PersistRecord, RecvWqe } from "./responder_state.ts";

/** A queue pair has at most one of each kind. */
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
  readonly hint?: HintRequest | undefined;
  /** Hints have asked for all of it, so it is not raised where the pages have come meanwhile. */
  readonly repeats: boolean;
}

export type PageFault = Extract<RnicEvent, { type: "PAGE_FAULT" }>;

export interface Fill {
  readonly table: TranslationTable;
  readonly line: number;
  readonly version: number;
  readonly waits: MemoryWait[];
}

/** The reply waits until no access to the frames is under way. */
export interface Invalidation {
  readonly id: number;
  readonly frames: ReadonlySet<number>;
  readonly pageBytes: number;
}

export interface Paging {
  readonly plan: Pick<RnicPlan, "translations" | "pageFault">;
  /** The next line to be evicted is in front; by table `id` and line number. */
  readonly cached: Map<number, { readonly table: TranslationTable; readonly line: number }>;
  readonly capacityLines: number;
  readonly tables: Set<TranslationTable>;
  lines: number;
  onDemand: number;
  nextTable: number;
  readonly fills: Map<number, Fill>;
  readonly waits: Map<number, MemoryWait>;
  /** Accesses whose lines have come: these serve them even if displaced. */
  readonly admitted: Map<number, MemoryWait>;
  readonly parked: Map<number, PacketOf[]>;
  readonly deliveries: Map<number, Delivery[]>;
  readonly refusedSince: Map<number, { readonly life: number; readonly since: Time }>;
  readonly invalidations: Invalidation[];
  readonly memory: TableMemory;
  readonly counters: PagingCounters;
}

type PacketOf = Pick<PacketIn, "packet" | "row">;

/** A persistent message and its RECV (P-26). */
export interface Delivery {
  readonly record: PersistRecord;
  readonly recv: RecvWqe;
}

export interface TableMemory {
  next: number;
  end: number;
  readonly free: Map<number, number[]>;
}

export interface PagingCounters {
  translationHits: number;
  translationMisses: number;
  translationEvictions: number;
  /** The pages asked for at once, and ahead. */
  pageFaults: number;
  pagesAsked: number;
  pageFaultsMerged: number;
  pageFaultRnrNaks: number;
  pageFaultDrops: number;
  pageFaultPauses: number;
  /** Responses dropped as their memory was absent; they are asked for again. */
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

export function mayMiss({ onDemand, lines, cached }: Paging): boolean {
  return onDemand > 0 || cached.size < lines;
}
