/** A limit, a pause, breaks: README, Where a rack stands. */
import type { Predicate } from "../trace/predicate.ts";
import { Breaks } from "./breaks.ts";
import { effectiveNext, type Member, spansDone, unseenBy } from "./member.ts";
import { NEVER, type Time } from "../base/time.ts";

export class Hold {
  isPaused = false;
  isLevelling = false;
  breaks = new Breaks([]);
  #limit: Time = NEVER;
  #levelAt: Time = 0;
  readonly #until: Time;

  constructor(until: Time | null) {
    this.#until = until ?? NEVER;
    this.limit = NEVER;
  }

  /** Nothing happens from here on until the run is resumed; NEVER: no limit. */
  get limit(): Time {
    return this.#limit;
  }

  set limit(limit: Time) {
    this.#limit = Math.min(limit, this.#until);
  }

  get bound(): Time {
    if (!this.isPaused && !this.isLevelling) return this.#limit;
    return Math.min(this.#levelAt, this.#limit);
  }

  /** Another partition may stop the rack with its next event. */
  get isWatching(): boolean {
    return this.breaks.all.length > 0 && !this.isLevelling;
  }

  get isOpen(): boolean {
    return !this.isPaused && !this.isLevelling && this.breaks.all.length === 0;
  }

  release(limit: Time, breaks: readonly Predicate[]): void {
    this.isPaused = false;
    this.breaks = new Breaks(breaks);
    this.isLevelling = breaks.length > 0;
    this.limit = limit;
  }

  watch(): void {
    this.isLevelling = false;
    this.breaks.from = this.#levelAt;
  }

  level(members: readonly Member[]): void {
    this.#levelAt = furthestOf(members);
  }
}

/**
 * No partition has run past it; none may be running. A process that waits for a later return of
 * power has run nothing.
 */
function furthestOf(members: readonly Member[]): Time {
  const hasBegun = members.some((member) => spansDone(member) > 0);
  return hasBegun ? Math.max(1, ...members.map(unseenBy)) : 0;
}

/**
 * Every event before this instant has happened, and none from it on. Undefined while the rack
 * moves, or a partition without a process is behind.
 */
export function standsAt(members: readonly Member[]): Time | undefined {
  if (members.some(({ status }) => status === "running" || status === "unknown")) return undefined;
  const at = furthestOf(members);
  return members.every((member) => effectiveNext(member) >= at) ? at : undefined;
}
