/**
 * Messages of the coherent RNIC's protocol (`coherence.md`, `coherence_protocol.md`), as records: between
 * the host agent and the home card on home's bus, and between home card and far card over InfiniBand.
 * `fabric/wire` has their bytes.
 *
 * The class decides which messages keep their order (decision 8) and which may wait for which (decision
 * 9): non-coherent → REQ → bus request → bus snoop → SNP → RSP → bus response.
 */

import type { Time } from "../base/time.ts";

/**
 * A card that may hold lines of this home: 0 is home's local cache (decision 6), others are far
 * cards.
 */
export type Agent = number;
export const LOCAL_CACHE: Agent = 0;
/** The directory's owner if no agent has the line exclusively. */
export const NONE: Agent = -1;

/** Content of a line, opaque to the tables: bytes in a node, a token in an exploration; {@link LOST} is poison. */
export type Data = Uint8Array | number | typeof LOST;
/**
 * Content of a line whose last value is lost (decision 13): reads report it, a full-line store
 * clears it.
 */
export const LOST = "lost";
/** The change by a store or an atomic, opaque to the tables: {@link Contents} applies it. */
export type Change = unknown;

/** How stores change lines. */
export interface Contents {
  /** The new content; null if `change` needs lost bytes (decision 13). */
  readonly apply: (data: Data, change: Change) => Data | null;
  /** Whether the access is told the old content: an atomic is, a plain write is not. */
  readonly tellsOld: (change: Change) => boolean;
}

/** Accesses of a far computer's cores to a region's lines in a window of time (decision 17). */
export interface AccessCounts {
  readonly loads: number;
  readonly stores: number;
  /** Loads and stores that the remote cache has served by itself. */
  readonly hits: number;
}

/** Receiver, class, and whether it carries a line's content. The order of the codes is free. */
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
  // Home has heard `stamp` (decision 13): sent if no other message carries the stamp.
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

/**
 * Messages on home's bus, as in QPI's and UPI's protocol layers. `Dirty` is the document's notice
 * [0060].
 */
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

/** The place of a region's copy (C-03, C-04), and the number of its moves (decision 18). */
export interface Placement {
  /** Home's card's cache, `local`, or the far card's. */
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
  /**
   * The far card's life, as the sender knows it: messages of an earlier one change nothing
   * (decision 14).
   */
  readonly life: number;
  /** Home's card's life, from 1 on; 0 in a `Hello`, whose sender does not know it. */
  readonly homeLife: number;
  /**
   * The lease's renewal, which may ride on every message (decision 13): the time of its sending by
   * the far card's clock, in ps; home's card returns it.
   */
  readonly stamp?: Time | undefined;
  /** A line's content; in a `FlushAck` {@link LOST} or nothing. */
  readonly data?: Data | undefined;
  /** For `Write`. */
  readonly change?: Change;
  /**
   * In `GetS`, `GetM`, `Read`, `Write`: the sender's belief; in `Retry` and `Welcome`: the present
   * placement.
   */
  readonly placement?: Placement | undefined;
  /** The region of `placement` in `Retry` and `Welcome`, or of `counts` in `Counts`. */
  readonly region?: number | undefined;
  /** In `FlushRange` and its `FlushAck`: the number of lines from `line` on. */
  readonly lines?: number | undefined;
  readonly counts?: AccessCounts | undefined;
}

/** A message on home's bus. */
export interface BusMessage {
  readonly kind: BusKind;
  readonly line: number;
  /** A line's content; in `Cmp` {@link LOST} if memory has poison, else nothing. */
  readonly data?: Data | undefined;
}

/** An access of a core, or of a verb at the local cache; each ends with one {@link Answer}. */
export interface Access {
  /**
   * `own`: a load that asks for ownership, as a prefetch for writing (decision 10: only it and
   * stores give E). `flush`: brings the line into home's persistence domain, wherever its dirty
   * copy is (decision 12).
   */
  readonly kind: "load" | "own" | "store" | "flush";
  readonly line: number;
  /** For `flush` (decision 8): number of lines from `line` on; 1 by default. */
  readonly lines?: number | undefined;
  /** For `store`. An atomic is a store: it is done where E or M is (decision 15). */
  readonly change?: Change;
  /** Leaves nothing behind in the cache (decision 4): it takes the line, and writes it back. */
  readonly passes?: true;
  /** The caller's number of it, returned with the answer. */
  readonly ticket: number;
}

/** The result of an access. */
export interface Answer {
  readonly access: Access;
  /**
   * `lost`: the line's content is gone; `fenced`: the lease is over, and the access may have had
   * its effect or not.
   */
  readonly result: "done" | "lost" | "fenced";
  /** The line as a load saw it, or before a store: an atomic's return value. */
  readonly data?: Data | undefined;
}
