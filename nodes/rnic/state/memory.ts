/** Registered memory as the card knows it: regions, windows, segments of a message. */
import type { RegionPlan, WindowType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import type { TranslationTable } from "./translation_table.ts";

/** A range of a region: what a scatter/gather element becomes once its key has been checked. */
export interface MemorySegment {
  readonly region: Region;
  readonly va: number;
  readonly length: number;
}

export function bytesOf(segments: readonly MemorySegment[]): number {
  let bytes = 0;
  for (const { length } of segments) bytes += length;
  return bytes;
}

export interface Region extends RegionPlan {
  /** lkey and rkey alike. */
  readonly key: number;
  /** Virtual address at which `pages[0]` begins. */
  readonly pageBase: number;
  /** Its translations, of which `pages` is a part. */
  readonly table: TranslationTable;
  /**
   * False from the moment it is deregistered, registered anew or unbound: what is under way must not
   * touch its memory any more.
   */
  alive: boolean;
  /** Memory windows that are bound to it. */
  windows: number;
  /** The window that this is the bound range of; undefined where it is a region of its own. */
  readonly window: Window | undefined;
  /** It has no memory (ibv_alloc_null_mr): the card reads zeros and drops writes, without the bus. */
  readonly isNull: boolean;
}

export interface RegionTable {
  readonly slots: (Region | undefined)[];
  readonly first: number;
  readonly variants: number[];
  readonly free: number[];
  /** By index. Only while a window is bound its index has a slot as well. */
  readonly windows: Map<number, Window>;
}

export interface Window {
  readonly type: WindowType;
  readonly pd: number;
  /** Its index stays, the variant is the newest binding's. */
  key: number;
  binding: Binding | undefined;
}

interface Binding {
  /** What its key opens, and the region that it is a part of. */
  readonly range: Region;
  readonly parent: Region;
  /** Queue pair that bound it. */
  readonly qpn: number;
}

/** The eight bytes of a value in host order. */
export function wordOf(value: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ATOMIC_BYTES);
  viewOf(bytes).setBigUint64(0, value, true);
  return bytes;
}
