/**
 * The responder's side (H-20, H-21): takes a hint apart, and fetches what its requests will need and is absent;
 * `answer_hint.ts` answers. A hint decides nothing else (H-24): requests are checked in full when they come. An
 * element whose key, rights or range open nothing, as of a missing region, fetches no memory and is answered
 * `no-access` (`takeEntry`).
 */
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_KINDS,
  type HintOperation,
  type HintReason,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { remoteRegion } from "../dma/memory_region.ts";
import { askForPages } from "../paging/page_requests.ts";
import { fetchLine, holdsLine, isComing } from "../paging/translation_cache.ts";
import type { Device } from "../state/device.ts";
import { accountOf, chargeKey, contextKey, release } from "./charges.ts";
import { asksAgain, beginAction } from "./work.ts";
import { announceOperands, forgetWord, wordKey, WORDS_MAX } from "./words.ts";
import type { Charge, HintElement, Hints, Scope, Word } from "./state/hint_state.ts";
import { type Lead, noteLead } from "./state/leads.ts";
import { hintingPeer, isNeedless, NEEDLESS_HINTS, noteHint, scopeOfQueuePair } from "./needless.ts";
import type { MemorySegment, Region } from "../state/memory.ts";
import { addressOfWord, beginPreload } from "./preload.ts";
import { endReceives, lookAtReceives, setAside } from "./receives.ts";
import type { MemoryWait, WantedPage } from "../state/paging_state.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import { rights } from "../state/life_cycle.ts";
import { missingContext, warmContext } from "../queues/context.ts";
import { isVerdict, type RecvWqe } from "../state/responder_state.ts";
import { ENTRIES_PER_LINE } from "../state/translation_table.ts";
import { takesPart } from "./agree.ts";
import { answer, isDone } from "./answer_hint.ts";
import {
  traceDecided,
  traceDecision,
  traceReceiveAhead,
  traceTranslationDecision,
} from "./trace.ts";
import { scopeOf } from "./back_off.ts";
import type { Sender } from "./send_hint.ts";

/** H-22: answers that one requester may wait for at a time; beyond, it is refused. */
const PREPARING_MAX = 64;
const NO_KEY = 0;
/** Hints with keys that open nothing, after which the card ignores a queue pair's peer. */
const REFUSED_KEYS_MAX = 8;

/** ACCESS bits that an operation's request will need, and rights of its pages (H-21). */
const NEEDS: Readonly<Record<HintOperation, { readonly need: number; readonly rights: 1 | 2 }>> = {
  "read": { need: ACCESS.remoteRead, rights: 1 },
  "write": { need: ACCESS.remoteWrite, rights: 2 },
  "fetch-add": { need: ACCESS.remoteAtomic, rights: 2 },
  "compare-swap": { need: ACCESS.remoteAtomic, rights: 2 },
  "send": { need: 0, rights: 2 },
};

interface Task extends Sender {
  readonly requester: number;
  readonly wanted: WantedPage[];
  /** Charges of this hint. */
  readonly fresh: Set<Charge>;
  readonly lines: MemoryWait;
}

interface Element extends Task {
  readonly target: QueuePair;
  readonly entry: HintEntry;
  readonly position: number;
  readonly lead: Lead;
  /** WRITEs of the group in front of it (H-23). */
  readonly writes: readonly HintEntry[];
}

/** The findings and actions for an element, or by one action for it. */
interface Finding {
  readonly pages: readonly WantedPage[];
  /** The first reason why nothing, or not all, was done (H-22). */
  readonly reason: HintReason;
  /** An atomic's word, which is read ahead. */
  readonly word?: Word | undefined;
  readonly receiver?: QueuePair | undefined;
  /** H-20: something was absent. */
  readonly isNeeded: boolean;
  readonly isRead: boolean;
  /** Its scope, with its region's own key; undefined before its key check has passed. */
  readonly about?: { readonly scope: Scope; readonly region: number | undefined };
}

const NOTHING: Finding = { pages: [], reason: "none", isNeeded: false, isRead: false };
/** Was absent, and is read now. */
const READ: Finding = { ...NOTHING, isNeeded: true, isRead: true };

function refused(reason: HintReason): Finding {
  return { ...NOTHING, reason };
}

