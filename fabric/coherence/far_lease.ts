/**
 * Timed actions of a far card: renewals of its lease (decision 13), its end, and reports of counts
 * (17).
 */
import { NEVER, type Time } from "../base/time.ts";
import { expire, expiresAt, type FarCard, giveBackAll, messageOf, needsLease } from "./far_card.ts";
import { isIdle, renewAt } from "./lease.ts";
import type { Output } from "./output.ts";

/** When {@link farWake} has work; NEVER for a card that holds nothing and has nothing to report. */
export function farNextAt(card: FarCard): Time {
  return Math.min(expiresAt(card), ownRenewalAt(card), card.windowEnds);
}

/** Does the work due at the card's time. */
export function farWake(card: FarCard, out: Output): void {
  expire(card, out);
  if (card.now >= card.windowEnds) reportCounts(card, out);
  if (card.lease !== null && card.now >= ownRenewalAt(card)) {
    card.lease.renewedAt = card.lease.stampedAt = card.now;
    const { now: stamp } = card;
    out.wire.push({ ...messageOf(card, 0, "Renew"), stamp });
    card.lease.idleRenewals++;
    if (isIdle(card.lease)) giveBackAll(card, out);
  }
}

function ownRenewalAt(card: FarCard): Time {
  return card.lease !== null && card.isUp && needsLease(card) ? renewAt(card.lease) : NEVER;
}

/**
 * Sends the counts of a window to home, whose core judges them; a card that is down reports none.
 */
function reportCounts(card: FarCard, out: Output): void {
  card.windowEnds = NEVER;
  for (const [region, counts] of card.counts) {
    if (card.isUp) out.wire.push({ ...messageOf(card, 0, "Counts"), region, counts });
  }
  card.counts.clear();
}
