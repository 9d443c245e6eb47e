/**
 * The timekeeper on the bus: requests, repetition of what the bus may have lost, why time does not
 * move.
 */
import { isMapping } from "../base/mapping.ts";
import type { Bus, Subscription } from "../bus/bus.ts";
import { decode, encode, encodeSealed } from "../bus/codec.ts";
import { CLOCK_VERBS, type ClockVerb, deathVerb, USERS } from "../bus/access.ts";
import { Refusals, type RefusedMessages } from "../bus/refusals.ts";
import { ANY, patternOf, subjectOf } from "../bus/subjects.ts";
import { isLinkFaultRequest, type LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { FaultPlan, ProgramPlan } from "../rack/plan/plan.ts";
import { SHUTDOWN } from "../rack/plan/vocabulary.ts";
import {
  aliveFromBytes,
  type ClockNews,
  isProgram,
  joinFromBytes,
  newsToBytes,
  type Order,
  orderToBytes,
  reportFromBytes,
} from "./clock.ts";
import { type Predicate, predicateProblem } from "../trace/predicate.ts";
import { formatProblem } from "../rack/plan/problem.ts";
import type { BreakHit } from "./breaks.ts";
import {
  type ClockEnd,
  type MemberStatus,
  type OrdersBefore,
  type PowerNews,
  type Recorded,
  type RecordedFault,
  type RecordedOrder,
  RecordError,
  type Summary,
} from "./record.ts";
import type { ClockOutputs } from "./membership.ts";
import { Silence } from "./silence.ts";
import { Timekeeper, type TimekeeperOptions } from "./timekeeper.ts";
import { NEVER, type Time } from "../base/time.ts";

export interface ClockServiceOptions extends TimekeeperOptions {
  readonly run: string;
  readonly bus: Bus;
  readonly livenessMs: number;
  readonly paused?: boolean;
  /**
   * The next timekeeper gets it in `recorded`; returns when it is written. This and the next four
   * throw a `RecordError` if they cannot.
   */
  readonly onRecord?: (fault: Recorded) => void;
  readonly onPlanned?: (fault: FaultPlan) => void;
  /** Makes room for a program that an order starts; returns false where it is not kept. */
  readonly onAccepted?: (order: RecordedOrder, before: OrdersBefore) => boolean;
  readonly onOrdered?: (order: RecordedOrder) => void;
  readonly onInexact?: (why: string) => void;
  readonly onFinished?: (summary: Summary) => void;
  /** Once a second while the run moves: all that is left of a killed rack. */
  readonly onTheWay?: (end: ClockEnd) => void;
  readonly onStopped?: (end: ClockEnd) => void;
  readonly onSilence?: (text: string) => void;
  readonly onStall?: (why: MemberStatus[]) => void;
}

export interface ClockStatus {
  readonly run: string;
  readonly now: Time;
  readonly next: Time;
  readonly paused: boolean;
  /** Nothing happens from here on until the run is resumed; NEVER: no limit. */
  readonly limit: Time;
  /**
   * Virtual ps per wall second whenever time runs, until another pace is ordered; 0: as fast as
   * possible.
   */
  readonly pace: number;
  readonly finished: boolean;
  /** See {@link standsAt}; null: undefined there. */
  readonly standsAt: Time | null;
  readonly breaks: readonly Predicate[];
  readonly hits: readonly BreakHit[];
  readonly watchedFrom: Time | null;
  readonly ordersFrom: number;
  /** Earlier timekeepers' orders whose arrival at the host is unknown. */
  readonly recalled: readonly number[];
  readonly driven: Driving;
  readonly digest: string;
  readonly events: number;
  readonly refused: number;
  readonly refusals: readonly RefusedMessages[];
  readonly why: readonly MemberStatus[];
}

export interface Driving {
  readonly order: number;
  readonly verb: string;
}

const TICK_MS = 50;
const REPEAT_MS = 150;
const STALL_MS = 3_000;
const ON_THE_WAY_MS = 1_000;
const GRANT_OVERHEAD_BYTES = 64 * 1024;

export class ClockService {
  readonly timekeeper: Timekeeper;
  readonly #options: ClockServiceOptions;
  readonly #subscriptions: Subscription[] = [];
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #orders = new Map<string, Order>();
  readonly #silence: Silence;
  readonly #recorded: RecordedFault[];
  readonly #links: LinkFaultPlan[];
  readonly #refusals = new Refusals();
  readonly #refusedThere = new Map<string, readonly RefusedMessages[]>();
  #lastProgressMs: number;
  #lastTickMs: number;
  #lastGrants = -1;
  #onTheWayMs: number;
  #onTheWayEvents = -1;
  #isStallReported = false;
  #finished: Summary | undefined;
  #psPerMs = 0;
  /** Time runs at a pace, up to `limit`. */
  #paced: { readonly fromPs: Time; readonly fromMs: number; readonly limit: Time } | undefined;
  #driven: Driving = { order: 0, verb: "" };

  constructor(options: ClockServiceOptions) {
    this.#options = options;
    this.#recorded = options.recorded.filter((line) => line.action !== "link");
    this.#links = options.recorded.flatMap((line) => line.action === "link" ? line.fault : []);
    this.#lastProgressMs = options.wallMs();
    this.#lastTickMs = this.#onTheWayMs = this.#lastProgressMs;
    options.bus.onStatus(() => this.#lastTickMs = 0);
    this.#silence = new Silence(options);
    this.timekeeper = new Timekeeper(options, this.#outputs());
    if (options.paused) this.timekeeper.pause();
    // A process that died before this timekeeper began never reports, not even its name.
    if (options.term > 0) {
      const atMs = this.#lastTickMs;
      for (const { name } of options.partitions) this.#silence.heard(name, { instance: "", atMs });
    }
    this.#subscribe();
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    for (const subscription of this.#subscriptions) subscription.close();
    const end = this.timekeeper.end();
    if (end !== undefined) this.#options.onStopped?.(end);
  }

  status(): ClockStatus {
    const { timekeeper } = this;
    const summary = timekeeper.summary("quiet");
    return {
      run: this.#options.run,
      now: timekeeper.now,
      next: timekeeper.next,
      paused: timekeeper.paused,
      limit: this.#limit,
      pace: Math.round(this.#psPerMs * 1_000),
      finished: timekeeper.finished,
      standsAt: timekeeper.standsAt ?? null,
      breaks: timekeeper.breaks.all,
      hits: timekeeper.breaks.hits,
      watchedFrom: timekeeper.breaks.from ?? null,
      ordersFrom: timekeeper.ordersFrom,
      recalled: timekeeper.recalled,
      driven: this.#driven,
      digest: summary.digest,
      events: summary.events,
      refused: this.#refusals.total,
      refusals: this.#allRefusals(),
      why: timekeeper.why(),
    };
  }

  #allRefusals(): RefusedMessages[] {
    const own = this.#refusals.rows()
      .map(([subject, count]) => ({ by: USERS.timekeeper, subject, count }));
    return [...own, ...[...this.#refusedThere.values()].flat()];
  }

  #outputs(): ClockOutputs {
    const {
      bus,
      run,
      partitions,
      onRecord,
      onPlanned,
      onAccepted,
      onOrdered,
      onInexact,
      onFinished,
    } = this.#options;
    const subjects = new Map(
      partitions.map(({ name }) =>
        [name, subjectOf({ kind: "clock.grant", run, partition: name })] as const
      ),
    );
    const send = (partition: string, news: ClockNews) =>
      bus.publish(subjects.get(partition)!, newsToBytes(news));
    return {
      welcome: (partition, welcome) => {
        this.#orders.delete(`kill ${partition}`);
        this.#orders.delete(`start ${partition}`);
        send(partition, { kind: "welcome", body: welcome });
      },
      grant: (partition, grant) => send(partition, { kind: "grant", body: grant }),
      ask: (term) => bus.publish(subjectOf({ kind: "clock.ask", run }), encodeSealed(term)),
      kill: (partition, instance, at) => this.#order(["kill", partition, at, instance]),
      start: (partition, at) => this.#order(["start", partition, at, ""]),
      record: (fault) => {
        onRecord?.(fault);
        if (fault.action === "link") this.#links.push(fault.fault);
        else this.#tellOfPower(fault);
      },
      planned: (fault) => onPlanned?.(fault),
      accepted: (order, before) => onAccepted?.(order, before) ?? true,
      ordered: (order) => onOrdered?.(order),
      inexact: (why) => onInexact?.(why),
      finished: (summary) => {
        this.#finished = summary;
        this.#control("finished", { ...summary });
        onFinished?.(summary);
      },
    };
  }

  #tellOfPower(fault: RecordedFault): void {
    const { at, action, partition, nodes } = fault;
    if (action === "kill") this.#silence.forget(partition);
    const news: PowerNews = { number: this.#recorded.length, at, action, partition, nodes };
    this.#recorded.push(fault);
    this.#control("power", news);
  }

  #order(order: Order): void {
    this.#orders.set(`${order[0]} ${order[1]}`, order);
    this.#publishOrder(order);
  }

  #publishOrder(order: Order): void {
    const { bus, run } = this.#options;
    bus.publish(subjectOf({ kind: "clock.order", run, partition: order[1] }), orderToBytes(order));
  }

  #control(verb: string, body: unknown): void {
    const { bus, run } = this.#options;
    bus.publish(subjectOf({ kind: "control", run, verb }), encodeSealed(body));
  }

  #subscribe(): void {
    const { run, partitions, wallMs } = this.#options;
    // Refuses a process's message about a partition other than its subject's.
    const receive = <T extends { readonly partition: string }>(
      kind: "clock.join" | "clock.alive" | "clock.report",
      read: (payload: Uint8Array) => T | undefined,
      take: (message: T) => boolean | void,
    ) => {
      const subjects = new Map(
        partitions.map(({ name }) => [name, subjectOf({ kind, run, partition: name })] as const),
      );
      this.#on(patternOf({ kind, run, partition: ANY }), read, (message, { subject }) => {
        const isOwn = message !== undefined && subjects.get(message.partition) === subject;
        if (!isOwn || take(message) === false) this.#refusals.note(subject);
      });
    };
    receive("clock.join", joinFromBytes, (join) => this.timekeeper.join(join));
    receive("clock.report", reportFromBytes, (report) => this.timekeeper.report(report));
    receive("clock.alive", aliveFromBytes, ({ partition, instance, refused }) => {
      if (refused.length > 0) {
        const rows = refused.map(([subject, count]) => ({ by: partition, subject, count }));
        this.#refusedThere.set(instance, rows);
      }
      // The process was stopped, and its power has failed meanwhile.
      if (this.timekeeper.isFenced(instance)) {
        this.#publishOrder(["kill", partition, 0, instance]);
        return;
      }
      this.timekeeper.heard(partition, instance);
      this.#silence.heard(partition, { instance, atMs: wallMs() });
    });
    const verbs: Readonly<Record<ClockVerb, (request: Request) => unknown>> = {
      status: () => this.status(),
      pause: () => this.#drive("pause", this.#pause()),
      resume: (request) => this.#drive("resume", this.#resume(request)),
      step: (request) => this.#drive("step", this.#step(request)),
      pace: (request) => this.#setPace(request),
      death: (request) => this.#death(request),
      run: (request) => this.#run(request),
      shutdown: (request) => this.#shutDown(request),
      fault: (request) => this.#fault(request),
      faults: (request) => this.#faults(request),
      end: () => this.timekeeper.end() ?? { error: "partitions are still to report" },
      link: (request) => this.#link(request),
    };
    for (const verb of CLOCK_VERBS) this.#answer(verb, verbs[verb]);
    if (this.#options.livenessMs === 0) return;
    // In containers each parent has its own verb, and may report only its own process's death.
    for (const { name } of this.#options.partitions) {
      this.#answer(
        deathVerb(name),
        (request) => request["partition"] === name ? this.#death(request) : undefined,
      );
    }
  }

  #answer(verb: string, answerTo: (request: Request) => unknown): void {
    const pattern = patternOf({ kind: "control", run: this.#options.run, verb });
    this.#on(pattern, decode, (value, { subject, reply }) => {
      const answer = isRequest(value) ? answerTo(value) : undefined;
      if (answer === undefined) this.#refusals.note(subject);
      reply?.(encode(answer ?? { error: `Cannot ${verb}: malformed request` }));
    });
  }

  #on<T>(
    pattern: string,
    read: (payload: Uint8Array) => T,
    handler: (value: T, from: Origin) => void,
  ) {
    const subscription = this.#options.bus.subscribe(
      pattern,
      (payload, subject, reply) => handler(read(payload), { subject, reply }),
    );
    this.#subscriptions.push(subscription);
  }

  #drive(verb: string, answer: object | undefined): unknown {
    if (answer === undefined || "error" in answer) return answer;
    this.#driven = { order: this.#driven.order + 1, verb };
    return { ...answer, driving: this.#driven.order };
  }

  #pause(): object {
    this.#paced = undefined;
    this.timekeeper.pause();
    return { ok: true };
  }

  /** `{ until?: ps, breaks?: Predicate[] }` */
  #resume({ until, breaks = [] }: Request): object | undefined {
    if (until !== undefined && typeof until !== "number") return undefined;
    if (!Array.isArray(breaks) || breaks.length > BREAKS_MAX) return undefined;
    const names = this.#options.partitions.flatMap(({ nodes }) => nodes);
    for (const each of breaks) {
      const problem = predicateProblem(each, names);
      if (problem !== undefined) return { error: formatProblem({ path: "a break", ...problem }) };
    }
    const limit = this.#begin(until ?? NEVER);
    this.timekeeper.resume({ limit, breaks });
    return { ok: true };
  }

  /**
   * `{ ps }`: runs this much virtual time from the next event on; without it, only the next
   * instant.
   */
  #step({ ps }: Request): object | undefined {
    if (ps !== undefined && (typeof ps !== "number" || !(ps > 0))) return undefined;
    const next = this.timekeeper.next;
    const limit = next === NEVER ? this.#limit : next + (ps ?? 1);
    this.#paced = undefined;
    this.timekeeper.resume({ limit });
    return { ok: true, until: limit };
  }

  /** Up to where time runs by orders. */
  get #limit(): Time {
    return this.#paced?.limit ?? this.timekeeper.limit;
  }

  /** @returns the first limit of time that runs up to `limit` from now on. */
  #begin(limit: Time): Time {
    this.#paced = undefined;
    if (this.#psPerMs === 0) return limit;
    const fromPs = this.timekeeper.now;
    this.#paced = { fromPs, fromMs: this.#options.wallMs(), limit };
    return Math.min(fromPs, limit);
  }

  /**
   * `{ psPerSecond }`: virtual time per wall second; 0 or absent: as fast as possible. Time that
   * stands goes on standing.
   */
  #setPace({ psPerSecond }: Request): object | undefined {
    if (psPerSecond !== undefined && (typeof psPerSecond !== "number" || psPerSecond < 0)) {
      return undefined;
    }
    const { timekeeper } = this;
    this.#psPerMs = (psPerSecond ?? 0) / 1_000;
    const stands = timekeeper.paused ||
      (timekeeper.next !== NEVER && timekeeper.next >= this.#limit);
    if (!stands) timekeeper.moveLimit(this.#begin(this.#limit));
    return { ok: true };
  }

  #keepPace(): void {
    // At a break the timekeeper pauses by itself.
    if (this.timekeeper.paused) this.#paced = undefined;
    if (this.#paced === undefined) return;
    const { fromPs, fromMs, limit } = this.#paced;
    const at = fromPs + Math.round((this.#options.wallMs() - fromMs) * this.#psPerMs);
    this.timekeeper.moveLimit(Math.min(at, limit));
  }

  #death({ partition, instance }: Request): unknown {
    if (typeof partition !== "string" || typeof instance !== "string") return undefined;
    if (this.#orders.get(`kill ${partition}`)?.[3] === instance) {
      this.#orders.delete(`kill ${partition}`);
    }
    const settled = this.timekeeper.died(partition, instance);
    return { ok: true, settled, awaited: this.timekeeper.awaitsFirst(partition) };
  }

  /**
   * Without a supervisor that reports deaths, a process that is silent for `livenessMs` is dead.
   */
  #checkLiveness(now: number): void {
    const { livenessMs } = this.#options;
    if (livenessMs === 0 || !this.#options.bus.connected) return;
    // After an outage of the bus, or a pause of this process, each process gets the whole time
    // again.
    const slept = now - this.#lastTickMs > livenessMs / 2;
    if (slept) this.#silence.forgive(now);
    for (const { partition, instance } of this.#silence.dead(now)) {
      this.timekeeper.died(partition, instance || undefined);
    }
    this.#lastTickMs = now;
  }

  /** `{ host, program }`: answers the order's number. */
  #run({ host, program }: Request): unknown {
    const known = this.#options.plan.nodes.some((n) => n.kind === "host" && n.name === host);
    if (!known || !isProgram(program)) return undefined;
    if ((program as ProgramPlan).run === SHUTDOWN) return { error: "a shutdown is no program" };
    const waiting = [...this.timekeeper.ordered, program as ProgramPlan];
    const bytes = waiting.reduce((sum, { options }) => sum + contentBytes(options), 0);
    const most = this.#options.bus.maxPayload - GRANT_OVERHEAD_BYTES;
    // One grant may have to carry them all.
    if (bytes > most) {
      const busy = waiting.length > 1;
      return { busy, error: `${bytes} B are to be handed over: the bus takes ${most} B at once` };
    }
    try {
      return { ok: true, order: this.timekeeper.run(host as string, program as ProgramPlan) };
    } catch (error) {
      if (!(error instanceof RecordError)) throw error;
      return { error: error.message };
    }
  }

  /**
   * `{ host, withinPs }`: shuts down in order, then turns the power off. Answers the order's
   * number.
   */
  #shutDown({ host, withinPs }: Request): unknown {
    const known = this.#options.plan.nodes.some((n) => n.kind === "host" && n.name === host);
    if (!known || !Number.isSafeInteger(withinPs) || (withinPs as number) <= 0) return undefined;
    try {
      const answer = this.timekeeper.shutDown(host as string, withinPs as Time);
      return "refusal" in answer ? { error: answer.refusal } : { ok: true, ...answer };
    } catch (error) {
      if (!(error instanceof RecordError)) throw error;
      return { error: error.message };
    }
  }

  /** `{ node, at }`: a power failure that is yet to come. */
  #fault({ node, at }: Request): unknown {
    if (typeof node !== "string" || !Number.isSafeInteger(at) || (at as number) < 0) {
      return undefined;
    }
    const answer = this.timekeeper.addPowerFailure(node, at as number);
    if ("refusal" in answer) return { error: answer.refusal };
    return { ok: true };
  }

  /**
   * `{ from, links?, of? }`: power failures from this number on; with `links`, all ordered to cables;
   * with a partition and an instance of it as `of`, whether that is over, as of these failures.
   */
  #faults({ from, links, of }: Request): unknown {
    if (!Number.isSafeInteger(from) || (from as number) < 0) return undefined;
    const faults = this.#recorded.slice(from as number)
      .map(({ at, action, partition, nodes }) => ({ at, action, partition, nodes }));
    const { powered } = this.timekeeper;
    const cables = links === true && { links: this.#links };
    const [partition, instance] = Array.isArray(of) ? of : [];
    const over = typeof partition === "string" && typeof instance === "string" &&
      { isOver: this.timekeeper.isOver(partition, instance) };
    return { ok: true, count: this.#recorded.length, faults, powered, ...over, ...cables };
  }

  /** `{ token, fault }`: the sender repeats it with the token until it is answered. */
  #link({ token, fault }: Request): unknown {
    if (typeof token !== "string" || !isLinkFaultRequest(fault)) return undefined;
    const cable = this.#options.plan.cables[fault.cable];
    if (cable?.kind !== "network") return { error: "there is no such network cable" };
    const answer = this.timekeeper.orderLinkFault(token, fault);
    return "refusal" in answer ? { error: answer.refusal } : answer;
  }

  #tellOnTheWay(now: number): void {
    const { onTheWay } = this.#options;
    if (onTheWay === undefined || now - this.#onTheWayMs < ON_THE_WAY_MS) return;
    this.#onTheWayMs = now;
    const end = this.timekeeper.end();
    if (end === undefined || end.events === this.#onTheWayEvents) return;
    this.#onTheWayEvents = end.events;
    onTheWay({ ...end, isOnTheWay: true });
  }

  #tick(): void {
    const { wallMs, onStall } = this.#options;
    const now = wallMs();
    this.#keepPace();
    this.#tellOnTheWay(now);
    this.#checkLiveness(now);
    this.timekeeper.repeat(REPEAT_MS);
    for (const order of this.#orders.values()) this.#publishOrder(order);
    // The bus may have lost it, and a process that waits for the end hears nothing else.
    if (this.#finished !== undefined) this.#control("finished", { ...this.#finished });
    const { grants, paused, finished } = this.timekeeper;
    if (grants !== this.#lastGrants || paused || finished) {
      this.#lastGrants = grants;
      this.#lastProgressMs = now;
      this.#isStallReported = false;
    } else if (
      now - this.#lastProgressMs > STALL_MS && !this.#isStallReported &&
      this.timekeeper.next !== NEVER
    ) {
      this.#isStallReported = true;
      const why = this.timekeeper.why();
      this.#control("stalled", why);
      onStall?.(why);
    }
  }
}

interface Origin {
  readonly subject: string;
  readonly reply: ((payload: Uint8Array) => void) | undefined;
}

type Request = Readonly<Record<string, unknown>>;

function isRequest(value: unknown): value is Request {
  return isMapping(value) && !(value instanceof Uint8Array);
}

/** Each break is evaluated for each step of a device. */
const BREAKS_MAX = 64;

function contentBytes(options: ProgramPlan["options"]): number {
  const { content } = options;
  return content instanceof Uint8Array ? content.length : 0;
}
