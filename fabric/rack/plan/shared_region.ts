/**
 * Shared regions of a rack (C-03): parts of one host's memory, its *home*, of which coherent cards keep
 * copies for other hosts, the *far* ones. Hosts and cards get the same records of their own regions.
 */
import { LINE_BYTES } from "../../base/cache_line.ts";
import type { Time } from "../../base/time.ts";

/** Where SCM begins in a host's physical addresses; DRAM begins at 0. */
export const SCM_BASE = 2 ** 40;

/**
 * C-04: the place of a region's copies; `auto`: home's judge moves them by the frequency of
 * accesses.
 */
export const PLACEMENTS = ["local", "remote", "auto"] as const;
export type RegionPlacement = typeof PLACEMENTS[number];
/**
 * Decision 17: the time between a far card's reports of access counts to home's judge, for regions
 * with `placement: auto`. A choice: some tens of accesses over the network.
 */
export const JUDGE_WINDOW_PS: Time = 100_000_000;

/** The words of the project's rule. */
export interface JudgeRules {
  /** By how many percent the more frequent side has to exceed the other one for a move; whole, 0 or more. */
  readonly marginPercent: number;
  /** For how many windows with accesses, one after the other; whole, 1 or more. */
  readonly windows: number;
}

/** Decision 17: by what home's judge decides, of a region with `placement: auto`. */
export interface JudgePlan extends JudgeRules {
  /**
   * Time of one count. The same for all such regions of a home: its far cards report them together.
   */
  readonly windowPs: Time;
  /**
   * The path of a user's file whose default export decides (`JudgeRule`); absent: `judgePlacement`.
   */
  readonly rule?: string;
}

/** What a plan without one means. */
export const JUDGE_PLAN: JudgePlan = { marginPercent: 25, windows: 2, windowPs: JUDGE_WINDOW_PS };

/** A far host of a region. */
export interface FarHost {
  readonly host: string;
  /** Its card's IPv4 address. */
  readonly address: number;
  /** Home's card's number for the far card: from 1, the same for all regions of one home. */
  readonly agent: number;
}

/** The cards' capacities for a region, each 1 or more (decision 9). */
export interface RegionSizes {
  /** Lines in the cache of each far card, and in home's local cache. */
  readonly remoteCache: number;
  readonly localCache: number;
  /** Far cards' requests that home's card has taken and not finished. */
  readonly slots: number;
  /** The directory: lines lent at a time. */
  readonly entries: number;
  /** Lines that a cache writes back at a time. */
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
  /** Absent: {@link JUDGE_PLAN}. */
  readonly judge?: JudgePlan;
  /** Decision 13: the bound after which a partition's far side stops serving. */
  readonly leasePs: Time;
  /** Home's additional wait, so that the two never overlap. */
  readonly leaseMarginPs: Time;
  /**
   * Home's card's wait for a far card: the longest lease of all regions of this home, with its
   * margin.
   */
  readonly homeWaitPs: Time;
  /**
   * Decision 7: with `memory` the record of lent lines is in home's memory, too; its changes are
   * writes. In SCM it outlasts home's power failure.
   */
  readonly directory?: "card" | "memory";
}

/** Choices: a region of the default size fits; small tables show their limits in tests. */
export const REGION_SIZES: RegionSizes = {
  remoteCache: 1024,
  localCache: 1024,
  slots: 16,
  entries: 4096,
  writeBacks: 8,
};

/**
 * Bytes of a directory that outlasts power failures, behind the region's lines: an entry for each,
 * in whole lines.
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
 * An entry of that directory: one of {@link DIRECTORY_CONTENT}, then whether the line is lent
 * exclusively, so that memory's content may be stale. They are separate because a card without its
 * grant knows that memory's content is the newest, but not whether the line is poison
 * (`nodes/rnic/coherence/kept_lines.ts`).
 */
export const DIRECTORY_ENTRY_BYTES = 2;
/** Memory's content: no copy of it is lent, copies are, or it is poison. */
export const DIRECTORY_CONTENT = { none: 0, shared: 1, poison: 2 } as const;

/** Address of a region line's entry in home's physical memory. */
export function directoryAt(
  { address, bytes }: Pick<SharedRegion, "address" | "bytes">,
  index: number,
): number {
  return address + bytes + index * DIRECTORY_ENTRY_BYTES;
}

/** The part of a host in a region; undefined without one. */
export function partIn(region: SharedRegion, host: string): "home" | "far" | undefined {
  if (region.home.host === host) return "home";
  return region.far.some((each) => each.host === host) ? "far" : undefined;
}

/** The regions that a host takes part in, in the scenario's order. */
export function regionsOf(regions: readonly SharedRegion[], host: string): SharedRegion[] {
  return regions.filter((region) => partIn(region, host) !== undefined);
}

/** The user's own rules by which a host judges placements: paths of files, each once. */
export function judgeRulesOf(regions: readonly SharedRegion[] | undefined, host: string): string[] {
  const rules = (regions ?? []).flatMap((region) =>
    partIn(region, host) === "home" ? region.judge?.rule ?? [] : []
  );
  return [...new Set(rules)];
}

/** What a host reports when its judge, or a program, has moved a region's copies, or home's card would not. */
export interface RegionMoved {
  readonly region: string;
  readonly place: "local" | "remote";
  /** Of a judge: accesses of home's cores and of far ones in the window that decided it, and how long it was. */
  readonly home?: number;
  readonly far?: number;
  readonly windowPs?: Time;
  /** Why the copies are where they were; absent where they have moved. */
  readonly refused?: string;
}

export const MOVED_TOPIC = "region-moved";
