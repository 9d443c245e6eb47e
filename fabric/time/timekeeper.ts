/**
 * The timekeeper: keeps the earliest pending event of every partition and grants horizons to those
 * that have something to do. Partition p may run to
 *
 *     H(p) = min over q ≠ p of (next(q) + distance(q, p))
 *
 * (its own loop is p's business, see `Partition.advance`), where next(q) counts what was sent to q and
 * not yet taken. An idle rack costs nothing and idle time is jumped over. All of this is soft state:
 * a restarted timekeeper asks the partitions; only deaths are written down (`RecordedFault`), as a
 * dead partition cannot be asked.
 *
 * Pure: no bus and no clock. `wallMs` is handed in only to answer "waiting since when".
 */
import { assert } from "../assert.ts";
import { rackDigest } from "../digest.ts";
import type { FaultPlan, ProgramPlan, RackPlan } from "../rack/plan.ts";
import type { Grant, Join, Report, RunOrder, Welcome } from "./clock.ts";
import {
  addFault,
  ALL_SPANS,
  effectiveNext,
  type Member,
  newMember,
  noteInbound,
  refusePowerFailure,
  setStatus,
  type Status,
} from "./member.ts";
import { Mortality } from "./mortality.ts";
import { Horizons } from "./horizon.ts";
import { PowerLedger } from "./power.ts";
import type { MemberStatus, RecordedFault, Summary } from "./record.ts";
import { NEVER, type Time } from "./time.ts";

/** What the timekeeper wants done. Implemented over the bus, or by tests. */
export interface ClockOutputs {
  welcome(partition: string, welcome: Welcome): void;
  grant(partition: string, grant: Grant): void;
  /** Every partition is to answer with a report that tells all it knows. */
  ask(term: number): void;
  /** This process of this partition must die now: its power failed at virtual time `at`. */
  kill(partition: string, instance: string, at: Time): void;
  /** The process of this partition must be started: its power returns at `at`. */
  start(partition: string, at: Time): void;
  /** Something to be written down before it takes effect. */
  record(fault: RecordedFault): void;
  finished(summary: Summary): void;
}

export interface TimekeeperOptions {
  readonly plan: RackPlan;
  readonly partitions: ReadonlyArray<{ readonly name: string; readonly nodes: readonly string[] }>;
  /** Least delay from partition i to partition j in ps, in the order of `partitions`. */
  readonly lookahead: readonly (readonly number[])[];
  readonly term: number;
  /** Faults that an earlier timekeeper of this run wrote down. */
  readonly recorded: readonly RecordedFault[];
  /** A run that stays up is never finished by having nothing to do. */
  readonly stayUp: boolean;
}

/** How long a partition waits for messages of a dead one before they are given up, in wall ms. */
const LOST_AFTER_MS = 2_000;

/** More programs than anybody starts by hand. */
const RUNS_PER_TERM = 2 ** 20;

export class Timekeeper {
  readonly #options: TimekeeperOptions;
  readonly #out: ClockOutputs;
  readonly #members: Member[];
  readonly #byName: Map<string, Member>;
  readonly #power: PowerLedger;
  readonly #horizons: Horizons;
  readonly #mortality: Mortality;
  /** Dead, and not yet on record. */
  readonly #unburied = new Set<Member>();
  /** What waits for a moment at which no partition is running, so that "now" is defined. */
  #atRest: ((now: Time) => void)[] = [];
  /** Programs that wait to be started until "now" is defined. */
  readonly #orders: Omit<RunOrder, "at">[] = [];
  #paused = false;
  #limit: Time;
  #stopOn = "";
  #finished = false;
  #wallMs = 0;
  #totalGrants = 0;
  #exact = true;
  #runCounter: number;