/** Was absent, and may not be fetched. */
const OVER_QUOTA: Finding = { ...refused("quota"), isNeeded: true };

function together(findings: readonly Finding[]): Finding {
  return {
    pages: findings.flatMap(({ pages }) => pages),
    reason: findings.find(({ reason }) => reason !== "none")?.reason ?? "none",
    word: findings.find(({ word }) => word !== undefined)?.word,
    receiver: findings.find(({ receiver }) => receiver !== undefined)?.receiver,
    isNeeded: findings.some(({ isNeeded }) => isNeeded),
    isRead: findings.some(({ isRead }) => isRead),
  };
}

/** Takes the announcement of a queue pair's peer. */
export function takeAnnouncement(
  device: Device,
  sender: Sender,
  { message, requester }: { readonly message: HintMessage; readonly requester: number },
): void {
  const { hints, qp, end } = sender;
  hints.counters.hintsIn++;
  // A peer whose keys opened nothing so often is guessing: it learns nothing more, not even by time.
  if (end.refusedKeys >= REFUSED_KEYS_MAX) return;
  forgetOld(device, hints);
  const task = newTask(device, sender, requester);
  const elements: HintElement[] = [];
  let isNews = false;
  for (const group of message.groups) {
    const found = takeGroup(device, task, { group, position: elements.length });
    elements.push(...found.elements);
    isNews ||= found.isNews;
  }
  askForWanted(device, task);
  const { lines } = task;
  const { sequence } = message;
  // Now and then, even a peer that does not ask is told that its hints are needless.
  const isAsked = message.answer;
  if (!isAsked && !isNews) return;
  const preparation = {
    qp,
    life: qp.life,
    requester,
    sequence,
    elements,
    lines,
    isAsked,
    isOverfull: false,
  };
  const waiting = hints.preparing.filter((each) => each.requester === requester).length;
  if (isDone(device, hints, preparation)) return answer(device, hints, preparation);
  if (waiting < PREPARING_MAX) hints.preparing.push(preparation);
  else answer(device, hints, { ...preparation, isOverfull: true });
}

/**
 * H-07: the hint of a READ or WRITE of no bytes. Its range is rounded up: the part of its region counts.
 * @param answer whether the peer asks to be told.
 */
export function hintOfRange(
  device: Device,
  { qp }: Sender,
  { range, answer }: { readonly range: HintEntry; readonly answer: boolean },
): HintMessage {
  const { rkey: key, va, operation, kinds, sequence } = range;
  const { need } = NEEDS[operation];
  const region = remoteRegion(device, qp, { key, va, length: 1, need });
  const length = isVerdict(region)
    ? range.length
    : Math.min(range.length, region.va + region.length - Number(va));
  const ends = { sourceQpn: qp.attributes.destQpn, destQpn: qp.qpn };
  const groups = [{ ...ends, entries: [{ ...range, length }] }];
  return { type: "announce", kinds, reason: "none", sequence, answer, groups };
}

function newTask({ now }: Device, { hints, qp, end }: Sender, requester: number): Task {
  const lines: MemoryWait = {
    kind: "request",
    qp,
    life: qp.life,
    since: now,
    missing: 0,
    pages: [],
  };
  return { hints, qp, end, requester, wanted: [], fresh: new Set(), lines };
}

/** @returns its elements' findings; whether one more row of hints has been needless for something. */
function takeGroup(
  device: Device,
  task: Task,
  { group, position: first }: { readonly group: HintGroup; readonly position: number },
): { readonly elements: readonly HintElement[]; readonly isNews: boolean } {
  const { destQpn, sourceQpn, entries } = group;
  const target = targetOf(device, task, group);
  if (target === undefined) task.hints.counters.hintsUnknownQp++;
  const ends = { destQpn, sourceQpn };
  const learnt = new Map<Scope, { isNeeded: boolean; region: number | undefined }>();
  const writes: HintEntry[] = [];
  const elements = entries.map((entry, place): HintElement => {
    // Without a queue pair there is no key check, so the answer is the same as without a key. Nor may one message
    // try many keys: a page that comes for the right one would delay the answer to all.
    const isHeard = target !== undefined && task.end.refusedKeys < REFUSED_KEYS_MAX;
    const lead = { at: device.now, counted: undefined };
    const found = isHeard
      ? takeEntry(device, { ...task, target, entry, position: first + place, lead, writes })
      : refused("no-access");
    if (entry.operation === "write") writes.push(entry);
    if (device.out.tracing) traceDecided(device, { qp: target ?? task.qp, entry }, found);
    const { pages, reason, word, receiver, isNeeded, about } = found;
    if (about !== undefined) {
      const known = learnt.get(about.scope);
      if (known === undefined) learnt.set(about.scope, { isNeeded, region: about.region });
      else known.isNeeded ||= isNeeded;
    }
    return { ends, entry, pages, reason, word, receiver, scope: about?.scope };
  });
  return { elements, isNews: target !== undefined && learn(task, learnt) };
}

