/**
 * The responder's side (H-20, H-21): takes a hint apart, and has fetched what its requests will need and is not
 * there; `answer_hint.ts` says so. A hint decides nothing else (H-24): requests are checked in full when they come.
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
/** In a tuple without a key. */
const NO_KEY = 0;
/** Hints with keys that open nothing, after which a queue pair's peer is not listened to any more. */
const REFUSED_KEYS_MAX = 8;

/** ACCESS bits that an operation's request will need, and rights of its pages (H-21). */
const NEEDS: Readonly<Record<HintOperation, { readonly need: number; readonly rights: 1 | 2 }>> = {
  "read": { need: ACCESS.remoteRead, rights: 1 },
  "write": { need: ACCESS.remoteWrite, rights: 2 },
  "fetch-add": { need: ACCESS.remoteAtomic, rights: 2 },
  "compare-swap": { need: ACCESS.remoteAtomic, rights: 2 },
  "send": { need: 0, rights: 2 },
};

/** A hint that is being taken apart. */
interface Task extends Sender {
  readonly requester: number;
  /** What the element that is looked at waits for. */
  pages: WantedPage[];
  /** Of these what is to be asked for. */
  readonly wanted: WantedPage[];
  /** What was counted for this hint. */
  readonly fresh: Set<Charge>;
  readonly lines: MemoryWait;
  /** WRITEs of the group that is looked at, in front of its next element (H-23). */
  readonly writes: HintEntry[];
  readonly elements: HintElement[];
  /** Place of the element that is looked at. */
  position: number;
  /** Why nothing, or not all, was done for it: the first that was found (H-22). */
  reason: HintReason;
  /** It is an atomic, whose word is read ahead. */
  word: Word | undefined;
  /** It speaks of receives. */
  receiver: QueuePair | undefined;
  /** Something is read for it at once. */
  isRead: boolean;
  /** Of the element that is looked at, once something is fetched for it. */
  lead: Lead | undefined;
  /** H-20: something was not there for the element that is looked at. */
  isNeeded: boolean;
  /** What it is about, with its region's own key; undefined before its key check has passed. */
  scope: { readonly scope: Scope; readonly region: number | undefined } | undefined;
  /** One more row of hints has been needless for something. */
  isNews: boolean;
}

/** Takes the announcement of a queue pair's peer. */
export function takeAnnouncement(
  device: Device,
  sender: Sender,
  { message, requester }: { readonly message: HintMessage; readonly requester: number },
): void {
  const { hints, qp, end } = sender;
  hints.counters.hintsIn++;
  // One whose keys opened nothing so often is guessing: it learns nothing more, not even by time.
  if (end.refusedKeys >= REFUSED_KEYS_MAX) return;
  forgetOld(device, hints);
  const task = newTask(device, sender, requester);
  for (const group of message.groups) takeGroup(device, task, group);
  askForWanted(device, task);
  const { elements, lines } = task;
  const { sequence } = message;
  // A peer that does not ask is told all the same, now and then, that it announces for nothing.
  const isAsked = message.answer;
  if (!isAsked && !task.isNews) return;
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
 * H-07: a range, rounded up, that a READ or WRITE of no bytes names: of its region the part from there on.
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
  return {
    hints,
    qp,
    end,
    requester,
    pages: [],
    wanted: [],
    fresh: new Set(),
    lines,
    writes: [],
    elements: [],
    position: 0,
    reason: "none",
    word: undefined,
    receiver: undefined,
    isRead: false,
    lead: undefined,
    isNeeded: false,
    scope: undefined,
    isNews: false,
  };
}

