/** Registered memory as the card knows it. */
import type { RegionPlan, WindowType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import type { TranslationTable } from "./translation_table.ts";

/** A scatter/gather element whose key has been checked. */
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
  readonly key: number;
  readonly pageBase: number;
  readonly table: TranslationTable;
  /**
   * False once deregistered, registered anew or unbound: work under way must not touch its memory.
   */
  alive: boolean;
  windows: number;
  readonly window: Window | undefined;
  /** ibv_alloc_null_mr: reads give zeros, writes are dropped, without the bus. */
  readonly isNull: boolean;
}

export interface RegionTable {
  readonly slots: (Region | undefined)[];
  readonly first: number;
  readonly variants: number[];
  readonly free: number[];
  readonly windows: Map<number, Window>;
}

export interface Window {
  readonly type: WindowType;
  readonly pd: number;
  key: number;
  binding: Binding | undefined;
}

interface Binding {
  readonly range: Region;
  readonly parent: Region;
  readonly qpn: number;
}

export function wordOf(value: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ATOMIC_BYTES);
  viewOf(bytes).setBigUint64(0, value, true);
  return bytes;
}
