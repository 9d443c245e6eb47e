/**
 * FC: a far card's remote cache, and home's local cache as agent 0 (decision 6). Rows are in
 * `far_card_table.ts`; this file has their bounds: places for lines, write-back buffers, accesses that
 * wait for either, the placement as the card believes it (decision 18), and the card's life (decision 14)
 * with its lease.
 */
import { NEVER, type Time } from "../base/time.ts";
import type { FarEvent, FarRow, FarState, FarTable } from "./far_card_table.ts";
import {
  beginLease,
  type FarLease,
  isIdle,
  type LeaseTimes,
  newFarLease,
  renewAt,
  renewedBy,
  rideAt,
} from "./lease.ts";
import type { Access, Answer, Contents } from "./access.ts";
import {
  type AccessCounts,
  type Agent,
  type Data,
  LOST,
  type Placement,
  type WireKind,
  type WireMessage,
} from "../wire/roce/coherence_messages.ts";
import { FORMS } from "../wire/roce/coherence_eth.ts";
import { newOutput, type Output } from "./output.ts";
import { rowOf } from "./table.ts";

export interface FarLine {
  readonly state: FarState;
  readonly data: Data | undefined;
}

/** A card's capacity, each 1 or more. */
export interface CacheSize {
  /** Lines that it holds or has requested. */
  readonly lines: number;
  /** Lines that are written back and not acknowledged. */
  readonly writeBacks: number;
}

export interface FarCard {
  readonly agent: Agent;
  readonly table: FarTable;
  readonly contents: Contents;
  readonly size: CacheSize;
  readonly regionOf: (line: number) => number;
  /** Lines that are not I, least recently used first. */
  readonly lines: Map<number, FarLine>;
  /** Accesses that have not begun, in order of arrival. */
  readonly waiting: Access[];
  /** The access that a line's request is for: one for each line. */
  readonly active: Map<number, Access>;
  readonly placements: Map<number, Placement>;
  /** Accesses of each region since the last report of its counts (decision 17). */
  readonly counts: Map<number, AccessCounts>;
  /** Duration of a sum of counts, in ps, and time of its report. */
  readonly window: Time;
  windowEnds: Time;
  life: number;
  /** Home's card's life, from its `Welcome`; 0 before. */
  homeLife: number;
  /** False after the lease is over, until home has welcomed the card's next life. */
  isUp: boolean;
  /** The time of this step, in ps: the caller sets it before it calls a function of the card. */
  now: Time;
  /** Null without times: the local cache, and explorations, where a lease's end is an event. */
  readonly lease: FarLease | null;
}

/**
 * A card that holds nothing and has not greeted home: {@link fence} sends its first `Hello`, whose
 * life is `life` + 1.
 * @param life at least the highest life of the card's earlier starts: those lives are over, too.
 */
export function newFarCard(
  { lease, life = 0, window = NEVER, ...given }:
    & Pick<FarCard, "agent" | "table" | "contents" | "size" | "regionOf">
    & { readonly lease?: LeaseTimes; readonly life?: number; readonly window?: Time },
): FarCard {
  return {
    ...given,
    lines: new Map(),
    waiting: [],
    active: new Map(),
    placements: new Map(),
    counts: new Map(),
    window,
    windowEnds: NEVER,
    life,
    homeLife: 0,
    isUp: false,
    now: 0,
    lease: lease === undefined ? null : newFarLease(lease),
  };
}

const NOT_HERE: FarLine = { state: "I", data: undefined };
/** States of a line for which no message is under way. */
export const STABLE: ReadonlySet<FarState> = new Set(["I", "S", "E", "M"]);
const FIRST_PLACEMENT: Placement = { place: "remote", version: 0 };

export function farLine(card: FarCard, line: number): FarLine {
  return card.lines.get(line) ?? NOT_HERE;
}

export function farPlacement(card: FarCard, line: number): Placement {
  return card.placements.get(card.regionOf(line)) ?? FIRST_PLACEMENT;
}

/** True if the card holds or requests anything: only then it needs its lease. */
function needsLease({ lines, active, waiting }: FarCard): boolean {
  return lines.size + active.size + waiting.length > 0;
}

/** An access of one of the card's cores (C-07), or of a verb at home's local cache. */
export function farAccess(card: FarCard, access: Access, out: Output): void {
  expire(card, out);
  const { lease, now } = card;
  if (lease !== null) lease.idleRenewals = 0;
  if (lease !== null && !needsLease(card)) {
    if (card.isUp) beginLease(lease, now);
    else if (now >= lease.until) greet(card, out);
  }
  card.waiting.push(access);
  begin(card, out);
}

