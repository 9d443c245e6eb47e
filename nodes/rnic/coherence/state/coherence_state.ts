/**
 * A coherent card's state of shared regions (C-01): the directory and the local cache of its own host's, the remote
 * cache of each other home's, and the queue pairs to the cards at the other ends. Modules of `coherence/` act on
 * it.
 */
import type { Fifo } from "../../../../fabric/base/fifo.ts";
import type { LineStateRecord } from "../../../../fabric/audit.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { FarCard } from "../../../../fabric/coherence/far_card.ts";
import type { HomeCard } from "../../../../fabric/coherence/home_card_state.ts";
import type {
  Agent,
  Placement,
  WireKind,
  WireMessage,
} from "../../../../fabric/wire/roce/coherence_messages.ts";
import type { SharedRegion } from "../../../../fabric/rack/plan/shared_region.ts";
import type { CoherenceClass } from "../../../../fabric/wire/roce/coherence_eth.ts";
import type { RocePacket } from "../../../../fabric/wire/roce/packet.ts";
import type { QueuePair } from "../../state/queue_pair.ts";

/** The classes in the order of their queue pairs' numbers. */
export const CARD_CLASSES = [
  "coherence-request",
  "coherence-snoop",
  "coherence-response",
] as const satisfies readonly CoherenceClass[];

/**
 * The three queue pairs of a home card and a far card (decision 8), for one life of the far card. Two cards that
 * are each other's home have two such links.
 */
export interface CardLink {
  readonly role: "home" | "far";
  /** IPv4 address. */
  readonly peer: number;
  readonly agent: Agent;
  readonly life: number;
  /** This card's. */
  readonly firstQpn: number;
  readonly firstPsn: number;
  /** In the order of {@link CARD_CLASSES}; empty until the peer has told its numbers. */
  readonly queuePairs: QueuePair[];
  /** One of them has failed: the card sends no more, and the lease ends (decision 13). */
  isFailed: boolean;
}

/** This card as home: of all regions of its host. */
export interface HomeEnd {
  readonly card: HomeCard;
  readonly regions: readonly SharedRegion[];
  /** Regions that the host has exposed, by their number. */
  readonly exposed: Map<number, SharedRegion>;
  readonly links: Map<Agent, CardLink>;
  /** The answer to each far card's greeting, which may come again. */
  readonly welcomes: Map<Agent, WireMessage>;
  /** Requests that have found no slot (decision 9): each far card has as many credits as there are slots. */
  readonly inbox: Fifo<WireMessage>;
  /** The last greeting of each far card that waits until the regions are exposed and earlier leases are over. */
  readonly greetings: Map<Agent, RocePacket>;
  /** Until then a far card may still serve lines that an earlier life of this card has lent. */
  readonly opensAt: Time;
  /** Regions that the host has deregistered: far cards are to leave them. */
  readonly withdrawn: Set<number>;
  /** Deregistrations whose lines are coming home, by the command's number. */
  readonly closing: Map<number, Closing>;
}

export interface Closing {
  readonly region: number;
  /** Far cards that have not left it: each of them may still have asked for a line. */
  readonly waits: Set<Agent>;
  /** A far card that has not left by then is waited for no longer: a lease and its margin (decision 13). */
  readonly endsAt: Time;
}

/** A far core's access under way. */
export interface CoreAccess {
  readonly tag: number;
  readonly region: number;
}

