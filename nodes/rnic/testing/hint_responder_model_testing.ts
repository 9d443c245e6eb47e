/**
 * A model of the responder's side of hints, from document 001_ and `hints/README.md`: what each element of a hint asks
 * for, within the quotas; what is answered, and when; which fetches were useful, late or wasted; what is remembered of
 * needless hints. It reads the pages' rights, the chip's lines and contexts, and the receive WQEs off the card before
 * each act, and keeps all else itself.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { HintKind, HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { entryBytes } from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ENTRY_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
  type HintOperands,
  type HintOperation,
  type HintReason,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { holdsLine, isComing } from "../paging/translation_cache.ts";
import type { LeadOutcome } from "../hints/state/leads.ts";
import { missingContext } from "../queues/context.ts";
import { rights } from "../state/life_cycle.ts";
import type { Region } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { ENTRIES_PER_LINE } from "../state/translation_table.ts";
import type { HintCard, SentHint } from "./hint_card_testing.ts";
import { WorkModel } from "./hint_work_model_testing.ts";

const { prefetch: P, warmUp: W, atomic: A, receive: R } = HINT_KINDS;
/** Ends of the classes of lead times: 1, 2, 5 us and so on up to 10 ms. */
const LEAD_BOUNDS_PS = [6, 7, 8, 9, 10].flatMap((power) =>
  [1, 2, 5].map((first) => first * 10 ** power)
).slice(0, 13);
const GUESSES_MAX = 8, ROW = 8, WORDS = 64, RECEIVES = 64, ANSWERS = 64, OPERANDS = 64;

type FetchKind = "page" | "line" | "context" | "word";

interface LeadModel {
  readonly at: Time;
  known: { readonly outcome: LeadOutcome; readonly place: number } | undefined;
}

interface Fetch {
  readonly name: string;
  readonly kind: FetchKind;
  readonly requester: number;
  readonly position: number;
  readonly until: Time;
  readonly lead: LeadModel;
}

interface Page {
  readonly region: Region;
  readonly page: number;
  readonly rights: 1 | 2;
}

interface WordModel {
  readonly address: number;
  readonly fetch: Fetch;
  state: "behind" | "coming" | "here" | "gone";
  uses: number;
  used: boolean;
  told: { readonly qp: QueuePair; readonly psn: number; readonly operands: HintOperands }[];
}

interface Scope {
  needless: number;
  isNamed: boolean;
  isRare: boolean;
  region: number | undefined;
}

interface Peer {
  needless: number;
  hasForgotten: boolean;
  scopes: Map<number, Scope>;
}

interface End {
  readonly life: number;
  guesses: number;
  agreed: number | undefined;
  told: number;
  psn: number;
}

interface Ahead {
  readonly life: number;
  readonly requester: number;
  readonly position: number;
  wanted: number;
  readyAt: Time;
  hasLooked: boolean;
  reason: HintReason;
  pages: Page[];
}

interface Element {
  readonly ends: { readonly destQpn: number; readonly sourceQpn: number };
  readonly entry: HintEntry;
  reason: HintReason;
  isNeeded: boolean;
  readonly pages: Page[];
  word?: WordModel | undefined;
  receiver?: QueuePair | undefined;
  scope?: { readonly scope: number; readonly region: number | undefined };
}

interface Task {
  readonly requester: number;
  readonly fresh: Set<Fetch>;
  readonly wanted: Page[];
  readonly lines: { missing: number };
}

interface Asked extends Task {
  readonly target: QueuePair;
  readonly entry: HintEntry;
  readonly position: number;
  readonly lead: LeadModel;
  readonly writes: readonly HintEntry[];
}

interface Preparation {
  readonly qp: QueuePair;
  readonly life: number;
  readonly requester: number;
  readonly sequence: number;
  readonly elements: readonly Element[];
  readonly lines: { missing: number };
  readonly isAsked: boolean;
  isOverfull: boolean;
}

/** A page request: it leaves at `at`. */
export interface PageRequest {
  readonly key: number;
  readonly first: number;
  count: number;
  readonly write: boolean;
  readonly hintsOf: number;
  readonly isAtOnce: boolean;
}

const OF_OPERATION: Readonly<Record<HintOperation, { need: number; rights: 1 | 2 }>> = {
  "read": { need: ACCESS.remoteRead, rights: 1 },
  "write": { need: ACCESS.remoteWrite, rights: 2 },
  "fetch-add": { need: ACCESS.remoteAtomic, rights: 2 },
  "compare-swap": { need: ACCESS.remoteAtomic, rights: 2 },
  "send": { need: 0, rights: 2 },
};

export class ResponderModel {
  readonly counters = new Map<string, number>();
  readonly work: WorkModel;
  readonly fetches = new Map<string, Fetch>();
  readonly words = new Map<number, WordModel>();
  readonly ends = new Map<QueuePair, End>();
  readonly aheads = new Map<QueuePair, Ahead>();
  readonly rings = new Map<object, { looked: number; wanted: number }>();
  readonly peers = new Map<number, Peer>();
  readonly sent: SentHint[] = [];
  readonly requests: PageRequest[] = [];
  readonly asked = new Map<string, number>();
  preparing: Preparation[] = [];
  readonly leads: Record<LeadOutcome, number[]>;
  /** Reads that this act has begun: lines, words and contexts. */
  readonly lines = new Set<string>();
  readonly contexts = new Set<number>();
  wordsRead = 0;
  readonly #looking = new Set<object>();
  #fillsOf = new Map<string, { missing: number }[]>();
  #missed: { qp: QueuePair; scopes: number[] }[] = [];
  #sequence = 0;
  #wanted = 0;
  #isOnCore = false;
  readonly #card: HintCard;
  readonly #plan: HintPlan;
  readonly #regions: readonly Region[];

