/**
 * HC: home's card: the directory of what far cards and its own local cache hold, and an agent on home's bus
 * (decisions 2, 6). Rows are in `home_card_table.ts`; here is what bounds them, and what they do not say:
 *
 * - slots for requests, which are the far cards' credits: a request that finds none stays in its queue pair
 *   (decision 9; a receiver that is not ready). A bus's snoop needs no slot, and one recall for a directory
 *   entry goes beside them: they are kept free by construction;
 * - the directory's entries: where there is none, an idle line is purged for it;
 * - the local cache, agent 0: its messages cross nothing, and are handled at once;
 * - the placement's version (decision 18), and lives of far cards (decisions 13, 14).
 */
import { assert } from "../base/assert.ts";
import type { Time } from "../base/time.ts";
import {
  begin,
  type CacheSize,
  canEvict,
  evict,
  farAccess,
  type FarCard,
  farReceive,
  giveBack,
  newFarCard,
} from "./far_card.ts";
import type { FarTable } from "./far_card_table.ts";
import {
  type HomeEvent,
  type HomeInput,
  type HomeLine,
  type HomeSend,
  homeState,
  type HomeTable,
  NEW_HOME_LINE,
} from "./home_card_table.ts";
import { heardAt, type HomeLease, type LeaseTimes } from "./lease.ts";
import {
  type Access,
  type Agent,
  type Answer,
  type BusMessage,
  type Contents,
  type Data,
  LOCAL_CACHE,
  LOST,
  NONE,
  type Placement,
  type WireKind,
  type WireMessage,
} from "./messages.ts";
import { newOutput, type Output } from "./output.ts";
import { rowOf } from "./table.ts";

export interface HomeSize {
  /** Requests of far cards that are taken and not finished. */
  readonly slots: number;
  /** Lines that are lent at a time. */
  readonly entries: number;
  readonly localCache: CacheSize;
}

/** A far card's request, which holds its slot until it is finished. */
export interface Slot {
  readonly message: WireMessage;
  readonly isBegun: boolean;
  /** Of `Read` and `Write` that have begun: what the local cache does for it. */
  readonly access: Access | null;
  /** Of a `FlushRange`. */
  readonly range?: FlushedRange | undefined;
}

/** The lines of a `FlushRange`, each of which has a transaction of its own. */
export interface FlushedRange {
  /** Not begun. */
  readonly left: readonly number[];
  /** In a transaction. */
  readonly open: readonly number[];
  readonly isLost: boolean;
}

export interface HomeCard {
  readonly table: HomeTable;
  readonly size: HomeSize;
  readonly regionOf: (line: number) => number;
  /** The directory: lines that are lent, or in a transaction; the one that came first in front. */
  readonly lines: Map<number, HomeLine>;
  readonly local: FarCard;
  /** Requests of the local cache that have not begun. */
  readonly own: WireMessage[];
  readonly slots: Slot[];
  readonly placements: Map<number, Placement>;
  /** Lines to be purged for a migration, before any other request of theirs. */
  readonly purges: Set<number>;
  /** Far cards that may hold lines, each with its life. */
  readonly lives: Map<Agent, number>;
  /** The last life of each far card that has ever had one: another one's `Hello` is late, and no life begins. */
  readonly lastLives: Map<Agent, number>;
  /** The card's own, from 1 on: a far card that knows another one's lines is a stranger to this one. */
  readonly life: number;
  /** The time of this step, in ps: the caller sets it before it calls a function of the card. */
  now: Time;
  /** Null without times, as in an exploration. */
  readonly times: LeaseTimes | null;
  /** Of far cards that were heard within lease and grace. */
  readonly leases: Map<Agent, HomeLease>;
}

