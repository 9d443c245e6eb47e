/**
 * HC: home's card's state: requests, directory entries, the local cache, placements, lives, leases.
 * `home_card.ts` acts on it.
 */
import type { Time } from "../base/time.ts";
import { type CacheSize, type FarCard, newFarCard } from "./far_card.ts";
import type { FarTable } from "./far_card_table.ts";
import { type HomeLine, type HomeTable, NEW_HOME_LINE } from "./home_card_table.ts";
import type { HomeLease, LeaseTimes } from "./lease.ts";
import type { Access, Contents } from "./access.ts";
import {
  type Agent,
  LOCAL_CACHE,
  type Placement,
  type WireKind,
  type WireMessage,
} from "../wire/roce/coherence_messages.ts";
import type { Output } from "./output.ts";

export interface HomeSize {
  /** Far cards' requests that are taken and not finished. */
  readonly slots: number;
  /** Lines lent at a time. */
  readonly entries: number;
  readonly localCache: CacheSize;
}

/**
 * A request that is taken. A far card's request holds its slot until it is finished; the local
 * cache's needs none, and is here until it begins.
 */
export interface Request {
  readonly message: WireMessage;
  readonly isBegun: boolean;
  /** For `Read` and `Write` that have begun: the local cache's access. */
  readonly access: Access | null;
  /** For a `FlushRange`. */
  readonly range?: FlushedRange | undefined;
}

/**
 * The order in which requests, given in order of arrival, are examined: the first one that may
 * begin is next.
 */
export type ServiceOrder = (requests: readonly Request[]) => readonly Request[];

/** The lines of a `FlushRange`, each of which has a transaction of its own. */
export interface FlushedRange {
  readonly left: readonly number[];
  readonly open: readonly number[];
  readonly isLost: boolean;
}

export interface HomeCard {
  readonly table: HomeTable;
  readonly size: HomeSize;
  readonly regionOf: (line: number) => number;
  /** The directory: lines that are lent, or in a transaction, oldest entry first. */
  readonly lines: Map<number, HomeLine>;
  readonly local: FarCard;
  /** In order of arrival. */
  readonly requests: Request[];
  readonly order: ServiceOrder;
  readonly placements: Map<number, Placement>;
  /** Lines to be purged for a migration, before any other request for them. */
  readonly purges: Set<number>;
  /** Far cards that may hold lines, each with its life. */
  readonly lives: Map<Agent, number>;
  /**
   * The last life of each far card: a `Hello` of it or an earlier one is late, and begins no life.
   */
  readonly lastLives: Map<Agent, number>;
  /** The card's own life, from 1 on: far cards' messages for another one are ignored. */
  readonly life: number;
  /** The time of this step, in ps, set by the caller before each function of the card. */
  now: Time;
  /** Null without times, as in an exploration. */
  readonly times: LeaseTimes | null;
  /** For far cards that were heard within lease and grace. */
  readonly leases: Map<Agent, HomeLease>;
}

/** A card that has lent nothing and knows no far card. */
export function newHomeCard(
  { tables, size, contents, regionOf, life = 1, times = null, order = inTurn }: {
    readonly tables: { readonly home: HomeTable; readonly far: FarTable };
    readonly size: HomeSize;
    readonly contents: Contents;
    readonly regionOf: (line: number) => number;
    /** Above the card's earlier ones. */
    readonly life?: number;
    readonly times?: LeaseTimes | null;
    readonly order?: ServiceOrder;
  },
): HomeCard {
  const cache = {
    agent: LOCAL_CACHE,
    table: tables.far,
    contents,
    size: size.localCache,
    regionOf,
  };
  const local: FarCard = { ...newFarCard(cache), homeLife: life, isUp: true };
  return {
    table: tables.home,
    size,
    regionOf,
    lines: new Map(),
    local,
    requests: [],
    order,
    placements: new Map(),
    purges: new Set(),
    lives: new Map([[LOCAL_CACHE, 0]]),
    lastLives: new Map(),
    life,
    now: 0,
    times,
    leases: new Map(),
  };
}

/** For a region that was never moved. */
export const FIRST_PLACEMENT: Placement = { place: "remote", version: 0 };

/** The directory's present line. */
export function homeLine(card: HomeCard, line: number): HomeLine {
  return card.lines.get(line) ?? NEW_HOME_LINE;
}

/** The placement of a line's region. */
export function homePlacement(card: HomeCard, line: number): Placement {
  return card.placements.get(card.regionOf(line)) ?? FIRST_PLACEMENT;
}

/** Messages that need a slot. */
export const REQUESTS: ReadonlySet<WireKind> = new Set([
  "GetS",
  "GetM",
  "Put",
  "Flush",
  "FlushRange",
  "Read",
  "Write",
]);

/** True if the request is the local cache's. */
export function isOwn({ message: { agent } }: Request): boolean {
  return agent === LOCAL_CACHE;
}

/** Slots that far cards' requests hold. */
export function slotsHeld({ requests }: HomeCard): number {
  let held = 0;
  for (const request of requests) if (!isOwn(request)) held++;
  return held;
}

/**
 * Order of arrival: far cards' requests and the local cache's wait in one queue, so that verbs of
 * one host, of which any number may be outstanding, do not delay far cards beyond their leases.
 * [choice] Write-backs of the local cache go ahead, as other requests wait for them: one line for
 * each access.
 */
export function inTurn(requests: readonly Request[]): readonly Request[] {
  const isGivenBack = (each: Request) => isOwn(each) && each.message.kind === "Put";
  if (!requests.some(isGivenBack)) return requests;
  return [...requests.filter(isGivenBack), ...requests.filter((each) => !isGivenBack(each))];
}

/** Number of later requests for its line that may pass a waiting one, by {@link inTurn}. */
export const PASSES_MAX = 1;

/** Ends the request; a far card's slot is free again. */
export function drop(card: HomeCard, request: Request): void {
  const index = card.requests.indexOf(request);
  if (index >= 0) card.requests.splice(index, 1);
}

export function replaceRequest(card: HomeCard, request: Request, by: Request): void {
  card.requests[card.requests.indexOf(request)] = by;
}

/** A message to a far card that is up, with the stamp that it waits for. */
export function sendTo(
  card: HomeCard,
  message: Omit<WireMessage, "life" | "homeLife" | "stamp">,
  out: Output,
): void {
  const life = card.lives.get(message.agent);
  if (life === undefined) return;
  const sent: WireMessage = { ...message, life, homeLife: card.life };
  const lease = card.leases.get(message.agent);
  if (lease?.echo) {
    out.wire.push({ ...sent, stamp: lease.echo.stamp });
    lease.echo = null;
  } else {
    out.wire.push(sent);
  }
}
