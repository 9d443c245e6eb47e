/**
 * A model of the requester's side of hints, from document 001_ and `hints/README.md`: what is announced, in which batch
 * and message, by which way; what waits behind a hint, and how long; what an answer, a silence, and a peer's word
 * change; which batches are passed over. It reads the send queues off the card before each act, and keeps all else
 * itself.
 */
import { NEVER, PS_PER_NS, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import {
  HINT_BATCH,
  type HintKind,
  type HintPlan,
  type HintWay,
  refuseEncoding,
} from "../../../fabric/rack/plan/hint_plan.ts";
import {
  bytesOf,
  entryBytes,
  type HintEntry,
  type HintGroup,
  type HintMessage,
} from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ETH_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
  HINT_TRAILER_BYTES,
  type HintEncoding,
  type HintOperation,
  type HintReason,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { rights } from "../state/life_cycle.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { HintCard, SentHint } from "./hint_card_testing.ts";
import { WorkModel } from "./hint_work_model_testing.ts";

const { prefetch: P, warmUp: W, atomic: A, receive: R } = HINT_KINDS;
/** Answers that are waited for behind begun work, silences that end hints, questions, and the wait between them. */
const BATCHES = 16, SILENCES = 3, QUESTIONS = 3, QUESTION_PS = 100 * PS_PER_US, RARITY = 6;
/** Units that one read of WQEs brings, and WQEs of a queue pair on the chip. */
const UNITS = 64, ON_CHIP = 256;
const PSNS = 2 ** 24;

export interface BatchModel {
  readonly first: number;
  readonly end: number;
  readonly by: QueuePair;
  readonly isFirst: boolean;
  readonly isProbe: boolean;
  readonly scopes: readonly number[];
  readonly unanswered: Set<number>;
  readonly waitPs: Time;
  unsent: number;
  isHeld: boolean;
}

interface EndModel {
  readonly life: number;
  agreed: number | undefined;
  waits: Map<number, Time>;
  begun: number;
  nextAt: Time;
  wakeAt: Time;
  told: number;
  questions: number;
  askedAt: Time;
  lookedTo: number;
  psn: number;
  batch: number;
  isAnnouncing: boolean;
  batches: BatchModel[];
  heldSince: Time | undefined;
  silences: number;
}

interface HoldModel {
  readonly at: Time;
  readonly qp: QueuePair;
  readonly life: number;
  readonly batch: BatchModel | undefined;
}

interface Quiet {
  readonly scopes: Set<number>;
  rarity: number;
  passedOver: number;
}

interface Route {
  readonly qp: QueuePair;
  readonly end: EndModel;
  readonly by: QueuePair;
  readonly encoding: HintEncoding;
  readonly group: { readonly address: number } | undefined;
}

interface Part {
  readonly qp: QueuePair;
  readonly end: EndModel;
  readonly from: number;
  readonly until: number;
  readonly isProbe: boolean;
}

export class RequesterModel {
  readonly counters = new Map<string, number>();
  readonly work: WorkModel;
  readonly ends = new Map<QueuePair, EndModel>();
  readonly quiet = new Map<number, Quiet>();
  readonly sent: SentHint[] = [];
  /** Queue pairs in line for a turn. */
  readonly line: QueuePair[] = [];
  turnOf: QueuePair | undefined;
  isTurnWanted = false;
  readonly #holds = new Map<Time, HoldModel[]>();
  readonly #groupPsns = new Map<QueuePair, number>();
  #sequence = 0;
  #isLooking = false;
  readonly #card: HintCard;
  readonly #plan: HintPlan;

  constructor(card: HintCard) {
    this.#card = card;
    this.#plan = card.hints.plan;
    this.work = new WorkModel(this.#plan.work ?? {});
  }

  count(name: string, by = 1): void {
    this.counters.set(name, (this.counters.get(name) ?? 0) + by);
  }

  get now(): Time {
    return this.#card.device.now;
  }

  begin(): void {
    this.sent.length = 0;
    this.work.events.length = 0;
  }

  schedule(qp: QueuePair): void {
    if (this.line.includes(qp)) return;
    if (this.turnOf === qp) this.isTurnWanted = true;
    else this.line.push(qp);
  }

  // Whose hints go where.

  endOf(qp: QueuePair): EndModel | undefined {
    const { type, hints, life } = qp;
    if (type === "ud" || hints === "off") return undefined;
    if (hints === undefined && this.#plan.queuePairs === "asked") return undefined;
    const known = this.ends.get(qp);
    if (known?.life === life) return known;
    const { batch, follow } = this.#plan;
    const adaptive = follow === "at-once" ? HINT_BATCH.most : HINT_BATCH.first;
    const end: EndModel = {
      ...{ life, agreed: undefined, waits: new Map(), begun: -1, nextAt: 0, wakeAt: 0, told: 0 },
      ...{ questions: 0, askedAt: 0, lookedTo: qp.requester.cursor, psn: 0 },
      ...{ batch: batch === "adaptive" ? adaptive : batch, isAnnouncing: false, batches: [] },
      ...{ heldSince: undefined, silences: 0 },
    };
    this.ends.set(qp, end);
    return end;
  }

  /** The end of a queue pair that may send in this life. */
  #sender(qp: QueuePair): EndModel | undefined {
    const end = this.ends.get(qp);
    return end?.life === qp.life && rights(qp.state).sends ? end : undefined;
  }

  #carrierOf({ path }: QueuePair): QueuePair | undefined {
    if (this.#plan.transport !== "carrier") return undefined;
    const carrier = this.#card.hints.carriers.get(path.address);
    return carrier !== undefined && rights(carrier.state).sends ? carrier : undefined;
  }

  #memberFor(qp: QueuePair): QueuePair | undefined {
    const { transport } = this.#plan;
    if (transport !== "multicast" && transport !== "trusted") return undefined;
    return [...this.#card.hints.groups.keys()].find((member) =>
      rights(member.state).sends && (transport === "trusted" || member.pd === qp.pd)
    );
  }

  #routeOf(qp: QueuePair): Route | undefined {
    const member = this.#memberFor(qp), carrier = this.#carrierOf(qp);
    const by = member ?? carrier ?? qp;
    const encoding = by.hintEncoding ?? this.#plan.encoding;
    const way: HintWay = member ? "multicast" : carrier ? "carrier" : qp.type;
    if (refuseEncoding(encoding, way) !== undefined) return undefined;
    const asked = carrier ?? qp, end = this.#sender(asked);
    if (end === undefined || !end.agreed) return undefined;
    const group = member && this.#card.hints.groups.get(member);
    return { qp: asked, end, by, encoding, group };
  }

  // What is announced.

  lookAhead(qp: QueuePair): void {
    const end = this.ends.get(qp), { depth } = this.#plan;
    if (end?.life !== qp.life || !rights(qp.state).startsWork) return;
    const { cursor, work } = qp.requester, until = Math.min(work.end, cursor + depth);
    if (end.agreed !== undefined && end.lookedTo >= until) return;
    const route = this.#routeOf(qp);
    if (route === undefined) return this.#askAgain(qp);
    if (route.encoding === "header" || route.encoding === "payload") return;
    const isFirstHeld = end.batches.some((each) =>
      each.isHeld && cursor >= each.first && cursor < each.end
    );
    const isFull = until === cursor + depth;
    // More comes as WQEs do, or, where the look-ahead is used up, as its first request begins.
    const isMoreComing = isFull
      ? work.end > until && !isFirstHeld
      : qp.sq.busy || qp.sq.mayHaveMore;
    let hasAnnounced = false;
    for (;;) {
      const from = Math.max(end.lookedTo, cursor);
      if (end.lookedTo >= until) break;
      const isEnough = until - from >= Math.min(end.batch, Math.ceil(depth / 2));
      if (!isEnough && isMoreComing && from > cursor) break;
      const part = this.#turnFor(qp, end, from, Math.min(until, from + end.batch));
      if (part === undefined) continue;
      const others = route.by === qp
        ? []
        : this.#waitingOf(qp, route.by).flatMap((each) =>
          this.#turnFor(each.qp, each.end, each.from, each.until) ?? []
        );
      this.#announce(route, [part, ...others]);
      hasAnnounced = true;
    }
    if (!hasAnnounced || this.#isLooking) return;
    this.#isLooking = true;
    for (let place = 0; place < this.line.length; place++) {
      this.lookAhead(this.line[place]!);
    }
    this.#isLooking = false;
  }

  /** Work of the other queue pairs whose hints go the same way. */
  #waitingOf(qp: QueuePair, by: QueuePair): Omit<Part, "isProbe">[] {
    const parts: Omit<Part, "isProbe">[] = [];
    for (const [other, end] of this.ends) {
      if (other === qp || end.life !== other.life || !rights(other.state).startsWork) continue;
      if (this.#routeOf(other)?.by !== by) continue;
      const { cursor, work } = other.requester;
      const from = Math.max(end.lookedTo, cursor);
      const until = Math.min(work.end, cursor + this.#plan.depth, from + end.batch);
      if (from < until) parts.push({ qp: other, end, from, until });
    }
    return parts;
  }

  /** H-02: whether a batch is announced, be it to learn; one that is passed over is not looked at again. */
  #turnFor(qp: QueuePair, end: EndModel, from: number, until: number): Part | undefined {
    const part = { qp, end, from, until };
    const quiet = this.quiet.get(qp.path.address);
    const scopes = this.#scopesOf(qp, from, until);
    const isQuiet = quiet !== undefined && scopes.size > 0 &&
      [...scopes].every((scope) => quiet.scopes.has(scope));
    if (!isQuiet) return { ...part, isProbe: false };
    quiet.passedOver++;
    if (quiet.passedOver === 2 ** quiet.rarity) {
      quiet.passedOver = 0;
      return { ...part, isProbe: true };
    }
    this.count("hintBatchesPassedOver");
    end.lookedTo = until;
    end.isAnnouncing = false;
    return undefined;
  }

  #scopesOf(qp: QueuePair, from: number, until: number): Set<number> {
    const scopes = new Set<number>();
    for (let number = from; number < until; number++) {
      const { wqe, plan } = qp.requester.work.at(number)!;
      if (wqe?.remote !== undefined) scopes.add(this.#scopeOf(qp, wqe.remote.rkey));
      else if (plan.wire === "send") scopes.add(-1 - qp.qpn);
    }
    return scopes;
  }

  #scopeOf({ qpn, path: { address } }: QueuePair, rkey: number): number {
    const { carriers, groups } = this.#card.hints;
    return carriers.has(address) || groups.size > 0 ? -1 - qpn : rkey;
  }

  /** The entries of a queue pair's work elements, of kinds that the peer wants; and their number. */
  #elements(qp: QueuePair, from: number, until: number, kinds: number) {
    const { cursor, work, nextPsn } = qp.requester, { pathMtu, destQpn } = qp.attributes;
    const found: { entry: HintEntry; work: OutstandingWqe }[] = [];
    let psn = nextPsn;
    for (let number = cursor; number < until; number++) {
      const each = work.at(number)!, { plan, length, wqe } = each;
      if (each.started) continue;
      const sequence = psn;
      if (plan.wire !== "none") psn = (psn + Math.max(1, Math.ceil(length / pathMtu))) % PSNS;
      const operation = plan.hint;
      if (number < from || operation === undefined || each.failure !== undefined) continue;
      const isWord = plan.data === "word" || plan.data === "word room";
      const bytes = isWord ? 8 : length;
      if (operation !== "send" && bytes === 0) continue;
      const isTold = this.#plan.operands && operation !== "send";
      const { va, rkey } = (operation === "send" ? undefined : wqe!.remote) ?? { va: 0n, rkey: 0 };
      const entry: HintEntry = {
        ...{ kinds: 0, operation, messages: 1, sequence, rkey, va, objects: wqe!.objects ?? [] },
        length: operation === "send" ? 0 : bytes,
        ...(isTold && wqe!.atomic && { operands: wqe!.atomic }),
        ...(isTold && wqe!.parts && { parts: wqe!.parts }),
      };
      found.push({ entry, work: each });
    }
    const entries: HintEntry[] = [];
    for (const [i, { entry }] of found.entries()) {
      const wanted = kinds & kindsOf(entry.operation, isBeforeAtomic(found.slice(i)));
      if (wanted === 0) continue;
      const before = entries.at(-1);
      if (
        entry.operation === "send" && before?.operation === "send" && entry.objects.length === 0
      ) {
        entries[entries.length - 1] = { ...before, messages: before.messages + 1 };
        continue;
      }
      const { operands, ...others } = entry;
      const isUsed = operands !== undefined && (wanted & A) !== 0;
      entries.push({ ...others, kinds: wanted, ...(isUsed && { operands }) });
    }
    const group: HintGroup = { sourceQpn: qp.qpn, destQpn, entries };
    return { group, count: found.length };
  }

  #announce(route: Route, parts: readonly Part[]): void {
    const { group, by } = route, { life } = by;
    const isTimed = this.work.takesTime("announce");
    const { messages, held } = this.#make(route, parts, !isTimed);
    for (const message of messages) {
      const behind = held.filter(({ qp }) => group === undefined || concerns(message, qp));
      const elements = message.groups.reduce((sum, { entries }) => sum + entries.length, 0);
      this.work.begin(this.now, "announce", elements, {
        kind: "hint",
        apply: () => {
          const maySend = !isTimed || (life === by.life && rights(by.state).sends);
          if (maySend) this.#send(route, message);
          for (const each of isTimed ? behind : []) {
            each.batch.unsent--;
            if (each.batch.unsent === 0) this.#beginHold(each);
          }
        },
      });
    }
  }

  #send(route: Route, message: HintMessage): void {
    const { by, group, encoding } = route;
    if (group !== undefined) {
      const psn = this.#groupPsns.get(by) ?? 0;
      this.#groupPsns.set(by, psn + 1);
      this.sent.push({ by: by.qpn, psn, to: group.address, message });
    } else if (encoding === "flagged") {
      const { operation, va, rkey, length, sequence } = message.groups[0]!.entries[0]!;
      const row = operation === "read" ? "read-request" : "write";
      const range = { operation: row, va, rkey, length, answer: message.answer };
      this.sent.push({ by: by.qpn, psn: sequence, range });
    } else this.#tellBy(route.qp, message);
  }

  #tellBy(qp: QueuePair, message: HintMessage): void {
    const end = this.ends.get(qp)!;
    this.sent.push({ by: qp.qpn, psn: end.psn, message });
    end.psn++;
  }

  /** The messages of one hint, and the work that waits behind them. */
  #make(route: Route, parts: readonly Part[], isMade: boolean) {
    const { group, by, encoding } = route, { follow, batch, intervalPs } = this.#plan;
    const groups: HintGroup[] = [];
    let elements = 0;
    for (const { qp, end, from, until } of parts) {
      this.#forgetBegun(qp, end);
      end.lookedTo = until;
      end.isAnnouncing = true;
      const agreed = (group === undefined ? route.end : this.#sender(qp)!).agreed!;
      const its = this.#elements(qp, from, until, agreed);
      elements += its.count;
      if (its.group.entries.length > 0) groups.push(its.group);
    }
    const room = group === undefined
      ? by.attributes.pathMtu
      : this.#card.device.plan.mtu - HINT_ETH_BYTES;
    const split = encoding === "flagged" ? rangesOf(groups, by) : splitUp(groups, room);
    const held: { qp: QueuePair; life: number; batch: BatchModel }[] = [];
    if (split.length === 0) return { messages: [], held };
    const answer = follow === "after-ack" || batch === "adaptive" ||
      parts.some(({ isProbe }) => isProbe);
    const messages = split.map((its): HintMessage => {
      const sequence = encoding === "flagged" ? its[0]!.entries[0]!.sequence : this.#sequence++;
      let kinds = 0;
      for (const { entries } of its) for (const entry of entries) kinds |= entry.kinds;
      return { type: "announce", kinds, reason: "none", sequence, answer, groups: its };
    });
    this.count("hintsSent", messages.length);
    this.count("hintElements", elements);
    for (const { objects } of split.flat().flatMap(({ entries }) => entries)) {
      if (objects.length === 0) continue;
      this.count("hintObjectLists");
      this.count("hintCallsSaved", objects.length - 1);
    }
    for (const [i, part] of parts.entries()) {
      const { qp, end, from, until, isProbe } = part;
      const its = group === undefined ? messages : messages.filter((each) => concerns(each, qp));
      if (its.length === 0) continue;
      const asked = group === undefined ? route : { qp, end: this.#sender(qp)! };
      const waitPs = {
        "at-once": 0,
        "delay": this.#plan.delayPs,
        "after-ack": this.#plan.patiencePs,
        "agreed": longest(asked.end.waits, split.flat(), qp),
      }[follow];
      const unsent = isMade ? 0 : its.length;
      const isHeld = unsent > 0 || waitPs > 0;
      if (!isHeld && !answer && intervalPs === 0) continue;
      const made: BatchModel = {
        ...{ first: from, end: until, by: asked.qp, isFirst: group !== undefined || i === 0 },
        ...{ isProbe, scopes: isProbe ? [...this.#scopesOf(qp, from, until)] : [] },
        unanswered: new Set(answer ? its.map(({ sequence }) => sequence) : []),
        ...{ waitPs, unsent, isHeld },
      };
      end.batches.push(made);
      const work = { qp, life: qp.life, batch: made };
      if (unsent === 0) this.#beginHold(work);
      held.push(work);
    }
    return { messages, held };
  }

  /** Batches of work that has begun; a few are kept for their answers. */
  #forgetBegun({ requester: { cursor } }: QueuePair, end: EndModel): void {
    while (end.batches.length > 0) {
      const [{ end: last, unanswered }] = end.batches as [BatchModel];
      if (last > cursor || (unanswered.size > 0 && end.batches.length < BATCHES)) return;
      end.batches.shift();
    }
  }

  /** A packet that is begun takes a hint along, as far as it has room. */
  rideAlong(
    qp: QueuePair,
    { operation, isVendor, payloadBytes }: {
      operation: string;
      isVendor: boolean;
      payloadBytes: number;
    },
  ) {
    const encoding = qp.hintEncoding ?? this.#plan.encoding;
    const carries = encoding === "header"
      ? ["send", "write", "read-request"].includes(operation)
      : encoding === "payload" && ["send", "write"].includes(operation);
    const end = this.ends.get(qp);
    if (!carries || isVendor || end?.life !== qp.life) return undefined;
    const route = this.#routeOf(qp);
    if (route?.by !== qp || (encoding !== "header" && encoding !== "payload")) return undefined;
    const trailer = encoding === "payload" ? HINT_TRAILER_BYTES : 0;
    let left = qp.attributes.pathMtu - payloadBytes - HINT_ETH_BYTES - trailer;
    const { cursor, work } = qp.requester, { depth, transport } = this.#plan;
    const from = Math.max(end.lookedTo, cursor + 1);
    const until = Math.min(work.end, cursor + depth, from + end.batch);
    const isForAll = transport === "carrier" && this.#carrierOf(qp) === qp;
    const parts: Part[] = [];
    for (
      const each of [
        ...from < until ? [{ qp, end, from, until }] : [],
        ...isForAll ? this.#waitingOf(qp, qp) : [],
      ]
    ) {
      let bytes = HINT_GROUP_BYTES, fits = each.from;
      for (; fits < each.until; fits++) {
        const { wqe } = each.qp.requester.work.at(fits)!;
        const its = this.#plan.operands ? { operands: wqe?.atomic, parts: wqe?.parts } : {};
        const more = entryBytes({ objects: wqe?.objects ?? [], ...its });
        if (bytes + more > left) break;
        bytes += more;
      }
      if (fits === each.from) break;
      const part = this.#turnFor(each.qp, each.end, each.from, each.until);
      if (part === undefined) continue;
      left -= bytes;
      parts.push({ ...part, until: fits });
    }
    const { messages: [message] } = this.#make(route, parts, true);
    return message && { form: encoding, message, bytes: bytesOf(message) + trailer };
  }

  // What waits.

  #beginHold({ qp, life, batch }: { qp: QueuePair; life: number; batch: BatchModel }): void {
    if (batch.waitPs > 0) {
      return this.#addHold(batch.waitPs, { at: this.now + batch.waitPs, qp, life, batch });
    }
    if (!batch.isHeld) return;
    batch.isHeld = false;
    if (life === qp.life) this.schedule(qp);
  }

  #addHold(waitPs: Time, hold: HoldModel): void {
    const its = this.#holds.get(waitPs);
    if (its === undefined) this.#holds.set(waitPs, [hold]);
    else its.push(hold);
  }

  /** Whether the next request, of this number, may begin. */
  mayFollow(qp: QueuePair, number: number): boolean {
    const end = this.ends.get(qp);
    if (end?.life !== qp.life || end.batches.length === 0) return true;
    const batch = end.batches.find(({ end }) => end > number);
    const isAnnounced = batch !== undefined && number >= batch.first;
    if (isAnnounced && (batch.isHeld || !this.#isInterval(qp, end, number))) {
      end.heldSince ??= this.now;
      return false;
    }
    if (end.heldSince !== undefined) this.count("hintHoldPs", this.now - end.heldSince);
    end.heldSince = undefined;
    return true;
  }

  #isInterval(qp: QueuePair, end: EndModel, number: number): boolean {
    const { intervalPs } = this.#plan;
    if (intervalPs === 0 || number <= end.begun) return true;
    if (this.now >= end.nextAt) {
      end.begun = number;
      end.nextAt = this.now + intervalPs;
      return true;
    }
    if (end.wakeAt !== end.nextAt) {
      end.wakeAt = end.nextAt;
      this.#addHold(intervalPs, { at: end.nextAt, qp, life: qp.life, batch: undefined });
    }
    return false;
  }

  /** What a step of the card does by itself. */
  step(): void {
    for (const { apply } of this.work.end(this.now)) apply();
    for (const its of this.#holds.values()) {
      while (its.length > 0 && its[0]!.at <= this.now) this.#endHold(its.shift()!);
    }
  }

  #endHold({ qp, life, batch }: HoldModel): void {
    if (life !== qp.life || (batch !== undefined && !batch.isHeld)) return;
    if (batch !== undefined) {
      batch.isHeld = false;
      if (this.#plan.follow === "after-ack" && batch.isFirst) {
        this.count("hintsUnanswered", batch.unanswered.size);
        const end = this.ends.get(batch.by);
        if (end !== undefined) {
          end.silences++;
          if (end.silences >= SILENCES) end.agreed = 0;
        }
      }
    }
    this.schedule(qp);
  }

  get wakeAt(): Time {
    let first: Time = this.work.wakeAt ?? NEVER;
    for (const [waitPs, its] of this.#holds) {
      while (its.length > 0) {
        const [{ batch, life, qp, at }] = its as [HoldModel];
        if (batch?.isHeld !== false && life === qp.life) {
          first = Math.min(first, at);
          break;
        }
        its.shift();
      }
      if (its.length === 0) this.#holds.delete(waitPs);
    }
    return first;
  }

  // What peers say.

  answer(by: QueuePair, message: HintMessage): void {
    const end = this.endOf(by);
    if (end === undefined) return;
    const { type, reason, kinds, answer, groups } = message;
    const isOfAll = this.#card.hints.carriers.get(by.path.address) === by;
    let isKnown = false;
    for (const [qp, its] of isOfAll ? [...this.ends] : [[by, end] as const]) {
      if (its.life === qp.life && this.#endWait(qp, its, by, message)) isKnown = true;
    }
    if (type === "prepared") this.#takeNeedless(by, groups);
    if (!isKnown) {
      if (type === "refused" || groups.length === 0) this.count("hintAnswersUnknown");
      return;
    }
    end.silences = 0;
    if (type === "prepared") this.count("hintsPrepared");
    else {
      const elements = groups.reduce((sum, { entries }) => sum + entries.length, 0);
      this.count(
        reason === "quota"
          ? "hintElementsUnable"
          : reason === "error"
          ? "hintElementsFailed"
          : "hintElementsRefused",
        elements,
      );
      if (!answer) this.count("hintsRefused");
    }
    if (reason === "not-wanted") end.agreed = kinds & this.#plan.kinds;
  }

  #endWait(qp: QueuePair, end: EndModel, by: QueuePair, message: HintMessage): boolean {
    const { type, reason, sequence, answer } = message;
    const batch = end.batches.find((each) => each.by === by && each.unanswered.has(sequence));
    if (batch === undefined) return false;
    if (this.#plan.batch === "adaptive") this.#adapt(end, batch, qp.requester.cursor, message);
    const quiet = this.quiet.get(qp.path.address);
    if (batch.isProbe && quiet !== undefined) {
      if (type === "prepared") {
        const needless = new Set(
          message.groups.flatMap((group) =>
            group.sourceQpn === qp.qpn ? this.#named(qp, group) : []
          ),
        );
        const needed = batch.scopes.filter((scope) => !needless.has(scope));
        if (needed.length > 0) this.#wake(qp.path.address, needed);
        else if (quiet.rarity < RARITY) quiet.rarity++;
      } else if (isInability(reason) || reason === "error") {
        this.#wake(qp.path.address, batch.scopes);
      }
    }
    if (answer) return true;
    batch.unanswered.delete(sequence);
    if (batch.unanswered.size === 0 && batch.isHeld) {
      batch.isHeld = false;
      this.schedule(qp);
    }
    return true;
  }

  #adapt(
    end: EndModel,
    { first }: BatchModel,
    cursor: number,
    { type, reason }: HintMessage,
  ): void {
    const isLate = this.#plan.follow !== "at-once" && cursor >= first;
    const shrinks = type === "prepared" ? isLate : isInability(reason) || reason === "none";
    if (shrinks) end.batch = Math.max(HINT_BATCH.least, Math.floor(end.batch / 2));
    else if (type === "prepared") end.batch = Math.min(HINT_BATCH.most, end.batch * 2);
  }

  #named(qp: QueuePair, { entries }: HintGroup): number[] {
    return entries.length === 0
      ? [-1 - qp.qpn]
      : entries.map(({ rkey }) => this.#scopeOf(qp, rkey));
  }

  #takeNeedless(by: QueuePair, groups: readonly HintGroup[]): void {
    if (this.#plan.backOff === "off") return;
    const { address } = by.path;
    for (const group of groups) {
      const qp = this.#card.device.queuePairs.get(group.sourceQpn);
      if (qp?.path.address !== address || qp.attributes.destQpn !== group.destQpn) continue;
      const quiet = this.quiet.get(address) ?? { scopes: new Set(), rarity: 1, passedOver: 0 };
      this.quiet.delete(address);
      this.quiet.set(address, quiet);
      for (const scope of this.#named(qp, group)) {
        quiet.scopes.delete(scope);
        quiet.scopes.add(scope);
      }
    }
  }

  #wake(address: number, scopes: readonly number[]): void {
    const quiet = this.quiet.get(address);
    if (quiet === undefined) return;
    for (const scope of scopes) quiet.scopes.delete(scope);
    quiet.rarity = 1;
    quiet.passedOver = 0;
  }

  /** Work is sent again: what it is about is announced again. */
  sentAgain(qp: QueuePair): void {
    const { work, cursor } = qp.requester;
    const scopes = this.#scopesOf(qp, work.first, Math.min(work.end, cursor + 1));
    this.#wake(qp.path.address, [...scopes]);
  }

  hearWanted(qp: QueuePair, message: HintMessage): void {
    const end = this.endOf(qp);
    if (end === undefined) return;
    const { kinds, groups, answer } = message, { address } = qp.path;
    const before = end.agreed;
    end.agreed = kinds & this.#plan.kinds;
    end.silences = 0;
    end.waits = new Map();
    for (const { entries } of groups) {
      for (const { kinds: kind, length } of entries) {
        if (![P, W, A, R].some((bit) => bit === kind)) continue;
        end.waits.set(kind, Math.min(length * PS_PER_NS, this.#plan.patiencePs));
      }
    }
    const isChange = before !== undefined && before !== end.agreed;
    if (message.reason !== "not-wanted" || isChange) this.quiet.delete(address);
    else {
      for (const { sourceQpn, entries } of groups) {
        const keys = entries.filter((entry) => entry.kinds === 0).map(({ rkey }) => rkey);
        if (entries.length === 0) this.#wake(address, [-1 - sourceQpn]);
        else if (keys.length > 0) this.#wake(address, keys);
      }
    }
    if (answer || end.told !== this.#wantedKinds()) this.#tell(qp, false);
    this.schedule(qp);
  }

  #wantedKinds(): number {
    const { queuePairs, plan } = this.#card.device, { carriers, groups } = this.#card.hints;
    const isCrowded = carriers.size + groups.size > 0 &&
      2 * queuePairs.size > plan.queueCache.entries;
    return (isCrowded ? A | W : A) & this.#plan.kinds;
  }

  #tell(qp: QueuePair, answer: boolean): void {
    const end = this.ends.get(qp)!, kinds = this.#wantedKinds();
    end.told = kinds;
    const operations: Readonly<Record<HintKind, HintOperation>> = {
      ...{ prefetch: "read", warmUp: "read", atomic: "fetch-add", receive: "send" },
    };
    const none = { messages: 0, sequence: 0, rkey: 0, va: 0n, objects: [] };
    const entries = (Object.entries(this.#plan.waitsPs) as [HintKind, Time][]).flatMap(
      ([kind, ps]): HintEntry[] =>
        (HINT_KINDS[kind] & kinds) === 0 ? [] : [{
          ...{ kinds: HINT_KINDS[kind], operation: operations[kind], ...none },
          length: Math.min(2 ** 32 - 1, Math.ceil(ps / PS_PER_NS)),
        }],
    );
    const ends = { sourceQpn: qp.qpn, destQpn: qp.attributes.destQpn };
    const groups = entries.length > 0 ? [{ ...ends, entries }] : [];
    const sequence = this.#sequence++;
    this.#tellBy(qp, { type: "wanted", kinds, reason: "none", sequence, answer, groups });
  }

  /** A queue pair has come to RTS. */
  offer(qp: QueuePair): void {
    if (this.endOf(qp) !== undefined) this.#ask(qp);
  }

  #ask(qp: QueuePair): void {
    const end = this.ends.get(qp)!;
    end.questions++;
    end.askedAt = this.now;
    this.#tell(qp, true);
  }

  #askAgain(qp: QueuePair): void {
    const asked = this.#carrierOf(qp) ?? qp, end = this.#sender(asked);
    if (end === undefined || end.agreed !== undefined || end.questions >= QUESTIONS) return;
    if (this.now - end.askedAt >= QUESTION_PS) this.#ask(asked);
  }

  /** The first step of a card says its kinds to peers that know others. */
  changed(): void {
    const kinds = this.#wantedKinds();
    for (const [qp, { agreed, told }] of this.ends) {
      if (this.#sender(qp) !== undefined && agreed !== undefined && told !== kinds) {
        this.#tell(qp, false);
      }
    }
  }

  /** A program's own hint, unread. */
  own(qp: QueuePair | undefined, message: HintMessage | undefined): boolean {
    const end = qp && this.endOf(qp);
    if (qp === undefined || end === undefined || !rights(qp.state).sends) return false;
    if (end.agreed === undefined || message === undefined) return false;
    if (bytesOf(message) > HINT_ETH_BYTES + qp.attributes.pathMtu) return false;
    this.count("hintsSent");
    this.#tellBy(qp, message);
    return true;
  }

  /** Units of WQEs that the next read should bring. */
  unitsAhead(qp: QueuePair): number | undefined {
    const end = this.ends.get(qp), { work } = qp.requester;
    if (end?.life !== qp.life || !end.isAnnouncing || work.length === 0) return undefined;
    const positions = work.values().toArray().slice(-2).map(({ position }) => position);
    const units = positions.length < 2 ? 1 : Math.max(1, positions[1]! - positions[0]!);
    return Math.min(UNITS, end.batch * units, Math.max(0, ON_CHIP - work.length));
  }
}

