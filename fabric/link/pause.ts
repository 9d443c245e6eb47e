/**
 * Priority flow control (IEEE 802.1Qbb, `rocev2.md` §3.9): pauses of a port's transmitter, and
 * those requested from the other end. The owner of the buffer decides when to request one.
 */
import { NEVER, PS_PER_S, type Time } from "../base/time.ts";
import {
  encodePfc,
  PAUSE_QUANTA_MAX,
  type Pfc,
  PRIORITIES,
  QUANTUM_BITS,
} from "../wire/roce/pfc.ts";

export interface Pauses {
  readonly bitsPerSecond: number;
  /** By priority: no frame starts before this time. */
  readonly until: Float64Array;
  /** When the pause that ends at `until` began; NEVER without one. */
  readonly since: Float64Array;
  pastPs: Time;
}

export function createPauses(bitsPerSecond: number): Pauses {
  const until = new Float64Array(PRIORITIES);
  const since = new Float64Array(PRIORITIES).fill(NEVER);
  return { bitsPerSecond, until, since, pastPs: 0 };
}

/** Rounded up. */
export function pauseTime(quanta: number, bitsPerSecond: number): Time {
  return Math.ceil(quanta * QUANTUM_BITS * PS_PER_S / bitsPerSecond);
}

/** A time replaces the current pause, 0 ends it. */
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

/** The link went down: the peer that requested the pauses is gone. */
export function endPauses(pauses: Pauses, now: Time): void {
  takePfc(pauses, now, { sourceMac: 0, quanta: new Array(PRIORITIES).fill(0) });
}

export function pausedTime(pauses: Pauses, now: Time): Time {
  let sum = pauses.pastPs;
  for (let priority = 0; priority < PRIORITIES; priority++) {
    const since = pauses.since[priority]!;
    if (since !== NEVER) sum += Math.min(now, pauses.until[priority]!) - since;
  }
  return sum;
}

export interface PauseRequests {
  readonly sourceMac: number;
  readonly bitsPerSecond: number;
  /** Bit mask of priorities. */
  asked: number;
  refreshAt: Time;
}

export function createPauseRequests(sourceMac: number, bitsPerSecond: number): PauseRequests {
  return { sourceMac, bitsPerSecond, asked: 0, refreshAt: NEVER };
}

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

export function askResume(requests: PauseRequests, priorities: number): Uint8Array<ArrayBuffer> {
  requests.asked &= ~priorities;
  if (requests.asked === 0) requests.refreshAt = NEVER;
  return encodePfc({ sourceMac: requests.sourceMac, priorities, quanta: 0 });
}

/** The link went down: the next peer has received no request. */
export function forgetRequests(requests: PauseRequests): void {
  requests.asked = 0;
  requests.refreshAt = NEVER;
}