/**
 * True if a line may be evicted now: it is stable, no access uses it, and there is a buffer for it.
 */
export function canEvict(card: FarCard, line: number): boolean {
  const { state } = farLine(card, line);
  if (card.active.has(line)) return false;
  return state === "S" || ((state === "E" || state === "M") && hasBuffer(card));
}

/** Frees a line's place: silently from S, by a write-back from E and M. */
export function evict(card: FarCard, line: number, out: Output): void {
  turn(card, { line, event: "evict" }, out);
  begin(card, out);
}

/**
 * Takes back an access that has had no effect: one that waits, or whose request home has not begun
 * to serve. The caller lets accesses that wait for its place {@link begin}.
 * @returns whether the request has to be withdrawn.
 */
export function giveBack(card: FarCard, access: Access): { readonly wasAsked: boolean } {
  const { line } = access;
  const index = card.waiting.indexOf(access);
  if (index >= 0) {
    card.waiting.splice(index, 1);
    return { wasAsked: false };
  }
  card.active.delete(line);
  turn(card, { line, event: "Retry" }, newOutput());
  return { wasAsked: true };
}

/** A message of home's card. A message of another life changes nothing (decision 14). */
export function farReceive(card: FarCard, message: WireMessage, out: Output): void {
  const { line, kind, placement, region, stamp } = message;
  expire(card, out);
  if (message.life !== card.life) return;
  if (kind === "Welcome") {
    // A card that is up has its welcome: this one is late, or of a later life of home's card.
    if (card.isUp) return;
    card.isUp = true;
    card.homeLife = message.homeLife;
  } else if (message.homeLife !== card.homeLife) {
    return;
  }
  if (card.lease !== null && stamp !== undefined) renewedBy(card.lease, stamp);
  if (placement !== undefined && region !== undefined) card.placements.set(region, placement);
  switch (kind) {
    case "Welcome":
    case "Renewed":
      break;
    case "FlushAck":
    case "Value":
      answer(card, { line, data: message.data }, out);
      break;
    case "Retry":
      if (!STABLE.has(farLine(card, line).state)) turn(card, { line, event: "Retry" }, out);
      askAgain(card, line);
      break;
    default:
      turn(card, { line, event: kind as FarEvent, data: message.data }, out);
      resume(card, line, out);
  }
  begin(card, out);
  if (card.lease !== null && isIdle(card.lease)) giveBackAll(card, out);
}

/**
 * Evicts all lines that can be evicted now: they are long unused, and their lease costs messages.
 */
function giveBackAll(card: FarCard, out: Output): void {
  for (const line of [...card.lines.keys()]) if (canEvict(card, line)) evict(card, line, out);
}

/**
 * The lease is over (decision 13), or home is dead (14): the card stops serving, drops all, and
 * reports lines whose last value it alone had. It asks home for its next life.
 */
export function fence(card: FarCard, out: Output): void {
  for (const line of [...card.lines.keys()].sort((a, b) => a - b)) {
    if (turn(card, { line, event: "fence" }, out).loses) out.lost.push(line);
  }
  for (const access of [...card.active.values(), ...card.waiting.splice(0)]) {
    out.answers.push({ access, result: "fenced" });
  }
  card.active.clear();
  greet(card, out);
}

/**
 * Begins a life, and asks home for it. Each `Hello` has a life of its own, as an earlier one may
 * still arrive.
 */
function greet(card: FarCard, out: Output): void {
  card.isUp = false;
  card.life++;
  card.homeLife = 0;
  if (card.lease !== null) beginLease(card.lease, card.now);
  out.wire.push(messageOf(card, 0, "Hello"));
}

/**
 * Decision 13: "stops serving at L". Accesses that wait for a missing `Welcome` end with it, so
 * each access is answered within two leases.
 */
function expire(card: FarCard, out: Output): void {
  if (card.now >= expiresAt(card)) fence(card, out);
}

/** When the card has to stop; NEVER while it has nothing to lose. */
export function expiresAt(card: FarCard): Time {
  return card.lease !== null && needsLease(card) ? card.lease.until : NEVER;
}

