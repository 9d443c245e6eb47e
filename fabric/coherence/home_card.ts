/**
 * HC: home's card: the directory of what far cards and its own local cache hold, and an agent on home's bus
 * (decisions 2, 6). Rows are in `home_card_table.ts`, and
 * `home_card_transactions.ts` acts on them; here is what comes in, and what may begin:
 *
 * - slots for requests, which are the far cards' credits: a request that finds none stays in its queue pair
 *   (decision 9; a receiver that is not ready). A bus's snoop needs no slot, and one recall for a directory
 *   entry goes beside them: they are kept free by construction;
 * - one queue for all requests, far cards' and the local cache's: {@link inTurn};
 * - the directory's entries: where there is none, an idle line is purged for it;
 * - the local cache, agent 0: its messages cross nothing, and are handled at once;
 * - the placement's version (decision 18), lives of far cards and their leases (decisions 13, 14).
 */
import { assert } from "../base/assert.ts";
import { NEVER, type Time } from "../base/time.ts";
import { begin, canEvict, evict, farAccess, giveBack } from "./far_card.ts";
import {
  drop,
  FIRST_PLACEMENT,
  type HomeCard,
  homeLine,
  homePlacement,
  isOwn,
  replaceRequest,
  type Request,
  REQUESTS,
  sendTo,
  slotsHeld,
} from "./home_card_state.ts";
import type { HomeEvent, HomeInput } from "./home_card_table.ts";
import {
  answerFor,
  apply,
  dropWaiting,
  isLent,
  keep,
  lastOf,
  local,
  take,
} from "./home_card_transactions.ts";
import { heardAt } from "./lease.ts";
import type { Access } from "./access.ts";
import type { Agent, Data, Placement, WireMessage } from "../wire/roce/coherence_messages.ts";
import type { BusMessage } from "../wire/host_bus/region_messages.ts";
import type { Output } from "./output.ts";

/** True if the card can take this message now; else it stays in its queue pair. */
export function canTake(card: HomeCard, { kind }: WireMessage): boolean {
  return !REQUESTS.has(kind) || slotsHeld(card) < card.size.slots;
}

/** A message of a far card that the card {@link canTake}. @throws MissingRow for one that cannot come now. */
export function homeReceive(card: HomeCard, message: WireMessage, out: Output): void {
  const { kind, agent, life, line } = message;
  if (kind === "Hello") {
    welcome(card, message, out);
    pump(card, out);
    return;
  }
  // A message from an earlier life of either card changes nothing (decision 14).
  if (card.lives.get(agent) !== life || message.homeLife !== card.life) return;
  hear(card, message);
  if (kind === "Renew") {
    sayRenewed(card, agent, out);
  } else if (kind === "Counts") {
    const { region, counts } = message;
    if (region !== undefined && counts !== undefined) out.counts.push({ agent, region, counts });
  } else if (REQUESTS.has(kind)) {
    take(card, newRequest(message), out);
    pump(card, out);
  } else {
    apply(card, { line, event: kind as HomeEvent, message }, out);
    pump(card, out);
  }
}

function newRequest(message: WireMessage): Request {
  const request: Request = { message, isBegun: false, access: null };
  if (message.kind !== "FlushRange") return request;
  const left = Array.from({ length: message.lines ?? 1 }, (_, index) => message.line + index);
  return { ...request, range: { left, open: [], isLost: false } };
}

/** Decision 13: "home counts from receiving". */
function hear(card: HomeCard, { agent, kind, stamp }: WireMessage): void {
  if (card.times === null || stamp === undefined || card.leases.get(agent)?.isStopped) return;
  card.leases.set(agent, heardAt(card.now, { stamp, times: card.times, isOwn: kind === "Renew" }));
}

/** Returns a stamp that no other message carries. */
function sayRenewed(card: HomeCard, agent: Agent, out: Output): void {
  if (card.leases.get(agent)?.echo) sendTo(card, { kind: "Renewed", line: 0, agent }, out);
}

/** A life begins; the earlier one has ended, regardless of the lease (decision 14). */
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

/** A message of home's bus. */
export function homeBus(card: HomeCard, { kind, line, data }: BusMessage, out: Output): void {
  apply(card, { line, event: kind as HomeEvent, message: { data } }, out);
  pump(card, out);
}

