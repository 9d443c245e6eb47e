/**
 * Messages of the coherent RNIC's protocol (`coherence.md`, `coherence_protocol.md`), as records: between the
 * host agent and the home card on home's bus, and between home card and far card over InfiniBand. Bytes on a
 * wire are the business of `fabric/wire`.
 *
 * The class decides which messages keep their order (decision 8) and which may wait for which (decision 9):
 * non-coherent → REQ → bus request → bus snoop → SNP → RSP → bus response.
 */

import type { Time } from "../base/time.ts";

/** A card that may hold lines of this home: 0 is home's local cache (decision 6), others are far cards. */
export type Agent = number;
export const LOCAL_CACHE: Agent = 0;
/** The directory's owner where no agent has the line exclusively. */
export const NONE: Agent = -1;

/** Content of a line, opaque to the tables: bytes in a node, a token in an exploration; {@link LOST} is poison. */
export type Data = Uint8Array | number | typeof LOST;
/** The content of a line whose last value is gone (decision 13): reads say so, a full-line store clears it. */
export const LOST = "lost";
/** What a store or an atomic does to a line, opaque to the tables: {@link Contents} applies it. */
export type Change = unknown;

/** How stores change lines. */
export interface Contents {
  /** The new content; null where `change` needs bytes that are lost (decision 13). */
  readonly apply: (data: Data, change: Change) => Data | null;
  /** Whether what asks for this change is told the old content: an atomic is, a plain write is not. */
  readonly tellsOld: (change: Change) => boolean;
}

/** Accesses of a far computer's cores to a region's lines in a window of time (decision 17). */
export interface AccessCounts {
  readonly loads: number;
  readonly stores: number;
  /** Of both together: those that the remote cache has served by itself. */
  readonly hits: number;
}

/** Whose table receives it, its class, and whether it has a line's content. Order of the codes is free. */
export const WIRE_MESSAGES = {
  // far card → home card. `Read`, `Write`: a local placement's accesses (C-06); `Hello`: a new life (decision 14);
  // `FlushRange`: `lines` lines from `line` on, answered by one `FlushAck` (decision 8).
  GetS: { class: "REQ", carries: false },
  GetM: { class: "REQ", carries: false },
  Put: { class: "REQ", carries: true },
  Flush: { class: "REQ", carries: false },
  FlushRange: { class: "REQ", carries: false },
  Read: { class: "REQ", carries: false },
  Write: { class: "REQ", carries: false },
  Hello: { class: "REQ", carries: false },
  // home card → far card.
  Inv: { class: "SNP", carries: false },
  RecI: { class: "SNP", carries: false },
  RecS: { class: "SNP", carries: false },
  DataS: { class: "RSP", carries: true },
  DataE: { class: "RSP", carries: true },
  WbAck: { class: "RSP", carries: false },
  FlushAck: { class: "RSP", carries: false },
  Retry: { class: "RSP", carries: false },
  Value: { class: "RSP", carries: true },
  Welcome: { class: "RSP", carries: false },
  // Home has heard `stamp` (decision 13): goes where nothing else takes the stamp along.
  Renewed: { class: "RSP", carries: false },
  // far card → home card, answers. `RecIData` leaves I behind, `RecSData` leaves S.
  InvAck: { class: "RSP", carries: false },
  RecIData: { class: "RSP", carries: true },
  RecSData: { class: "RSP", carries: true },
  Complete: { class: "RSP", carries: false },
  Dirty: { class: "RSP", carries: false },
  // Notices that need no slot: a renewal of the lease (decision 13), and `counts` of a region (decision 17).
  Renew: { class: "RSP", carries: false },
  Counts: { class: "RSP", carries: false },
} as const;
/** A message between cards, by its name. */
export type WireKind = keyof typeof WIRE_MESSAGES;

