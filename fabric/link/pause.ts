/**
 * Pauses of a port, both ways (IEEE 802.1Qbb, `rocev2.md` §3.9): what its transmitter was asked to hold
 * back, and what it has asked the other end to hold back. Switches and RNICs use the same. Frames are
 * in `fabric/wire/roce/pfc.ts`; when to ask is decided by whoever owns the buffer.
 */
import { NEVER, PS_PER_S, type Time } from "../base/time.ts";
import {
  encodePfc,
  PAUSE_QUANTA_MAX,
  type Pfc,
  PRIORITIES,
  QUANTUM_BITS,
} from "../wire/roce/pfc.ts";

/** A transmitter's pauses, by priority. */
export interface Pauses {
  readonly bitsPerSecond: number;
  /** No frame of the priority starts before this. */
  readonly until: Float64Array;
  /** When the pause began that ends, or ended, at `until`; NEVER without one. */
  readonly since: Float64Array;
  /** Time spent in pauses that are over, all priorities together. */
  pastPs: Time;
}

export function createPauses(bitsPerSecond: number): Pauses {
  const until = new Float64Array(PRIORITIES);
  const since = new Float64Array(PRIORITIES).fill(NEVER);
  return { bitsPerSecond, until, since, pastPs: 0 };
}

/** How long so many quanta are at this rate, rounded up. */
export function pauseTime(quanta: number, bitsPerSecond: number): Time {
  return Math.ceil(quanta * QUANTUM_BITS * PS_PER_S / bitsPerSecond);
}

/** Takes a received frame in: a time replaces the one that runs, 0 ends it. */
export function takePfc(pauses: Pauses, now: Time, pfc: Pfc): void {
  for (let priority = 0; priority < PRIORITIES; priority++) {
    const quanta = pfc.quanta[priority];
    if (quanta === undefined) continue;
    const since = pauses.since[priority]!;
    const runs = isPaused(pauses, priority, now);
    if (since !== NEVER && !runs) pauses.pastPs += pauses.until[priority]! - since;
    if (quanta === 0) {
      if (runs) pauses.pastPs += now - since;
      pauses.since[priority] = NEVER;
      pauses.until[priority] = now;
    } else {
      if (!runs) pauses.since[priority] = now;
      pauses.until[priority] = now + pauseTime(quanta, pauses.bitsPerSecond);
    }
  }
}

export function isPaused(pauses: Pauses, priority: number, now: Time): boolean {
  return pauses.until[priority]! > now;
}

/** The cable has lost its other end, and with it who asked. */
export function endPauses(pauses: Pauses, now: Time): void {
  takePfc(pauses, now, { sourceMac: 0, quanta: new Array(PRIORITIES).fill(0) });
}

/** How long the transmitter was held back up to `now`: each priority counts. */
export function pausedTime(pauses: Pauses, now: Time): Time {
  let sum = pauses.pastPs;
  for (let priority = 0; priority < PRIORITIES; priority++) {
    const since = pauses.since[priority]!;
    if (since !== NEVER) sum += Math.min(now, pauses.until[priority]!) - since;
  }
  return sum;
}

/** What a port has asked the other end to hold back. A pause is asked for again before it expires. */
export interface PauseRequests {
  readonly sourceMac: number;
  readonly bitsPerSecond: number;
  /** Bit mask of priorities. */
  asked: number;
  /** When to ask again; NEVER where nothing is asked for. */
  refreshAt: Time;
}

export function createPauseRequests(sourceMac: number, bitsPerSecond: number): PauseRequests {
  return { sourceMac, bitsPerSecond, asked: 0, refreshAt: NEVER };
}

/** The frame that asks for a pause of these priorities, as long as a frame can say. */
export function askPause(
  requests: PauseRequests,
  now: Time,
  priorities: number,
): Uint8Array<ArrayBuffer> {
  const { sourceMac, bitsPerSecond } = requests;
  requests.asked |= priorities;
  requests.refreshAt = now + Math.floor(pauseTime(PAUSE_QUANTA_MAX, bitsPerSecond) / 2);
  return encodePfc({ sourceMac, priorities: requests.asked, quanta: PAUSE_QUANTA_MAX });
}

/** The frame that lets these priorities go on. */
export function askResume(requests: PauseRequests, priorities: number): Uint8Array<ArrayBuffer> {
  requests.asked &= ~priorities;
  if (requests.asked === 0) requests.refreshAt = NEVER;
  return encodePfc({ sourceMac: requests.sourceMac, priorities, quanta: 0 });
}

/** The cable has lost its other end: whoever is there next knows of nothing. */
export function forgetRequests(requests: PauseRequests): void {
  requests.asked = 0;
  requests.refreshAt = NEVER;
}