  constructor(card: HintCard, regions: readonly Region[]) {
    this.#card = card;
    this.#plan = card.hints.plan;
    this.#regions = regions;
    this.work = new WorkModel(this.#plan.work ?? {});
    const none = () => new Array<number>(LEAD_BOUNDS_PS.length + 1).fill(0);
    this.leads = { useful: none(), late: none(), wasted: none() };
  }

  count(name: string, by = 1): void {
    this.counters.set(name, (this.counters.get(name) ?? 0) + by);
  }

  get now(): Time {
    return this.#card.device.now;
  }

  /** The card is looked at anew before each act. */
  begin(): void {
    this.sent.length = 0;
    this.requests.length = 0;
    this.work.events.length = 0;
    this.lines.clear();
    this.contexts.clear();
    this.asked.clear();
    this.wordsRead = 0;
    this.#looking.clear();
  }

  // What a hint asks for.

  /** A hint of a queue pair's peer, or of a group's, in whichever encoding. */
  announce(by: QueuePair, requester: number, message: HintMessage): void {
    const end = this.endOf(by);
    if (end === undefined) return;
    const elements = message.groups.reduce((sum, { entries }) => sum + entries.length, 0);
    const { life } = by;
    this.work.begin(this.now, "prepare", elements, {
      kind: "announcement",
      requester,
      apply: () => {
        const its = this.ends.get(by);
        if (life !== by.life || its?.life !== life || !rights(by.state).takesRequests) return;
        this.#take({ by, end: its, requester }, message);
      },
    });
  }

  /** The flag of a READ or WRITE of no bytes: its length is rounded up, and so ends with its region. */
  range(
    by: QueuePair,
    requester: number,
    { psn: sequence, ackReq: answer }: { psn: number; ackReq: boolean },
    { operation, va, rkey, length }: Pick<HintEntry, "operation" | "va" | "rkey" | "length">,
  ): void {
    let rounded = 1;
    while (rounded < length) rounded *= 2;
    const { need } = OF_OPERATION[operation];
    const region = this.regionFor(by, { rkey, va, length: 1, need: 0 });
    const isOpen = region !== undefined && (region.access & need) === need;
    const most = isOpen ? region.va + region.length - Number(va) : rounded;
    const entry: HintEntry = {
      ...{ kinds: P, operation, messages: 1, sequence, rkey, va, objects: [] },
      length: Math.min(rounded, most),
    };
    const ends = { destQpn: by.qpn, sourceQpn: by.attributes.destQpn };
    this.announce(by, requester, {
      ...{ type: "announce", kinds: P, reason: "none", sequence, answer },
      groups: [{ ...ends, entries: [entry] }],
    });
  }

  #take(
    { by, end, requester }: { by: QueuePair; end: End; requester: number },
    { groups, sequence, answer }: HintMessage,
  ): void {
    this.count("hintsIn");
    if (end.guesses >= GUESSES_MAX) return;
    for (const fetch of [...this.fetches.values()]) {
      if (fetch.until <= this.now) this.#waste(fetch);
    }
    const task: Task = { requester, fresh: new Set(), wanted: [], lines: { missing: 0 } };
    const elements: Element[] = [];
    let isNews = false;
    for (const group of groups) {
      const target = this.#targetOf(by, requester, group);
      if (target === undefined) this.count("hintsUnknownQp");
      const writes: HintEntry[] = [], own: Element[] = [];
      for (const entry of group.entries) {
        const { destQpn, sourceQpn } = group;
        const element: Element = {
          ends: { destQpn, sourceQpn },
          ...{ entry, reason: "none", isNeeded: false, pages: [] },
        };
        if (target === undefined || end.guesses >= GUESSES_MAX) element.reason = "no-access";
        else {
          const position = elements.length + own.length;
          const lead = { at: this.now, known: undefined };
          this.#element(element, end, {
            ...task,
            target,
            entry,
            position,
            lead,
            writes: [...writes],
          });
        }
        if (entry.operation === "write") writes.push(entry);
        own.push(element);
      }
      elements.push(...own);
      if (target !== undefined && this.#learn(requester, own)) isNews = true;
    }
    this.#ask(task);
    if (!answer && !isNews) return;
    const { lines } = task;
    const given = { qp: by, life: by.life, requester, sequence, elements, lines, isAsked: answer };
    const preparation: Preparation = { ...given, isOverfull: false };
    const waiting = this.preparing.filter((each) => each.requester === requester).length;
    if (this.#isPrepared(preparation)) this.#answer(preparation);
    else if (waiting < ANSWERS) this.preparing.push(preparation);
    else {
      preparation.isOverfull = true;
      this.#answer(preparation);
    }
  }

  /** The queue pair of the group's numbers, if it is connected with that one; another's by a carrier alone. */
  #targetOf(by: QueuePair, requester: number, { destQpn, sourceQpn }: HintGroup) {
    if (destQpn !== by.qpn && by.hints !== "carrier") return undefined;
    const target = this.#card.device.queuePairs.get(destQpn);
    if (target === undefined || !this.#takesPart(target)) return undefined;
    const isPeer = target.path.address === requester && target.attributes.destQpn === sourceQpn;
    return isPeer && rights(target.state).takesRequests ? target : undefined;
  }