function isInability(reason: HintReason): boolean {
  return reason === "quota";
}

function kindsOf(operation: HintOperation, isBeforeAtomic: boolean): number {
  if (operation === "send") return R | W;
  const isAtomic = operation === "fetch-add" || operation === "compare-swap";
  return P | W | (isAtomic || isBeforeAtomic ? A : 0);
}

/** H-23: a WRITE of bytes of a word whose atomic comes behind it. */
function isBeforeAtomic([first, ...behind]: readonly { readonly entry: HintEntry }[]): boolean {
  const { operation, rkey, va, length } = first!.entry;
  return operation === "write" &&
    behind.some(({ entry }) =>
      (entry.operation === "fetch-add" || entry.operation === "compare-swap") &&
      entry.rkey === rkey && entry.va < va + BigInt(length) && va < entry.va + BigInt(entry.length)
    );
}

function concerns({ groups }: HintMessage, { qpn }: QueuePair): boolean {
  return groups.some(({ sourceQpn }) => sourceQpn === qpn);
}

/** READs and WRITEs of no bytes, each with the range of one; UC has no READ. */
function rangesOf(groups: readonly HintGroup[], { type }: QueuePair): HintGroup[][] {
  const ranges: HintGroup[][] = [];
  for (const { entries, ...ends } of groups) {
    for (const entry of entries) {
      const isOne = entry.operation === "write" || (type === "rc" && entry.operation === "read");
      if (!isOne || (entry.kinds & P) === 0) continue;
      const { parts: _, ...others } = entry;
      ranges.push([{ ...ends, entries: [{ ...others, kinds: P, objects: [] }] }]);
    }
  }
  return ranges;
}