/** The same on home's bus, as QPI's and UPI's protocol layers have them. `Dirty` is the document's notice [0060]. */
export const BUS_MESSAGES = {
  // home card → host agent.
  RdData: { class: "request", carries: false },
  RdInvOwn: { class: "request", carries: false },
  WbMtoI: { class: "request", carries: true },
  WbMtoS: { class: "request", carries: true },
  WbMtoE: { class: "request", carries: true },
  BusFlush: { class: "request", carries: false },
  BusDirty: { class: "request", carries: false },
  // With data where the line was lent exclusively.
  RspI: { class: "response", carries: true },
  RspS: { class: "response", carries: true },
  // host agent → home card.
  GrantS: { class: "grant", carries: true },
  GrantE: { class: "grant", carries: true },
  Cmp: { class: "grant", carries: false },
  SnpInv: { class: "snoop", carries: false },
  SnpData: { class: "snoop", carries: false },
} as const;
/** A message on home's bus, by its name. */
export type BusKind = keyof typeof BUS_MESSAGES;

/** Where a region's copy is kept (C-03, C-04), and how often that has changed (decision 18). */
export interface Placement {
  /** Whose card: home's, `local`, or the far one. */
  readonly place: "local" | "remote";
  /** Moves so far. */
  readonly version: number;
}

/** A message between cards. */
export interface WireMessage {
  readonly kind: WireKind;
  /** Number of the line in home's memory. */
  readonly line: number;
  /** The far card at one end, or {@link LOCAL_CACHE}; home is the other end. */
  readonly agent: Agent;
  /** Of the far card's, as the sender knows it: messages of an earlier one change nothing (decision 14). */
  readonly life: number;
  /** Of home's card, the same, from 1 on; 0 in a `Hello`, whose sender does not know it. */
  readonly homeLife: number;
  /**
   * The lease's renewal, which may ride on every message (decision 13): a time of the far card's clock, when
   * it has sent the renewal; home's card gives it back, in picoseconds.
   */
  readonly stamp?: Time | undefined;
  /** A line's content; of `FlushAck` {@link LOST} or nothing. */
  readonly data?: Data | undefined;
  /** Of `Write`. */
  readonly change?: Change;
  /** Of `GetS`, `GetM`, `Read`, `Write`: the sender's belief; of `Retry` and `Welcome`: what holds. */
  readonly placement?: Placement | undefined;
  /** Of `Retry`, `Welcome`: the region that `placement` is of; of `Counts`: that `counts` are of. */
  readonly region?: number | undefined;
  /** Of `FlushRange`, and of the `FlushAck` that answers it: how many lines from `line` on. */
  readonly lines?: number | undefined;
  readonly counts?: AccessCounts | undefined;
}

/** A message on home's bus. */
export interface BusMessage {
  readonly kind: BusKind;
  readonly line: number;
  /** A line's content; of `Cmp` {@link LOST} where memory has poison, else nothing. */
  readonly data?: Data | undefined;
}

/** An access of a core, or of a verb at the local cache; each ends with one {@link Answer}. */
export interface Access {
  /**
   * `own`: a load that asks for ownership, as a prefetch for writing does (decision 10: only it and stores give
   * E). `flush`: the line is in home's persistence domain, wherever its dirty copy was (decision 12).
   */
  readonly kind: "load" | "own" | "store" | "flush";
  readonly line: number;
  /** Of `flush` (decision 8): how many lines from `line` on, else one. */
  readonly lines?: number | undefined;
  /** Of `store`. An atomic is a store: it is done where E or M is (decision 15). */
  readonly change?: Change;
  /** Leaves nothing behind in the cache (decision 4): it takes the line, and writes it back. */
  readonly passes?: true;
  /** The caller's number of it, given back. */
  readonly ticket: number;
}

/** How an access has ended. */
export interface Answer {
  readonly access: Access;
  /** `lost`: the line's content is gone; `fenced`: the lease is over, and it may or may not have been done. */
  readonly result: "done" | "lost" | "fenced";
  /** The line as a load saw it, or as it was before a store: an atomic's return value. */
  readonly data?: Data | undefined;
}