function takeGroup(device: Device, task: Task, group: HintGroup): void {
  const { destQpn, sourceQpn, entries } = group;
  const target = targetOf(device, task, group);
  if (target === undefined) task.hints.counters.hintsUnknownQp++;
  task.writes.length = 0;
  const ends = { destQpn, sourceQpn };
  const learnt = new Map<Scope, { isNeeded: boolean; region: number | undefined }>();
  for (const entry of entries) {
    beginElement(task);
    // Without a queue pair there is no key check, so the answer is the same as without a key. Nor may one message
    // try many keys: a page that comes for the right one would delay the answer to all.
    if (target === undefined || task.end.refusedKeys >= REFUSED_KEYS_MAX) refuse(task, "no-access");
    else takeEntry(device, task, { target, entry });
    if (entry.operation === "write") task.writes.push(entry);
    if (device.out.tracing) traceDecided(device, { qp: target ?? task.qp, entry }, task);
    const { pages, reason, word, receiver, isNeeded, scope: about } = task;
    const scope = about?.scope;
    task.elements.push({ ends, entry, pages, reason, word, receiver, scope });
    task.position++;
    if (about === undefined) continue;
    const known = learnt.get(about.scope);
    if (known === undefined) learnt.set(about.scope, { isNeeded, region: about.region });
    else known.isNeeded ||= isNeeded;
  }
  if (target !== undefined) learn(task, learnt);
}

function beginElement(task: Task): void {
  task.pages = [];
  task.reason = "none";
  task.word = undefined;
  task.receiver = undefined;
  task.isRead = false;
  task.lead = undefined;
  task.isNeeded = false;
  task.scope = undefined;
}