/** Messages within so many bytes, and 255 groups, each of 255 entries: as few as their order allows. */
function splitUp(groups: readonly HintGroup[], room: number): HintGroup[][] {
  const messages: { groups: HintGroup[]; bytes: number }[] = [];
  for (const { entries, ...ends } of groups) {
    let its: HintEntry[] | undefined;
    for (const entry of entries) {
      const message = messages.at(-1), bytes = entryBytes(entry);
      const more = bytes + (its === undefined || its.length === 255 ? HINT_GROUP_BYTES : 0);
      const fits = message !== undefined && message.bytes + more <= room;
      if (fits && its !== undefined && its.length < 255) {
        its.push(entry);
        message.bytes += bytes;
        continue;
      }
      const into = fits && message.groups.length < 255 ? message : { groups: [], bytes: 0 };
      if (into !== message) messages.push(into);
      its = [entry];
      into.groups.push({ ...ends, entries: its });
      into.bytes += bytes + HINT_GROUP_BYTES;
    }
  }
  return messages.map((each) => each.groups);
}

function longest(
  waits: ReadonlyMap<number, Time>,
  groups: readonly HintGroup[],
  { qpn }: QueuePair,
): Time {
  let most = 0;
  for (const { sourceQpn, entries } of groups) {
    if (sourceQpn !== qpn) continue;
    for (const { kinds } of entries) {
      for (const [kind, ps] of waits) if ((kinds & kind) !== 0 && ps > most) most = ps;
    }
  }
  return most;
}
