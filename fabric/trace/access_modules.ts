/** Modules of which an access to a shared region's time is made (C-11). `access_costs.ts` puts an access's together. */
import type { Time } from "../base/time.ts";

/** Where an access's time passes, in the order in which tables have it. */
export const ACCESS_MODULES = [
  /** The core's own: the store's instruction. */
  "core",
  "LLC",
  /** DRAM or SCM, read by the host, and the iMC's acceptance of a write. */
  "memory",
  /** From a decision in the host to the bus. */
  "host port",
  /** The coherent bus between a host and its card. */
  "bus",
  /** A card's stages at its ports: receiving, scheduling. */
  "card",
  /** The far card's look-up. */
  "remote cache",
  /** The look-up of home's card: directory and local cache. */
  "directory",
  /** Bus messages to InfiniBand and back. */
  "conversion",
  /** From one card's decision to the other card: its turn, sending, cables, switches. */
  "network",
  /** Behind another message of the line, or for what no line tells of. */
  "waits",
] as const;
/** One of them. */
export type AccessModule = typeof ACCESS_MODULES[number];

/** What a device has spent by the departure of a message, or by the end of an access at its core. */
export interface Spent {
  /** Of the departure, or of the end. */
  readonly untilPs: Time;
  /** Parts that end there, one after the other; those of 0 may be left out. */
  readonly by: Readonly<Partial<Record<AccessModule, Time>>>;
}

export interface ModuleCost {
  readonly module: AccessModule;
  readonly ps: Time;
}