/** H-02: what the elements of a queue pair show of hints: whether they were needed. */
function learn(
  task: Task,
  learnt: ReadonlyMap<Scope, { readonly isNeeded: boolean; readonly region: number | undefined }>,
): void {
  const { hints, requester } = task;
  if (learnt.size === 0) return;
  const peer = hintingPeer(hints, requester);
  const isNeeded = [...learnt.values()].some((each) => each.isNeeded);
  peer.needless = isNeeded ? 0 : peer.needless + 1;
  if (!isNeeded) hints.counters.hintsNeedless++;
  for (const [scope, its] of learnt) {
    const known = noteHint(hints, peer, { scope, ...its });
    const isNew = known.needless === 1 && isNeedless(peer, known);
    if (isNew || (known.needless > 0 && known.needless % NEEDLESS_HINTS === 0)) task.isNews = true;
  }
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
function takeEntry(
  device: Device,
  task: Task,
  { target, entry }: { readonly target: QueuePair; readonly entry: HintEntry },
): void {
  const { hints, end } = task;
  const { plan, counters } = hints;
  const isUntagged = entry.operation === "send";
  const kinds = entry.kinds & plan.kinds & (isUntagged ? FOR_UNTAGGED : FOR_TAGGED);
  if ((kinds & HINT_KINDS.warmUp) !== 0) warmQueuePair(device, task, { target, entry });
  if ((kinds & HINT_KINDS.receive) !== 0) takeCount(device, task, { target, entry });
  // Objects are a region's, and found by its key (H-03): an untagged message has none, whatever its peer names.
  if (isUntagged) counters.hintObjectsUnknown += entry.objects.length;
  if (isUntagged && kinds !== 0) {
    task.scope = { scope: scopeOfQueuePair(target.qpn), region: undefined };
    return;
  }
  if (kinds === 0) {
    counters.hintsNotWanted++;
    return refuse(task, "not-wanted");
  }
  const { need, rights } = NEEDS[entry.operation];
  const { rkey: key, va, length } = entry;
  const region = length === 0 || !permits(target, need)
    ? undefined
    : remoteRegion(device, target, { key, va, length, need });
  if (region === undefined || isVerdict(region)) {
    counters.hintsNoAccess++;
    // A tuple without length, or key, is no guess: nothing is looked up, or one key at most.
    if (length > 0 && key !== NO_KEY) end.refusedKeys++;
    return refuse(task, "no-access");
  }
  const scope = scopeOf(hints, { qpn: target.qpn, address: task.requester, rkey: key });
  task.scope = { scope, region: scope < 0 ? undefined : region.table.key };
  const bringIn = (span: Span) => {
    if ((kinds & HINT_KINDS.prefetch) !== 0) prefetch(device, task, { span, rights });
    if ((kinds & HINT_KINDS.warmUp) !== 0) warmUp(device, task, { span, target, entry });
  };
  bringIn(spanOf(region, Number(va), length));
  if (entry.objects.length > 0) objectSpans(task, region, entry).forEach(bringIn);
  const isAtomic = need === ACCESS.remoteAtomic;
  if (isAtomic && (kinds & HINT_KINDS.atomic) !== 0) {
    takeAtomic(device, task, { target, entry, region });
  }
}

/**
 * H-03: the places of the objects that the element covers, or of their parts, as far as its key's region has them:
 * they are named to those alone who may access all of it. A memory window opens a part, and knows none.
 */
function objectSpans(
  { hints: { counters } }: Task,
  region: Region,
  { objects, parts = [] }: HintEntry,
): Span[] {
  if (objects.length === 0) return [];
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

/** H-21: has the word of an atomic read; one that is there, or coming, stays for this one too. */
function takeAtomic(
  device: Device,
  task: Task,
  { target, entry, region }: {
    readonly target: QueuePair;
    readonly entry: HintEntry;
    readonly region: Region;
  },
): void {
  const { hints, writes } = task;
  const address = addressOfWord(device, region, Number(entry.va));
  if (address === undefined) return;
  let word = hints.words.get(address);
  task.isNeeded = true;
  if (word === undefined) {
    if (hints.words.size >= WORDS_MAX) {
      hints.counters.hintsOverQuota++;
      return refuse(task, "quota");
    }
    const key = wordKey(address);
    if (!charge(device, task, { kind: "word", key })) return;
    task.isRead = true;
    if (device.out.tracing) {
      traceDecision(device, { qp: target, entry }, { text: "its word is read ahead" });
    }
    word = beginPreload(device, hints, {
      address,
      charge: hints.charges.get(key)!,
      qp: target,
      psn: entry.sequence,
      isBehind: writes.some((write) => overlaps(write, entry)),
    });
  }
  word.uses++;
  announceOperands(hints, word, { qp: target, psn: entry.sequence, operands: entry.operands });
  task.word = word;
}

function overlaps(write: HintEntry, { rkey, va, length }: HintEntry): boolean {
  return write.rkey === rkey && write.va < va + BigInt(length) &&
    va < write.va + BigInt(write.length);
}

/** H-21: receives for the count of untagged messages. */
function takeCount(
  device: Device,
  task: Task,
  { target, entry }: { readonly target: QueuePair; readonly entry: HintEntry },
): void {
  const { hints, requester, position } = task;
  const { messages } = entry;
  const known = hints.receiving.get(target);
  const before = known?.life === target.life ? known.wanted : 0;
  const ahead = setAside(hints, target, { messages, requester, position });
  task.receiver = target;
  // H-24: where as many are wanted as may be, one more hint is no more work.
  if (ahead.wanted === before) return;
  const readyAt = beginAction(device, hints, { piece: "receive", item: { kind: "receive" } });
  if (readyAt !== undefined) ahead.readyAt = readyAt;
  serveReceivers(device, hints);
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
    const { requester, position, pages } = ahead;
    const task = { ...newTask(device, { hints, qp, end }, requester), position, pages };
    const bringIn = (recv: RecvWqe, segments: readonly MemorySegment[]) => {
      const known = pages.length;
      for (const { region, va, length } of segments) {
        if (region.isNull) continue;
        prefetch(device, task, { span: spanOf(region, va, length), rights: 2 });
      }
      if (device.out.tracing) traceReceiveAhead(device, qp, { recv, pages: pages.slice(known) });
    };
    lookAtReceives(device, hints, { qp, ahead, bringIn });
    askForWanted(device, task);
    if (task.isNeeded) noteNeed(task, qp);
    if (task.reason !== "none") ahead.reason = task.reason;
  }
}

/** Memory of a receive was not there for the count of untagged messages. */
function noteNeed({ hints, requester }: Task, { qpn }: QueuePair): void {
  const peer = hintingPeer(hints, requester);
  peer.needless = 0;
  noteHint(hints, peer, { scope: scopeOfQueuePair(qpn), region: undefined, isNeeded: true });
}

/** Pages of a range. */
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

/** Asks for the pages that are not there, with the rights that the operation needs, as far as the quota goes. */
function prefetch(
  device: Device,
  task: Task,
  { span: { region: { table }, first, last }, rights }: {
    readonly span: Span;
    readonly rights: 1 | 2;
  },
): void {
  const { demand } = table;
  if (demand === undefined) return;
  const { counters } = task.hints;
  for (let page = first; page <= last; page++) {
    const { rights: has, asked } = demand[page]!;
    if (has >= rights) {
      counters.hintPagesThere++;
      continue;
    }
    task.isNeeded = true;
    const each = { table, page, rights };
    const key = chargeKey(table, "page", page);
    if (asked < rights) {
      if (!charge(device, task, { kind: "page", key })) return;
      task.wanted.push(each);
      // What an earlier hint has had asked for, a core has asked for already.
    } else if (asksAgain(task.hints) && !task.hints.charges.has(key)) task.wanted.push(each);
    task.pages.push(each);
  }
}

/** H-21: page requests for all elements at once; what lies together is one. */
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
function warmQueuePair(device: Device, task: Task, { target, entry }: About): void {
  const queue = missingContext(device, target);
  if (queue === undefined) return;
  task.isNeeded = true;
  if (!charge(device, task, { kind: "context", key: contextKey(queue) })) return;
  const { hints } = task;
  hints.counters.hintContextsFetched++;
  task.isRead = true;
  if (device.out.tracing) {
    const text = `the context of QP ${target.qpn} is read`;
    traceDecision(device, { qp: target, entry }, { text, queue });
  }
  const item = { kind: "context", qp: target, life: target.life, queue } as const;
  if (beginAction(device, hints, { piece: "context", item }) !== undefined) return;
  warmContext(device, target, queue);
}

/** Has lines of translations read that are not on the chip. */
function warmUp(
  device: Device,
  task: Task,
  { span: { region: { table }, first, last }, target, entry }: About & { readonly span: Span },
): void {
  const { paging } = device;
  if (paging.cached.size >= paging.lines) return;
  const end = Math.floor(last / ENTRIES_PER_LINE);
  for (let line = Math.floor(first / ENTRIES_PER_LINE); line <= end; line++) {
    if (holdsLine(paging, table, line)) continue;
    task.isNeeded = true;
    if (!isComing(paging, table, line)) {
      if (!charge(device, task, { kind: "line", key: chargeKey(table, "line", line) })) return;
      task.hints.counters.hintLinesFetched++;
    }
    task.isRead = true;
    if (device.out.tracing) {
      traceTranslationDecision(device, { qp: target, entry }, { table, line });
    }
    fetchLine(device, { table, line }, task.lines);
  }
}

/** H-24: counts a page or line against its requester's quota. @returns whether it may be fetched. */
function charge(
  device: Device,
  task: Task,
  { kind, key }: Pick<Charge, "kind" | "key">,
): boolean {
  const { hints, requester, position } = task;
  const { charges, charged, plan } = hints;
  const known = charges.get(key);
  // Another element of the same hint wants it, too.
  if (known !== undefined && task.fresh.has(known)) return true;
  // The same again, as the host has taken it back meanwhile.
  if (known !== undefined) waste(device, hints, known);
  const account = accountOf({ kind, requester });
  const count = charged.get(account) ?? 0;
  const most = Math.min(plan.quota, roomFor(device, kind));
  if (count >= most) {
    hints.counters.hintsOverQuota++;
    refuse(task, "quota");
    return false;
  }
  const lead = task.lead ??= { at: device.now, counted: undefined };
  const until = device.now + plan.quotaPs;
  const added: Charge = { key, kind, requester, position, lead, until };
  if (kind === "page") hints.counters.hintPagesAsked++;
  task.fresh.add(added);
  charges.set(key, added);
  charged.set(account, count + 1);
  hints.byTime.push(added);
  return true;
}

/** A chip full of translations or contexts for one requester has none for the others: half of it, at most. */
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

/** A word that no atomic has come for in time. */
function wasteWord(hints: Hints, charge: Charge): void {
  for (const word of hints.words.values()) {
    if (word.charge !== charge) continue;
    if (!word.used) hints.wordCounters.hintWordsWasted++;
    return forgetWord(hints, word);
  }
}

/** What was fetched long ago, and not used, counts against its requester no more. */
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

/** The queue pair of an element. */
interface About {
  readonly target: QueuePair;
  readonly entry: HintEntry;
}

function refuse(task: Task, reason: HintReason): void {
  if (task.reason === "none") task.reason = reason;
}
