/**
 * A partition on the bus: takes grants, collects the events that a grant names, lets the partition
 * run, makes bytes durable, and only then publishes (output commit).
 */
import { assert } from "../base/assert.ts";
import { decodeSealed } from "../bus/codec.ts";
import type { Bus, Subscription } from "../bus/bus.ts";
import { ForgeryError, Refusals } from "../bus/refusals.ts";
import { subjectOf } from "../bus/subjects.ts";
import type { DurableWrite, TraceStep } from "../node.ts";
import { matcherOf } from "../trace/predicate.ts";
import { Partition, type PartitionOptions } from "../partition/partition.ts";
import type { ResendBuffer } from "./resend_buffer.ts";
import { noticeOf } from "../partition/local_node.ts";
import {
  aliveToBytes,
  type Grant,
  joinToBytes,
  newsFromBytes,
  type Report,
  reportToBytes,
  spanNumber,
  type Welcome,
} from "../clock/clock.ts";
import type { Event } from "../partition/event_queue.ts";
import { formatTime, type Time } from "../base/time.ts";
import { EventExchange, type EventExchangeOptions } from "./event_exchange.ts";

/** Persistent bytes outlive their process: one all-or-nothing write per span. */
export interface DurableStore {
  /** Of an earlier process the span `lastSpan` and all before it happened. */
  settle(lastSpan: number): void;
  commit(span: number, writes: readonly DurableWrite[]): void;
  close(): void;
}

export interface RunnerOptions extends
  EventExchangeOptions,
  Pick<
    PartitionOptions,
    "create" | "returnDelay" | "onTrace" | "isTraced" | "onReport" | "observer"
  > {
  readonly instance: string;
  readonly bus: Pick<Bus, "maxPayload" | "publish" | "subscribe">;
  readonly stores: ReadonlyMap<string, DurableStore>;
  /** The error makes this process useless: a broken invariant, a full disk. */
  readonly onFatal: (error: unknown) => void;
  readonly load?: (programs: readonly string[]) => Promise<void>;
  /** Before anything of a span leaves the process: what is kept of it must outlive a kill from then on. */
  readonly beforePublish?: () => void;
  readonly afterSpan?: (span: number) => void;
  readonly delay?: () => Promise<void>;
  readonly hesitate?: () => void;
}

/** A grant waits so long for its events before the first and each later request to resend. */
const RESEND_FIRST_MS = 20;
const RESEND_AGAIN_MS = 200;
const JOIN_AGAIN_MS = 250;
/**
 * Else a program that never rests, on a rack with no other event, would keep its process in one
 * span for ever: no pause, no power failure, no heartbeat. This many events take some 50 ms.
 */
const SPAN_EVENTS_MOST = 10_000;
const ALIVE_MS = 500;

export class Runner {
  readonly #options: RunnerOptions;
  readonly #reportSubject: string;
  readonly #exchange: EventExchange;
  readonly #buffer: ResendBuffer;
  readonly #refusals = new Refusals();
  #partition: Partition | undefined;
  #subscriptions: Subscription[] = [];
  #term = 0;
  #incarnation = 0;
  #done = 0;
  #bootAt: Time = 0;
  #reached: Time = 0;
  #lastReport: Report | undefined;
  #waiting: Grant | undefined;
  #busy = false;
  #resendTimer: ReturnType<typeof setTimeout> | undefined;
  #joinTimer: ReturnType<typeof setInterval> | undefined;
  #aliveTimer: ReturnType<typeof setInterval> | undefined;
  /** By kind, the number of the last news, which only grows: a new timekeeper may repeat news. */
  readonly #carriedOut = new Map<string, number>();

  constructor(options: RunnerOptions) {
    this.#options = options;
    const { run, partition } = options;
    this.#reportSubject = subjectOf({ kind: "clock.report", run, partition });
    this.#exchange = new EventExchange(options);
    this.#buffer = this.#exchange.buffer;
  }

  /** Messages that no process of this rack has sent, without repeated and outdated ones. */
  get refusals(): Refusals {
    return this.#refusals;
  }

  get sent(): number {
    return this.#buffer.allSent().reduce((sum, [, count]) => sum + count, 0);
  }

  get partition(): Partition | undefined {
    return this.#partition;
  }

