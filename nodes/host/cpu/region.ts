/**
 * How accesses to shared regions fail, and what the host's cores need of the part behind them (`coherence/`).
 * {@link Region} is what programs have.
 */
import type { Cpu, Region, Steps } from "./program.ts";

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

/** The host shuts down: the program has to end. One that does not catch this is stopped, and has not failed. */
export class HostShutdown extends Error {
  override readonly name = "HostShutdown";
}

/** A store to private memory that waits behind stores to regions; `done` does it. */
export interface PrivateStore {
  readonly address: number;
  readonly bytes: Uint8Array;
  readonly done: (bytes: Uint8Array) => void;
}

/** What waits in a core's store buffer (`memory: tso`), as far as its private memory is concerned. */
export interface HeldStores {
  /** Whether stores to private memory wait in it. */
  readonly hasPrivate: boolean;
  addPrivate(store: PrivateStore): void;
  /** Puts what waits over what memory has: a core sees its own stores. */
  overlay(address: number, bytes: Uint8Array): void;
  /** Returns when all that waits now has left; and when its stores to private memory have. */
  drained(): Steps<void>;
  privateDrained(): Steps<void>;
}

/** What a core needs of the host's shared regions. */
export interface SharedRegions {
  /** The store buffer of a core; undefined where it is empty, and with `memory: sc`. */
  held(core: number): HeldStores | undefined;
  /** Accesses that have begun and not ended. */
  readonly pending: number;
  /** Accesses and registrations that begin from now on get this error. */
  close(error: HostShutdown): void;
  /**
   * Gives back all regions: dirty lines of far ones go home, and those at home are recalled from far cards.
   * @param onLeft called before each with the names of those that are left, this one first.
   * @returns their names, and why others could not be.
   */
  giveBack(
    cpu: Cpu,
    onLeft: (left: readonly string[]) => void,
  ): Steps<{ regions: string[]; failed: string[] }>;
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
