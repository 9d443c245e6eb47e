/**
 * Memory regions (windows are in `memory_window.ts`): protection at the moment of access
 * (`rocev2.md` §4.5, P-22). A key is index << 8 | variant; a deregistered index comes back with the
 * next variant, so an old key never opens a new region.
 */
import {
  ACCESS,
  refuseAccess,
  type RegionChange,
  type RegionPlan,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { MemorySegment, Region, RegionTable } from "../state/memory.ts";
import { createTable, type TranslationTable } from "../state/translation_table.ts";
import type { RequestIn, Verdict } from "../state/responder_state.ts";
import { needOf } from "../state/operation.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import type { VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";

interface Access {
  readonly key: number;
  readonly pd: number;
  readonly va: number;
  readonly length: number;
  readonly need: number;
  /** The queue pair of a peer's access; undefined for local memory, which no window grants. */
  readonly qpn?: number;
}

/**
 * @param first variant of an index's first key, one per card: hosts that run alike have regions at the same indices, and one's own key mistaken for the peer's would open one.
 */
export function createRegionTable(first = 0): RegionTable {
  // Key 0 is never valid.
  return { slots: [undefined], first, variants: [0], free: [], windows: new Map() };
}

/** @returns undefined where the table is full. Call `checkRegion` first. */
export function addRegion(table: RegionTable, plan: RegionPlan): Region | undefined {
  const key = takeKey(table);
  if (key === undefined) return undefined;
  const pages = pageCount(plan);
  const isOnDemand = (plan.access & ACCESS.onDemand) !== 0;
  const translations = createTable(key, isOnDemand ? { pages } : { given: plan.pages });
  const region = regionOf(plan, key, translations);
  table.slots[key >>> 8] = region;
  return region;
}

/**
 * A null region is for local use and covers every address (ibv_alloc_null_mr(3)). @returns
 * undefined where the table is full.
 */
export function addNullRegion(table: RegionTable, pd: number): Region | undefined {
  const key = takeKey(table);
  if (key === undefined) return undefined;
  const region: Region = {
    pd,
    key,
    access: ACCESS.localWrite,
    va: 0,
    length: Number.MAX_SAFE_INTEGER,
    pageBytes: 1,
    pageBase: 0,
    pages: [],
    persistent: false,
    table: createTable(key, { given: [] }),
    alive: true,
    windows: 0,
    window: undefined,
    isNull: true,
  };
  table.slots[key >>> 8] = region;
  return region;
}

/** The key's slot is empty. @returns undefined where all keys are taken. */
export function takeKey(table: RegionTable): number | undefined {
  const index = table.free.pop() ?? table.slots.length;
  if (index >= LIMITS.regions) return undefined;
  const variant = ((table.variants[index] ?? table.first) + 1) & 0xff;
  table.slots[index] = undefined;
  table.variants[index] = variant;
  return ((index << 8) | variant) >>> 0;
}

export function freeKey(table: RegionTable, key: number): void {
  const index = key >>> 8;
  table.slots[index] = undefined;
  table.variants[index] = key & 0xff;
  table.free.push(index);
}

function regionOf(plan: RegionPlan, key: number, table: TranslationTable): Region {
  const { pages } = table;
  const pageBase = plan.va - plan.va % plan.pageBytes;
  return {
    ...plan,
    pages,
    table,
    key,
    pageBase,
    alive: true,
    windows: 0,
    window: undefined,
    isNull: false,
  };
}

export function pageCount({ va, length, pageBytes }: RegionChange["place"] & object): number {
  return Math.floor((va + length - 1) / pageBytes) - Math.floor(va / pageBytes) + 1;
}

export function checkRegion(plan: RegionPlan): string | undefined {
  const { access, length, pageBytes } = plan;
  if (!(length > 0)) return `length must be > 0: it is ${length}`;
  if (!(pageBytes > 0)) return `page size must be > 0: it is ${pageBytes}`;
  const pages = pageCount(plan);
  const isOnDemand = (access & ACCESS.onDemand) !== 0;
  if (plan.pages.length !== (isOnDemand ? 0 : pages)) {
    const expected = isOnDemand ? `are on demand, ${plan.pages.length}` : `${plan.pages.length}`;
    return `the range has ${pages} pages, ${expected} are given`;
  }
  const { va, objects = [] } = plan;
  if (objects.length > LIMITS.objects) {
    return `it has ${objects.length} objects, at most ${LIMITS.objects} are possible`;
  }
  const outside = objects.find((each) =>
    !(each.length > 0) || each.va < va || each.va + each.length > va + length
  );
  if (outside !== undefined) {
    return `an object of it lies at [${outside.va}, ${outside.va + outside.length})`;
  }
  const wrong = refuseAccess(access);
  if (wrong !== undefined) return wrong;
  const changing = ACCESS.remoteWrite | ACCESS.remoteAtomic;
  if ((access & changing) !== 0 && (access & ACCESS.localWrite) === 0) {
    return "remote write or atomic access needs local write access";
  }
  if ((access & ACCESS.remoteWritePersistence) !== 0 && (access & ACCESS.remoteWrite) === 0) {
    return "remote write persistence needs remote write access";
  }
  // P-22, P-50: a region that cannot be persistent must not promise it.
  const persisting = ACCESS.remoteWritePersistence | ACCESS.flushPersistent;
  if ((access & persisting) !== 0 && !plan.persistent) {
    return "persistence is granted on storage class memory only";
  }
  return undefined;
}

/**
 * ibv_rereg_mr: changes those of memory, domain and rights that are given. @returns why it is
 * refused.
 */
export function changeRegion(
  table: RegionTable,
  region: Region,
  change: RegionChange,
): string | undefined {
  const { place } = change;
  const { pd = region.pd, access = region.access } = change;
  const isOnDemand = (region.access & ACCESS.onDemand) !== 0;
  if (isOnDemand !== ((access & ACCESS.onDemand) !== 0) || (isOnDemand && place !== undefined)) {
    return "an on-demand region keeps its memory, and no other becomes one";
  }
  const { va, length, pageBytes, persistent } = place ?? region;
  const pages = isOnDemand ? [] : (place ?? region).pages;
  const objects = place === undefined ? region.objects : undefined;
  const plan: RegionPlan = {
    ...{ pd, va, length, access, pageBytes, pages, persistent },
    ...(objects && { objects }),
  };
  const wrong = checkRegion(plan);
  if (wrong !== undefined) return wrong;
  region.alive = false;
  const { key } = region;
  const translations = place === undefined ? region.table : createTable(key, { given: pages });
  table.slots[key >>> 8] = regionOf(plan, key, translations);
  return undefined;
}

export function findRegion(table: RegionTable, key: number): Region | undefined {
  const region = table.slots[key >>> 8];
  return region?.key === key ? region : undefined;
}

export function lookUp(table: RegionTable, access: Access): Region | undefined {
  return refusedBy(table, access) === undefined ? findRegion(table, access.key) : undefined;
}

/** @returns undefined where a key of the WQE does not grant its memory. */
export function localSegments(
  { regions }: Device,
  sges: readonly Sge[],
  rights: { readonly pd: number; readonly need: number },
): MemorySegment[] | undefined {
  const segments: MemorySegment[] = [];
  for (const { lkey, address: va, length } of sges) {
    if (length === 0) continue;
    const region = lookUp(regions, { key: lkey, va, length, ...rights });
    if (region === undefined) return undefined;
    segments.push({ region, va, length });
  }
  return segments;
}

export type Refused = "unknown" | "window" | "domain" | "right" | "range";

export function refusedBy(table: RegionTable, access: Access): Refused | undefined {
  const region = findRegion(table, access.key);
  // Only the lkey of a null region is valid.
  if (region === undefined || (region.isNull && access.qpn !== undefined)) return "unknown";
  if (region.window !== undefined) {
    const { type, binding } = region.window;
    if (access.qpn === undefined || (type === 2 && binding?.qpn !== access.qpn)) return "window";
  }
  if (region.pd !== access.pd) return "domain";
  if ((region.access & access.need) !== access.need) return "right";
  const offset = access.va - region.va;
  return offset < 0 || access.length > region.length - offset ? "range" : undefined;
}

const LOCAL_FAULTS: Readonly<Record<Refused, VendorError>> = {
  "unknown": "lkey-unknown",
  // A window's key is no lkey.
  "window": "lkey-unknown",
  "domain": "lkey-domain",
  "right": "lkey-right",
  "range": "lkey-range",
};

export function localFault(
  { regions }: Device,
  sges: readonly Sge[],
  rights: { readonly pd: number; readonly need: number },
): VendorError {
  for (const { lkey, address: va, length } of sges) {
    if (length === 0) continue;
    const refused = refusedBy(regions, { key: lkey, va, length, ...rights });
    if (refused !== undefined) return LOCAL_FAULTS[refused];
  }
  return "region-gone";
}

/**
 * @returns the region, or the NAK (§3.4, step 6); undefined for no bytes, whose key and address are not checked.
 */
export function namedRegion(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): Region | Verdict | undefined {
  const { va, rkey, length } = input.packet.reth!;
  if (length === 0) return undefined;
  return remoteRegion(device, qp, { key: rkey, va, length, need: needOf(input)! });
}

/** @returns the region, or the NAK: key, domain, permission, range (§3.4, step 6). */
export function remoteRegion(
  device: Device,
  qp: QueuePair,
  range: {
    readonly key: number;
    readonly va: bigint;
    readonly length: number;
    readonly need: number;
  },
): Region | Verdict {
  const { key, length, need } = range;
  // Host addresses are below 2^53, so a VA above is out of bounds.
  const va = range.va > Number.MAX_SAFE_INTEGER ? Number.MAX_SAFE_INTEGER : Number(range.va);
  return lookUp(device.regions, { key, pd: qp.pd, va, length, need, qpn: qp.qpn }) ??
    NAK_SYNDROMES["remote-access-error"];
}