/**
 * H-02: learns from the elements of a queue pair whether hints were needed.
 * @returns whether one more row of hints has been needless for something.
 */
function learn(
  { hints, requester }: Task,
  learnt: ReadonlyMap<Scope, { readonly isNeeded: boolean; readonly region: number | undefined }>,
): boolean {
  if (learnt.size === 0) return false;
  const peer = hintingPeer(hints, requester);
  const isNeeded = [...learnt.values()].some((each) => each.isNeeded);
  peer.needless = isNeeded ? 0 : peer.needless + 1;
  if (!isNeeded) hints.counters.hintsNeedless++;
  let isNews = false;
  for (const [scope, its] of learnt) {
    const known = noteHint(hints, peer, { scope, ...its });
    const isNew = known.needless === 1 && isNeedless(peer, known);
    if (isNew || (known.needless > 0 && known.needless % NEEDLESS_HINTS === 0)) isNews = true;
  }
  return isNews;
}

/**
 * The queue pair of a group: the one that carries its own hints (figure 7), or, where both ends are carriers
 * (figure 8), one that is connected with a queue pair of the same peer.
 */
function targetOf(
  device: Device,
  { hints, qp, requester }: Task,
  { destQpn, sourceQpn }: HintGroup,
): QueuePair | undefined {
  const target = destQpn === qp.qpn || qp.hints !== "carrier" ? qp : device.queuePairs.get(destQpn);
  if (target === undefined || target.qpn !== destQpn || !takesPart(hints, target)) return undefined;
  const isTheirs = target.path.address === requester && target.attributes.destQpn === sourceQpn;
  return isTheirs && rights(target.state).takesRequests ? target : undefined;
}

/** H-20: does only what is needed, and what the element may ask for. */
function takeEntry(device: Device, element: Element): Finding {
  const { hints, end, target, entry, requester } = element;
  const { plan, counters } = hints;
  const isUntagged = entry.operation === "send";
  const kinds = entry.kinds & plan.kinds & (isUntagged ? FOR_UNTAGGED : FOR_TAGGED);
  const found: Finding[] = [];
  if ((kinds & HINT_KINDS.warmUp) !== 0) found.push(warmQueuePair(device, element));
  if ((kinds & HINT_KINDS.receive) !== 0) found.push(takeCount(device, element));
  // Objects are a region's, and found by its key (H-03): an untagged message has none, whatever its peer names.
  if (isUntagged) counters.hintObjectsUnknown += entry.objects.length;
  if (isUntagged && kinds !== 0) {
    const scope = scopeOfQueuePair(target.qpn);
    return { ...together(found), about: { scope, region: undefined } };
  }
  if (kinds === 0) {
    counters.hintsNotWanted++;
    return refused("not-wanted");
  }
  const { need, rights } = NEEDS[entry.operation];
  const { rkey: key, va, length } = entry;
  const region = length === 0 || !permits(target, need)
    ? undefined
    : remoteRegion(device, target, { key, va, length, need });
  if (region === undefined || isVerdict(region)) {
    counters.hintsNoAccess++;
    // A tuple without length, or without key, is no guess: the card looks up one key at most.
    if (length > 0 && key !== NO_KEY) end.refusedKeys++;
    return together([...found, refused("no-access")]);
  }
  const spans = [spanOf(region, Number(va), length), ...objectSpans(element, region, entry)];
  for (const span of spans) {
    if ((kinds & HINT_KINDS.prefetch) !== 0) {
      found.push(prefetch(device, element, { span, rights }));
    }
    if ((kinds & HINT_KINDS.warmUp) !== 0) found.push(warmUp(device, element, span));
  }
  if (need === ACCESS.remoteAtomic && (kinds & HINT_KINDS.atomic) !== 0) {
    found.push(takeAtomic(device, element, region));
  }
  const scope = scopeOf(hints, { qpn: target.qpn, address: requester, rkey: key });
  return {
    ...together(found),
    about: { scope, region: scope < 0 ? undefined : region.table.key },
  };
}

