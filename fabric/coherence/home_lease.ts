/**
 * Timed actions of home's card: it returns stamps, and gives a far card's lines away (decision 13).
 */
import { NEVER, type Time } from "../base/time.ts";
import { loseFarCard, sayRenewed, unshare } from "./home_card.ts";
import { type HomeCard, homeLine } from "./home_card_state.ts";
import type { Agent } from "../wire/roce/coherence_messages.ts";
import type { Output } from "./output.ts";

/** When {@link homeWake} has work; NEVER if no far card was heard within its lease. */
export function homeNextAt(card: HomeCard): Time {
  let next = NEVER;
  for (const { until, echo } of card.leases.values()) {
    next = Math.min(next, until, echo?.by ?? NEVER);
  }
  return next;
}

/** Does the work due at the card's time. */
export function homeWake(card: HomeCard, out: Output): void {
  for (const [agent, { until, echo }] of [...card.leases]) {
    if (card.now >= until) endLease(card, agent, out);
    else if (echo !== null && card.now >= echo.by) sayRenewed(card, agent, out);
  }
}

/**
 * A queue pair to a far card has failed, and messages may be lost: the life has to end on both sides. That alone
 * proves nothing of the far card (decision 13), which may still serve: its lease is no longer renewed, and ends.
 */
export function stopRenewing(card: HomeCard, agent: Agent): void {
  const { times, lives, leases, now } = card;
  if (times === null || !lives.has(agent)) return;
  const until = leases.get(agent)?.until ?? now + times.lease + times.grace;
  leases.set(agent, { until, echo: null, isStopped: true });
}

/**
 * A far card without exclusive lines or pending messages has let its lease go: it is up, and holds
 * no copy.
 */
function endLease(card: HomeCard, agent: Agent, out: Output): void {
  const isStopped = card.leases.get(agent)?.isStopped === true;
  card.leases.delete(agent);
  if (isStopped || isBound(card, agent)) loseFarCard(card, agent, out);
  else unshare(card, agent, out);
}

/** Whether a line is lent to it exclusively, or a message is under way between both cards. */
function isBound(card: HomeCard, agent: Agent): boolean {
  if (card.requests.some(({ message }) => message.agent === agent)) return true;
  for (const line of card.lines.keys()) {
    const { owner, waiting, serving } = homeLine(card, line);
    if (owner === agent || (waiting >> agent & 1) === 1 || serving?.agent === agent) return true;
  }
  return false;
}
