/**
 * A loop of empty polls (`while (no completion) yield* pollCq(cq, 1)`) without a step for each. Their instants are known
 * ahead, and they find no completion until another event happens on the host. So one step stands for many polls, and the
 * host's first event ends it: the thread goes on in the middle of the poll that it would have under way. It takes a
 * completion, and sees another thread's changes, at the picosecond and at the cost of single polls.
 *
 * The differences: a loop that counts its polls counts fewer; one that asks `cpu.now` after each
 * passes its deadline by a sixteenth of the streak's time, and by 1 ms, at most (after a second: by
 * a thousandth of it); threads that only poll see each other's variables as late. In a loop over
 * several queues the host's events end a step at the end of a round: exact for the card's
 * writes as long as a round is shorter than a write's time in the IIO, and up to a round late for
 * other threads, also on this core. Threads that poll on one core have a step for each poll. A
 * host's figures have the time of polls when their step ends, and LLC hits of steps only.
 */
import { PS_PER_MS, type Time } from "../../../fabric/base/time.ts";

export interface Poll {
  readonly ring: object;
  readonly address: number;
  readonly costPs: Time;
  readonly isEmpty: boolean;
}

/** Polls beyond the one that has been done: `rounds` times the streak's round. */
export interface Rounds {
  readonly roundPs: Time;
  readonly rounds: number;
}

/** Empty polls before a step stands for more than one. */
const STREAK_POLLS = 64;
const RINGS_MAX = 8;
/**
 * A step's share of its streak, as a loop may have a deadline; at most {@link STEP_MAX_PS}. Beyond
 * a second a thousandth, so that an endless loop ends virtual time after some ten thousand steps,
 * not nine million.
 */
const SHARE = 16, LONG_SHARE = 1000;
const STEP_MAX_PS: Time = PS_PER_MS;

interface DonePoll extends Poll {
  readonly at: Time;
}

/** Consecutive empty polls, without another charge or wait. */
export class PollStreak {
  readonly #host: { readonly eventAt: Time };
  #polls = 0;
  #from: Time = 0;
  #endedAt: Time = -1;
  readonly #last: DonePoll[] = [];

  /** @param host see {@link Spins.eventAt}. */
  constructor(host: { readonly eventAt: Time }) {
    this.#host = host;
  }

