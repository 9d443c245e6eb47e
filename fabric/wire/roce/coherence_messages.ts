/**
 * Messages between coherent cards (C-02, `coherence_protocol.md`), as records: the protocol's own, which its
 * tables make and take (`fabric/coherence`), and those of the cards' firmware about regions. `FORMS`
 * (`coherence_eth.ts`) has their form on the wire, `card_message.ts` makes packets of them.
 *
 * The class decides which messages keep their order (decision 8) and which may wait for which (decision
 * 9): non-coherent → REQ → bus request → bus snoop → SNP → RSP → bus response.
 */
import type { Time } from "../../base/time.ts";
import type { CoherenceCommand } from "./coherence_eth.ts";

/**
 * A card that may hold lines of this home: 0 is home's local cache (decision 6), others are far
 * cards.
 */
export type Agent = number;
export const LOCAL_CACHE: Agent = 0;

/** Content of a line, opaque to the tables: bytes in a node, a token in an exploration; {@link LOST} is poison. */
export type Data = Uint8Array | number | typeof LOST;
/**
 * Content of a line whose last value is lost (decision 13): reads report it, a full-line store
 * clears it.
 */
export const LOST = "lost";
/** The change by a store or an atomic, opaque to the tables: `Contents` applies it. */
export type Change = unknown;

/** Accesses of a far computer's cores to a region's lines in a window of time (decision 17). */
export interface AccessCounts {
  readonly loads: number;
  readonly stores: number;
  /** Loads and stores that the remote cache has served by itself. */
  readonly hits: number;
}

/** The place of a region's copy (C-03, C-04), and the number of its moves (decision 18). */
export interface Placement {
  /** Home's card's cache, `local`, or the far card's. */
  readonly place: "local" | "remote";
  /** Moves so far. */
  readonly version: number;
}

/** A message of the protocol's tables, by its name. */
export type WireKind = Exclude<CoherenceCommand, ControlMessage["kind"]>;

/** A message of the protocol's tables. */
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

// ── of the cards' firmware ───────────────────────────────────────────────────────────────────────

interface Pair {
  /** Home's number of the pair's far card; 1 or more. */
  readonly agent: Agent;
  /** The far card's life, and home's card's (decision 14). */
  readonly life: number;
  readonly homeLife: number;
}

/** The far card asks for a region; `bytes` is the size that it expects. */
export interface Register extends Pair {
  readonly kind: "Register";
  readonly bytes: number;
}

export interface Registered extends Pair {
  readonly kind: "Registered";
  /** `refused`: home exposes no such region to this card, or one of another size; what follows means nothing then. */
  readonly result: "done" | "refused";
  /** The region's first line in home's memory. */
  readonly line: number;
  readonly bytes: number;
  readonly placement: Placement;
}

/**
 * The far card has written back what it had (decision 21), and uses the region no more. From home: the far card is to
 * do so, as home's host has deregistered the region.
 */
export interface Deregister extends Pair {
  readonly kind: "Deregister" | "Deregistered";
}

/** Registration of regions (C-03, decision 21): they lend nothing, so they take no slot, and are answered at once. */
export type ControlMessage = Register | Registered | Deregister;

const CONTROL_KINDS: ReadonlySet<string> = new Set<ControlMessage["kind"]>(
  ["Register", "Registered", "Deregister", "Deregistered"],
);

export function isControlKind(kind: CoherenceCommand): kind is ControlMessage["kind"] {
  return CONTROL_KINDS.has(kind);
}

/** A message between two cards. */
export type CardMessage = WireMessage | ControlMessage;