/**
 * H-03: the places of the objects that the element covers, or of their parts, as far as its key's region has them:
 * only a peer that may access all of the region may name them. A memory window opens a part, and has none.
 */
function objectSpans(
  { hints: { counters } }: Task,
  region: Region,
  { objects, parts = [] }: HintEntry,
): Span[] {
  const known = region.window === undefined ? region.objects ?? [] : [];
  return objects.flatMap((identity, i) => {
    const nameHigh = Number(identity >> 32n), nameLow = Number(identity & 0xffff_ffffn);
    const found = known.find((each) => each.nameHigh === nameHigh && each.nameLow === nameLow);
    if (found === undefined) {
      counters.hintObjectsUnknown++;
      return [];
    }
    counters.hintObjectsPrepared++;
    const { offset, length } = parts[i] ?? { offset: 0, length: found.length };
    const within = Math.min(length, found.length - offset);
    return within > 0 ? [spanOf(region, found.va + offset, within)] : [];
  });
}

const FOR_TAGGED = HINT_KINDS.prefetch | HINT_KINDS.warmUp | HINT_KINDS.atomic;
const FOR_UNTAGGED = HINT_KINDS.receive | HINT_KINDS.warmUp;

/** H-21: has the word of an atomic read; one that has come, or is coming, stays for this one too. */
function takeAtomic(device: Device, element: Element, region: Region): Finding {
  const { hints, target, entry } = element;
  const address = addressOfWord(device, region, Number(entry.va));
  if (address === undefined) return NOTHING;
  const known = hints.words.get(address);
  const word = known ?? readAhead(device, element, address);
  if (word === undefined) return OVER_QUOTA;
  word.uses++;
  announceOperands(hints, word, { qp: target, psn: entry.sequence, operands: entry.operands });
  return { ...NOTHING, word, isNeeded: true, isRead: known === undefined };
}

/** @returns undefined where the chip may hold no further word. */
function readAhead(device: Device, element: Element, address: number): Word | undefined {
  const { hints, target, entry, writes } = element;
  if (hints.words.size >= WORDS_MAX) {
    hints.counters.hintsOverQuota++;
    return undefined;
  }
  const key = wordKey(address);
  if (!charge(device, element, { kind: "word", key })) return undefined;
  if (device.out.tracing) {
    traceDecision(device, { qp: target, entry }, { text: "its word is read ahead" });
  }
  return beginPreload(device, hints, {
    address,
    charge: hints.charges.get(key)!,
    qp: target,
    psn: entry.sequence,
    isBehind: writes.some((write) => overlaps(write, entry)),
  });
}

function overlaps(write: HintEntry, { rkey, va, length }: HintEntry): boolean {
  return write.rkey === rkey && write.va < va + BigInt(length) &&
    va < write.va + BigInt(write.length);
}

/** H-21: receives for the count of untagged messages. */
function takeCount(device: Device, element: Element): Finding {
  const { hints, requester, position, target, entry: { messages } } = element;
  const found = { ...NOTHING, receiver: target };
  const known = hints.receiving.get(target);
  const before = known?.life === target.life ? known.wanted : 0;
  const ahead = setAside(hints, target, { messages, requester, position });
  // H-24: where as many are wanted as may be, one more hint is no more work.
  if (ahead.wanted === before) return found;
  const readyAt = beginAction(device, hints, { piece: "receive", item: { kind: "receive" } });
  if (readyAt !== undefined) ahead.readyAt = readyAt;
  serveReceivers(device, hints);
  return found;
}

