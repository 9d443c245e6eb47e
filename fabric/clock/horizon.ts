/**
 * The grant formula. Partition p may run to
 *
 *     H(p) = min over q ≠ p of (next(q) + distance(q, p))
 *
 * where next(q) is the earliest thing that can happen in q ({@link effectiveNext}: its own events, and
 * what was sent to it and not yet taken) and distance(q, p) the least delay from a cause in q to its
 * effect in p (`rack/build/topology.ts`). The way from p back to p is not in it: p knows what it has
 * sent, and stops by itself where that can be answered (`Partition.advance`).
 *
 * The same delays say how early a partition can have lost power, or begun: no other may have run past
 * the first news of it.
 */
import { effectiveNext, type Member, openFrom, unseenBy } from "./member.ts";
import { formatTime, NEVER, type Time } from "../base/time.ts";

export class Horizons {
  readonly #members: readonly Member[];
  readonly #lookahead: readonly (readonly Time[])[];
  /** next(q) by {@link Member.index}, as of the last {@link refresh}. */
  readonly #next: Float64Array;
  /** Indices of all partitions, those of the least next(q) first. */
  readonly #byNext: number[];

  /** @param lookahead least delay from partition i to partition j in ps, by {@link Member.index}. */
  constructor(members: readonly Member[], lookahead: readonly (readonly Time[])[]) {
    this.#members = members;
    this.#lookahead = lookahead;
    this.#next = new Float64Array(members.length);
    this.#byNext = members.map(({ index }) => index);
  }

  /** To be called when anything that is known has changed, before the rest is asked. */
  refresh(): void {
    const next = this.#next;
    for (const member of this.#members) next[member.index] = effectiveNext(member);
    // Of a report to the next few have moved: sorting by insertion looks at each partition once or twice.
    const order = this.#byNext;
    for (let i = 1; i < order.length; i++) {
      const q = order[i]!;
      let to = i;
      for (; to > 0 && next[order[to - 1]!]! > next[q]!; to--) order[to] = order[to - 1]!;
      order[to] = q;
    }
  }

  next(member: Member): Time {
    return this.#next[member.index]!;
  }

  get least(): Time {
    return this.#next[this.#byNext[0]!] ?? NEVER;
  }

  /** The least next(q) of the others. */
  leastOfOthers(member: Member): Time {
    const q = this.#byNext.find((index) => index !== member.index);
    return q === undefined ? NEVER : this.#next[q]!;
  }

  /** H(p). The search ends at `useless`: any horizon up to that is as good as another. */
  ofOthers(member: Member, useless: Time = -1): Time {
    let horizon = NEVER;
    for (const q of this.#byNext) {
      const next = this.#next[q]!;
      // No distance is negative: what begins at the horizon or later cannot bring it forward.
      if (next >= horizon || horizon <= useless) break;
      if (q === member.index) continue;
      const bound = next + this.#lookahead[q]![member.index]!;
      if (bound < horizon) horizon = bound;
    }
    return horizon;
  }

  /** The same, and its own planned power failure: exact where the partition may run, else any it cannot. */
  of(member: Member): Time {
    return Math.min(this.ofOthers(member, this.next(member)), member.faults[0]?.at ?? NEVER);
  }

  /** The partition whose next event keeps this one from running, "" where none does. */
  holder(member: Member): string {
    if (member.status !== "idle" || this.next(member) === NEVER) return "";
    let holder = "", least = this.next(member);
    for (const other of this.#members) {
      const bound = this.next(other) + this.#lookahead[other.index]![member.index]!;
      if (other !== member && bound <= least) [holder, least] = [other.name, bound];
    }
    return holder;
  }

  /** Whether a partition could begin at its boot: none has run past the first thing it can cause. */
  mayBegin(member: Member): boolean {
    return this.#members.every((other) =>
      other === member ||
      unseenBy(other) <= member.bootAt + this.#lookahead[member.index]![other.index]!
    );
  }

  /**
   * When a partition can have failed at the earliest; a life without a span failed as its power came.
   * `effectiveNext` does not count: a restarted timekeeper has only a lower bound of it.
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

/** Why nothing can be ordered for `at`, if so. `earliest` is the first open instant, or NEVER. */
export function refuseInstant(at: Time, earliest: Time): string | undefined {
  if (earliest === NEVER) return "it is unknown how far the rack has run: pause it first";
  if (at >= earliest) return undefined;
  return `${formatTime(at)} is past: expected ${formatTime(earliest)} or later`;
}