  start(): void {
    const { bus, run, partition } = this.#options;
    const on = (pattern: string, handler: (payload: Uint8Array) => void) => {
      this.#subscriptions.push(bus.subscribe(pattern, (payload) => {
        try {
          handler(payload);
        } catch (error) {
          this.#options.onFatal(error);
        }
      }));
    };
    const { wire, again } = this.#exchange.subjects;
    for (const subject of wire) on(subject, (payload) => this.#onWire(payload, subject));
    for (const subject of again) {
      on(subject, (payload) => this.#onAgain(decodeSealed(payload), subject));
    }
    const clock = subjectOf({ kind: "clock.grant", run, partition });
    on(clock, (payload) => this.#onClock(payload) || this.#refusals.note(clock));
    const ask = subjectOf({ kind: "clock.ask", run });
    on(ask, (payload) => this.#onAsk(decodeSealed(payload)) || this.#refusals.note(ask));
    this.#join();
    this.#joinTimer = setInterval(() => this.#join(), JOIN_AGAIN_MS);
    this.#aliveTimer = setInterval(() => this.#sayAlive(), ALIVE_MS);
  }

  stop(): void {
    clearInterval(this.#joinTimer);
    clearInterval(this.#aliveTimer);
    clearTimeout(this.#resendTimer);
    for (const subscription of this.#subscriptions) subscription.close();
    this.#subscriptions = [];
    for (const store of this.#options.stores.values()) store.close();
  }

  #join(): void {
    const { bus, run, partition, instance } = this.#options;
    const subject = subjectOf({ kind: "clock.join", run, partition });
    bus.publish(subject, joinToBytes({ partition, instance }));
  }

  #sayAlive(): void {
    const { bus, run, partition, instance } = this.#options;
    const subject = subjectOf({ kind: "clock.alive", run, partition });
    const refused = this.#refusals.rows();
    bus.publish(subject, aliveToBytes({ partition, instance, refused }));
  }

  /** @returns false for a payload that no timekeeper has sent, as the functions below. */
  #onClock(payload: Uint8Array): boolean {
    const news = newsFromBytes(payload);
    if (news?.kind === "grant") return this.#onGrant(news.body);
    if (news !== undefined) this.#onWelcome(news.body);
    return news !== undefined;
  }

  #onWelcome(welcome: Welcome): void {
    if (this.#partition !== undefined || welcome.instance !== this.#options.instance) return;
    clearInterval(this.#joinTimer);
    this.#term = welcome.term;
    this.#incarnation = welcome.incarnation;
    for (const store of this.#options.stores.values()) store.settle(welcome.settledSpan);
    const partition = new Partition({
      ...this.#options,
      scriptedFaults: this.#options.nodes.length > 1,
    });
    this.#partition = partition;
    this.#bootAt = welcome.bootAt;
    this.#reached = welcome.bootAt;
    for (const change of welcome.noticed) partition.noteLink(noticeOf(change));
    for (const [peer, incarnation, count] of welcome.sentSoFar) {
      this.#buffer.skip(peer, incarnation, count);
    }
    partition.powerOn(
      welcome.bootAt,
      new Map(welcome.lives.map(([node, life, high, low, events]) => [
        node,
        { life, digest: { high, low, events } },
      ])),
    );
    this.#lastReport = this.#report({ grant: 0, all: false, hits: [] });
  }

  #onGrant(grant: Grant): boolean {
    const isOutdated = this.#partition === undefined || grant.incarnation !== this.#incarnation ||
      grant.term < this.#term || grant.id < this.#done;
    if (isOutdated) return true;
    if (grant.id === this.#done && this.#lastReport !== undefined) {
      this.#publishReport(this.#lastReport);
      return true;
    }
    if (grant.id === this.#waiting?.id && grant.lost.length === 0) return true;
    if (grant.id !== this.#done + 1) return false;
    this.#term = grant.term;
    this.#waiting = grant;
    this.#tryGrant(RESEND_FIRST_MS);
    return true;
  }

  /** If all events of the grant in hand are here; else requests the missing ones after a while. */
  #tryGrant(patienceMs: number): void {
    clearTimeout(this.#resendTimer);
    const grant = this.#waiting;
    if (grant === undefined || this.#busy) return;
    const missing = grant.expect.filter(([peer, incarnation, count]) =>
      this.#buffer.have(peer, incarnation, count) < count &&
      !grant.lost.some(([name, life]) => name === peer && life === incarnation)
    );
    if (missing.length === 0) {
      this.#begin(grant);
      return;
    }
    this.#resendTimer = setTimeout(() => {
      this.#exchange.askFor(missing);
      this.#tryGrant(RESEND_AGAIN_MS);
    }, patienceMs);
  }

  #begin(grant: Grant): void {
    const { delay, load } = this.#options;
    const ordered = grant.runs.map(({ program }) => program.run);
    if (delay === undefined && (load === undefined || ordered.length === 0)) {
      this.#carryOut(grant);
      return;
    }
    this.#busy = true;
    Promise.all([delay?.(), load?.(ordered)]).then(() => {
      this.#busy = false;
      if (this.#waiting === grant) this.#carryOut(grant);
      else this.#tryGrant(RESEND_FIRST_MS);
    }).catch(this.#options.onFatal);
  }

  #carryOut(grant: Grant): void {
    const partition = this.#partition!;
    this.#waiting = undefined;
    for (const [peer, count] of grant.confirmed) this.#buffer.confirm(peer, count);
    // First: the end of a life precedes messages of a later one.
    for (const change of grant.links) this.#accept(noticeOf(change));
    for (const [peer, incarnation, count] of grant.expect) {
      for (const event of this.#buffer.take(peer, incarnation, count)) {
        this.#refusePast(event, { peer, incarnation });
        this.#accept(event);
      }
    }
    for (const order of grant.runs) {
      if (this.#first("run", order.counter)) {
        partition.run(order.host, {
          time: order.at,
          counter: order.counter,
          program: order.program,
        });
      }
    }
    for (const fault of grant.cables) {
      if (this.#first("cable", fault.id)) partition.addLinkFault(fault);
    }
    const { hits, stopOn } = watched(grant.breaks, partition);
    const advance = partition.advance(grant.horizon, { eventsMost: SPAN_EVENTS_MOST, stopOn });
    this.#reached = advance.reached;
    partition.takeDurable((host, writes) => {
      const store = this.#options.stores.get(host);
      assert(store !== undefined, `Host ${host} has no store for what became persistent`);
      store.commit(spanNumber(this.#incarnation, grant.id), writes);
    });
    this.#options.observer?.commit(spanNumber(this.#incarnation, grant.id));
    this.#options.beforePublish?.();
    this.#options.hesitate?.();
    this.#exchange.publish(this.#incarnation, partition.takeDepartures());
    this.#done = grant.id;
    this.#lastReport = this.#report({ grant: grant.id, all: false, hits });
    this.#publishReport(this.#lastReport);
    this.#options.afterSpan?.(spanNumber(this.#incarnation, grant.id));
  }

  /** The clock grants no partition the time at which a neighbour may still reach it. */
  #refusePast({ time }: Event, of: { readonly peer: string; readonly incarnation: number }): void {
    const { run, partition } = this.#options;
    const past = this.#partition!.ran;
    if (time >= past || time < this.#bootAt) return;
    const subject = subjectOf({ kind: "wire", run, from: of.peer, to: partition });
    throw new ForgeryError(
      `${of.peer} has sent a message on ${subject} that arrives at ${formatTime(time)}: ` +
        `${partition} has passed ${formatTime(past)}, so another process speaks for ${of.peer}`,
    );
  }

  /**
   * Events before power-on are lost, except a cable's state. News of a cable may come twice: from
   * its other end, and from the timekeeper.
   */
  #accept(event: Event): void {
    if (event.time < this.#bootAt) {
      if (event.input.kind === "link") this.#partition!.noteLink(event);
      return;
    }
    const { input, source, sourceLife, target } = event;
    const known = input.kind === "link" &&
      !this.#first(`link ${source} ${target} ${input.port}`, 2 * sourceLife + (input.up ? 0 : 1));
    if (!known) this.#partition!.accept(event);
  }

  #first(kind: string, number: number): boolean {
    if (number <= (this.#carriedOut.get(kind) ?? -1)) return false;
    this.#carriedOut.set(kind, number);
    return true;
  }

  #report(options: { grant: number; all: boolean; hits: Report["hits"] }): Report {
    const partition = this.#partition!;
    const sent = options.all ? this.#buffer.allSent() : this.#buffer.takeSent();
    return {
      term: this.#term,
      partition: this.#options.partition,
      incarnation: this.#incarnation,
      grant: options.grant,
      reached: this.#reached,
      next: partition.next,
      now: partition.now,
      ran: partition.ran,
      events: partition.events,
      sent: sent.map(([peer, count, earliest]) =>
        [peer, this.#incarnation, count, earliest] as const
      ),
      digests: partition.digestStates().map(([node, digest]) =>
        [node, digest.high, digest.low, digest.events] as const
      ),
      hits: options.hits,
      taken: options.all ? this.#buffer.taken() : null,
    };
  }

  #publishReport(report: Report): void {
    this.#options.bus.publish(this.#reportSubject, reportToBytes(report));
  }

  /** To a new timekeeper: a grant that has not begun did not happen, the rest is reported. */
  #onAsk(value: unknown): boolean {
    if (!Number.isSafeInteger(value)) return false;
    if ((value as number) < this.#term) return true;
    if (this.#partition === undefined) {
      this.#join();
      return true;
    }
    this.#term = value as number;
    this.#waiting = undefined;
    this.#lastReport = this.#report({ grant: this.#done, all: true, hits: [] });
    // It knows no process by name yet, and must not take an earlier one's death for this one's.
    this.#sayAlive();
    this.#publishReport(this.#lastReport);
    return true;
  }

  #onWire(payload: Uint8Array, subject: string): void {
    if (this.#exchange.receive(payload, subject)) this.#tryGrant(RESEND_FIRST_MS);
    else this.#refusals.note(subject);
  }

  #onAgain(value: unknown, subject: string): void {
    const incarnation = this.#partition === undefined ? undefined : this.#incarnation;
    if (!this.#exchange.sendAgain(value, { subject, incarnation })) {
      this.#refusals.note(subject);
    }
  }
}

function watched(breaks: Grant["breaks"], partition: Partition) {
  const hits: (readonly [place: number, node: string, at: Time])[] = [];
  if (breaks.length === 0) return { hits, stopOn: undefined };
  const left = breaks.map(([, , count]) => count);
  const matchers = breaks.map(([step, node]) => matcherOf({ step, node }));
  const stopOn = (node: string, step: TraceStep) => {
    let isLast = false;
    for (const [place, isMeant] of matchers.entries()) {
      if (!isMeant(node, step)) continue;
      hits.push([place, node, partition.now]);
      if (--left[place]! <= 0) isLast = true;
    }
    return isLast;
  };
  return { hits, stopOn };
}