/**
 * A verb or a DMA access on a region's line: it goes through the local cache (decision 6), leaves
 * nothing behind in it, and takes the line from all others.
 */
export function homeAccess(card: HomeCard, access: Access, out: Output): void {
  const { lines = 1 } = access;
  assert(lines === 1, `Cannot access ${lines} lines at home's card: expected one`);
  const kind = access.kind === "load" ? "own" : access.kind;
  local(card, (its) => farAccess(card.local, { ...access, kind, passes: true }, its), out);
  pump(card, out);
}

/** True if the local cache may give this line up now. */
export function canEvictLocal(card: HomeCard, line: number): boolean {
  return canEvict(card.local, line);
}

/**
 * Lines that only the local cache has: whole-system persistence writes them to memory when home's
 * power fails, else they are lost (decision 12, `persistence_domain.ts`). Far cards' lines are lost
 * in any case.
 */
export function dirtyInLocalCache(
  { local: { lines }, requests }: HomeCard,
): { readonly line: number; readonly data: Data }[] {
  // A write-back that has begun is on the bus, and memory may be newer by now.
  const isHere = (line: number) =>
    requests.some((each) =>
      isOwn(each) && each.message.kind === "Put" && each.message.line === line
    );
  return [...lines].flatMap(([line, { state, data }]) =>
    (state === "M" || (state === "MI" && isHere(line))) && data !== undefined
      ? [{ line, data }]
      : []
  ).sort((a, b) => a.line - b.line);
}

/** Evicts a line from the local cache. */
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
  // Accesses that the local cache has not requested yet are repeated at the new place.
  for (const request of [...card.requests]) {
    const { access, message: { line } } = request;
    if (access === null || card.regionOf(line) !== region) continue;
    const asked = card.requests.find((each) =>
      isOwn(each) && each.message.line === line && each.message.kind !== "Put"
    );
    const isActive = card.local.active.get(line) === access;
    // Home serves its request already: it ends before the purge.
    if (isActive && asked === undefined) continue;
    const { wasAsked } = giveBack(card.local, access);
    if (wasAsked && asked !== undefined) dropWaiting(card, asked, out);
    retry(card, request, out);
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
 * A far card's lease is over, and it has stopped serving (decision 13): its shared lines are
 * forgotten, its exclusive lines are lost and reported.
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
  for (const request of [...card.requests]) {
    if (request.message.agent === agent && !request.isBegun) dropWaiting(card, request, out);
  }
  pump(card, out);
}

/**
 * A far card that is up has dropped all its copies: its lease is over, and it has requested
 * nothing.
 */
function unshare(card: HomeCard, agent: Agent, out: Output): void {
  for (const [line, now] of [...card.lines]) {
    keep(card, line, { ...now, sharers: now.sharers & ~(1 << agent) });
  }
  pump(card, out);
}

// ── what is next ─────────────────────────────────────────────────────────────────────────────────