/** A card that has lent nothing and knows no far card. */
export function newHomeCard(
  { tables, size, contents, regionOf, life = 1, times = null }: {
    readonly tables: { readonly home: HomeTable; readonly far: FarTable };
    readonly size: HomeSize;
    readonly contents: Contents;
    readonly regionOf: (line: number) => number;
    /** Above all that the card has had. */
    readonly life?: number;
    readonly times?: LeaseTimes | null;
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
    own: [],
    slots: [],
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

const FIRST_PLACEMENT: Placement = { place: "remote", version: 0 };

export function homeLine(card: HomeCard, line: number): HomeLine {
  return card.lines.get(line) ?? NEW_HOME_LINE;
}

export function homePlacement(card: HomeCard, line: number): Placement {
  return card.placements.get(card.regionOf(line)) ?? FIRST_PLACEMENT;
}

const REQUESTS: ReadonlySet<WireKind> = new Set([
  "GetS",
  "GetM",
  "Put",
  "Flush",
  "FlushRange",
  "Read",
  "Write",
]);

/** Whether the card can take this message now; one that it cannot stays in its queue pair. */
export function canTake(card: HomeCard, { kind }: WireMessage): boolean {
  return !REQUESTS.has(kind) || card.slots.length < card.size.slots;
}

/** A message of a far card that the card {@link canTake}. @throws MissingRow for one that cannot come now. */
export function homeReceive(card: HomeCard, message: WireMessage, out: Output): void {
  const { kind, agent, life, line } = message;
  if (kind === "Hello") {
    welcome(card, message, out);
    pump(card, out);
    return;
  }
  // Of an earlier life of either card: it changes nothing (decision 14).
  if (card.lives.get(agent) !== life || message.homeLife !== card.life) return;
  hear(card, message);
  if (kind === "Renew") {
    sayRenewed(card, agent, out);
  } else if (kind === "Counts") {
    const { region, counts } = message;
    if (region !== undefined && counts !== undefined) out.counts.push({ agent, region, counts });
  } else if (REQUESTS.has(kind)) {
    card.slots.push(newSlot(message));
    pump(card, out);
  } else {
    apply(card, { line, event: kind as HomeEvent, message }, out);
    pump(card, out);
  }
}

function newSlot(message: WireMessage): Slot {
  const slot: Slot = { message, isBegun: false, access: null };
  if (message.kind !== "FlushRange") return slot;
  const left = Array.from({ length: message.lines ?? 1 }, (_, index) => message.line + index);
  return { ...slot, range: { left, open: [], isLost: false } };
}

/** Decision 13: "home counts from receiving". */
function hear(card: HomeCard, { agent, kind, stamp }: WireMessage): void {
  if (card.times === null || stamp === undefined || card.leases.get(agent)?.isStopped) return;
  card.leases.set(agent, heardAt(card.now, { stamp, times: card.times, isOwn: kind === "Renew" }));
}

/** Gives a stamp back that nothing else takes along. */
export function sayRenewed(card: HomeCard, agent: Agent, out: Output): void {
  if (card.leases.get(agent)?.echo) sendTo(card, { kind: "Renewed", line: 0, agent }, out);
}

/** A message to a far card that is up, with the stamp that it waits for. */
function sendTo(
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

/** A message of home's bus. */
export function homeBus(card: HomeCard, { kind, line, data }: BusMessage, out: Output): void {
  apply(card, { line, event: kind as HomeEvent, message: { data } }, out);
  pump(card, out);
}

/**
 * A verb or a DMA access on a region's line: it goes through the local cache (decision 6), leaves nothing
 * behind in it, and takes the line from all others.
 */
export function homeAccess(card: HomeCard, access: Access, out: Output): void {
  const { lines = 1 } = access;
  assert(lines === 1, `Cannot access ${lines} lines at home's card: expected one`);
  const kind = access.kind === "load" ? "own" : access.kind;
  local(card, (its) => farAccess(card.local, { ...access, kind, passes: true }, its), out);
  pump(card, out);
}

/** Whether the local cache may give this line up now. */
export function canEvictLocal(card: HomeCard, line: number): boolean {
  return canEvict(card.local, line);
}

/**
 * What only the local cache has: under whole-system persistence it is written to memory when home's power fails;
 * else it is lost (decision 12, `adr.ts`). What far cards have is lost in any case.
 */
export function dirtyInLocalCache(
  { local: { lines } }: HomeCard,
): { readonly line: number; readonly data: Data }[] {
  return [...lines].flatMap(([line, { state, data }]) =>
    (state === "M" || state === "MI") && data !== undefined ? [{ line, data }] : []
  ).sort((a, b) => a.line - b.line);
}

/** The local cache gives a line up. */
export function evictLocal(card: HomeCard, line: number, out: Output): void {
  local(card, (its) => evict(card.local, line, its), out);
  pump(card, out);
}

/** Moves a region's copies (C-04, decision 18): a new version, then every line is purged. */
export function move(
  card: HomeCard,
  { region, place }: { readonly region: number; readonly place: Placement["place"] },
  out: Output,
): void {
  const { version } = card.placements.get(region) ?? FIRST_PLACEMENT;
  card.placements.set(region, { place, version: version + 1 });
  // What the local cache has not yet asked for is asked again at the new place.
  for (const slot of [...card.slots]) {
    const { access, message: { line } } = slot;
    if (access === null || card.regionOf(line) !== region) continue;
    const isOwn = (each: WireMessage) => each.line === line && each.kind !== "Put";
    const isActive = card.local.active.get(line) === access;
    // Home serves its request already: it ends before the purge.
    if (isActive && !card.own.some(isOwn)) continue;
    const { wasAsked } = giveBack(card.local, access);
    if (wasAsked) card.own.splice(card.own.findIndex(isOwn), 1);
    retry(card, slot, out);
  }
  // Verbs may have waited for a place that is free now.
  local(card, (its) => begin(card.local, its), out);
  recallRegion(card, region, out);
}

/** Brings all of a region home, as an orderly shutdown and a deregistration do (decision 21). */
export function recallRegion(card: HomeCard, region: number, out: Output): void {
  for (const line of card.lines.keys()) {
    if (card.regionOf(line) === region) card.purges.add(line);
  }
  pump(card, out);
}

/**
 * A far card's lease is over, and it has stopped serving (decision 13): what it shared is forgotten, what it
 * had alone is lost, and reported.
 */
export function loseFarCard(card: HomeCard, agent: Agent, out: Output): void {
  const life = card.lives.get(agent);
  if (life === undefined) return;
  card.lives.delete(agent);
  card.leases.delete(agent);
  for (const line of [...card.lines.keys()]) {
    if (homeLine(card, line).waiting >> agent & 1) answerFor(card, { line, agent }, out);
    const { phase, serving } = homeLine(card, line);
    if (phase === "P3" && serving?.agent === agent && serving.life === life) {
      apply(card, { line, event: "Complete", message: { agent } }, out);
    }
    const left = homeLine(card, line);
    keep(card, line, { ...left, sharers: left.sharers & ~(1 << agent) });
    if (left.owner !== agent || left.phase !== "idle" || left.snoop !== null) continue;
    const data = lastOf(card, { line, agent }, out);
    apply(card, { line, event: "Put", message: { agent, life, data } }, out);
  }
  for (const slot of [...card.slots]) {
    if (slot.message.agent === agent && !slot.isBegun) drop(card, slot);
  }
  pump(card, out);
}

/** A far card that is up has let all its copies go: its lease is over, and it has asked for nothing. */
export function unshare(card: HomeCard, agent: Agent, out: Output): void {
  for (const [line, now] of [...card.lines]) {
    keep(card, line, { ...now, sharers: now.sharers & ~(1 << agent) });
  }
  pump(card, out);
}

// ── the table's rows ─────────────────────────────────────────────────────────────────────────────

function keep(card: HomeCard, line: number, now: HomeLine): void {
  // A right to share that nothing is lent under is given up in silence: the bus's snoop finds I.
  if (isLent(now) || now.phase !== "idle" || now.snoop !== null) card.lines.set(line, now);
  else card.lines.delete(line);
}

function apply(
  card: HomeCard,
  { line, event, message }: { line: number; event: HomeEvent; message: HomeInput },
  out: Output,
): void {
  const before = homeLine(card, line);
  const who = `home card, line ${line}`;
  const { line: after, send } = rowOf(card.table, { state: homeState(before), event, who })(
    before,
    message,
  );
  out.changed.push(line);
  keep(card, line, after);
  const isEnd = before.serving !== null && after.serving === null;
  // A line of a range is answered with the range.
  const isPart = isEnd && finish(card, { line, before, data: message.data }, out);
  for (const each of send ?? []) if (!isPart) emit(card, { line, send: each }, out);
  const { phase, snoop } = homeLine(card, line);
  if (phase !== "idle" || snoop === null || snoop.isServed) return;
  // "Else deferred": until now.
  keep(card, line, { ...homeLine(card, line), snoop: null });
  apply(card, { line, event: snoop.kind, message: { data: undefined } }, out);
}

/** The slot of a transaction that has ended is free again. @returns whether it was a part of a range. */
function finish(
  card: HomeCard,
  { line, before: { serving }, data }: {
    readonly line: number;
    readonly before: HomeLine;
    readonly data: Data | undefined;
  },
  out: Output,
): boolean {
  const part = serving?.kind === "Flush"
    ? card.slots.find(({ range }) => range?.open.includes(line))
    : undefined;
  if (part !== undefined) {
    finishPart(card, { slot: part, line, data }, out);
    return true;
  }
  const slot = card.slots.find(({ message, isBegun, access, range }) =>
    isBegun && access === null && range === undefined && message.line === line &&
    message.agent === serving?.agent
  );
  if (slot !== undefined) drop(card, slot);
  return false;
}

/** One line of a range is in home's persistence domain; the last one answers for all (decisions 8, 12). */
function finishPart(
  card: HomeCard,
  { slot, line, data }: { slot: Slot; line: number; data: Data | undefined },
  out: Output,
): void {
  const { message, range } = slot;
  if (range === undefined) return;
  const open = range.open.filter((each) => each !== line);
  const isLost = range.isLost || data === LOST;
  if (open.length + range.left.length > 0) {
    replaceSlot(card, slot, { ...slot, range: { ...range, open, isLost } });
    return;
  }
  drop(card, slot);
  const { agent, life, line: first, lines } = message;
  if (card.lives.get(agent) !== life) return;
  const result = isLost ? LOST : undefined;
  sendTo(card, { kind: "FlushAck", line: first, agent, lines, data: result }, out);
}

function replaceSlot(card: HomeCard, slot: Slot, by: Slot): void {
  card.slots[card.slots.indexOf(slot)] = by;
}

function emit(
  card: HomeCard,
  { line, send }: { readonly line: number; readonly send: HomeSend },
  out: Output,
): void {
  if (send.to === "bus") {
    out.bus.push({ kind: send.kind, line, data: send.data });
    return;
  }
  const { to: agent, kind, data } = send;
  const life = card.lives.get(agent);
  if (life === undefined || (send.life !== undefined && send.life !== life)) {
    emitToDead(card, { line, send }, out);
    return;
  }
  const message = { kind, line, agent, data };
  if (agent !== LOCAL_CACHE) {
    sendTo(card, message, out);
    return;
  }
  const own: WireMessage = { ...message, life, homeLife: card.life };
  local(card, (its) => farReceive(card.local, own, its), out);
}

/** A card that is dead, or has another life by now, has nothing and answers nothing: home does it. */
function emitToDead(
  card: HomeCard,
  { line, send }: { readonly line: number; readonly send: Exclude<HomeSend, { to: "bus" }> },
  out: Output,
): void {
  const { to: agent, kind, data } = send;
  switch (kind) {
    case "Inv":
    case "RecI":
    case "RecS":
      answerFor(card, { line, agent }, out);
      break;
    case "DataS": {
      // It is no sharer: an `Inv` would meet a next life that has not heard its `Welcome`.
      const lent = homeLine(card, line);
      keep(card, line, { ...lent, sharers: lent.sharers & ~(1 << agent) });
      apply(card, { line, event: "Complete", message: { agent, data: undefined } }, out);
      break;
    }
    case "DataE": {
      // It was never sent, so nothing is lost: it goes back, and a snoop that waits goes on waiting for that.
      const { snoop } = homeLine(card, line);
      keep(card, line, { ...homeLine(card, line), snoop: null });
      apply(card, { line, event: "Complete", message: { agent, data: undefined } }, out);
      apply(card, { line, event: "Put", message: { agent, life: send.life ?? 0, data } }, out);
      keep(card, line, { ...homeLine(card, line), snoop });
      break;
    }
    default:
      break;
  }
}

/** The answer of a dead card to an `Inv` or a recall. */
function answerFor(
  card: HomeCard,
  { line, agent }: { readonly line: number; readonly agent: Agent },
  out: Output,
): void {
  const isOwner = homeLine(card, line).owner === agent;
  const data = isOwner ? lastOf(card, { line, agent }, out) : undefined;
  const event = isOwner ? "RecIData" : "InvAck";
  apply(card, { line, event, message: { agent, data } }, out);
}

/** The last that a dead card has said of a line that it had alone: its write-back, or nothing. */
function lastOf(
  card: HomeCard,
  { line, agent }: { readonly line: number; readonly agent: Agent },
  out: Output,
): Data {
  const put = card.slots.find(({ message, isBegun }) =>
    !isBegun && message.kind === "Put" && message.line === line && message.agent === agent
  );
  if (put?.message.data !== undefined) return put.message.data;
  out.lost.push(line);
  return LOST;
}

/** A life begins; the one before has ended, whatever the lease says (decision 14). */
function welcome(card: HomeCard, message: WireMessage, out: Output): void {
  const { agent, life, line } = message;
  if ((card.lastLives.get(agent) ?? -1) >= life) return;
  loseFarCard(card, agent, out);
  card.lives.set(agent, life);
  card.lastLives.set(agent, life);
  hear(card, message);
  const region = card.regionOf(line);
  sendTo(card, { kind: "Welcome", line, agent, region, placement: homePlacement(card, line) }, out);
}

// ── the local cache ──────────────────────────────────────────────────────────────────────────────

/** Lets the local cache do something; its requests are queued, its answers are taken at once. */
function local(card: HomeCard, act: (its: Output) => void, out: Output): void {
  const its = newOutput();
  act(its);
  for (const message of its.wire) {
    if (REQUESTS.has(message.kind)) card.own.push(message);
    else apply(card, { line: message.line, event: message.kind as HomeEvent, message }, out);
  }
  out.changed.push(...its.changed);
  for (const answer of its.answers) answerFar(card, answer, out);
}

/** An access at the local cache has ended: it was a far card's, or a verb's. */
function answerFar(card: HomeCard, answer: Answer, out: Output): void {
  const slot = card.slots.find(({ access }) => access === answer.access);
  if (slot === undefined) {
    out.answers.push(answer);
    return;
  }
  const { agent, life, line } = slot.message;
  drop(card, slot);
  // A store to the whole line has found the line lost, and is done for all that.
  const found = answer.data === LOST ? undefined : answer.data;
  const data = answer.result === "lost" ? LOST : found;
  if (card.lives.get(agent) === life) sendTo(card, { kind: "Value", line, agent, data }, out);
}

// ── what is next ─────────────────────────────────────────────────────────────────────────────────

function drop(card: HomeCard, slot: Slot): void {
  const index = card.slots.indexOf(slot);
  if (index >= 0) card.slots.splice(index, 1);
}

/** Does all that can be done now. */
function pump(card: HomeCard, out: Output): void {
  while (purgeNext(card, out) || ownNext(card, out) || slotNext(card, out));
}

function isFree(card: HomeCard, line: number): boolean {
  const { phase, snoop } = homeLine(card, line);
  return phase === "idle" && snoop === null;
}

function purgeNext(card: HomeCard, out: Output): boolean {
  for (const line of card.purges) {
    if (!isFree(card, line)) continue;
    card.purges.delete(line);
    apply(card, { line, event: "Purge", message: { data: undefined } }, out);
    return true;
  }
  return false;
}

function ownNext(card: HomeCard, out: Output): boolean {
  for (const message of card.own) {
    if (!mayBegin(card, message, out)) continue;
    card.own.splice(card.own.indexOf(message), 1);
    beginTransaction(card, message, out);
    return true;
  }
  return false;
}

function slotNext(card: HomeCard, out: Output): boolean {
  for (const slot of card.slots) {
    if (slot.isBegun) continue;
    const { message } = slot;
    const { placement, kind } = message;
    if (
      placement !== undefined && placement.version !== homePlacement(card, message.line).version
    ) {
      retry(card, slot, out);
      return true;
    }
    if (kind === "Read" || kind === "Write") {
      beginLocal(card, slot, out);
      return true;
    }
    if (slot.range !== undefined) {
      if (beginPart(card, slot, out)) return true;
      continue;
    }
    if (!mayBegin(card, message, out)) continue;
    card.slots[card.slots.indexOf(slot)] = { ...slot, isBegun: true };
    beginTransaction(card, message, out);
    return true;
  }
  return false;
}

/** Begins with the first line of a range that is free. */
function beginPart(card: HomeCard, slot: Slot, out: Output): boolean {
  const { message, range } = slot;
  const line = range?.left.find((each) => isFree(card, each) && !card.purges.has(each));
  if (range === undefined || line === undefined) return false;
  const left = range.left.filter((each) => each !== line);
  const isBegun = left.length === 0;
  replaceSlot(card, slot, {
    ...slot,
    isBegun,
    range: { ...range, left, open: [...range.open, line] },
  });
  apply(card, { line, event: "Flush", message: { ...message, line } as HomeInput }, out);
  return true;
}

/** Whether a line is free for a request; one that has no directory entry, and finds none, makes room. */
function mayBegin(card: HomeCard, { line, kind }: WireMessage, out: Output): boolean {
  if (!isFree(card, line) || card.purges.has(line)) return false;
  if (!/^Get/.test(kind) || isLent(homeLine(card, line)) || hasEntry(card)) return true;
  for (const { serving } of card.lines.values()) if (serving?.kind === "Purge") return false;
  for (const victim of card.lines.keys()) {
    if (!isFree(card, victim)) continue;
    apply(card, { line: victim, event: "Purge", message: { data: undefined } }, out);
    return hasEntry(card);
  }
  return false;
}

/** A line has an entry while it is lent, or about to be; other transactions have their slot alone. */
function isLent({ sharers, owner, serving }: HomeLine): boolean {
  return sharers !== 0 || owner !== NONE || serving?.kind === "GetS" || serving?.kind === "GetM";
}

function hasEntry(card: HomeCard): boolean {
  let count = 0;
  for (const line of card.lines.values()) if (isLent(line)) count++;
  return count < card.size.entries;
}

function beginTransaction(card: HomeCard, message: WireMessage, out: Output): void {
  const { line, kind } = message;
  apply(card, { line, event: kind as HomeEvent, message }, out);
  // Done at once, as a late `Put` may be.
  const slot = card.slots.find((each) => each.message === message);
  if (slot !== undefined && homeLine(card, line).serving === null) drop(card, slot);
}

/** The local cache does a far card's access (C-06). */
function beginLocal(card: HomeCard, slot: Slot, out: Output): void {
  const { line, kind, change } = slot.message;
  const access: Access = { kind: kind === "Write" ? "store" : "load", line, change, ticket: 0 };
  card.slots[card.slots.indexOf(slot)] = { ...slot, isBegun: true, access };
  local(card, (its) => farAccess(card.local, access, its), out);
}

/** The placement is not what the sender believes: it asks again (decision 18). */
function retry(card: HomeCard, slot: Slot, out: Output): void {
  const { agent, life, line } = slot.message;
  const placement = homePlacement(card, line);
  drop(card, slot);
  if (card.lives.get(agent) !== life) return;
  sendTo(card, { kind: "Retry", line, agent, placement, region: card.regionOf(line) }, out);
}
