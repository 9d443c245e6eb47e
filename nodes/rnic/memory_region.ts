/**
 * Memory regions as the RNIC knows them: protection at the moment of access (`rocev2.md` §4.5, P-22).
 * A key is index << 8 | variant; a deregistered index comes back with the next variant, so an old key
 * never opens a new region.
 */
import { ACCESS, type RegionPlan } from "../../fabric/wire/rnic_command.ts";
import { LIMITS } from "./limits.ts";

export interface Region extends RegionPlan {
  /** lkey and rkey alike. */
  readonly key: number;
  /** Virtual address at which `pages[0]` begins. */
  readonly pageBase: number;
}

export interface RegionTable {
  readonly slots: (Region | undefined)[];
  readonly variants: number[];
  readonly free: number[];
}

/** Why an access was refused; undefined is "granted". */
export type AccessFault =
  | "no such key"
  | "other protection domain"
  | "no permission"
  | "out of bounds";

export interface Access {
  readonly key: number;
  readonly pd: number;
  readonly va: number;
  readonly length: number;
  /** ACCESS bits that the region must have, all of them. */
  readonly need: number;
}

export function createRegionTable(): RegionTable {
  // Index 0 stays empty, so that key 0 is never valid.
  return { slots: [undefined], variants: [0], free: [] };
}

/** Registers a region; undefined where the table is full. `checkRegion` comes first. */
export function addRegion(table: RegionTable, plan: RegionPlan): Region | undefined {
  const index = table.free.pop() ?? table.slots.length;
  if (index >= LIMITS.regions) return undefined;
  const variant = ((table.variants[index] ?? 0) + 1) & 0xff;
  const region: Region = {
    ...plan,
    key: ((index << 8) | variant) >>> 0,
    pageBase: plan.va - plan.va % plan.pageBytes,
  };
  table.slots[index] = region;
  table.variants[index] = variant;
  return region;
}

/** What is wrong with a registration, undefined where nothing is. */
export function checkRegion(plan: RegionPlan): string | undefined {
  const { access, length, va, pageBytes } = plan;
  if (!(length > 0)) return `length must be > 0: it is ${length}`;
  if (!(pageBytes > 0)) return `page size must be > 0: it is ${pageBytes}`;
  const pages = Math.floor((va + length - 1) / pageBytes) - Math.floor(va / pageBytes) + 1;
  if (plan.pages.length !== pages) {
    return `the range has ${pages} pages, ${plan.pages.length} are given`;
  }
  const changing = ACCESS.remoteWrite | ACCESS.remoteAtomic;
  if ((access & changing) !== 0 && (access & ACCESS.localWrite) === 0) {
    return "remote write or atomic access needs local write access";
  }
  if ((access & ACCESS.remoteWritePersistence) !== 0 && (access & ACCESS.remoteWrite) === 0) {
    return "remote write persistence needs remote write access";
  }
  return undefined;
}

/** Takes the region back. @returns whether the key was valid. */
export function removeRegion(table: RegionTable, key: number): boolean {
  const region = findRegion(table, key);
  if (region === undefined) return false;
  const index = key >>> 8;
  table.slots[index] = undefined;
  table.free.push(index);
  return true;
}

export function findRegion(table: RegionTable, key: number): Region | undefined {
  const region = table.slots[key >>> 8];
  return region?.key === key ? region : undefined;
}

/** The region if it grants the access, else what stands against it, in the order of the checks. */
export function lookUp(table: RegionTable, access: Access): Region | AccessFault {
  const region = findRegion(table, access.key);
  if (region === undefined) return "no such key";
  if (region.pd !== access.pd) return "other protection domain";
  if ((region.access & access.need) !== access.need) return "no permission";
  const offset = access.va - region.va;
  // `length - offset` cannot overflow: all are below 2^53.
  if (offset < 0 || access.length > region.length - offset) return "out of bounds";
  return region;
}

/** The lowest region there is: an LSB read may go to any registered address (S905). */
export function anyRegion(table: RegionTable): Region | undefined {
  return table.slots.find((region) => region !== undefined);
}
