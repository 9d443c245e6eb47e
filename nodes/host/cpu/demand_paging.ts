/** On-demand paging in the verbs' view; `paging/` has the kernel's side. */
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Buffer } from "../memory/address_map.ts";

export interface AddressRange {
  readonly address: number;
  readonly length: number;
}

/** Offsets are from the region's first byte. */
export interface AdvisedPlace {
  readonly key: number;
  readonly offset: number;
  readonly length: number;
}

export interface DemandPaging {
  readonly isPinnedByDefault: boolean;
  /** Brings the range's pages in now. @returns physical addresses. */
  frames(buffer: Buffer, range: AddressRange): readonly number[];
  pin(key: number, range: AddressRange, frames: readonly number[]): void;
  demand(key: number, buffer: Buffer, range: AddressRange & { readonly writable: boolean }): void;
  forget(key: number): void;
  /**
   * @returns the signal that tells the end.
   */
  prefetch(
    places: readonly AdvisedPlace[],
    how: { readonly write: boolean; readonly fault: boolean },
  ): string;
  take(range: AddressRange, keep: boolean): string;
  isPinned(range: AddressRange): boolean;
  fault(event: Extract<RnicEvent, { type: "PAGE_FAULT" }>): void;
  /** Contiguous memory for a card's tables, which belongs to no program. @throws OutOfMemory */
  allocateForCard(bytes: number): Buffer;
}