/** Looks at receives that are set aside. Called in every step, while there are any. */
export function serveReceivers(device: Device, hints: Hints): void {
  for (const [qp, ahead] of hints.receiving) {
    const end = hints.ends.get(qp);
    if (ahead.life !== qp.life || end === undefined) {
      endReceives(hints, qp, ahead);
      continue;
    }
    if (ahead.wanted === 0 || ahead.readyAt > device.now) continue;
    const { requester, position } = ahead;
    const task = newTask(device, { hints, qp, end }, requester);
    const by = { ...task, position, lead: { at: device.now, counted: undefined } };
    const all: Finding[] = [];
    const bringIn = (recv: RecvWqe, segments: readonly MemorySegment[]) => {
      const found = together(
        segments.flatMap(({ region, va, length }) =>
          region.isNull
            ? []
            : [prefetch(device, by, { span: spanOf(region, va, length), rights: 2 })]
        ),
      );
      if (device.out.tracing) traceReceiveAhead(device, qp, { recv, pages: found.pages });
      ahead.pages.push(...found.pages);
      all.push(found);
    };
    lookAtReceives(device, hints, { qp, ahead, bringIn });
    askForWanted(device, task);
    const { isNeeded, reason } = together(all);
    if (isNeeded) noteNeed(task, qp);
    if (reason !== "none") ahead.reason = reason;
  }
}

/** Memory of a receive was absent for the count of untagged messages. */
function noteNeed({ hints, requester }: Task, { qpn }: QueuePair): void {
  const peer = hintingPeer(hints, requester);
  peer.needless = 0;
  noteHint(hints, peer, { scope: scopeOfQueuePair(qpn), region: undefined, isNeeded: true });
}

function spanOf(region: Region, va: number, length: number): Span {
  const from = va - region.pageBase;
  const { pageBytes } = region;
  const last = Math.floor((from + length - 1) / pageBytes);
  return { region, first: Math.floor(from / pageBytes), last };
}

interface Span {
  readonly region: Region;
  readonly first: number;
  readonly last: number;
}

/** Asks for absent pages, with the rights that the operation needs, as far as the quota goes. */
function prefetch(
  device: Device,
  by: Task & Pick<Element, "position" | "lead">,
  { span: { region: { table }, first, last }, rights }: {
    readonly span: Span;
    readonly rights: 1 | 2;
  },
): Finding {
  const { demand } = table;
  if (demand === undefined) return NOTHING;
  const { hints, wanted } = by;
  const pages: WantedPage[] = [];
  let isNeeded = false;
  for (let page = first; page <= last; page++) {
    const { rights: has, asked } = demand[page]!;
    if (has >= rights) {
      hints.counters.hintPagesThere++;
      continue;
    }
    isNeeded = true;
    const each = { table, page, rights };
    const key = chargeKey(table, "page", page);
    if (asked < rights) {
      if (!charge(device, by, { kind: "page", key })) return { ...OVER_QUOTA, pages };
      wanted.push(each);
      // A core has asked already for the pages of an earlier hint.
    } else if (asksAgain(hints) && !hints.charges.has(key)) wanted.push(each);
    pages.push(each);
  }
  return { ...NOTHING, pages, isNeeded };
}

/** H-21: page requests for all elements at once; contiguous pages are one. */
function askForWanted(device: Device, { hints, wanted, requester }: Task): void {
  const before = device.paging.counters.pageFaults;
  for (let at = 0; at < wanted.length;) {
    const { rights } = wanted[at]!;
    let end = at + 1;
    while (wanted[end]?.rights === rights) end++;
    askForPages(device, wanted.slice(at, end), { hintsOf: requester, byCore: asksAgain(hints) });
    at = end;
  }
  hints.counters.hintPageRequests += device.paging.counters.pageFaults - before;
}