/** A message to home's card, with a stamp if one is due. */
function messageOf(
  card: FarCard,
  line: number,
  kind: WireKind,
): { -readonly [Field in keyof WireMessage]: WireMessage[Field] } {
  const { agent, life, homeLife, lease, now } = card;
  const stamp = lease === null ? undefined : rideAt(lease, now);
  const message = { kind, line, agent, life, homeLife };
  return stamp === undefined ? message : { ...message, stamp };
}

function turn(
  card: FarCard,
  { line, event, data }: { line: number; event: FarEvent; data?: Data | undefined },
  out: Output,
): FarRow {
  const before = farLine(card, line);
  const { agent } = card;
  const row = rowOf(card.table, { state: before.state, event, who: "card", agent, line });
  const content = data ?? before.data;
  if (row.send !== undefined) {
    const message = messageOf(card, line, row.send);
    if (FORMS[row.send].data === "line") message.data = content;
    if (row.send === "GetS" || row.send === "GetM") message.placement = farPlacement(card, line);
    out.wire.push(message);
  }
  if (row.next !== before.state) {
    out.changed.push(line);
    out.states.push({ line, state: row.next });
  }
  if (row.next === "I") card.lines.delete(line);
  else card.lines.set(line, { state: row.next, data: content });
  return row;
}

/**
 * Begins accesses in order: an access waits for earlier ones on its line, and one that needs a
 * place for earlier ones that wait for one. Else accesses that need less could take each place that
 * becomes free.
 */
export function begin(card: FarCard, out: Output): void {
  if (!card.isUp || card.waiting.length === 0) return;
  const held = new Set<number>();
  let isFull = false;
  for (const access of [...card.waiting]) {
    const { line } = access;
    const isFree = !held.has(line) && !card.active.has(line) &&
      STABLE.has(farLine(card, line).state);
    const hasBegun: boolean = isFree && attempt(card, { access, isFull }, out);
    if (hasBegun) card.waiting.splice(card.waiting.indexOf(access), 1);
    else held.add(line);
    isFull ||= isFree && !hasBegun;
  }
}

/**
 * @param isFull an earlier access waits for a place.
 * @returns false if the access has to wait for a place.
 */
function attempt(
  card: FarCard,
  { access, isFull }: { readonly access: Access; readonly isFull: boolean },
  out: Output,
): boolean {
  const { line, kind } = access;
  const { state } = farLine(card, line);
  const isRange = kind === "flush" && (access.lines ?? 1) > 1;
  const isHit = kind === "flush"
    ? state === "E" && !isRange
    : state === "E" || state === "M" || (kind === "load" && state === "S");
  if (isHit) {
    count(card, access, true);
    serve(card, access, out);
    return true;
  }
  const isHome = kind === "flush" || farPlacement(card, line).place === "local";
  const needsPlace = !isHome && state === "I", needsBuffer = access.passes === true;
  if (isFull && (needsPlace || needsBuffer)) return false;
  if (needsPlace && !makeRoom(card, out)) return false;
  if (needsBuffer && !hasBuffer(card)) return false;
  card.active.set(line, access);
  count(card, access, false);
  if (!isHome) turn(card, { line, event: kind === "load" ? "load" : "store" }, out);
  else askHome(card, access, out);
  return true;
}

/**
 * Counts an access for home's judge (decision 17). An access repeated after a move counts again.
 */
function count(card: FarCard, { kind, line }: Access, isHit: boolean): void {
  if (card.window === NEVER || kind === "flush") return;
  if (card.windowEnds === NEVER) card.windowEnds = card.now + card.window;
  const region = card.regionOf(line);
  const { loads, stores, hits } = card.counts.get(region) ?? { loads: 0, stores: 0, hits: 0 };
  const isStore = kind === "store";
  card.counts.set(region, {
    loads: loads + (isStore ? 0 : 1),
    stores: stores + (isStore ? 1 : 0),
    hits: hits + (isHit ? 1 : 0),
  });
}

function askHome(card: FarCard, { kind, line, lines = 1, change }: Access, out: Output): void {
  if (kind === "flush") {
    const message = messageOf(card, line, lines > 1 ? "FlushRange" : "Flush");
    out.wire.push(lines > 1 ? { ...message, lines } : message);
    return;
  }
  // A copy from before the move: home recalls it, or the card drops it here.
  if (farLine(card, line).state === "S") turn(card, { line, event: "evict" }, out);
  const message = messageOf(card, line, kind === "store" ? "Write" : "Read");
  out.wire.push({ ...message, placement: farPlacement(card, line), change });
}

