/**
 * Errors of accesses to shared regions, and the interface of the rest of the host to the part behind them
 * (`coherence/`). Programs use {@link Region}.
 */
import type { RegionMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { Cpu, Region, Steps } from "./program.ts";

export interface RegionRange {
  readonly offset: number;
  readonly length: number;
}

/**
 * The last value of these bytes is gone (C-10). A store to whole lines clears the loss of these
 * lines.
 */
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
 * The card's lease of the region is over, or the card is gone: the access may or may not have been
 * done (decision 13). Later accesses start anew.
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

/** A region cannot be used: the message has what was found and what was expected. */
export class RegionRefused extends Error {
  override readonly name = "RegionRefused";
}

/**
 * The host shuts down: the program has to end. A program that does not catch this is stopped, and
 * has not failed.
 */
export class HostShutdown extends Error {
  override readonly name = "HostShutdown";
}

/** `done` carries it out. */
export interface PrivateStore {
  readonly address: number;
  readonly bytes: Uint8Array;
  readonly done: (bytes: Uint8Array) => void;
}

export interface HeldStores {
  readonly hasPrivate: boolean;
  addPrivate(store: PrivateStore): void;
  /** A core sees its own waiting stores. */
  overlay(address: number, bytes: Uint8Array): void;
  /** Returns when all stores that wait now have left, or those to private memory. */
  drained(): Steps<void>;
  privateDrained(): Steps<void>;
}

export interface SharedRegions {
  /** A message of the bus about a line of a region has come. */
  take(message: RegionMessage): void;
  statistics(): Record<string, number>;
  /** The store buffer of a core; undefined where it is empty, and with `memory: sc`. */
  held(core: number): HeldStores | undefined;
  readonly pending: number;
  close(error: HostShutdown): void;
  /**
   * Dirty lines of far regions go home, and those at home are recalled from far cards.
   * @param onLeft called before each region with the remaining names, this one first.
   * @returns the names of the returned regions, and the reasons for the others.
   */
  giveBack(
    cpu: Cpu,
    onLeft: (left: readonly string[]) => void,
  ): Steps<{ regions: string[]; failed: string[] }>;
  /** C-04: for regions with `placement: auto`; absent without one. */
  readonly judge: { run(cpu: Cpu): Steps<void> } | undefined;
  readonly hasHomes: boolean;
  expose(cpu: Cpu): Steps<void>;
  /** @throws RegionRefused */
  open(name: string, cpu: Cpu): Steps<Region>;
  /** @throws AddressFault */
  refusePlain(address: number, length: number): void;
}
