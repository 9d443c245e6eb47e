/**
 * Shared regions (C-03): parts of one host's memory, its *home*, of which coherent cards keep
 * copies for other hosts, the *far* ones. Hosts and cards get the same records.
 */
import { LINE_BYTES } from "../../base/cache_line.ts";
import type { Time } from "../../base/time.ts";

/** In a host's physical addresses; DRAM begins at 0. */
export const SCM_BASE = 2 ** 40;

/**
 * C-04: the place of a region's copies; `auto`: home's judge moves them by the frequency of
 * accesses.
 */
export const PLACEMENTS = ["local", "remote", "auto"] as const;
export type RegionPlacement = typeof PLACEMENTS[number];
/**
 * Decision 17: between a far card's reports of access counts to home's judge. A choice: some tens
 * of accesses over the network.
 */
export const JUDGE_WINDOW_PS: Time = 100_000_000;

/** The words of the project's rule. */
export interface JudgeRules {
  /** By which the more frequent side has to exceed the other one for a move; whole, 0 or more. */
  readonly marginPercent: number;
  /** Consecutive windows with accesses; whole, 1 or more. */
  readonly windows: number;
}

/** Decision 17. */
export interface JudgePlan extends JudgeRules {
  /** The same for all such regions of a home: its far cards report them together. */
  readonly windowPs: Time;
  /** A user's file whose default export decides (`JudgeRule`); absent: `judgePlacement`. */
  readonly rule?: string;
}

export const JUDGE_PLAN: JudgePlan = { marginPercent: 25, windows: 2, windowPs: JUDGE_WINDOW_PS };

export interface FarHost {
  readonly host: string;
  readonly address: number;
  /** Home's number for the far card: from 1, the same for all its regions. */
  readonly agent: number;
}

/** Of cards for a region, each 1 or more (decision 9). */
export interface RegionSizes {
  /** Lines of each far card's cache; `localCache`: of home's. */
  readonly remoteCache: number;
  readonly localCache: number;
  /** Far cards' requests that home's card has taken and not finished. */
  readonly slots: number;
  /** The directory: lines lent at a time. */
  readonly entries: number;
  /** By a cache, at a time. */
  readonly writeBacks: number;
}

export interface SharedRegion extends RegionSizes {
  readonly id: number;
  readonly name: string;
  readonly home: { readonly host: string; readonly address: number };
  readonly far: readonly FarHost[];
  readonly memory: "scm" | "dram";
  /** In home's physical memory: its lines are numbered by `address / 64`. */
  readonly address: number;
  readonly bytes: number;
  readonly placement: RegionPlacement;
  readonly judge?: JudgePlan;
  /** Decision 13: the bound after which a partition's far side stops serving. */
  readonly leasePs: Time;
  /** Home's additional wait, so that the two never overlap. */
  readonly leaseMarginPs: Time;
  /** Home's wait for a far card: the longest lease of all its regions, with its margin. */
  readonly homeWaitPs: Time;
  /**
   * Decision 7: with `memory` the record of lent lines is in home's memory, too. In SCM it outlasts
   * home's power failure.
   */
  readonly directory?: "card" | "memory";
}

export const REGION_SIZES: RegionSizes = {
  remoteCache: 1024,
  localCache: 1024,
  slots: 16,
  entries: 4096,
  writeBacks: 8,
};

/**
 * Of a directory that outlasts power failures, behind the region's lines: an entry for each, in
 * whole lines.
 */
export function directoryBytes(
  { memory, directory, bytes }: Pick<SharedRegion, "memory" | "bytes"> & {
    readonly directory?: SharedRegion["directory"] | undefined;
  },
): number {
  if (directory !== "memory" || memory !== "scm") return 0;
  const entries = bytes / LINE_BYTES * DIRECTORY_ENTRY_BYTES;
  return Math.ceil(entries / LINE_BYTES) * LINE_BYTES;
}

/**
 * One of {@link DIRECTORY_CONTENT}, then whether the line is lent exclusively, so that memory's
 * content may be stale: a card without its grant knows that memory's content is the newest, but not
 * whether the line is poison (`nodes/rnic/coherence/kept_lines.ts`).
 */
export const DIRECTORY_ENTRY_BYTES = 2;
/** Copies of memory's content: none is lent, some are, or it is poison. */
export const DIRECTORY_CONTENT = { none: 0, shared: 1, poison: 2 } as const;

export function directoryAt(
  { address, bytes }: Pick<SharedRegion, "address" | "bytes">,
  index: number,
): number {
  return address + bytes + index * DIRECTORY_ENTRY_BYTES;
}

export function partIn(region: SharedRegion, host: string): "home" | "far" | undefined {
  if (region.home.host === host) return "home";
  return region.far.some((each) => each.host === host) ? "far" : undefined;
}

export function regionsOf(regions: readonly SharedRegion[], host: string): SharedRegion[] {
  return regions.filter((region) => partIn(region, host) !== undefined);
}

export function judgeRulesOf(regions: readonly SharedRegion[] | undefined, host: string): string[] {
  const rules = (regions ?? []).flatMap((region) =>
    partIn(region, host) === "home" ? region.judge?.rule ?? [] : []
  );
  return [...new Set(rules)];
}

/** A host's judge, or a program, has moved a region's copies, or home's card refused. */
export interface RegionMoved {
  readonly region: string;
  readonly place: "local" | "remote";
  /** Of a judge: accesses of home's and of far cores in the window that decided, and its length. */
  readonly home?: number;
  readonly far?: number;
  readonly windowPs?: Time;
  readonly refused?: string;
}

export const MOVED_TOPIC = "region-moved";
