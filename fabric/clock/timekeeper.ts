/**
 * Grants horizons to partitions with something to do. A restarted one asks the partitions for their
 * state; only power failures, returns and orders are recorded. Pure: no bus and no clock.
 */
import { rackDigest } from "../partition/digest.ts";
import type { ProgramPlan, RackPlan } from "../rack/plan/plan.ts";
import type { Crossing } from "../rack/plan/lookahead.ts";
import { Distances } from "../rack/plan/distances.ts";
import type { LinkFaultRequest } from "../rack/plan/link_plan.ts";
import { CableOrders, type OrderAnswer } from "./cable_orders.ts";
import type { Join, Report, RunOrder } from "./clock.ts";
import { Grants } from "./grants.ts";
import { Horizons } from "./horizon.ts";
import {
  afterAllOf,
  effectiveNext,
  followingOrderAt,
  type Member,
  newCensus,
  newMember,
  resumeOrders,
  spansDone,
} from "./member.ts";
import type { Predicate } from "../trace/predicate.ts";
import type { Breaks } from "./breaks.ts";
import { Hold, standsAt } from "./hold.ts";
import { type ClockOutputs, type ClockParts, Membership } from "./membership.ts";
import { Orders } from "./orders.ts";
import { PowerState } from "./power_state.ts";
import type { ClockEnd, MemberStatus, Recorded, RecordedOrder, Summary } from "./record.ts";
import { NEVER, type Time } from "../base/time.ts";

export interface TimekeeperOptions {
  readonly plan: RackPlan;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
  /** Partitions have numbers in the order of `partitions`. */
  readonly crossings: readonly Crossing[];
  readonly term: number;
  readonly recorded: readonly Recorded[];
  /** Oldest first; a run that begins as a copy of another one also has those yet to come. */
  readonly orders?: readonly RecordedOrder[];
  /** Except those that a run was given with its record. */
  readonly ordersFrom?: number;
  readonly holdAt?: Time;
  readonly inexact: boolean;
  /** The run does not end when nothing is left to do. */
  readonly stayUp: boolean;
  readonly wallMs: () => number;
}

const RUNS_PER_TERM = 2 ** 20;

/** The least number for orders of a run that continues a copy of another one. */
export function ordersBehind(orders: readonly Pick<RunOrder, "counter">[]): number {
  const most = orders.reduce((most, { counter }) => Math.max(most, counter), -1);
  return Math.ceil((most + 1) / RUNS_PER_TERM) * RUNS_PER_TERM;
}

export class Timekeeper {
  readonly #options: TimekeeperOptions;
  readonly #parts: ClockParts;
  readonly #grants: Grants;
  readonly #membership: Membership;
  readonly #cables: CableOrders;
  /** Until no partition is running, so that "now" is defined. */
  #atRest: ((now: Time) => void)[] = [];
  /** That moment is now: grants wait until all actions are done. */
  #resting = false;
  readonly #orders: Orders;
  readonly #hold: Hold;
  readonly #census = newCensus();
  #faulty: readonly Member[] = [];
  /** All possible grants are given, and nothing but reports has happened since. */
  #isCurrent = false;
  #finished = false;
  #exact: boolean;