  constructor(options: TimekeeperOptions, out: ClockOutputs) {
    this.#options = options;
    this.#out = out;
    this.#limit = options.plan.until ?? NEVER;
    // A partition does each of them once, so those of an earlier timekeeper must not come again.
    this.#runCounter = options.term * RUNS_PER_TERM;
    const { faults } = options.plan;
    const together = options.partitions.filter(({ nodes }) => nodes.length > 1);
    this.#power = new PowerLedger(options.plan, new Set(together.flatMap(({ nodes }) => nodes)));
    this.#members = options.partitions.map((partition, index) =>
      newMember(partition, { index, faults })
    );
    this.#byName = new Map(this.#members.map((member) => [member.name, member]));
    this.#horizons = new Horizons(this.#members, options.lookahead);
    this.#mortality = new Mortality({
      members: this.#members,
      power: this.#power,
      term: options.term,
      out,
      wallMs: () => this.#wallMs,
    });
    for (const fault of options.recorded) {
      this.#mortality.replay(fault);
      this.#exact &&= fault.settledSpan !== ALL_SPANS;
    }
    this.#repeatOrders(options.recorded);
    if (options.term > 0) {
      for (const member of this.#members) if (member.status === "absent") member.status = "unknown";
      out.ask(options.term);
    }
  }

  /** An earlier timekeeper may have died between what it wrote down and what it had done about it. */
  #repeatOrders(recorded: readonly RecordedFault[]): void {
    for (const member of this.#members) {
      if (member.status !== "dead") continue;
      const { at, instance } = recorded.findLast(({ partition }) => partition === member.name)!;
      if (instance !== "") this.#out.kill(member.name, instance, at);
      if (member.startAt !== NEVER) this.#out.start(member.name, member.startAt);
    }
  }

  get finished(): boolean {
    return this.#finished;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Nothing happens from here on until somebody resumes; NEVER where nothing holds time back. */
  get limit(): Time {
    return this.#limit;
  }

  /** Virtual time: the last thing that happened anywhere. */
  get now(): Time {
    return Math.max(0, ...this.#members.map((member) => member.now));
  }

  /** A process is here for a partition: at first, or again after the power failed. */
  join(join: Join, wallMs: number): void {
    this.#wallMs = wallMs;
    const member = this.#byName.get(join.partition);
    if (member === undefined) return;
    if (member.instance === join.instance && member.status !== "unknown") {
      // It did not hear the answer. Once it has done a grant, this is a stray repetition.
      if (member.status === "idle" && member.grants === 0) this.#mortality.sendWelcome(member);
      return;
    }
    if (member.status === "idle" || member.status === "running") {
      this.died(member.name, { instance: member.instance, wallMs });
    }
    member.instance = join.instance;
    if (member.status === "absent") this.#mortality.welcome(member);
    else if (member.status === "unknown") this.#setStatus(member, "joining");
    else this.#bootAtRest(member);
    this.schedule(wallMs);
  }

  #bootAtRest(member: Member): void {
    if (member.status === "dead" && member.startAt !== NEVER) {
      this.#mortality.boot(member, member.startAt);
      return;
    }
    this.#whenAtRest((now) => {
      // It may have died again, or have begun by an earlier one of these.
      if (member.status !== "dead" || member.instance === "") return;
      const at = member.startAt === NEVER ? Math.max(now, member.failedAt + 1) : member.startAt;
      this.#mortality.boot(member, at);
    });
  }

  /**
   * Processes that know nothing have come while this timekeeper knew nothing either. Where nobody has
   * run past the first thing such a partition can cause, it begins with the run; else its earlier
   * process died unseen.
   */
  #settleJoining(): void {
    for (const member of this.#members) {
      if (member.status !== "joining") continue;
      if (this.#horizons.mayBegin(member)) {
        this.#mortality.welcome(member);
        continue;
      }
      const { instance } = member;
      this.#exact = false;
      this.#setStatus(member, "dead");
      this.#whenAtRest((at) => {
        this.#mortality.fail(member, { at, instance: "" });
        member.instance = instance;
        this.#bootAtRest(member);
      });
    }
  }

  /** A partition did what it was granted, or answers `ask`. Stale and foreign reports change nothing. */
  report(report: Report, wallMs: number): void {
    this.#wallMs = wallMs;
    const member = this.#byName.get(report.partition);
    if (member === undefined || report.incarnation !== member.incarnation) return;
    if (report.term !== this.#options.term || !isExpected(member, report)) return;
    if (member.status === "unknown") this.#learn(member, report);
    this.#setStatus(member, "idle");
    member.next = report.next;
    member.reached = report.reached;
    member.now = report.now;
    member.ran = report.ran;
    member.events = report.events;
    this.#power.note(report.digests);
    this.#settleGrant(member);
    for (const [peer, incarnation, count, earliest] of report.sent) {
      member.sent.set(peer, count);
      const receiver = this.#byName.get(peer);
      if (receiver === undefined || receiver.status === "dead") continue;
      noteInbound(receiver, { from: member.name, incarnation, count, earliest });
    }
    if (report.stopped) {
      this.#paused = true;
      this.#stopOn = "";
    }
    this.schedule(wallMs);
  }

  /**
   * The process of a partition is gone. Its power failed as soon as it can have without anybody
   * having run past the news, at the latest just before its next event: what it had reported holds,
   * what it was in the middle of did not happen.
   * @param options.instance only this process's death counts; absent: whoever it was.
   * @returns false while the death is not on record: with this timekeeper it would be forgotten.
   */
  died(partition: string, options: { instance?: string; wallMs: number }): boolean {
    this.#wallMs = options.wallMs;
    const member = this.#byName.get(partition);
    if (member === undefined || this.#finished) return true;
    if (member.status === "dead" || member.status === "dying") {
      // It had come back and did not live to have power.
      if (options.instance === member.instance) member.instance = "";
      return !this.#unburied.has(member);
    }
    // A new timekeeper does not know the process yet: it is the only one there can be.
    const isOther = member.instance !== "" && options.instance !== member.instance;
    if (options.instance !== undefined && isOther) return true;
    if (member.status === "absent") {
      member.instance = "";
      return true;
    }
    const dead = options.instance ?? member.instance;
    if (member.status === "joining") {
      const at = this.#horizons.earliestFailure(member);
      this.#mortality.fail(member, { at, instance: dead });
      this.schedule(options.wallMs);
      return true;
    }
    this.#unburied.add(member);
    if (member.status === "unknown") {
      // Nobody is left who knows what it still had to do: it may have missed some of it.
      this.#exact = false;
      this.#setStatus(member, "dead");
      this.#whenAtRest((now) => this.#bury(member, { at: now, instance: dead }));
    } else {
      // Once nobody runs, all that was sent to it is known, and so is the instant of its failure.
      this.#setStatus(member, "dying");
      this.#whenAtRest(() =>
        this.#bury(member, { at: this.#horizons.earliestFailure(member), instance: dead })
      );
    }
    return !this.#unburied.has(member);
  }

  /** A process that has come back meanwhile stays in its place. */
  #bury(member: Member, dead: { at: Time; instance: string }): void {
    const { instance } = member;
    this.#mortality.fail(member, dead);
    this.#unburied.delete(member);
    if (instance !== dead.instance) member.instance = instance;
  }

  /** A process says that it is there: news to a timekeeper that was started again. */
  heard(partition: string, instance: string): void {
    const member = this.#byName.get(partition);
    if (member === undefined || member.instance !== "") return;
    if (member.status !== "idle" && member.status !== "running") return;
    member.instance = instance;
    this.schedule(this.#wallMs);
  }

  /**
   * Starts a program on a host of a running rack, as soon as "now" is defined.
   * @returns the order's number, which the program's results carry.
   */
  run(host: string, program: ProgramPlan): number {
    const member = this.#members.find(({ nodes }) => nodes.includes(host));
    assert(member !== undefined, `Cannot run ${program.run} as there is no host ${host}`);
    const counter = this.#runCounter++;
    const order = { host, counter, program: { ...program, order: counter } };
    this.#orders.push(order);
    this.#whenAtRest((at) => {
      this.#orders.splice(this.#orders.indexOf(order), 1);
      member.runs.push({ at, ...order });
    });
    return counter;
  }

  /** Programs that were ordered and that no partition has been told of. */
  get ordered(): readonly ProgramPlan[] {
    const told = this.#members.flatMap(({ runs }) => runs);
    return [...this.#orders, ...told].map(({ program }) => program);
  }

  /**
   * Adds a power failure of one device to the plan.
   * @returns what was added, or why it cannot be.
   */
  addPowerFailure(
    node: string,
    at: Time,
  ): { readonly added: FaultPlan } | { readonly refusal: string } {
    const member = this.#members.find(({ nodes }) => nodes.includes(node));
    if (member === undefined) return { refusal: `there is no device ${node}` };
    const earliest = this.#horizons.earliestChange(member);
    const refusal = refusePowerFailure(member, { node, at, earliest });
    if (refusal !== undefined) return { refusal };
    const added = addFault(member, at);
    this.schedule(this.#wallMs);
    return { added };
  }

  pause(): void {
    this.#paused = true;
  }

  /** Goes on, at most up to `limit` (exclusive), to the first trace step called `stopOn`. */
  resume(options: { limit?: Time; stopOn?: string; wallMs: number }): void {
    this.#paused = false;
    this.#limit = Math.min(options.limit ?? NEVER, this.#options.plan.until ?? NEVER);
    this.#stopOn = options.stopOn ?? "";
    this.schedule(options.wallMs);
  }

  /** The earliest pending event of the rack, NEVER where nothing will happen. */
  get next(): Time {
    return Math.min(...this.#members.map((member) => effectiveNext(member)));
  }

  /** Whom the rack waits for, since when, and what each partition's next event is. */
  why(wallMs: number): MemberStatus[] {
    this.#horizons.refresh();
    return this.#members.map((member) => ({
      partition: member.name,
      status: member.status,
      sinceMs: wallMs - member.sinceMs,
      next: this.#horizons.next(member),
      reached: member.reached,
      now: member.now,
      events: member.events,
      heldBy: this.#horizons.holder(member),
    }));
  }

  /** Repeats what may have been lost to every partition that has been running for longer than `ms`. */
  repeat(wallMs: number, ms: number): void {
    for (const member of this.#members) {
      if (wallMs - member.sinceMs < ms) continue;
      if (member.status === "unknown") this.#out.ask(this.#options.term);
      if (member.status !== "running" || member.grant === undefined) continue;
      if (wallMs - member.sinceMs > LOST_AFTER_MS) this.#giveUpLost(member);
      this.#out.grant(member.name, member.grant);
    }
  }

  /**
   * A partition has waited for long, and some of what it waits for was sent by a process that is gone:
   * if it is not there by now it was lost with that process, and the run is no longer exact.
   */
  #giveUpLost(member: Member): void {
    const grant = member.grant!;
    const lost = grant.expect.filter(([peer, incarnation]) => {
      const sender = this.#byName.get(peer);
      const isGone = sender?.status === "dead" || sender?.status === "dying";
      return isGone || sender?.incarnation !== incarnation;
    }).map(([peer, incarnation]) => [peer, incarnation] as const);
    if (lost.length === 0) return;
    this.#exact = false;
    member.grant = { ...grant, lost };
  }

  /** Grants what can be granted. Called after everything that may have changed something. */
  schedule(wallMs: number): void {
    this.#wallMs = wallMs;
    if (this.#finished || this.#members.some(({ status }) => status === "unknown")) return;
    this.#settleJoining();
    this.#horizons.refresh();
    while (this.#carryOutFault()) this.#horizons.refresh();
    if (this.#atRest.length > 0) {
      if (this.#members.some(({ status }) => status === "running")) return;
      const now = Math.max(...this.#members.map((member) => member.ran)) + 1;
      const waiting = this.#atRest;
      this.#atRest = [];
      for (const action of waiting) action(now);
      this.schedule(wallMs);
      return;
    }
    if (this.#paused) return;
    let running = false;
    for (const member of this.#members) {
      if (member.status === "idle") this.#grantIfPossible(member);
      if (member.status === "running" || member.status === "absent") running = true;
    }
    if (!running) this.#finishIfQuiet();
  }

  #grantIfPossible(member: Member): void {
    const next = this.#horizons.next(member);
    if (next === NEVER) return;
    const horizon = Math.min(this.#horizons.of(member), this.#limit);
    if (next >= horizon) return;
    const grant: Grant = {
      term: this.#options.term,
      incarnation: member.incarnation,
      id: ++member.grants,
      horizon,
      expect: member.inbound.map(({ from, incarnation, count }) =>
        [from, incarnation, count] as const
      ),
      confirmed: [...member.toConfirm],
      links: member.links,
      runs: member.runs,
      lost: [],
      stopOn: this.#stopOn,
    };
    this.#totalGrants++;
    member.toConfirm.clear();
    member.grant = grant;
    // Until it reports, its next is what it was at the grant: nothing it sends can come sooner.
    member.next = next;
    member.inbound = [];
    member.links = [];
    member.runs = [];
    this.#setStatus(member, "running");
    this.#out.grant(member.name, grant);
  }

  /** What the grant named was taken: tell the senders, some day. */
  #settleGrant(member: Member): void {
    for (const [peer, incarnation, count] of member.grant?.expect ?? []) {
      const sender = this.#byName.get(peer);
      if (sender?.incarnation === incarnation) sender.toConfirm.set(member.name, count);
    }
    member.grant = undefined;
  }

  /** After a restart: what a partition says of itself replaces what is known. */
  #learn(member: Member, report: Report): void {
    member.grants = report.grant;
    member.grant = undefined;
    member.incarnation = report.incarnation;
    for (const [peer, , count] of report.taken ?? []) {
      this.#byName.get(peer)?.toConfirm.set(member.name, count);
    }
  }

  /** Carries out one scripted power failure whose time has come. @returns whether there was one. */
  #carryOutFault(): boolean {
    for (const member of this.#members) {
      const fault = member.faults[0];
      if (fault === undefined || member.status !== "idle") continue;
      if (fault.action !== "kill" || this.#horizons.next(member) < fault.at) continue;
      if (this.#paused || fault.at >= this.#limit || member.instance === "") continue;
      if (this.#horizons.ofOthers(member) < fault.at) continue;
      this.#out.kill(member.name, member.instance, fault.at);
      this.#mortality.fail(member, { at: fault.at, instance: member.instance });
      return true;
    }
    return false;
  }

  #whenAtRest(action: (now: Time) => void): void {
    this.#atRest.push(action);
    this.schedule(this.#wallMs);
  }

  #finishIfQuiet(): void {
    this.#horizons.refresh();
    const next = this.#horizons.least;
    const { plan, stayUp } = this.#options;
    if (next < this.#limit) return;
    if (next === NEVER ? stayUp : this.#limit !== plan.until) return;
    this.#finished = true;
    this.#out.finished(this.summary(next === NEVER ? "quiet" : "until"));
  }

  /** The run so far. */
  summary(reason: Summary["reason"]): Summary {
    const nodes = this.#power.digests();
    return {
      reason,
      digest: rackDigest(nodes),
      virtualPs: this.now,
      events: this.#power.events,
      grants: this.#totalGrants,
      exact: this.#exact,
      nodes,
    };
  }

  #setStatus(member: Member, status: Status): void {
    setStatus(member, { status, atMs: this.#wallMs });
  }
}

/**
 * Asked for until all have answered, a partition answers more than once, also when it has been granted
 * something since: only its first answer is news, and then only what it was granted last.
 */
function isExpected({ status, grants }: Member, report: Report): boolean {
  if (status === "unknown") return report.taken !== null;
  return status === "running" && report.grant === grants;
}
