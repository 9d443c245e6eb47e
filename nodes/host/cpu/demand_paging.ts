/** Memory on demand as the verbs of a program see it: the kernel behind it is `paging/`. */
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Buffer } from "../memory/address_map.ts";

export interface AddressRange {
  readonly address: number;
  readonly length: number;
}

/** A part of a region, from the region's first byte on. */
export interface AdvisedPlace {
  readonly key: number;
  readonly offset: number;
  readonly length: number;
}

export interface DemandPaging {
  /** What `ibv_reg_mr` does where the program says neither. */
  readonly isPinnedByDefault: boolean;
  /** Pages of the range as they are now, brought in at this moment, by physical address. */
  frames(buffer: Buffer, range: AddressRange): readonly number[];
  /** A region is registered: its memory stays where it is, or comes on demand. */
  pin(key: number, range: AddressRange, frames: readonly number[]): void;
  demand(key: number, buffer: Buffer, range: AddressRange & { readonly writable: boolean }): void;
  /** The region is gone. */
  forget(key: number): void;
  /** Pages that the card is to have, or memory to be given up. @returns the signal when all is done. */
  prefetch(
    places: readonly AdvisedPlace[],
    how: { readonly write: boolean; readonly fault: boolean },
  ): string;
  take(range: AddressRange, keep: boolean): string;
  isPinned(range: AddressRange): boolean;
  /** The card asks for pages. */
  fault(event: Extract<RnicEvent, { type: "PAGE_FAULT" }>): void;
  /** Contiguous memory for the card's tables, which is no program's. @throws OutOfMemory */
  allocateForCard(bytes: number): Buffer;
}
