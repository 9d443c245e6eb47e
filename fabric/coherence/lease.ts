/**
 * The lease of a pair of cards (decision 13), as data and rules about times: no card serves copies that
 * another one may have been given meanwhile, and no device waits for a card that is cut off or dead.
 *
 * - The far card counts from *sending* a renewal: it serves until `stamp` + {@link LeaseTimes.lease}, where
 *   `stamp` is the time of sending that home's card has returned. Then it stops ({@link fence}).
 * - Home's card counts from *receiving* it: it gives the far card's lines away at that time + lease + grace.
 *
 * No clock is read on both sides, so the clocks need no agreement: only their rates do, within grace of a
 * lease. The renewal is a stamp that rides on any message; without one it has messages of its own, `Renew`
 * and `Renewed`. A far card that holds nothing renews nothing, and one that is not used gives back its
 * lines: an idle rack is quiet.
 */
import { assert } from "../base/assert.ts";
import { formatTime, NEVER, type Time } from "../base/time.ts";

export interface LeaseTimes {
  /**
   * L, in ps: how long a far card serves after the sending of its last renewal that home has heard.
   */
  readonly lease: Time;
  /**
   * ε, in ps: home's card's longer wait; above the drift between two cards' clocks during a lease.
   */
  readonly grace: Time;
}

/** Parts of a lease: a stamp rides after an eighth, has a message of its own after a half. */
const RIDES = 8, OWN = 2;

export interface FarLease {
  readonly lease: Time;
  /** The card serves before this time, and not at it. */
  until: Time;
  stampedAt: Time;
  renewedAt: Time;
  /** `Renew`s since the last access. */
  idleRenewals: number;
}

/** A card whose copies stay unused for this many renewals gives them back, and renews no more. */
const IDLE_RENEWALS = 4;

export function isIdle({ idleRenewals }: FarLease): boolean {
  return idleRenewals >= IDLE_RENEWALS;
}

/** Home's side, for one far card. */
export interface HomeLease {
  /** Home gives away the far card's lines at this time. */
  until: Time;
  /** A stamp that has not been returned, and the latest time to return it. */
  echo: { readonly stamp: Time; readonly by: Time } | null;
  /** Home's card no longer renews it: a queue pair to the far card has failed, and messages may be lost. */
  isStopped: boolean;
}

/** @throws AssertionError for times that are no lease. */
export function newFarLease({ lease, grace }: LeaseTimes): FarLease {
  assert(
    Number.isSafeInteger(lease) && lease >= RIDES && grace > 0,
    `Cannot make a lease of ${formatTime(lease)} with a grace of ${formatTime(grace)}: expected ` +
      `whole picoseconds, ${RIDES} or more, and a grace above 0`,
  );
  return { lease, until: -NEVER, stampedAt: -NEVER, renewedAt: -NEVER, idleRenewals: 0 };
}

/** The stamp for a message that is sent now, if one is due. */
export function rideAt(lease: FarLease, now: Time): Time | undefined {
  if (now < lease.stampedAt + Math.ceil(lease.lease / RIDES)) return undefined;
  lease.stampedAt = now;
  return now;
}

/** Home's card has heard the renewal that the far card sent at `stamp`. */
export function renewedBy(lease: FarLease, stamp: Time): void {
  lease.until = Math.max(lease.until, stamp + lease.lease);
}

/**
 * The far card held nothing, and makes a request now. It can receive nothing before home's card has
 * heard that request, so its lease begins with the request's sending, which carries a stamp.
 */
export function beginLease(lease: FarLease, now: Time): void {
  lease.until = now + lease.lease;
  lease.stampedAt = lease.renewedAt = -NEVER;
}

/** When a far card that holds something has to send a `Renew`; NEVER while one is under way. */
export function renewAt({ lease, until, renewedAt }: FarLease): Time {
  const heard = until - lease;
  return renewedAt > heard ? NEVER : until - Math.ceil(lease / OWN);
}

/** Home's card has received a stamp. `isOwn`: in a `Renew`, which it answers at once. */
export function heardAt(
  now: Time,
  { stamp, times: { lease, grace }, isOwn }: {
    readonly stamp: Time;
    readonly times: LeaseTimes;
    readonly isOwn: boolean;
  },
): HomeLease {
  const by = isOwn ? now : now + Math.floor(lease / RIDES);
  return { until: now + lease + grace, echo: { stamp, by }, isStopped: false };
}

/**
 * When the host agent may treat exclusively lent lines as lost (`cardLost`): home's card is dead,
 * as its host noticed at `noticed`, and far cards that it last answered before serve for one lease
 * at most.
 */
export function cardLostAt(noticed: Time, { lease, grace }: LeaseTimes): Time {
  return noticed + lease + grace;
}