  /**
   * At `now`, with `owedPs` owed, the poll's cost included. `isQuiet` is false where an entry may be about to become visible.
   * @returns rounds that may follow at once, perhaps 0; undefined where the streak is short.
   */
  add(
    poll: Poll,
    { now, owedPs, isQuiet }: {
      readonly now: Time;
      readonly owedPs: Time;
      readonly isQuiet: boolean;
    },
  ): Rounds | undefined {
    if (!poll.isEmpty) {
      this.#polls = 0;
      return undefined;
    }
    if (this.#polls === 0 || now !== this.#endedAt || owedPs !== poll.costPs) {
      this.#polls = 0;
      this.#from = now;
    }
    this.#last[this.#polls++ % STREAK_POLLS] = { ...poll, at: now };
    if (this.#polls < STREAK_POLLS) return undefined;
    const round = this.#round();
    if (round === undefined) return undefined;
    const { roundPs, since } = round;
    // Each ring must have been polled since the last event.
    if (!isQuiet || this.#host.eventAt > since) return { roundPs, rounds: 0 };
    const streakPs = now - this.#from;
    const mostPs = Math.min(streakPs / SHARE, Math.max(STEP_MAX_PS, streakPs / LONG_SHARE));
    return { roundPs, rounds: Math.floor(mostPs / roundPs) };
  }

  get since(): Time {
    return this.#from;
  }

  ended(now: Time): void {
    this.#endedAt = now;
  }

  /** The shortest repeating sequence of polls: its duration, and its last begin. */
  #round(): { readonly roundPs: Time; readonly since: Time } | undefined {
    const last = this.#last, next = this.#polls;
    for (let rings = 1; rings <= RINGS_MAX; rings++) {
      let i = next - STREAK_POLLS + rings;
      while (i < next && areAlike(last[i % STREAK_POLLS]!, last[(i - rings) % STREAK_POLLS]!)) i++;
      if (i < next) continue;
      let roundPs = 0;
      for (i = next - rings; i < next; i++) roundPs += last[i % STREAK_POLLS]!.costPs;
      const since = last[(next - rings) % STREAK_POLLS]!.at;
      return roundPs > 0 ? { roundPs, since } : undefined;
    }
    return undefined;
  }
}

function areAlike(x: Poll, y: Poll): boolean {
  return x.ring === y.ring && x.costPs === y.costPs;
}

/** The polls passed over: the first ends at `firstAt`, the others follow every `roundPs`. */
export interface Spin {
  readonly firstAt: Time;
  readonly roundPs: Time;
}

function roundEnd({ firstAt, roundPs }: Spin, from: Time): Time {
  return firstAt + Math.max(0, Math.ceil((from - firstAt) / roundPs)) * roundPs;
}

export type OnBusy = (
  core: { readonly index: number; readonly busyUntil: Time; readonly from?: Time },
  program: string,
) => void;

interface Poller {
  readonly plan: { readonly name: string };
  readonly core: { readonly index: number; busyUntil: Time; cpuPs: Time };
  readonly account: { paidPs: Time };
  readonly order: number;
  readonly wait: { readonly kind: string } | undefined;
  spin: Spin | undefined;
  resumeAt: Time;
  readyAt: Time;
  paidAt: Time;
}

/**
 * A looping thread does not affect others' loops, unless it shares a core with one.
 * @param spinning threads whose polls are being passed over.
 */
export function areOnlySpinsDue(due: Iterable<Poller>, spinning: Iterable<Poller>): boolean {
  let cores: Map<object, number> | undefined;
  for (const task of due) {
    if (task.wait?.kind !== "spin") return false;
    if (cores === undefined) {
      cores = new Map();
      for (const { core } of spinning) cores.set(core, (cores.get(core) ?? 0) + 1);
    }
    if ((cores.get(task.core) ?? 0) > (task.spin === undefined ? 0 : 1)) return false;
  }
  return true;
}

export class Spins {
  /** The host's last event other than empty polls in loops. */
  eventAt: Time = 0;
  readonly #onBusy: OnBusy | undefined;

  constructor(onBusy: OnBusy | undefined) {
    this.#onBusy = onBusy;
  }

  /**
   * At `now` each thread is in the middle of the poll that it would have under way.
   * @param tasks threads whose polls are being passed over.
   */
  interrupt(tasks: readonly Poller[], now: Time): void {
    this.eventAt = now;
    for (const task of tasks) this.#interrupt(task, now);
  }

  /**
   * A thread does something else: polls of earlier threads at this instant come before it, others now.
   * @param tasks threads whose polls are being passed over.
   */
  interruptOthers(
    tasks: readonly Poller[],
    { order }: Poller,
    { readyAt, now }: { readonly readyAt: Time; readonly now: Time },
  ): void {
    this.eventAt = now;
    for (const other of tasks) {
      const isBefore = readyAt === now && other.order < order;
      this.#interrupt(other, isBefore ? now + 1 : now);
    }
  }

  #interrupt(task: Poller, from: Time): void {
    if (task.spin === undefined) return;
    const end = roundEnd(task.spin, from);
    if (end < task.resumeAt) task.resumeAt = task.readyAt = end;
    this.end(task);
  }

  /** Pays for passed polls, up to the one that ends when the thread resumes. */
  end(task: Poller): void {
    if (task.spin === undefined) return;
    const { core, account, resumeAt, plan, spin: { firstAt } } = task;
    task.spin = undefined;
    core.cpuPs += resumeAt - firstAt;
    account.paidPs += resumeAt - firstAt;
    core.busyUntil = Math.max(core.busyUntil, resumeAt);
    task.paidAt = resumeAt;
    if (resumeAt === firstAt) return;
    this.#onBusy?.({ index: core.index, busyUntil: resumeAt, from: firstAt }, plan.name);
  }
}
