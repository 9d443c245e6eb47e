/**
 * How far each partition may run, and how early it can have died: arithmetic over what the timekeeper
 * knows of all of them, and the least delays between them.
 */
import { effectiveNext, type Member, openFrom, unseenBy } from "./member.ts";
import { NEVER, type Time } from "../base/time.ts";

export class Horizons {
  readonly #members: readonly Member[];
  readonly #lookahead: readonly (readonly Time[])[];
  /** The earliest thing that can happen in each partition, as of the last {@link refresh}. */
  readonly #next: Float64Array;

  /** @param lookahead least delay from partition i to partition j in ps, by {@link Member.index}. */
  constructor(members: readonly Member[], lookahead: readonly (readonly Time[])[]) {
    this.#members = members;
    this.#lookahead = lookahead;
    this.#next = new Float64Array(members.length);
  }

  /** To be called when anything that is known has changed, before the rest is asked. */
  refresh(): void {
    for (const member of this.#members) this.#next[member.index] = effectiveNext(member);
  }

  /** The earliest thing that can happen in the partition. */
  next(member: Member): Time {
    return this.#next[member.index]!;
  }

  /** The earliest thing that can happen anywhere. */
  get least(): Time {
    return Math.min(...this.#next);
  }

  /** Where the partition must stop: nothing the others do can reach it before. */
  ofOthers(member: Member): Time {
    let horizon = NEVER;
    for (let q = 0; q < this.#next.length; q++) {
      const next = this.#next[q]!;
      if (q === member.index || next === NEVER) continue;
      const bound = next + this.#lookahead[q]![member.index]!;
      if (bound < horizon) horizon = bound;
    }
    return horizon;
  }

  /** The same, and its own planned power failure. */
  of(member: Member): Time {
    return Math.min(this.ofOthers(member), member.faults[0]?.at ?? NEVER);
  }

  /** The partition whose next event keeps this one from running, "" where nobody does. */
  holder(member: Member): string {
    if (member.status !== "idle" || this.next(member) === NEVER) return "";
    let holder = "", least = this.next(member);
    for (const other of this.#members) {
      const bound = this.next(other) + this.#lookahead[other.index]![member.index]!;
      if (other !== member && bound <= least) [holder, least] = [other.name, bound];
    }
    return holder;
  }

  /** Whether a partition could begin at its boot: nobody has run past the first thing it can cause. */
  mayBegin(member: Member): boolean {
    return this.#members.every((other) =>
      other === member ||
      unseenBy(other) <= member.bootAt + this.#lookahead[member.index]![other.index]!
    );
  }

  /**
   * When a partition can have failed at the earliest. A life that has done nothing yet failed as its
   * power came, at the earliest: it never began. `effectiveNext` has no say: to a timekeeper that was
   * started again it is but a lower bound, as it is told also of messages that have been taken.
   */
  earliestFailure(member: Member): Time {
    return this.#earliestOf(member, openFrom(member));
  }

  /** When a partition that may be running can be made to fail at the earliest. */
  earliestChange(member: Member): Time {
    return this.#earliestOf(member, member.grant?.horizon ?? openFrom(member));
  }

  /** The earliest time from `own` on at which no other partition has run past the news of a failure. */
  #earliestOf(member: Member, own: Time): Time {
    let at = own;
    for (const other of this.#members) {
      if (other === member) continue;
      const unseen = other.status === "running" ? other.grant!.horizon : unseenBy(other);
      at = Math.max(at, unseen - this.#lookahead[member.index]![other.index]!);
    }
    return at;
  }
}
