/**
 * Which process runs which partition: joins, failures, returns of power, and the news of them for
 * the new process and the far ends of its cables.
 *
 * A failure takes effect when it is recorded: with the last span, the digests and the numbers of
 * messages sent. Until then its observer reports it again, as this timekeeper may end before. Its
 * time:
 *
 * - *Scripted*: when no event can happen before it any more.
 * - *Unscripted* (a process dies): the earliest instant that no partition has run past and that
 *   is not before the partition's last report. A life that has reported nothing never began. Where
 *   no timekeeper knows the progress, the run is marked as not replayable (`inexact.jsonl`).
 * - *Neighbours notice late*, after the lookahead: with the cable's latency alone, a peer that
 *   was granted the full lookahead could have run past the notice.
 *
 * Lives are numbered: a message to or from an earlier life is not delivered.
 */
import type { Grant, Join, Welcome } from "./clock.ts";
import type { Horizons } from "./horizon.ts";
import {
  booted,
  failed,
  type Member,
  noteInbound,
  resumeOrders,
  setStatus,
  settledSpanOf,
  spansDone,
  type Status,
  welcomed,
} from "./member.ts";
import type { PowerState } from "./power_state.ts";
import type { FaultPlan, RackPlan } from "../rack/plan/plan.ts";
import type { OrdersBefore, Recorded, RecordedFault, RecordedOrder, Summary } from "./record.ts";
import { NEVER, type Time } from "../base/time.ts";

export interface ClockOutputs {
  grant(partition: string, grant: Grant): void;
  welcome(partition: string, welcome: Welcome): void;
  ask(term: number): void;
  kill(partition: string, instance: string, at: Time): void;
  start(partition: string, at: Time): void;
  record(fault: Recorded): void;
  /** Before it is added to the plan. */
  planned?(fault: FaultPlan): void;
  /**
   * Makes room on record. @returns false if the order is not to be kept. @throws RecordError: the
   * order is refused.
   * @param before `done`: no earlier order has to be read again.
   */
  accepted?(order: RecordedOrder, before: OrdersBefore): boolean;
  ordered?(order: RecordedOrder): void;
  inexact(why: string): void;
  finished(summary: Summary): void;
}

export interface ClockParts {
  readonly plan: RackPlan;
  readonly term: number;
  readonly members: readonly Member[];
  readonly byName: ReadonlyMap<string, Member>;
  readonly horizons: Horizons;
  readonly power: PowerState;
  readonly out: ClockOutputs;
  /** No partition has run past `now`, as none is running. */
  readonly whenAtRest: (action: (now: Time) => void) => void;
  readonly wallMs: () => number;
}

interface Failure {
  readonly at: Time;
  readonly instance: string;
}

export class Membership {
  readonly #parts: ClockParts;
  readonly #unrecorded = new Set<Member>();
  /** Messages that still arrive from them were sent before. */
  readonly #fenced = new Set<string>();
  #boots = 0;

  constructor(parts: ClockParts) {
    this.#parts = parts;
  }

  recall(recorded: readonly RecordedFault[]): void {
    const { members, term } = this.#parts;
    for (const fault of recorded) {
      this.#replay(fault);
      if (fault.action === "kill" && fault.instance !== "") this.#fenced.add(fault.instance);
    }
    for (const member of members) {
      const last = recorded.findLast(({ partition }) => partition === member.name);
      if (last?.action === "kill") this.#repeatOrders(member, last);
      if (term > 0 && member.status === "absent") this.#setStatus(member, "unknown");
    }
  }

  isFenced(instance: string): boolean {
    return this.#fenced.has(instance);
  }

  /** The process has ended, and a failure of power by it is on record. */
  isOver(member: Member, instance: string): boolean {
    return this.#fenced.has(instance) && !this.#unrecorded.has(member);
  }

  // Processes that come.

