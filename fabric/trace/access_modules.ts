import type { Time } from "../base/time.ts";

export const ACCESS_MODULES = [
  /** The store's instruction. */
  "core",
  "LLC",
  /** DRAM or SCM, read by the host, and the iMC's acceptance of a write. */
  "memory",
  /** From a decision in the host to the bus. */
  "host port",
  "bus",
  /** A card's stages at its ports: receiving, scheduling. */
  "card",
  "remote cache",
  /** The look-up of home's card: directory and local cache. */
  "directory",
  /** Bus messages to InfiniBand and back. */
  "conversion",
  /** From one card's decision to the other card: its turn, sending, cables, switches. */
  "network",
  /** Behind another message of the line, or without a line that explains the time. */
  "waits",
] as const;
/** One of {@link ACCESS_MODULES}. */
export type AccessModule = typeof ACCESS_MODULES[number];

/** By a message's departure, or by an access's end at its core. */
export interface Spent {
  /** Departure or end. */
  readonly untilPs: Time;
  /** Consecutive parts that end there; those of 0 may be left out. */
  readonly by: Readonly<Partial<Record<AccessModule, Time>>>;
}

export interface ModuleCost {
  readonly module: AccessModule;
  readonly ps: Time;
}