/** This card as a far card of one home. */
export interface FarEnd {
  /** IPv4 address. */
  readonly home: number;
  readonly card: FarCard;
  readonly regions: readonly SharedRegion[];
  /** Of home's card: the number of requests that may be under way. */
  readonly slots: number;
  link: CardLink | undefined;
  /** Regions that home has confirmed, with the number of their first line. */
  readonly registered: Map<number, number>;
  /** Requests that wait for home's answer, by region: a command's number; undefined where home has asked to leave. */
  readonly asked: Map<
    number,
    { readonly id: number | undefined; readonly op: "register" | "deregister" }
  >;
  /** Regions that home takes back while they are being registered: the card leaves them when home has answered. */
  readonly recalled: Set<number>;
  /** Deregistered regions whose last line is home: home has been told. */
  readonly left: Set<number>;
  readonly accesses: Map<number, CoreAccess>;
  nextTicket: number;
  /** Requests that wait for a credit, and the number of home's credits taken. */
  readonly outbox: Fifo<WireMessage>;
  credits: number;
  /** An unanswered greeting: its message, when it is sent again, and how many times more. */
  greeting: { readonly message: WireMessage; at: Time; left: number } | undefined;
  /** When a queue pair of the link has failed: the card begins a new life in that step; else NEVER. */
  renewAt: Time;
  /** Lines with content here: the host's cores may wait for a change of them (decision 19). */
  readonly readable: Set<number>;
}

/** Messages of each kind, in and out. */
export type MessageCounts = Map<WireKind | string, number>;

export interface CoherenceCounters {
  readonly sent: MessageCounts;
  readonly received: MessageCounts;
  readonly busSent: MessageCounts;
  readonly busReceived: MessageCounts;
  /** Accesses that the remote cache has served by itself, and the others. */
  remoteHits: number;
  remoteMisses: number;
  /** The same of the local cache, for far cards and verbs. */
  localHits: number;
  localMisses: number;
  recalls: number;
  evictions: number;
  /** Most lines at a time. */
  remoteLinesMost: number;
  localLinesMost: number;
  directoryMost: number;
  linesLost: number;
  leasesEnded: number;
  malformed: number;
}

/** The parts of a step's time up to `stageAt` for looking up and for conversion; the rest is the ports'. */
export interface StageSpent {
  /** The time and stage of the step that the parts belong to. */
  at: Time;
  stageAt: Time;
  lookUpPs: Time;
  convertPs: Time;
}

export function newStageSpent(): StageSpent {
  return { at: 0, stageAt: 0, lookUpPs: 0, convertPs: 0 };
}

export interface Coherence {
  readonly regions: readonly SharedRegion[];
  readonly home: HomeEnd | undefined;
  /** By the address of home's card. */
  readonly fars: Map<number, FarEnd>;
  readonly links: Map<QueuePair, CardLink>;
  /** The queue pair of greetings, which has no peer. */
  readonly control: QueuePair;
  nextLink: number;
  readonly shown: Map<string, string>;
  /** The lines' last audit records, by cache, region and line; absent: I. */
  readonly noted: Map<string, LineStateRecord>;
  readonly counters: CoherenceCounters;
  /** Of the present step (`coherence/timing.ts`). */
  readonly spent: StageSpent;
}

export function newCoherenceCounters(): CoherenceCounters {
  return {
    sent: new Map(),
    received: new Map(),
    busSent: new Map(),
    busReceived: new Map(),
    remoteHits: 0,
    remoteMisses: 0,
    localHits: 0,
    localMisses: 0,
    recalls: 0,
    evictions: 0,
    remoteLinesMost: 0,
    localLinesMost: 0,
    directoryMost: 0,
    linesLost: 0,
    leasesEnded: 0,
    malformed: 0,
  };
}

export function countOne(counts: Map<string, number>, kind: string): void {
  counts.set(kind, (counts.get(kind) ?? 0) + 1);
}

/** Drops waiting requests and frees all credits. */
export function forgetRequests(far: FarEnd): void {
  far.outbox.clear();
  far.credits = 0;
}

/**
 * The first placement of a region's copies (C-04), which both cards know without a message. Decision 17: a fresh region
 * follows the plain rule, in which a tie goes to `remote`.
 */
export function startingPlacement({ placement }: SharedRegion): Placement {
  return { place: placement === "local" ? "local" : "remote", version: 0 };
}
