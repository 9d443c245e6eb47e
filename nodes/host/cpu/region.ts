/**
 * A shared region in a program's view (C-03), and what the host's cores need of the part behind it
 * (`coherence/`). Accesses cross a bus, so each is a generator: it returns when it is done everywhere (decision 1).
 * They block, so that a program's accesses have their order in all hosts' eyes (decision 16).
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { Cpu, Steps } from "./program.ts";

/** Bytes [offset, offset + length) of a region. */
export interface RegionRange {
  readonly offset: number;
  readonly length: number;
}

/** The last value of these bytes is gone (C-10). A store to whole lines clears that of theirs. */
export class RegionLost extends Error {
  override readonly name = "RegionLost";
  readonly region: string;
  readonly ranges: readonly RegionRange[];

  constructor(region: string, ranges: readonly RegionRange[]) {
    const where = ranges.map(({ offset, length }) => `${length} B at ${offset}`).join(", ");
    super(`Bytes of region ${region} are lost: ${where}`);
    this.region = region;
    this.ranges = ranges;
  }
}

/**
 * The card's lease of the region is over, or the card is gone: the access may or may not have been done (decision
 * 13). Later accesses begin anew.
 */
export class RegionFenced extends Error {
  override readonly name = "RegionFenced";
  readonly region: string;
  readonly ranges: readonly RegionRange[];

  constructor(region: string, ranges: readonly RegionRange[]) {
    const where = ranges.map(({ offset, length }) => `${length} B at ${offset}`).join(", ");
    super(`An access to region ${region} may or may not have been done: ${where}`);
    this.region = region;
    this.ranges = ranges;
  }
}

/** A region that cannot be used: the reason has what was found and what was expected. */
export class RegionRefused extends Error {
  override readonly name = "RegionRefused";
}

/**
 * A region that a program has registered. Offsets are from its first byte. An access that crosses lines of 64 B is
 * done line by line, in order. All but `fence` throw {@link RegionLost} and {@link RegionFenced}.
 */
export interface Region {
  readonly name: string;
  readonly bytes: number;
  /** Whether the memory is this host's. */
  readonly isHome: boolean;
  load(offset: number, length: number): Steps<Uint8Array<ArrayBuffer>>;
  /** Visible to all when it returns; volatile until it is flushed, whichever cache has it. */
  store(offset: number, bytes: Uint8Array): Steps<void>;
  /** Atomic on 8 B at a multiple of 8, little-endian. @returns the old value. */
  fetchAdd(offset: number, operand: bigint): Steps<bigint>;
  /** The same: stores `swap` where `compare` is found. @returns the old value. */
  compareSwap(offset: number, compare: bigint, swap: bigint): Steps<bigint>;
  /** Orders private stores before it with accesses to the region; those have their order already. */
  fence(): Steps<void>;
  /** Returns when the bytes are in home's persistence domain, whichever cache has them (decision 12). */
  flush(offset: number, length: number): Steps<void>;
  /**
   * Waits until bytes differ from what this program has last seen of them here: it wakes on the invalidation of a
   * copy (decision 19), and looks again every microsecond where no copy can be near.
   */
  waitChange(offset: number, length: number, deadline: Time): Steps<"changed" | "timeout">;
  /** Writes all copies back. At home: of all hosts. Accesses of this host end (decision 21). */
  deregister(): Steps<void>;
}

/** What a core needs of the host's shared regions. */
export interface SharedRegions {
  /** C-04: what moves the copies of this home's regions with `placement: auto`; absent without one. */
  readonly judge: { run(cpu: Cpu): Steps<void> } | undefined;
  /** Whether this host is home of one. */
  readonly hasHomes: boolean;
  /** Lets far hosts register them. */
  expose(cpu: Cpu): Steps<void>;
  /** Registers the region at its first use. @throws RegionRefused */
  open(name: string, cpu: Cpu): Steps<Region>;
  /** @throws AddressFault where bytes of a region are in the range: they have no plain accesses. */
  refusePlain(address: number, length: number): void;
}