function pump(card: HomeCard, out: Output): void {
  while (purgeNext(card, out) || requestNext(card, out));
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

function requestNext(card: HomeCard, out: Output): boolean {
  for (const request of card.order(card.requests)) {
    if (request.isBegun) continue;
    const { message } = request;
    const { placement, kind } = message;
    // The local cache asks for the line wherever the copies are kept.
    if (
      !isOwn(request) && placement !== undefined &&
      placement.version !== homePlacement(card, message.line).version
    ) {
      retry(card, request, out);
      return true;
    }
    if (kind === "Read" || kind === "Write") {
      beginLocal(card, request, out);
      return true;
    }
    if (request.range !== undefined) {
      if (beginPart(card, request, out)) return true;
      continue;
    }
    if (!mayBegin(card, message, out)) continue;
    if (isOwn(request)) drop(card, request);
    else replaceRequest(card, request, { ...request, isBegun: true });
    out.turns.push({ step: "begun", line: message.line, message });
    beginTransaction(card, message, out);
    return true;
  }
  return false;
}

function beginPart(card: HomeCard, request: Request, out: Output): boolean {
  const { message, range } = request;
  const line = range?.left.find((each) => isFree(card, each) && !card.purges.has(each));
  if (range === undefined || line === undefined) return false;
  const left = range.left.filter((each) => each !== line);
  const isBegun = left.length === 0;
  replaceRequest(card, request, {
    ...request,
    isBegun,
    range: { ...range, left, open: [...range.open, line] },
  });
  out.turns.push({ step: "begun", line, message });
  apply(card, { line, event: "Flush", message: { ...message, line } as HomeInput }, out);
  return true;
}

/** True if a line is free for a request; without a free directory entry, one is purged. */
function mayBegin(card: HomeCard, { line, kind }: WireMessage, out: Output): boolean {
  if (!isFree(card, line) || card.purges.has(line)) return false;
  if ((kind !== "GetS" && kind !== "GetM") || isLent(homeLine(card, line)) || hasEntry(card)) {
    return true;
  }
  for (const { serving } of card.lines.values()) if (serving?.kind === "Purge") return false;
  for (const victim of card.lines.keys()) {
    if (!isFree(card, victim)) continue;
    apply(card, { line: victim, event: "Purge", message: { data: undefined } }, out);
    return hasEntry(card);
  }
  return false;
}

function hasEntry(card: HomeCard): boolean {
  if (card.lines.size < card.size.entries) return true;
  let count = 0;
  for (const line of card.lines.values()) if (isLent(line)) count++;
  return count < card.size.entries;
}

function beginTransaction(card: HomeCard, message: WireMessage, out: Output): void {
  const { line, kind } = message;
  apply(card, { line, event: kind as HomeEvent, message }, out);
  // Done at once, as a late `Put` may be.
  const request = card.requests.find((each) => each.message === message);
  if (request !== undefined && homeLine(card, line).serving === null) drop(card, request);
}

function beginLocal(card: HomeCard, request: Request, out: Output): void {
  const { line, kind, change } = request.message;
  const access: Access = { kind: kind === "Write" ? "store" : "load", line, change, ticket: 0 };
  replaceRequest(card, request, { ...request, isBegun: true, access });
  local(card, (its) => farAccess(card.local, access, its), out);
}

/** The sender's placement is stale: it asks again (decision 18). */
function retry(card: HomeCard, request: Request, out: Output): void {
  const { agent, life, line } = request.message;
  const placement = homePlacement(card, line);
  if (request.isBegun) drop(card, request);
  else dropWaiting(card, request, out);
  if (card.lives.get(agent) !== life) return;
  sendTo(card, { kind: "Retry", line, agent, placement, region: card.regionOf(line) }, out);
}

// ── in its time: stamps are returned, a far card's lines given away (decision 13) ────────────────

/** When {@link homeWake} has work; NEVER if no far card was heard within its lease. */
export function homeNextAt(card: HomeCard): Time {
  let next = NEVER;
  for (const { until, echo } of card.leases.values()) {
    next = Math.min(next, until, echo?.by ?? NEVER);
  }
  return next;
}

/** Does the work due at the card's time. */
export function homeWake(card: HomeCard, out: Output): void {
  for (const [agent, { until, echo }] of [...card.leases]) {
    if (card.now >= until) endLease(card, agent, out);
    else if (echo !== null && card.now >= echo.by) sayRenewed(card, agent, out);
  }
}

/**
 * A queue pair to a far card has failed, and messages may be lost: the life has to end on both sides. That alone
 * proves nothing of the far card (decision 13), which may still serve: its lease is no longer renewed, and ends.
 */
export function stopRenewing(card: HomeCard, agent: Agent): void {
  const { times, lives, leases, now } = card;
  if (times === null || !lives.has(agent)) return;
  const until = leases.get(agent)?.until ?? now + times.lease + times.grace;
  leases.set(agent, { until, echo: null, isStopped: true });
}

/**
 * A far card without exclusive lines or pending messages has let its lease go: it is up, and holds
 * no copy.
 */
function endLease(card: HomeCard, agent: Agent, out: Output): void {
  const isStopped = card.leases.get(agent)?.isStopped === true;
  card.leases.delete(agent);
  if (isStopped || isBound(card, agent)) loseFarCard(card, agent, out);
  else unshare(card, agent, out);
}

/** True if a line is lent to it exclusively, or a message is under way between both cards. */
function isBound(card: HomeCard, agent: Agent): boolean {
  if (card.requests.some(({ message }) => message.agent === agent)) return true;
  for (const line of card.lines.keys()) {
    const { owner, waiting, serving } = homeLine(card, line);
    if (owner === agent || (waiting >> agent & 1) === 1 || serving?.agent === agent) return true;
  }
  return false;
}