  constructor(options: TimekeeperOptions, out: ClockOutputs) {
    this.#options = options;
    this.#hold = new Hold(options.plan.until);
    if (options.holdAt !== undefined) this.#hold.limit = options.holdAt;
    this.#exact = !options.inexact;
    const { faults } = options.plan;
    const census = this.#census;
    const together = options.partitions.filter(({ nodes }) => nodes.length > 1);
    const members = options.partitions.map((each, index) =>
      newMember(each, { index, faults, census })
    );
    const inexact = (why: string) => {
      this.#exact = false;
      out.inexact(why);
    };
    this.#parts = {
      ...options,
      members,
      byName: new Map(members.map((member) => [member.name, member])),
      horizons: new Horizons(members, new Distances(members.length, options.crossings)),
      power: new PowerState(options.plan, new Set(together.flatMap(({ nodes }) => nodes))),
      out: { ...out, inexact },
      whenAtRest: (action) => this.#whenAtRest(action),
    };
    this.#grants = new Grants(this.#parts);
    this.#membership = new Membership(this.#parts);
    this.#membership.recall(options.recorded.filter((line) => line.action !== "link"));
    const orders = options.recorded.filter((line) => line.action === "link");
    this.#cables = new CableOrders(this.#parts, orders);
    this.#orders = new Orders(this.#parts, {
      // A partition does each of them once, so the numbers of an earlier timekeeper must not come
      // again.
      from: this.ordersFrom,
      recorded: options.orders ?? [],
      isExact: () => this.#exact,
    });
    if (options.term > 0) out.ask(options.term);
  }

  get finished(): boolean {
    return this.#finished;
  }

  get paused(): boolean {
    return this.#hold.isPaused;
  }

  get limit(): Time {
    return this.#hold.limit;
  }

  get ordersFrom(): number {
    return (this.#options.ordersFrom ?? 0) + this.#options.term * RUNS_PER_TERM;
  }

  get now(): Time {
    return Math.max(0, ...this.#parts.members.map((member) => member.now));
  }

  join(join: Join): void {
    const member = this.#parts.byName.get(join.partition);
    if (member === undefined || this.#finished) return;
    this.#membership.join(member, join);
    this.schedule();
  }

  /**
   * Stale and foreign reports change nothing. @returns false for one that its partition cannot
   * make: of other nodes, or of less than before.
   */
  report(report: Report): boolean {
    const member = this.#parts.byName.get(report.partition);
    if (member === undefined) return false;
    if (report.incarnation !== member.incarnation) return true;
    if (report.term !== this.#options.term || !isExpected(member, report)) return true;
    if (!this.#isPossible(member, report)) return false;
    const isNews = member.status === "unknown";
    this.#grants.answer(member, report);
    if (isNews) resumeOrders(member);
    this.#parts.power.note(report.digests);
    for (const row of report.sent) this.#membership.noteSent(member, row);
    this.#hold.breaks.note(member.index, report.hits);
    const isStill = this.#census.running === 0;
    if (this.#hold.isWatching && isStill && this.#hold.breaks.settle()) this.pause();
    if (this.#isCurrent && this.#hold.isOpen) this.#scheduleAfter(member, report);
    else this.schedule();
    return true;
  }

  #isPossible(member: Member, { digests, sent, incarnation }: Report): boolean {
    return digests.every(([node]) => member.nodes.includes(node)) &&
      sent.every(([peer, of, count]) =>
        peer !== member.name && this.#parts.byName.has(peer) && of === incarnation &&
        count >= (member.sent.get(peer) ?? 0)
      );
  }

  /**
   * Its power failed as early as no other partition has run past the news: reported spans hold,
   * later ones did not happen.
   */
  died(partition: string, instance?: string): boolean {
    const member = this.#parts.byName.get(partition);
    if (member === undefined || this.#finished) return true;
    return this.#membership.died(member, instance);
  }

  get powered(): Record<string, string> {
    const up = this.#parts.members.filter(({ status }) =>
      status === "idle" || status === "running"
    );
    return Object.fromEntries(up.map(({ name, instance }) => [name, instance]));
  }

  awaitsFirst(partition: string): boolean {
    return this.#parts.byName.get(partition)?.status === "absent";
  }

  /** The end of this process is known, and what power its partition lost with it is on record. */
  isOver(partition: string, instance: string): boolean {
    const member = this.#parts.byName.get(partition);
    return member !== undefined && this.#membership.isOver(member, instance);
  }

  isFenced(instance: string): boolean {
    return this.#membership.isFenced(instance);
  }

  heard(partition: string, instance: string): void {
    const member = this.#parts.byName.get(partition);
    if (member === undefined || member.instance !== "") return;
    this.#membership.heard(member, instance);
    this.schedule();
  }

  run(host: string, program: ProgramPlan): number {
    return this.#orders.run(host, program);
  }

  shutDown(host: string, withinPs: Time): ReturnType<Orders["shutDown"]> {
    return this.#orders.shutDown(host, { withinPs, now: this.now });
  }

  get recalled(): number[] {
    return this.#orders.recalled.filter((counter) => counter < this.ordersFrom);
  }

  get ordered(): readonly ProgramPlan[] {
    return this.#orders.ordered;
  }

  addPowerFailure(node: string, at: Time): ReturnType<Orders["addPowerFailure"]> {
    const answer = this.#orders.addPowerFailure(node, at);
    this.schedule();
    return answer;
  }

  /** Makes or heals a fault; may be repeated with the same token. */
  orderLinkFault(token: string, request: LinkFaultRequest): OrderAnswer {
    const answer = this.#cables.order(token, request);
    this.schedule();
    return answer;
  }

  /** Stops at the next instant at which no partition is ahead of another: a consistent cut. */
  pause(): void {
    if (this.#hold.isPaused) return;
    this.#hold.isPaused = true;
    this.#level();
  }

  /**
   * At most up to `limit` (exclusive) or to the first break; breaks are watched from the first
   * instant on at which no partition is ahead of another.
   */
  resume(
    { limit = NEVER, breaks = [] }: { limit?: Time; breaks?: readonly Predicate[] } = {},
  ): void {
    this.#hold.release(limit, breaks);
    if (this.#hold.isLevelling) this.#level();
    else this.schedule();
  }

  /** Exclusive. */
  moveLimit(limit: Time): void {
    this.#hold.limit = limit;
    this.schedule();
  }

  #level(): void {
    this.#whenAtRest(() => this.#hold.level(this.#parts.members));
  }

  get breaks(): Pick<Breaks, "all" | "hits" | "from"> {
    return this.#hold.breaks;
  }

  get standsAt(): Time | undefined {
    return standsAt(this.#parts.members);
  }

  get next(): Time {
    return Math.min(...this.#parts.members.map((member) => effectiveNext(member)));
  }

  why(): MemberStatus[] {
    const wallMs = this.#options.wallMs();
    if (!this.#isCurrent) this.#parts.horizons.refresh();
    return this.#parts.members.map((member) => ({
      partition: member.name,
      status: member.status,
      sinceMs: wallMs - member.sinceMs,
      next: this.#parts.horizons.next(member),
      reached: member.reached,
      now: member.now,
      events: member.events,
      heldBy: this.#parts.horizons.holder(member),
    }));
  }

  /** Repeats possibly lost messages to partitions that have been running for longer than `ms`. */
  repeat(ms: number): void {
    const wallMs = this.#options.wallMs();
    for (const member of this.#parts.members) {
      if (wallMs - member.sinceMs < ms) continue;
      if (member.status === "unknown") this.#parts.out.ask(this.#options.term);
      this.#grants.repeat(member);
    }
  }

  schedule(): void {
    this.#isCurrent = false;
    if (this.#finished || this.#resting || this.#census.unknown > 0) return;
    if (this.#census.joining > 0) this.#membership.settleJoining();
    this.#faulty = this.#parts.members.filter(({ faults }) => faults.length > 0);
    do this.#parts.horizons.refresh(); while (this.#carryOutFault());
    if (this.#atRest.length > 0) {
      if (this.#census.running > 0) return;
      const now = Math.max(...this.#parts.members.map(afterAllOf));
      const waiting = this.#atRest;
      this.#atRest = [];
      this.#resting = true;
      for (const action of waiting) action(now);
      this.#resting = false;
      this.schedule();
      return;
    }
    this.#isCurrent = true;
    this.#grantReady();
  }

  /** After a report that changed only its partition and the receivers of its messages. */
  #scheduleAfter(member: Member, { sent }: Report): void {
    const { horizons, byName } = this.#parts;
    horizons.note([member, ...sent.map(([peer]) => byName.get(peer)!)]);
    if (this.#carryOutFault()) this.schedule();
    else this.#grantReady();
  }

  #grantReady(): void {
    for (const member of this.#parts.horizons.takeReady()) {
      // A partition that heard of a grant may have answered it by now.
      if (member.status === "idle") this.#grantIfPossible(member);
    }
    if (this.#census.running + this.#census.absent > 0 || this.#hold.isPaused) return;
    if (!this.#hold.isLevelling) return this.#finishIfQuiet();
    this.#hold.watch();
    this.schedule();
  }

  #grantIfPossible(member: Member): void {
    const { horizons } = this.#parts;
    const { bound, isWatching } = this.#hold;
    const next = horizons.next(member);
    if (next >= bound) return;
    const first = isWatching ? horizons.leastOfOthers(member) + 1 : NEVER;
    const horizon = Math.min(horizons.of(member), bound, first, followingOrderAt(member));
    if (next >= horizon) return;
    const breaks = isWatching ? this.#hold.breaks.rows : [];
    this.#grants.give(member, { next, horizon, breaks });
  }

  /** @returns whether a scripted power failure was due. */
  #carryOutFault(): boolean {
    const { horizons } = this.#parts;
    const { bound, isWatching } = this.#hold;
    for (const member of this.#faulty) {
      const fault = member.faults[0];
      if (fault === undefined || member.status !== "idle") continue;
      if (fault.action !== "kill" || horizons.next(member) < fault.at) continue;
      if (fault.at >= bound || member.instance === "") continue;
      const others = isWatching ? horizons.leastOfOthers(member) : horizons.ofOthers(member);
      if (others < fault.at) continue;
      this.#membership.failByPlan(member, fault.at);
      return true;
    }
    return false;
  }

  #whenAtRest(action: (now: Time) => void): void {
    this.#atRest.push(action);
    this.schedule();
  }

  #finishIfQuiet(): void {
    const next = this.#parts.horizons.least;
    const { plan, stayUp } = this.#options;
    if (next < this.limit) return;
    if (next === NEVER ? stayUp : this.limit !== plan.until) return;
    this.#finished = true;
    this.#isCurrent = false;
    this.#parts.out.finished(this.summary(next === NEVER ? "quiet" : "until"));
  }

  /** Undefined until all have reported. */
  end(): ClockEnd | undefined {
    const { members, power } = this.#parts;
    if (this.#census.unknown > 0) return undefined;
    const { digest, virtualPs, events, exact } = this.summary("quiet");
    return {
      ...{ digest, virtualPs, events, exact, isFinished: this.#finished },
      partitions: members.map((member) => ({
        partition: member.name,
        reached: reachedBy(member),
        nodes: power.digestsOf(member.nodes),
      })),
    };
  }

  get grants(): number {
    return this.#grants.total;
  }

  summary(reason: Summary["reason"]): Summary {
    const nodes = this.#parts.power.digests();
    return {
      reason,
      digest: rackDigest(nodes),
      virtualPs: this.now,
      events: this.#parts.power.events,
      grants: this.#grants.total,
      exact: this.#exact,
      nodes,
    };
  }
}

/**
 * Asked until all have answered, a partition answers more than once: its first answer counts, later
 * only that to its last grant.
 */
function isExpected({ status, grants }: Member, report: Report): boolean {
  if (status === "unknown") return report.taken !== null;
  return status === "running" && report.grant === grants;
}

function reachedBy(member: Member): Time | null {
  if (member.status === "dead") return null;
  return spansDone(member) === 0 ? member.bootAt : member.reached;
}