/** H-21: has the context read that the queue pair's requests will need, where it is not on the chip. */
function warmQueuePair(device: Device, element: Element): Finding {
  const { hints, target, entry, fresh } = element;
  const queue = missingContext(device, target);
  if (queue === undefined) return NOTHING;
  const key = contextKey(queue), known = hints.charges.get(key);
  // An earlier element of this hint has had it read; units with a latency have not answered yet.
  if (known !== undefined && fresh.has(known)) return READ;
  if (!charge(device, element, { kind: "context", key })) return OVER_QUOTA;
  hints.counters.hintContextsFetched++;
  if (device.out.tracing) {
    const text = `the context of QP ${target.qpn} is read`;
    traceDecision(device, { qp: target, entry }, { text, queue });
  }
  const item = { kind: "context", qp: target, life: target.life, queue } as const;
  if (beginAction(device, hints, { piece: "context", item }) === undefined) {
    warmContext(device, target, queue);
  }
  return READ;
}

function warmUp(
  device: Device,
  element: Element,
  { region: { table }, first, last }: Span,
): Finding {
  const { paging } = device;
  if (paging.cached.size >= paging.lines) return NOTHING;
  const { hints, target, entry, lines } = element;
  const end = Math.floor(last / ENTRIES_PER_LINE);
  let found = NOTHING;
  for (let line = Math.floor(first / ENTRIES_PER_LINE); line <= end; line++) {
    if (holdsLine(paging, table, line)) continue;
    if (!isComing(paging, table, line)) {
      if (!charge(device, element, { kind: "line", key: chargeKey(table, "line", line) })) {
        return { ...OVER_QUOTA, isRead: found.isRead };
      }
      hints.counters.hintLinesFetched++;
    }
    found = READ;
    if (device.out.tracing) {
      traceTranslationDecision(device, { qp: target, entry }, { table, line });
    }
    fetchLine(device, { table, line }, lines);
  }
  return found;
}

/** H-24: counts a page or line against its requester's quota. @returns whether it may be fetched. */
function charge(
  device: Device,
  by: Task & Pick<Element, "position" | "lead">,
  { kind, key }: Pick<Charge, "kind" | "key">,
): boolean {
  const { hints, requester, position, lead, fresh } = by;
  const { charges, charged, plan } = hints;
  const known = charges.get(key);
  // Another element of the same hint wants it, too.
  if (known !== undefined && fresh.has(known)) return true;
  // Wanted again, as the host has taken it back meanwhile.
  if (known !== undefined) waste(device, hints, known);
  const account = accountOf({ kind, requester });
  const count = charged.get(account) ?? 0;
  const most = Math.min(plan.quota, roomFor(device, kind));
  if (count >= most) {
    hints.counters.hintsOverQuota++;
    return false;
  }
  const until = device.now + plan.quotaPs;
  const added: Charge = { key, kind, requester, position, lead, until };
  if (kind === "page") hints.counters.hintPagesAsked++;
  fresh.add(added);
  charges.set(key, added);
  charged.set(account, count + 1);
  hints.byTime.push(added);
  return true;
}

/** Half of the chip's translations or contexts at most: a chip full of one requester's has none for the others. */
function roomFor({ paging, plan }: Device, kind: Charge["kind"]): number {
  if (kind === "page") return Infinity;
  if (kind === "word") return WORDS_MAX >> 1;
  return (kind === "line" ? paging.capacityLines : plan.queueCache.entries) >> 1;
}

function waste({ now }: Device, hints: Hints, charge: Charge): void {
  if (charge.kind === "word") return wasteWord(hints, charge);
  noteLead(hints.leads, charge.lead, "wasted", now);
  release(hints, charge);
  if (charge.kind === "page") hints.counters.hintPagesWasted++;
  else if (charge.kind === "line") hints.counters.hintLinesWasted++;
  else hints.counters.hintContextsWasted++;
}

/** No atomic has come for the word in time. */
function wasteWord(hints: Hints, charge: Charge): void {
  for (const word of hints.words.values()) {
    if (word.charge !== charge) continue;
    if (!word.used) hints.wordCounters.hintWordsWasted++;
    return forgetWord(hints, word);
  }
}

/** Fetches that stay unused for long count against their requester no more. */
function forgetOld(device: Device, hints: Hints): void {
  const { now } = device;
  const { byTime, charges } = hints;
  for (let oldest = byTime.peek(); oldest !== undefined; oldest = byTime.peek()) {
    const isKnown = charges.get(oldest.key) === oldest;
    if (isKnown && oldest.until > now) return;
    byTime.shift();
    if (isKnown) waste(device, hints, oldest);
  }
}
