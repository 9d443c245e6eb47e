import { NEVER, PS_PER_MS, type Time } from "../../../fabric/base/time.ts";

/** Within this time each wait is the responder's own delay. */
const STEADY_PS = 10 * PS_PER_MS;

/** Later waits are this part of the time since the receive has been missing. */
const PART = 64;

/** The requester is taken to retry for ever: it sends no more. */
const ENDLESS_PS = 60_000 * PS_PER_MS;

/**
 * How long a requester waits after an RNR NAK. The NAK's delay is the least (`rocev2.md` §3.3); waits grow and end, as a
 * SEND with endless RNR retries (`rnrRetry` 7) to a queue pair without receives would keep the run going for ever.
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