/**
 * Makes a place for a line before its request: the buffer comes before the miss goes out (decision
 * 9).
 */
function makeRoom(card: FarCard, out: Output): boolean {
  const { lines, size } = card;
  if (lines.size < size.lines || lines.size - writeBacksOf(card) < size.lines) return true;
  for (const line of card.lines.keys()) {
    if (!canEvict(card, line)) continue;
    turn(card, { line, event: "evict" }, out);
    return true;
  }
  return false;
}

function writeBacksOf(card: FarCard): number {
  let count = 0;
  for (const { state } of card.lines.values()) if (state === "MI" || state === "II") count++;
  return count;
}

/**
 * True if a line can be written back: accesses that leave nothing behind have reserved a buffer.
 */
function hasBuffer(card: FarCard): boolean {
  let count = writeBacksOf(card);
  for (const { passes } of card.active.values()) if (passes) count++;
  return count < card.size.writeBacks;
}

/** A grant's access is done before any other event of the line. */
function resume(card: FarCard, line: number, out: Output): void {
  const access = card.active.get(line);
  const { state } = farLine(card, line);
  const serves = access?.kind === "load" ? state !== "I" : state === "E" || state === "M";
  if (access === undefined || access.kind === "flush" || !STABLE.has(state) || !serves) return;
  card.active.delete(line);
  serve(card, access, out);
  if (access.passes) turn(card, { line, event: "evict" }, out);
}

function serve(card: FarCard, access: Access, out: Output): void {
  const { line, kind, change } = access;
  const { data } = farLine(card, line);
  if (kind === "flush") {
    // "Unless the line is E and unwritten": the granted content came from memory (decisions 11,
    // 12).
    out.answers.push({ access, result: data === LOST ? "lost" : "done" });
    return;
  }
  const changed = kind === "store" && data !== undefined ? card.contents.apply(data, change) : data;
  if (kind === "store" && changed === null) {
    out.answers.push({ access, result: "lost" });
    return;
  }
  turn(card, { line, event: kind === "store" ? "store" : "load" }, out);
  const used: FarLine = { state: farLine(card, line).state, data: changed ?? data };
  card.lines.delete(line);
  card.lines.set(line, used);
  out.answers.push({ access, result: kind !== "store" && data === LOST ? "lost" : "done", data });
}

function answer(
  card: FarCard,
  { line, data }: { line: number; data: Data | undefined },
  out: Output,
): void {
  const access = card.active.get(line);
  if (access === undefined) return;
  card.active.delete(line);
  const result: Answer["result"] = data === LOST ? "lost" : "done";
  out.answers.push({ access, result, data });
}

/** The placement has moved (decision 18): the access begins anew, ahead of later ones. */
function askAgain(card: FarCard, line: number): void {
  const access = card.active.get(line);
  if (access === undefined) return;
  card.active.delete(line);
  card.waiting.unshift(access);
}

// ── in its time: renewals of its lease (decision 13), its end, reports of counts (17) ─────────────

/** When {@link farWake} has work; NEVER for a card that holds nothing and has nothing to report. */
export function farNextAt(card: FarCard): Time {
  return Math.min(expiresAt(card), ownRenewalAt(card), card.windowEnds);
}

/** Does the work due at the card's time. */
export function farWake(card: FarCard, out: Output): void {
  expire(card, out);
  if (card.now >= card.windowEnds) reportCounts(card, out);
  if (card.lease !== null && card.now >= ownRenewalAt(card)) {
    card.lease.renewedAt = card.lease.stampedAt = card.now;
    const { now: stamp } = card;
    out.wire.push({ ...messageOf(card, 0, "Renew"), stamp });
    card.lease.idleRenewals++;
    if (isIdle(card.lease)) giveBackAll(card, out);
  }
}

function ownRenewalAt(card: FarCard): Time {
  return card.lease !== null && card.isUp && needsLease(card) ? renewAt(card.lease) : NEVER;
}

/**
 * Sends the counts of a window to home, whose core judges them; a card that is down reports none.
 */
function reportCounts(card: FarCard, out: Output): void {
  card.windowEnds = NEVER;
  for (const [region, counts] of card.counts) {
    if (card.isUp) out.wire.push({ ...messageOf(card, 0, "Counts"), region, counts });
  }
  card.counts.clear();
}