  join(member: Member, { instance }: Join): void {
    if (this.#fenced.has(instance)) return;
    const isUp = member.status === "idle" || member.status === "running";
    if (member.instance === instance && member.status !== "unknown") {
      // It missed the answer. Once it has done a grant, this is a stray repetition.
      if (isUp && spansDone(member) === 0) this.#sendWelcome(member);
      return;
    }
    if (isUp) this.died(member, member.instance);
    member.instance = instance;
    if (member.status === "absent") this.#welcome(member);
    else if (member.status === "unknown") this.#setStatus(member, "joining");
    else if (member.status === "dead" && !this.#unrecorded.has(member)) this.#bootWhenDue(member);
  }

  /**
   * Processes have joined a timekeeper that does not know their partitions: a partition begins with
   * the run if no other one has run past its first effect; else its earlier process failed unseen.
   */
  settleJoining(): void {
    const { members, horizons } = this.#parts;
    for (const member of members) {
      if (member.status !== "joining") continue;
      if (horizons.mayBegin(member)) this.#welcome(member);
      else this.#failUnknown(member, "");
    }
  }

  heard(member: Member, instance: string): void {
    if (member.instance !== "" || this.#fenced.has(instance)) return;
    const { status } = member;
    if (status === "unknown" || status === "idle" || status === "running") {
      member.instance = instance;
    }
  }

  // Processes that fail.

  /** @returns false until the death is recorded. */
  died(member: Member, instance?: string): boolean {
    if (instance !== undefined && instance !== "") this.#fenced.add(instance);
    if (member.status === "dead" || member.status === "dying") {
      // The process had come back and ended before it got power.
      if (instance === member.instance) member.instance = "";
      return !this.#unrecorded.has(member);
    }
    // A new timekeeper does not know the process yet: it is the only possible one.
    const isOther = member.instance !== "" && instance !== member.instance;
    if (instance !== undefined && isOther) return true;
    const failedInstance = instance ?? member.instance;
    if (member.status === "absent") member.instance = "";
    else if (member.status === "unknown" || member.status === "joining") {
      this.#failUnknown(member, failedInstance);
    } else {
      this.#failKnown(member, failedInstance);
    }
    return !this.#unrecorded.has(member);
  }

  /**
   * When no partition runs, all messages to the partition are known, and so is the instant of its
   * failure.
   */
  #failKnown(member: Member, instance: string): void {
    const { horizons, out, whenAtRest } = this.#parts;
    this.#unrecorded.add(member);
    this.#setStatus(member, "dying");
    whenAtRest(() => {
      if (this.#isPresumed(member)) {
        out.inexact(
          `${member.name} failed before it did anything, and others had news that it was up`,
        );
      }
      this.#recordFailure(member, { at: horizons.earliestFailure(member), instance });
    });
  }

  /** No process is left that knows the partition's pending work: it may have missed some of it. */
  #failUnknown(member: Member, instance: string): void {
    const { out, whenAtRest } = this.#parts;
    out.inexact(`it is unknown how far ${member.name} had run when it failed`);
    this.#unrecorded.add(member);
    if (member.instance === instance) member.instance = "";
    this.#setStatus(member, "dead");
    whenAtRest((at) => this.#recordFailure(member, { at, instance }));
  }

  /** A process that has come back meanwhile stays, and begins when all failures are on record. */
  #recordFailure(member: Member, failure: Failure): void {
    const { instance } = member;
    const { power, out, whenAtRest } = this.#parts;
    if (power.isUnrecorded) {
      out.inexact(
        `${member.name} failed, and the plan's power failures within a process are not on record`,
      );
    }
    this.#fail(member, failure);
    this.#unrecorded.delete(member);
    if (instance === failure.instance || instance === "") return;
    member.instance = instance;
    whenAtRest((now) => this.#bootAtRest(member, now));
  }

  failByPlan(member: Member, at: Time): void {
    const { instance } = member;
    this.#fail(member, { at, instance }, () => this.#parts.out.kill(member.name, instance, at));
  }

  /** Later lives have news of this one: if it fails before its first span, it never began. */
  #isPresumed(member: Member): boolean {
    return spansDone(member) === 0 &&
      this.#parts.members.some(({ bootOrder }) => bootOrder > member.bootOrder);
  }

  #fail(member: Member, { at, instance }: Failure, order?: () => void): void {
    const { out, power } = this.#parts;
    const { name, nodes, incarnation } = member;
    const settledSpan = settledSpanOf(member);
    out.record({
      at,
      action: "kill",
      partition: name,
      nodes,
      instance,
      incarnation,
      settledSpan,
      digests: power.cut(nodes, at),
      sent: [...member.sent],
    });
    this.#applyFailure(member, { at, settledSpan });
    order?.();
    this.#orderStart(member);
  }

