/**
 * Messages between two coherent cards that the tables do not know: registration of regions (C-03, decision
 * 21). The cards' firmware acts on them. Like those of `messages.ts` each belongs to a class, which decides what it may wait for.
 */
import type { Agent, Placement } from "./messages.ts";

export const CONTROL_MESSAGES = {
  // far card → home card. They lend nothing, so they take no slot, and are answered at once.
  Register: { class: "REQ" },
  // Also home card → far card: home takes the region back. The far card answers with its own, when it has left.
  Deregister: { class: "REQ" },
  // home card → far card.
  Registered: { class: "RSP" },
  Deregistered: { class: "RSP" },
} as const satisfies Readonly<Record<string, { readonly class: "REQ" | "SNP" | "RSP" }>>;

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

export type ControlMessage = Register | Registered | Deregister;