  #takesPart({ type, hints }: QueuePair): boolean {
    if (type === "ud" || hints === "off") return false;
    return hints !== undefined || this.#plan.queuePairs === "all";
  }

  #element(element: Element, end: End, asked: Asked): void {
    const { target, entry, requester } = asked;
    const { operation, rkey, va, length, objects } = entry;
    const isUntagged = operation === "send";
    const kinds = entry.kinds & this.#plan.kinds & (isUntagged ? R | W : P | W | A);
    if (kinds & W) this.#warmContext(element, asked);
    if (kinds & R) {
      element.receiver = target;
      this.#setAside(asked);
    }
    if (isUntagged) {
      this.count("hintObjectsUnknown", objects.length);
      if (kinds) element.scope = { scope: ofQueuePair(target.qpn), region: undefined };
    }
    if (kinds === 0) {
      this.count("hintsNotWanted");
      element.reason = "not-wanted";
      return;
    }
    if (isUntagged) return;
    const { need, rights } = OF_OPERATION[operation];
    const region = length === 0 ? undefined : this.regionFor(target, { rkey, va, length, need });
    if (region === undefined) {
      this.count("hintsNoAccess");
      if (length > 0 && rkey !== 0) end.guesses++;
      return refuse(element, "no-access");
    }
    const spans = [{ from: Number(va), length }, ...this.#objects(region, entry)];
    for (const span of spans) {
      const [first, last] = pagesOf(region, span);
      if (kinds & P) this.#prefetch(element, asked, { region, first, last, rights });
      if (kinds & W) this.#warmUp(element, asked, { region, first, last });
    }
    const isAtomic = operation === "fetch-add" || operation === "compare-swap";
    if (isAtomic && kinds & A) this.#preload(element, asked, region);
    const scope = this.scopeOf(target, requester, rkey);
    element.scope = { scope, region: scope < 0 ? undefined : region.table.key };
  }

  /** Key, domain, rights and range of an access, of queue pair and region. */
  regionFor(
    { pd, attributes: { accessFlags } }: QueuePair,
    { rkey, va, length, need }: { rkey: number; va: bigint; length: number; need: number },
  ): Region | undefined {
    const region = this.#regions.find(({ key, alive }) => key === rkey && alive);
    if (region === undefined || region.pd !== pd) return undefined;
    if ((accessFlags & need) !== need || (region.access & need) !== need) return undefined;
    const from = va - BigInt(region.va);
    return from < 0n || from + BigInt(length) > BigInt(region.length) ? undefined : region;
  }

  scopeOf({ qpn }: QueuePair, address: number, rkey: number): number {
    const { carriers, groups } = this.#card.hints;
    return carriers.has(address) || groups.size > 0 ? ofQueuePair(qpn) : rkey;
  }

  /** The places of objects, or of their parts, that the region of the key knows by name. */
  #objects(region: Region, { objects, parts }: HintEntry) {
    const spans: { from: number; length: number }[] = [];
    for (const [i, name] of objects.entries()) {
      const found = region.objects?.find(({ nameHigh, nameLow }) =>
        (BigInt(nameHigh) << 32n) + BigInt(nameLow) === name
      );
      this.count(found === undefined ? "hintObjectsUnknown" : "hintObjectsPrepared");
      if (found === undefined) continue;
      const { offset, length } = parts?.[i] ?? { offset: 0, length: found.length };
      const end = Math.min(offset + length, found.length);
      if (end > offset) spans.push({ from: found.va + offset, length: end - offset });
    }
    return spans;
  }

  /** Pages without the rights that are needed, each asked for once, as far as the quota goes. */
  #prefetch(
    found: Pick<Element, "reason" | "isNeeded" | "pages">,
    by: Task & Pick<Asked, "position" | "lead">,
    { region, first, last, rights }: { region: Region; first: number; last: number; rights: 1 | 2 },
  ): void {
    if (region.table.demand === undefined) return;
    for (let page = first; page <= last; page++) {
      const its = region.table.demand[page]!;
      if (its.rights >= rights) {
        this.count("hintPagesThere");
        continue;
      }
      found.isNeeded = true;
      const name = pageName(region, page), each = { region, page, rights };
      if (this.#askedOf(region, page) < rights) {
        if (!this.#charge(by, "page", name)) return refuse(found, "quota");
        by.wanted.push(each);
      } else if (this.#asksAgain && !this.fetches.has(name)) by.wanted.push(each);
      found.pages.push(each);
    }
  }

  get #asksAgain(): boolean {
    return this.#isOnCore && this.#plan.work?.request === "driver";
  }

  #askedOf(region: Region, page: number): number {
    return this.asked.get(pageName(region, page)) ?? region.table.demand![page]!.asked;
  }

  #ask({ wanted, requester }: Task): void {
    const isAtOnce = this.#asksAgain;
    let last: PageRequest | undefined, before = 0;
    for (const { region, page, rights } of wanted) {
      if (rights !== before) last = undefined;
      before = rights;
      if (this.#askedOf(region, page) >= rights && !isAtOnce) continue;
      this.asked.set(pageName(region, page), rights);
      const { key } = region;
      if (last?.key === key && last.first + last.count === page) last.count++;
      else {
        last = { key, first: page, count: 1, write: rights === 2, hintsOf: requester, isAtOnce };
        this.requests.push(last);
        this.count("hintPageRequests");
      }
    }
  }

  #warmUp(
    element: Element,
    asked: Asked,
    { region, first, last }: { region: Region; first: number; last: number },
  ): void {
    const { paging } = this.#card.device, { table } = region;
    if (paging.cached.size >= paging.lines) return;
    const lineOf = (page: number) => Math.floor(page / ENTRIES_PER_LINE);
    for (let line = lineOf(first); line <= lineOf(last); line++) {
      if (holdsLine(paging, table, line)) continue;
      const name = lineName(region, line);
      element.isNeeded = true;
      if (!isComing(paging, table, line) && !this.lines.has(name)) {
        if (!this.#charge(asked, "line", name)) return refuse(element, "quota");
        this.count("hintLinesFetched");
        this.lines.add(name);
      }
      asked.lines.missing++;
      this.#fillsOf.set(name, [...this.#fillsOf.get(name) ?? [], asked.lines]);
    }
  }

  /** A line of translations has come. */
  lineCame(region: Region, line: number): void {
    const name = lineName(region, line);
    for (const each of this.#fillsOf.get(name) ?? []) each.missing--;
    this.#fillsOf.delete(name);
  }

  #warmContext(element: Element, asked: Asked): void {
    const { target } = asked;
    const queue = missingContext(this.#card.device, target);
    if (queue === undefined || this.contexts.has(queue)) return;
    const name = contextName(queue), known = this.fetches.get(name);
    element.isNeeded = true;
    if (known !== undefined && asked.fresh.has(known)) return;
    if (!this.#charge(asked, "context", name)) return refuse(element, "quota");
    this.count("hintContextsFetched");
    const { life } = target;
    this.work.act(this.now, "context", {
      kind: "context",
      apply: () => {
        const isMissing = missingContext(this.#card.device, target) === queue;
        if (life === target.life && isMissing && !this.contexts.has(queue)) {
          this.contexts.add(queue);
        }
      },
    });
  }

  // Receives for untagged messages.

  #ringOf({ rq, srq }: QueuePair): { looked: number; wanted: number } {
    const ring = (srq ?? rq).ahead;
    let its = this.rings.get(ring);
    if (its === undefined) this.rings.set(ring, its = { looked: 0, wanted: 0 });
    return its;
  }

  #want(qp: QueuePair, ahead: Ahead, wanted: number, ring = this.#ringOf(qp)): void {
    ring.wanted += wanted - ahead.wanted;
    ahead.wanted = wanted;
    if (wanted === 0) ahead.hasLooked = false;
  }

  #setAside({ target: qp, requester, position, entry: { messages } }: Asked): void {
    const { fetched } = qp.srq ?? qp.rq;
    const before = this.aheads.get(qp);
    if (before !== undefined && before.life !== qp.life) this.#endReceives(qp, before);
    let ahead = this.aheads.get(qp);
    if (ahead === undefined) {
      const none = { wanted: 0, readyAt: 0, hasLooked: false } as const;
      ahead = { life: qp.life, requester, position, ...none, reason: "none", pages: [] };
      this.aheads.set(qp, ahead);
    }
    if (ahead.wanted === 0) {
      ahead.pages = [];
      ahead.reason = "none";
    }
    const ring = this.#ringOf(qp);
    const inUse = Math.max(0, ring.looked - fetched.first) + ring.wanted;
    const more = Math.min(messages, Math.max(0, RECEIVES - inUse));
    if (more === 0) return;
    this.#want(qp, ahead, ahead.wanted + more);
    ahead.hasLooked = false;
    const readyAt = this.work.act(this.now, "receive", { kind: "receive", apply() {} });
    if (readyAt !== undefined) ahead.readyAt = readyAt;
    this.#lookAtReceives();
  }

  #endReceives(qp: QueuePair, ahead: Ahead): void {
    // The ring may be another by now: what was wanted of it has gone with it.
    const isIts = ahead.life === qp.life || qp.srq !== undefined;
    this.#want(qp, ahead, 0, isIts ? this.#ringOf(qp) : { looked: 0, wanted: 0 });
    this.aheads.delete(qp);
  }

  #lookAtReceives(): void {
    for (const [qp, ahead] of [...this.aheads]) {
      if (ahead.life !== qp.life || !this.ends.has(qp)) {
        this.#endReceives(qp, ahead);
        continue;
      }
      if (ahead.wanted === 0 || ahead.readyAt > this.now) continue;
      if (!rights(qp.state).takesRequests) {
        this.#want(qp, ahead, 0);
        continue;
      }
      const { requester, position } = ahead;
      const found: Pick<Element, "reason" | "isNeeded" | "pages"> = {
        ...{ reason: "none", isNeeded: false, pages: [] },
      };
      const task: Task = { requester, fresh: new Set(), wanted: [], lines: { missing: 0 } };
      const by = { ...task, position, lead: { at: this.now, known: undefined } };
      const { fetched, busy, ahead: its } = qp.srq ?? qp.rq, ring = this.#ringOf(qp);
      const isBusy = busy || this.#looking.has(its);
      ring.looked = Math.max(ring.looked, fetched.first);
      while (ahead.wanted > 0 && ring.looked < fetched.end) {
        const { sges } = fetched.at(ring.looked++)!;
        this.#want(qp, ahead, ahead.wanted - 1);
        this.count("hintReceives");
        for (const { region, from, length } of this.#segments(qp, sges)) {
          const [first, last] = pagesOf(region, { from, length });
          this.#prefetch(found, by, { region, first, last, rights: 2 });
        }
      }
      if (ahead.wanted > 0 && !isBusy) {
        const isPaused = this.#card.device.pauses.has(qp.srq?.srqn ?? qp.rqQueue);
        if (ahead.hasLooked && its.isEmpty) this.#want(qp, ahead, 0);
        else if (isPaused) this.#want(qp, ahead, 0);
        else {
          ahead.hasLooked = true;
          this.#looking.add(its);
        }
      }
      ahead.pages.push(...found.pages);
      this.#ask(task);
      if (found.isNeeded) {
        this.#peerOf(requester).needless = 0;
        this.#note(requester, ofQueuePair(qp.qpn), { isNeeded: true, region: undefined });
      }
      if (found.reason !== "none") ahead.reason = found.reason;
    }
  }

  /** None where one of the keys opens nothing. */
  #segments(
    qp: QueuePair,
    sges: readonly { readonly lkey: number; readonly address: number; readonly length: number }[],
  ) {
    const segments = sges.map(({ lkey, address: from, length }) => {
      const region = this.#regions.find(({ key, alive }) => key === lkey && alive);
      const isOpen = region !== undefined && region.pd === (qp.srq?.pd ?? qp.pd) &&
        (region.access & ACCESS.localWrite) !== 0 && from >= region.va &&
        from + length <= region.va + region.length;
      return isOpen ? { region, from, length } : undefined;
    });
    return segments.every((each) => each !== undefined) ? segments : [];
  }

  // Words of atomics.

  #preload(element: Element, asked: Asked, region: Region): void {
    const { target, entry, writes } = asked;
    const { paging, atomicWords } = this.#card.device;
    const at = Number(entry.va), { demand } = region.table;
    if (at % 8 !== 0) return;
    const page = Math.floor((at - region.pageBase) / region.pageBytes);
    if (demand !== undefined && demand[page]!.rights < 2) return;
    const isKnown = paging.cached.size >= paging.lines ||
      holdsLine(paging, region.table, Math.floor(page / ENTRIES_PER_LINE));
    if (!isKnown) return;
    const address = region.table.pages[page]! + at % region.pageBytes;
    let word = this.words.get(address);
    if (word === undefined) {
      if (this.words.size >= WORDS) {
        this.count("hintsOverQuota");
        element.isNeeded = true;
        return refuse(element, "quota");
      }
      const name = wordName(address);
      if (!this.#charge(asked, "word", name)) {
        element.isNeeded = true;
        return refuse(element, "quota");
      }
      const fetch = this.fetches.get(name)!;
      word = { address, fetch, state: "behind", uses: 0, used: false, told: [] };
      this.words.set(address, word);
      const end = (each: HintEntry) => each.va + BigInt(each.length);
      const isBehind = writes.some((write) =>
        write.rkey === entry.rkey && write.va < end(entry) && entry.va < end(write)
      );
      if (!isBehind && !atomicWords.has(address)) this.readWord(word);
    }
    word.uses++;
    const { operands } = entry;
    if (this.#plan.operands && operands !== undefined && word.told.length < OPERANDS) {
      word.told.push({ qp: target, psn: entry.sequence, operands });
    }
    element.word ??= word;
    element.isNeeded = true;
  }

  readWord(word: WordModel): void {
    this.count("hintWordsRead");
    word.state = "coming";
    this.work.act(this.now, "atomic", { kind: "word", apply: () => void this.wordsRead++ });
  }

  forgetWord(word: WordModel): void {
    word.state = "gone";
    this.words.delete(word.address);
    this.fetches.delete(word.fetch.name);
  }

  /** A word is changed by whatever is not the announced atomic. */
  voidWord(word: WordModel, by: "hintWordsSnooped" | "hintWordsOverwritten"): void {
    this.count(by);
    if (!word.used) this.count("hintWordsWasted");
    this.forgetWord(word);
  }

  /** An announced atomic is executed on the chip. */
  atomic(
    word: WordModel,
    { qp, psn, operands, compares }: {
      qp: QueuePair;
      psn: number;
      operands: HintOperands;
      compares: boolean;
    },
  ): void {
    const place = word.told.findIndex((each) => each.qp === qp && each.psn === psn);
    if (place >= 0) {
      const [{ operands: told }] = word.told.splice(place, 1) as [WordModel["told"][0]];
      const isSame = told.swapAdd === operands.swapAdd &&
        (told.compare === operands.compare || !compares);
      this.count(isSame ? "hintOperandsSame" : "hintOperandsOther");
    }
    word.used = true;
    if (--word.uses <= 0) this.forgetWord(word);
  }

  // Quotas and effects.

  #charge(
    { requester, position, lead, fresh }: Task & Pick<Asked, "position" | "lead">,
    kind: FetchKind,
    name: string,
  ): boolean {
    const known = this.fetches.get(name);
    if (known !== undefined && fresh.has(known)) return true;
    if (known !== undefined) this.#waste(known);
    const { paging, plan } = this.#card.device;
    const room = {
      page: Infinity,
      line: Math.floor(paging.capacityLines / 2),
      context: Math.floor(plan.queueCache.entries / 2),
      word: WORDS / 2,
    }[kind];
    if (this.chargedTo(requester, kind) >= Math.min(room, this.#plan.quota)) {
      this.count("hintsOverQuota");
      return false;
    }
    if (kind === "page") this.count("hintPagesAsked");
    const until = this.now + this.#plan.quotaPs;
    const fetch = { name, kind, requester, position, until, lead };
    this.fetches.set(name, fetch);
    fresh.add(fetch);
    return true;
  }

  chargedTo(requester: number, kind: FetchKind): number {
    let charged = 0;
    for (const each of this.fetches.values()) {
      if (each.requester === requester && each.kind === kind) charged++;
    }
    return charged;
  }

  #waste(fetch: Fetch): void {
    if (fetch.kind === "word") {
      const word = [...this.words.values()].find((each) => each.fetch === fetch)!;
      if (!word.used) this.count("hintWordsWasted");
      return this.forgetWord(word);
    }
    this.fetches.delete(fetch.name);
    this.#outcome(fetch, "wasted");
  }

  /** H-30: an operation counts with its worst fetch, in the class of the first that a request needed. */
  #outcome({ kind, lead, position }: Fetch, outcome: LeadOutcome): void {
    const names = { page: "hintPages", line: "hintLines", context: "hintContexts", word: "" };
    this.count(names[kind] + { useful: "Useful", late: "Late", wasted: "Wasted" }[outcome]);
    if (outcome === "late" && position > 0) {
      this.count(kind === "page" ? "hintPagesLateBehindFirst" : "hintMissesBehindFirst");
    }
    const weights = { wasted: 0, useful: 1, late: 2 };
    const { known } = lead;
    if (known !== undefined && weights[known.outcome] >= weights[outcome]) return;
    const after = LEAD_BOUNDS_PS.filter((bound) => bound <= this.now - lead.at).length;
    const place = known === undefined || known.outcome === "wasted" ? after : known.place;
    if (known !== undefined) this.leads[known.outcome][known.place]!--;
    this.leads[outcome][place]!++;
    lead.known = { outcome, place };
  }

  #redeem(name: string, outcome: LeadOutcome): void {
    const fetch = this.fetches.get(name);
    if (fetch === undefined) return;
    this.fetches.delete(name);
    this.#outcome(fetch, outcome);
  }

  /** A request of a peer accesses these pages, and, as far as they are there, their lines; or has gone by already. */
  request(
    qp: QueuePair,
    spans: readonly { region: Region; first: number; last: number }[],
    { rights, isAdmitted, isPeers }: { rights: 1 | 2; isAdmitted: boolean; isPeers: boolean },
  ): void {
    if (!isPeers) return;
    const { paging } = this.#card.device;
    if (paging.onDemand === 0 && paging.cached.size >= paging.lines) return;
    const missed: number[] = [];
    let isAbsent = false;
    for (const { region, first, last } of spans) {
      const { table } = region;
      for (let page = first; table.demand !== undefined && page <= last; page++) {
        const its = table.demand[page]!, isThere = its.rights >= rights;
        this.#redeem(
          pageName(region, page),
          isThere ? "useful" : its.asked === 0 ? "wasted" : "late",
        );
        if (!isThere) {
          isAbsent = true;
          missed.push(table.key);
        }
      }
      if (isAbsent || isAdmitted) continue;
      for (let line = Math.floor(first / 8); line <= Math.floor(last / 8); line++) {
        const isThere = holdsLine(paging, table, line);
        const isOnItsWay = isComing(paging, table, line);
        this.#redeem(lineName(region, line), isThere ? "useful" : isOnItsWay ? "late" : "wasted");
        if (!isThere) missed.push(table.key);
      }
    }
    if (missed.length > 0) this.miss(qp, missed);
  }

  needContext(queue: number, found: "there" | "coming" | "gone"): void {
    this.#redeem(
      contextName(queue),
      found === "there" ? "useful" : found === "coming" ? "late" : "wasted",
    );
  }

  // What is remembered of needless hints.

  /** As used last. */
  #peerOf(address: number): Peer {
    const peer = this.peers.get(address) ?? { needless: 0, hasForgotten: false, scopes: new Map() };
    this.peers.delete(address);
    this.peers.set(address, peer);
    return peer;
  }

  #note(
    address: number,
    scope: number,
    { isNeeded, region }: { isNeeded: boolean; region: number | undefined },
  ): Scope {
    const { scopes } = this.peers.get(address)!;
    const before = scopes.get(scope);
    const its: Scope = {
      needless: isNeeded ? 0 : (before?.needless ?? 0) + 1,
      isNamed: before?.isNamed === true && !isNeeded,
      isRare: before?.isRare ?? false,
      region,
    };
    scopes.delete(scope);
    scopes.set(scope, its);
    return its;
  }

  #isNeedless({ needless: all }: Peer, { needless, isNamed }: Scope): boolean {
    return isNamed || needless >= ROW || (all >= ROW && needless > 0);
  }

  #learn(address: number, elements: readonly Element[]): boolean {
    const learnt = new Map<number, { isNeeded: boolean; region: number | undefined }>();
    for (const { scope: about, isNeeded } of elements) {
      if (about === undefined) continue;
      const known = learnt.get(about.scope);
      if (known === undefined) learnt.set(about.scope, { isNeeded, region: about.region });
      else if (isNeeded) known.isNeeded = true;
    }
    if (learnt.size === 0) return false;
    const peer = this.#peerOf(address);
    const isNeeded = learnt.values().some((each) => each.isNeeded);
    if (isNeeded) peer.needless = 0;
    else {
      peer.needless++;
      this.count("hintsNeedless");
    }
    let isNews = false;
    for (const [scope, its] of learnt) {
      const known = this.#note(address, scope, its);
      // A row begins for what all of the peer's hints are needless for, or is one longer.
      if (known.needless === 1 && this.#isNeedless(peer, known)) isNews = true;
      if (known.needless > 0 && known.needless % ROW === 0) isNews = true;
    }
    return isNews;
  }

  /** A request has missed memory of these regions, or, without any, its context. */
  miss(qp: QueuePair, regions: readonly number[]): void {
    const end = this.ends.get(qp), peer = this.peers.get(qp.path.address);
    if (end?.life !== qp.life || peer === undefined) return;
    peer.needless = 0;
    const scopes: number[] = [];
    for (const [scope, its] of peer.scopes) {
      const isMissed = its.region === undefined
        ? scope === ofQueuePair(qp.qpn)
        : regions.includes(its.region);
      if (!isMissed) continue;
      if (its.isRare) scopes.push(scope);
      Object.assign(its, { needless: 0, isNamed: false, isRare: false });
    }
    if (scopes.length > 0 || peer.hasForgotten) this.#missed.push({ qp, scopes });
  }

  // Answers.

  #isPrepared({ lines, elements }: Preparation): boolean {
    return lines.missing === 0 && elements.every(({ pages, word, receiver }) => {
      const ahead = receiver && this.aheads.get(receiver);
      const wanted = [...pages, ...ahead?.pages ?? []];
      return word?.state !== "coming" && (ahead?.wanted ?? 0) === 0 &&
        !wanted.some((each) => this.#isOnItsWay(each));
    });
  }

  #isThere({ region, page, rights }: Page): boolean {
    return region.table.demand![page]!.rights >= rights;
  }

  #isOnItsWay(each: Page): boolean {
    const isAsked = this.#askedOf(each.region, each.page) > 0;
    return isAsked && !this.#isThere(each) &&
      this.#card.device.paging.tables.has(each.region.table);
  }

  #answer(preparation: Preparation): void {
    const { elements, requester } = preparation;
    this.work.begin(this.now, "answer", elements.length, {
      ...{ kind: "answer", requester },
      apply: () => this.#sendAnswer(preparation),
    });
  }

  #sendAnswer(preparation: Preparation): void {
    const { qp, life, sequence, elements, isAsked, requester } = preparation;
    if (life !== qp.life || !this.#maySend(qp)) return;
    const refused = isAsked ? this.#refusals(preparation) : [];
    if (refused.length === 0) {
      const groups = this.#needless(qp, requester, elements);
      if (!isAsked && groups.length === 0) return;
      const about = { kinds: 0, reason: "none", sequence, answer: false } as const;
      return this.#send(qp, { type: "prepared", ...about, groups });
    }
    for (const [i, { reason, groups }] of refused.entries()) {
      const kinds = reason === "not-wanted" ? this.wantedKinds() : 0;
      const answer = i < refused.length - 1;
      this.#send(qp, { type: "refused", kinds, reason, sequence, answer, groups });
    }
  }

  /** A message for each reason, or several where the path MTU has no room for all of its entries. */
  #refusals(preparation: Preparation): { reason: HintReason; groups: HintGroup[] }[] {
    const { qp, elements, isOverfull } = preparation;
    const reasonOf = ({ reason, pages, receiver }: Element): HintReason => {
      if (reason !== "none") return reason;
      if (isOverfull) return "quota";
      const ahead = receiver && this.aheads.get(receiver);
      if (ahead !== undefined && ahead.reason !== "none") return ahead.reason;
      const all = [...pages, ...ahead?.pages ?? []];
      return all.every((each) => this.#isThere(each)) ? "none" : "error";
    };
    const reasons = new Map(elements.map((each) => [each, reasonOf(each)]));
    const messages: { reason: HintReason; groups: HintGroup[] }[] = [];
    for (const reason of new Set(reasons.values())) {
      if (reason === "none") continue;
      const its = elements.filter((each) => reasons.get(each) === reason);
      let message: HintGroup[] = [], left = -1, before: Element | undefined;
      for (const element of its) {
        const { ends, entry: { kinds, operation, messages: count, sequence } } = element;
        const isSame = before?.ends.destQpn === ends.destQpn &&
          before.ends.sourceQpn === ends.sourceQpn;
        before = element;
        const none = { rkey: 0, length: 0, va: 0n, objects: [] };
        const entry: HintEntry = { kinds, operation, messages: count, sequence, ...none };
        let isNew = !isSame;
        if (left < entryBytes(entry) + (isNew ? HINT_GROUP_BYTES : 0)) {
          messages.push({ reason, groups: message = [] });
          left = qp.attributes.pathMtu;
          isNew = true;
        }
        if (isNew) {
          message.push({ ...ends, entries: [] });
          left -= HINT_GROUP_BYTES;
        }
        (message.at(-1)!.entries as HintEntry[]).push(entry);
        left -= entryBytes(entry);
      }
    }
    return messages;
  }

  /** An ACK names what hints have been needless for, for long: as many keys as it has room for. */
  #needless(by: QueuePair, requester: number, elements: readonly Element[]): HintGroup[] {
    if (!this.peers.has(requester)) return [];
    const peer = this.#peerOf(requester), groups: HintGroup[] = [];
    const runs: Element[][] = [];
    for (const each of elements) {
      const last = runs.at(-1);
      if (last !== undefined && last[0]!.ends.destQpn === each.ends.destQpn) last.push(each);
      else runs.push([each]);
    }
    for (const run of runs) {
      const { ends } = run[0]!, keys: number[] = [];
      let isQueuePair = false;
      for (const { scope: about, entry: { rkey } } of run) {
        const its = about && peer.scopes.get(about.scope);
        if (its === undefined || !this.#card.device.queuePairs.has(ends.destQpn)) continue;
        if (!this.#isNeedless(peer, its)) continue;
        if (about!.scope < 0) isQueuePair = true;
        else if (keys.length < namesMax(by)) {
          if (!keys.includes(rkey)) keys.push(rkey);
        } else continue;
        its.isNamed = true;
        its.isRare = true;
      }
      if (keys.length > 0) groups.push({ ...ends, entries: keys.map(named) });
      if (isQueuePair) groups.push({ ...ends, entries: [] });
    }
    return groups;
  }

  // What is wanted.

  wantedKinds(): number {
    const { paging, queuePairs, plan } = this.#card.device, { carriers, groups } = this.#card.hints;
    const isCrowded = (carriers.size > 0 || groups.size > 0) &&
      2 * queuePairs.size > plan.queueCache.entries;
    let kinds = A;
    if (paging.onDemand > 0) kinds |= P | R;
    if (paging.lines > paging.capacityLines || isCrowded) kinds |= W;
    return kinds & this.#plan.kinds;
  }

  endOf(qp: QueuePair): End | undefined {
    if (!this.#takesPart(qp)) return undefined;
    const known = this.ends.get(qp);
    if (known?.life === qp.life) return known;
    const end: End = { life: qp.life, guesses: 0, agreed: undefined, told: 0, psn: 0 };
    this.ends.set(qp, end);
    return end;
  }

  #maySend(qp: QueuePair): boolean {
    return this.ends.get(qp)?.life === qp.life && rights(qp.state).sends;
  }

  #send(qp: QueuePair, message: HintMessage): void {
    this.sent.push({ by: qp.qpn, psn: this.ends.get(qp)!.psn++, message });
  }

  /** The peer says what it wants. */
  hearWanted(qp: QueuePair, { kinds, answer }: HintMessage): void {
    const end = this.endOf(qp);
    if (end === undefined) return;
    end.agreed = kinds & this.#plan.kinds;
    if (answer || end.told !== this.wantedKinds()) this.tell(qp, { answer: false });
  }

  tell(
    qp: QueuePair,
    { answer, missed = [] }: { answer: boolean; missed?: readonly number[] },
  ): void {
    const end = this.ends.get(qp)!, kinds = this.wantedKinds();
    end.told = kinds;
    const { reason, groups } = this.#missedFor(qp, missed);
    const operations: Readonly<Record<HintKind, HintOperation>> = {
      ...{ prefetch: "read", warmUp: "read", atomic: "fetch-add", receive: "send" },
    };
    const none = { messages: 0, sequence: 0, rkey: 0, va: 0n, objects: [] };
    const waits = (Object.entries(this.#plan.waitsPs) as [HintKind, Time][])
      .filter(([kind]) => (HINT_KINDS[kind] & kinds) !== 0)
      .map(([kind, ps]): HintEntry => ({
        ...{ kinds: HINT_KINDS[kind], operation: operations[kind], ...none },
        length: Math.min(Math.ceil(ps / 1000), 2 ** 32 - 1),
      }));
    const ends = { sourceQpn: qp.qpn, destQpn: qp.attributes.destQpn };
    const all = [...waits.length > 0 ? [{ ...ends, entries: waits }] : [], ...groups];
    this.#send(qp, {
      ...{ type: "wanted", kinds, reason, sequence: this.#sequence++, answer },
      groups: all,
    });
  }

  #missedFor(
    qp: QueuePair,
    missed: readonly number[],
  ): { reason: HintReason; groups: HintGroup[] } {
    const peer = this.peers.get(qp.path.address);
    if (peer === undefined) return { reason: "none", groups: [] };
    const others = HINT_GROUP_BYTES + 4 * HINT_ENTRY_BYTES;
    if (peer.hasForgotten || missed.length > namesMax(qp, others)) {
      peer.hasForgotten = false;
      for (const its of peer.scopes.values()) Object.assign(its, { isNamed: false, isRare: false });
      return { reason: "none", groups: [] };
    }
    const ends = { destQpn: qp.qpn, sourceQpn: qp.attributes.destQpn };
    const keys = missed.filter((scope) => scope >= 0);
    const groups = [
      ...keys.length > 0 ? [{ ...ends, entries: keys.map(named) }] : [],
      ...missed.some((scope) => scope < 0) ? [{ ...ends, entries: [] }] : [],
    ];
    const isRemembered = groups.length > 0 || peer.scopes.values().some(({ isRare }) => isRare);
    return { reason: isRemembered ? "not-wanted" : "none", groups };
  }

  // Steps.

  /** A core has done its part. @returns whether it was waited for. */
  endOnCore(id: number): boolean {
    const waiting = this.work.atCores.get(id);
    this.work.atCores.delete(id);
    if (waiting === undefined) return false;
    this.#isOnCore = true;
    waiting.effect.apply();
    this.#isOnCore = false;
    return true;
  }

  /** What a step of the card does by itself. */
  step(): void {
    for (const { apply } of this.work.end(this.now)) apply();
    this.#lookAtReceives();
    for (const each of [...this.preparing]) {
      const isOver = each.life !== each.qp.life;
      if (!isOver && !this.#isPrepared(each)) continue;
      this.preparing = this.preparing.filter((other) => other !== each);
      if (!isOver) this.#answer(each);
    }
    const kinds = this.wantedKinds();
    if (this.#wanted !== kinds) {
      this.#wanted = kinds;
      for (const [qp, { agreed, told }] of this.ends) {
        if (this.#maySend(qp) && agreed !== undefined && told !== kinds) {
          this.tell(qp, { answer: false });
        }
      }
    }
    for (const { qp, scopes } of this.#missed) {
      if (this.#maySend(qp)) this.tell(qp, { answer: false, missed: scopes });
    }
    this.#missed = [];
  }
}

function refuse(found: Pick<Element, "reason" | "isNeeded">, reason: HintReason): void {
  if (found.reason === "none") found.reason = reason;
}

function ofQueuePair(qpn: number): number {
  return -1 - qpn;
}

function namesMax({ attributes: { pathMtu } }: QueuePair, others = 0): number {
  return Math.floor((pathMtu - others - 2 * HINT_GROUP_BYTES) / HINT_ENTRY_BYTES);
}

function named(rkey: number): HintEntry {
  const none = { kinds: 0, messages: 0, sequence: 0, length: 0, va: 0n, objects: [] };
  return { ...none, operation: "read", rkey };
}

function pagesOf(
  { pageBase, pageBytes }: Region,
  { from, length }: { from: number; length: number },
): [number, number] {
  const start = from - pageBase;
  return [Math.floor(start / pageBytes), Math.floor((start + length - 1) / pageBytes)];
}

export function pageName({ key }: Pick<Region, "key">, page: number): string {
  return `page ${key}/${page}`;
}

export function lineName({ key }: Pick<Region, "key">, line: number): string {
  return `line ${key}/${line}`;
}

export function contextName(queue: number): string {
  return `context ${queue}`;
}

export function wordName(address: number): string {
  return `word ${address}`;
}