  #orderStart({ name, startAt }: Member): void {
    if (startAt !== NEVER) this.#parts.out.start(name, startAt);
  }

  /** An earlier timekeeper may have ended between its record and the orders that follow from it. */
  #repeatOrders(member: Member, { at, instance }: Failure): void {
    if (instance !== "") this.#parts.out.kill(member.name, instance, at);
    this.#orderStart(member);
  }

  #bootWhenDue(member: Member): void {
    if (member.startAt !== NEVER) this.#boot(member, member.startAt);
    else this.#parts.whenAtRest((now) => this.#bootAtRest(member, now));
  }

  #bootAtRest(member: Member, now: Time): void {
    // It may have failed again, or have begun by an earlier one of these actions.
    if (member.status !== "dead" || member.instance === "") return;
    const { startAt, failedAt } = member;
    this.#boot(member, startAt === NEVER ? Math.max(now, failedAt + 1) : startAt);
  }

  #boot(member: Member, at: Time): void {
    const { name, nodes, instance, incarnation, settledSpan } = member;
    this.#parts.out.record({
      at,
      action: "start",
      partition: name,
      nodes,
      instance,
      incarnation: incarnation + 1,
      settledSpan,
      digests: [],
      sent: [],
    });
    this.#applyBoot(member, at);
    this.#welcome(member);
  }

  #welcome(member: Member): void {
    welcomed(member, this.#parts.wallMs());
    resumeOrders(member);
    for (const [peer, , count] of this.#sentToEarlierLife(member)) {
      this.#named(peer).toConfirm.set(member.name, count);
    }
    this.#sendWelcome(member);
  }

  #sendWelcome(member: Member): void {
    const { out, power, term } = this.#parts;
    const { name, nodes, instance, incarnation, bootAt, settledSpan } = member;
    out.welcome(name, {
      term,
      instance,
      incarnation,
      bootAt,
      settledSpan,
      lives: power.lives(nodes),
      noticed: power.noticed(nodes, bootAt),
      sentSoFar: this.#sentToEarlierLife(member),
    });
  }

  /** The first process has to hear everything. */
  #sentToEarlierLife(member: Member): Welcome["sentSoFar"] {
    if (member.incarnation === 0) return [];
    return this.#parts.members.flatMap((peer) => {
      const count = peer.sent.get(member.name);
      return count === undefined ? [] : [[peer.name, peer.incarnation, count] as const];
    });
  }

  #replay(fault: RecordedFault): void {
    const { at, incarnation, settledSpan } = fault;
    const member = this.#named(fault.partition);
    if (fault.action === "kill") {
      this.#parts.power.note(fault.digests);
      // The peers know which messages they have taken, not which are missing or when those arrive.
      for (const [peer, count] of fault.sent) {
        this.noteSent(member, [peer, incarnation, count, 0]);
      }
      // The far ends drop repeated news (Runner).
      this.#applyFailure(member, { at, settledSpan });
    } else {
      this.#applyBoot(member, at);
      member.instance = fault.instance;
      this.#setStatus(member, "absent");
    }
  }

  noteSent(
    member: Member,
    [peer, incarnation, count, earliest]: readonly [string, number, number, Time],
  ): void {
    member.sent.set(peer, count);
    const receiver = this.#parts.byName.get(peer);
    if (receiver === undefined || receiver.status === "dead") return;
    noteInbound(receiver, { from: member.name, incarnation, count, earliest });
  }

  #applyFailure(member: Member, by: { at: Time; settledSpan: number }): void {
    const { members, power, wallMs } = this.#parts;
    failed(member, { ...by, atMs: wallMs() });
    power.markDown(member.nodes, by.at);
    for (const { node, change } of power.news(member.nodes)) {
      const far = members.find(({ nodes }) => nodes.includes(node))!;
      // A partition without power learns of it when it is welcomed.
      if (far.status !== "dead") far.links.push(change);
    }
  }

  #applyBoot(member: Member, at: Time): void {
    const { power } = this.#parts;
    power.markUp(member.nodes, at);
    booted(member, { at, bootOrder: ++this.#boots, links: power.newsFor(member.nodes, at) });
  }

  #named(partition: string): Member {
    return this.#parts.byName.get(partition)!;
  }

  #setStatus(member: Member, status: Status): void {
    setStatus(member, { status, atMs: this.#parts.wallMs() });
  }
}
