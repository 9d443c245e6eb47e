/** How long a requester waits after an RNR NAK before it sends again. */
import { NEVER, PS_PER_MS, type Time } from "../../../fabric/base/time.ts";

/** Within this time the requester waits the responder's own delay after every RNR NAK. */
const STEADY_PS = 10 * PS_PER_MS;

/** Past {@link STEADY_PS} a wait is this part of the time for which the receive has been missing. */
const PART = 64;

/** After this time without a receive, the requester is taken to retry for ever: it sends no more. */
const ENDLESS_PS = 60_000 * PS_PER_MS;

/**
 * The delay of an RNR NAK is the least that a requester waits (`rocev2.md` §3.3), so waits may grow with the
 * elapsed time. Without such growth and an end, a SEND with endless RNR retries (`rnrRetry` 7) to a queue pair that
 * never gets a receive would keep the run going as long as both programs stay.
 *
 * @param missing time since the first RNR NAK after the last progress, ps.
 * @param delay of the RNR NAK, ps.
 * @returns ps; NEVER: it does not send again.
 */
export function rnrWaitPs(missing: Time, delay: Time): Time {
  if (missing < STEADY_PS) return delay;
  if (missing >= ENDLESS_PS) return NEVER;
  return Math.max(delay, Math.floor(missing / PART));
}
