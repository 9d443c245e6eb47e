/**
 * Messages between two coherent cards that the tables do not know: registration of regions (C-03), flushes of
 * many lines (decision 8), counts of accesses (decision 17), the lease of the pair (decision 13). The cards'
 * firmware acts on them. Like those of `messages.ts` each belongs to a class, which decides what it may wait for.
 */
import type { Agent, Placement } from "./messages.ts";

export const CONTROL_MESSAGES = {
  // far card → home card. A request takes one of home's slots, so it may wait as others do.
  Register: { class: "REQ" },
  Deregister: { class: "REQ" },
  FlushRange: { class: "REQ" },
  // home card → far card.
  Registered: { class: "RSP" },
  Deregistered: { class: "RSP" },
  FlushRangeAck: { class: "RSP" },
  // Renewals and counts need no slot and are no requests: behind a REQ that waits for a slot, the lease of a card
  // that is well would end. RSP always sinks (decision 9).
  Renew: { class: "RSP" },
  Counts: { class: "RSP" },
  // home card → far card.
  Lease: { class: "RSP" },
} as const satisfies Readonly<Record<string, { readonly class: "REQ" | "SNP" | "RSP" }>>;
export type ControlKind = keyof typeof CONTROL_MESSAGES;

interface Pair {
  /** The far card of the pair, as home numbers it; 1 or more. */
  readonly agent: Agent;
  /** The far card's (decision 14). */
  readonly life: number;
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

/** The far card has written back what it had (decision 21), and uses the region no more. */
export interface Deregister extends Pair {
  readonly kind: "Deregister" | "Deregistered";
}

/** Lines that are to be, or are, in home's persistence domain (decision 12): `lines` from `line` on. */
export interface FlushRange extends Pair {
  readonly kind: "FlushRange" | "FlushRangeAck";
  readonly line: number;
  readonly lines: number;
}

/** The far card asks for the lease's next term, or home grants it. */
export interface Lease extends Pair {
  readonly kind: "Renew" | "Lease";
  /** Of the request, given back: the far card counts from its sending, home from its receiving. */
  readonly number: number;
  readonly durationPs: number;
}

/** What the far card's cores did to a region in a window, for the judge on home's core (C-04). */
export interface Counts extends Pair {
  readonly kind: "Counts";
  /** Number of the window. */
  readonly window: number;
  readonly loads: number;
  readonly stores: number;
  /** Of both, those that the remote cache served alone: home sees nothing of them. */
  readonly hits: number;
}

export type ControlMessage = Register | Registered | Deregister | FlushRange | Lease | Counts;
