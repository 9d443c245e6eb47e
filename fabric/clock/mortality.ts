/**
 * How partitions lose power and get it again: what the timekeeper notes of it, and what it tells the
 * process that comes and the far ends of its cables.
 */
import type { Welcome } from "./clock.ts";
import {
  dropPastFaults,
  type Member,
  noteInbound,
  setStatus,
  settledSpanOf,
  spansDone,
} from "./member.ts";
import type { PowerLedger } from "./power.ts";
import type { RecordedFault } from "./record.ts";
import type { ClockOutputs } from "./clock_outputs.ts";
import { NEVER, type Time } from "../base/time.ts";

export interface MortalityOptions {
  readonly members: readonly Member[];
  readonly power: PowerLedger;
  readonly term: number;
  readonly out: Pick<ClockOutputs, "kill" | "record" | "start" | "welcome">;
  readonly wallMs: () => number;
}

export class Mortality {
  readonly #options: MortalityOptions;
  #boots = 0;

  constructor(options: MortalityOptions) {
    this.#options = options;
  }

  /**
   * The power of a partition's nodes failed at `at`, with the process `instance`.
   * @param by.cause "plan" where the process does not know of it and has to be told.
   */
  fail(member: Member, by: { at: Time; instance: string; cause: "plan" | "death" }): void {
    const { at, instance, cause } = by;
    const { out, power } = this.#options;
    member.settledSpan = settledSpanOf(member);
    out.record({
      at,
      action: "kill",
      partition: member.name,
      nodes: member.nodes,
      instance,
      incarnation: member.incarnation,
      settledSpan: member.settledSpan,
      digests: power.cut(member.nodes, at),
      sent: [...member.sent],
    });
    this.#applyFailure(member, at);
    if (cause === "plan") out.kill(member.name, instance, at);
    if (member.startAt !== NEVER) out.start(member.name, member.startAt);
  }

  /** Whether processes carry out power failures by themselves: then the record does not hold them all. */
  get isUnrecorded(): boolean {
    return this.#options.power.isUnrecorded;
  }

  /** An earlier timekeeper may have died between what it wrote down and what it had done about it. */
  repeatOrders(member: Member, { at, instance }: Pick<RecordedFault, "at" | "instance">): void {
    const { out } = this.#options;
    if (instance !== "") out.kill(member.name, instance, at);
    if (member.startAt !== NEVER) out.start(member.name, member.startAt);
  }

  /**
   * Whether others, who came after it, were told of a life that has done nothing. Should it die now,
   * it never began, and they know better.
   */
  isPresumed(member: Member): boolean {
    return spansDone(member) === 0 &&
      this.#options.members.some(({ bootOrder }) => bootOrder > member.bootOrder);
  }

  /** The power of a dead partition's nodes returns at `at`, and its process is here. */
  boot(member: Member, at: Time): void {
    this.#options.out.record({
      at,
      action: "start",
      partition: member.name,
      nodes: member.nodes,
      instance: member.instance,
      incarnation: member.incarnation + 1,
      settledSpan: member.settledSpan,
      digests: [],
      sent: [],
    });
    this.#applyBoot(member, at);
    this.welcome(member);
  }

  /** Lets the process that is here for a partition begin. */
  welcome(member: Member): void {
    member.next = member.bootAt;
    member.grants = 0;
    member.grant = undefined;
    this.#setStatus(member, "idle");
    for (const [peer, , count] of this.#sentToEarlierLife(member)) {
      this.#options.members.find(({ name }) => name === peer)!.toConfirm.set(member.name, count);
    }
    this.sendWelcome(member);
  }

  sendWelcome(member: Member): void {
    const { out, power, term } = this.#options;
    out.welcome(member.name, {
      term,
      instance: member.instance,
      incarnation: member.incarnation,
      bootAt: member.bootAt,
      settledSpan: member.settledSpan,
      lives: power.lives(member.nodes),
      noticed: power.noticed(member.nodes, member.bootAt),
      sentSoFar: this.#sentToEarlierLife(member),
    });
  }

  /** What an earlier process was sent; the first one has to hear everything. */
  #sentToEarlierLife(member: Member): Welcome["sentSoFar"] {
    if (member.incarnation === 0) return [];
    return this.#options.members.flatMap((peer) => {
      const count = peer.sent.get(member.name);
      return count === undefined ? [] : [[peer.name, peer.incarnation, count] as const];
    });
  }

  /** Takes up what an earlier timekeeper wrote down. */
  replay(fault: RecordedFault): void {
    const { members, power } = this.#options;
    const member = members.find(({ name }) => name === fault.partition)!;
    member.settledSpan = fault.settledSpan;
    if (fault.action === "kill") {
      power.note(fault.digests);
      this.#recallSent(member, fault);
      // The far ends may have been told; they know what they have been told (Runner).
      this.#applyFailure(member, fault.at);
    } else {
      this.#applyBoot(member, fault.at);
      member.instance = fault.instance;
      this.#setStatus(member, "absent");
    }
  }

  /** The peers know what of it they have taken, not what is missing; when that arrives nobody knows. */
  #recallSent(member: Member, { incarnation, sent }: RecordedFault): void {
    for (const [peer, count] of sent) {
      member.sent.set(peer, count);
      const receiver = this.#options.members.find(({ name }) => name === peer);
      if (receiver === undefined || receiver.status === "dead") continue;
      noteInbound(receiver, { from: member.name, incarnation, count, earliest: 0 });
    }
  }

  #applyFailure(member: Member, at: Time): void {
    const { members, power } = this.#options;
    this.#setStatus(member, "dead");
    member.instance = "";
    member.inbound = [];
    member.taken.clear();
    member.links = [];
    member.runs = [];
    member.cables = [];
    member.grant = undefined;
    member.next = NEVER;
    member.failedAt = at;
    if (member.faults[0]?.action === "kill" && member.faults[0].at <= at) member.faults.shift();
    const start = member.faults[0];
    member.startAt = start?.action === "start" ? start.at : NEVER;
    power.markDown(member.nodes, at);
    for (const { node, change } of power.news(member.nodes)) {
      const far = members.find(({ nodes }) => nodes.includes(node))!;
      // A dead one learns of it when it is welcomed.
      if (far.status !== "dead") far.links.push(change);
    }
  }

  #applyBoot(member: Member, at: Time): void {
    const { power } = this.#options;
    member.incarnation++;
    member.bootAt = at;
    member.bootOrder = ++this.#boots;
    member.startAt = NEVER;
    member.sent.clear();
    member.toConfirm.clear();
    dropPastFaults(member, at);
    power.markUp(member.nodes, at);
    member.links = power.newsFor(member.nodes, at);
    member.cables = [...member.cableHistory];
  }

  #setStatus(member: Member, status: Member["status"]): void {
    setStatus(member, { status, atMs: this.#options.wallMs() });
  }
}
