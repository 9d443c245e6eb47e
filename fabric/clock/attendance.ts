/**
 * Which process is here for which partition: who joins, who is gone, who comes back. A death takes
 * effect when it is on record ({@link Mortality}); until then whoever saw it is to tell it again, as
 * this timekeeper may die over it itself.
 */
import type { Join } from "./clock.ts";
import type { Horizons } from "./horizon.ts";
import { type Member, setStatus, spansDone, type Status } from "./member.ts";
import type { Mortality } from "./mortality.ts";
import type { RecordedFault } from "./record.ts";
import { NEVER, type Time } from "../base/time.ts";

export interface AttendanceOptions {
  readonly members: readonly Member[];
  readonly horizons: Horizons;
  readonly mortality: Mortality;
  /** Calls when no partition is running, so that "now" is defined: nobody has run past it. */
  readonly whenAtRest: (action: (now: Time) => void) => void;
  /** Something was done that nobody has seen: the run cannot be replayed. */
  readonly onUnseen: (why: string) => void;
  readonly wallMs: () => number;
}

export class Attendance {
  readonly #options: AttendanceOptions;
  /** Dead, and not yet on record. */
  readonly #unburied = new Set<Member>();
  /** Processes that are known to be dead: what is still heard of them was said before. */
  readonly #gone = new Set<string>();

  constructor(options: AttendanceOptions) {
    this.#options = options;
  }

  /** Takes up an earlier timekeeper's record: deaths and returns, and what followed from them. */
  recall(recorded: readonly RecordedFault[]): void {
    const { members, mortality } = this.#options;
    for (const fault of recorded) {
      mortality.replay(fault);
      if (fault.action === "kill" && fault.instance !== "") this.#gone.add(fault.instance);
    }
    for (const member of members) {
      const last = recorded.findLast(({ partition }) => partition === member.name);
      if (last?.action === "kill") mortality.repeatOrders(member, last);
    }
  }

  /** Whether a process's power has failed: it must not go on, should it only have been asleep. */
  isGone(instance: string): boolean {
    return this.#gone.has(instance);
  }

  /** A process is here for a partition: at first, or again after the power failed. */
  join(member: Member, { instance }: Join): void {
    if (this.#gone.has(instance)) return;
    if (member.instance === instance && member.status !== "unknown") {
      // It did not hear the answer. Once it has done a grant, this is a stray repetition.
      const isUp = member.status === "idle" || member.status === "running";
      if (isUp && spansDone(member) === 0) this.#options.mortality.sendWelcome(member);
      return;
    }
    if (member.status === "idle" || member.status === "running") this.died(member, member.instance);
    member.instance = instance;
    if (member.status === "absent") this.#options.mortality.welcome(member);
    else if (member.status === "unknown") this.#setStatus(member, "joining");
    else if (member.status === "dead" && !this.#unburied.has(member)) this.#boot(member);
  }

  #boot(member: Member): void {
    if (member.startAt === NEVER) this.#bootAtRest(member);
    else this.#options.mortality.boot(member, member.startAt);
  }

  #bootAtRest(member: Member): void {
    this.#options.whenAtRest((now) => {
      // It may have died again, or have begun by an earlier one of these.
      if (member.status !== "dead" || member.instance === "") return;
      const at = member.startAt === NEVER ? Math.max(now, member.failedAt + 1) : member.startAt;
      this.#options.mortality.boot(member, at);
    });
  }

  /**
   * Processes that know nothing have come while this timekeeper knew nothing either. Where nobody has
   * run past the first thing such a partition can cause, it begins with the run; else its earlier
   * process died unseen.
   */
  settleJoining(): void {
    const { members, horizons, mortality } = this.#options;
    for (const member of members) {
      if (member.status !== "joining") continue;
      if (horizons.mayBegin(member)) mortality.welcome(member);
      else this.#dieUnseen(member, "");
    }
  }

  /**
   * The process of a partition is gone: this one, or where it is not said whichever there was.
   * @returns false while the death is not on record: with this timekeeper it would be forgotten.
   */
  died(member: Member, instance?: string): boolean {
    if (instance !== undefined && instance !== "") this.#gone.add(instance);
    if (member.status === "dead" || member.status === "dying") {
      // It had come back and did not live to have power.
      if (instance === member.instance) member.instance = "";
      return !this.#unburied.has(member);
    }
    // A new timekeeper does not know the process yet: it is the only one there can be.
    const isOther = member.instance !== "" && instance !== member.instance;
    if (instance !== undefined && isOther) return true;
    const dead = instance ?? member.instance;
    if (member.status === "absent") {
      member.instance = "";
    } else if (member.status === "unknown" || member.status === "joining") {
      this.#dieUnseen(member, dead);
    } else {
      // Once nobody runs, all that was sent to it is known, and so is the instant of its failure.
      this.#unburied.add(member);
      this.#setStatus(member, "dying");
      this.#options.whenAtRest(() => {
        const { horizons, mortality, onUnseen } = this.#options;
        if (mortality.isPresumed(member)) {
          onUnseen(`${member.name} died before it did anything, and others took it for alive`);
        }
        this.#bury(member, { at: horizons.earliestFailure(member), instance: dead });
      });
    }
    return !this.#unburied.has(member);
  }

  /** Nobody is left who knows what it still had to do: it may have missed some of it. */
  #dieUnseen(member: Member, dead: string): void {
    this.#options.onUnseen(`nobody knows how far ${member.name} had come when it died`);
    this.#unburied.add(member);
    if (member.instance === dead) member.instance = "";
    this.#setStatus(member, "dead");
    this.#options.whenAtRest((at) => this.#bury(member, { at, instance: dead }));
  }

  /** A process that has come back meanwhile stays in its place, and begins when all the dead are buried. */
  #bury(member: Member, dead: { at: Time; instance: string }): void {
    const { instance } = member;
    const { mortality, onUnseen } = this.#options;
    if (mortality.isUnrecorded) {
      onUnseen(
        `${member.name} died, and the plan's power failures within a process are not on record`,
      );
    }
    mortality.fail(member, { ...dead, cause: "death" });
    this.#unburied.delete(member);
    if (instance === dead.instance || instance === "") return;
    member.instance = instance;
    this.#bootAtRest(member);
  }

  /** A process says that it is there: news to a timekeeper that was started again. */
  heard(member: Member, instance: string): void {
    if (member.instance !== "" || this.#gone.has(instance)) return;
    const { status } = member;
    if (status === "unknown" || status === "idle" || status === "running") {
      member.instance = instance;
    }
  }

  #setStatus(member: Member, status: Status): void {
    setStatus(member, { status, atMs: this.#options.wallMs() });
  }
}
