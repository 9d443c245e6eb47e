import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { Device } from "./device.ts";
import type { QueuePair } from "./queue_pair.ts";
import { rights } from "./life_cycle.ts";

/**
 * `requester`: local ACK time-out or RNR wait. `receive`: P-26's retry. `pace`: next frame. `rate`:
 * DCQCN's alpha or rate. `read`: next READ answered.
 */
const TIMERS = ["requester", "receive", "pace", "rate", "read"] as const;
export type Timer = typeof TIMERS[number];

export const TIMERS_PER_QUEUE_PAIR = TIMERS.length;

const PLACE: Readonly<Record<Timer, number>> = {
  requester: 0,
  receive: 1,
  pace: 2,
  rate: 3,
  read: 4,
};

function slotOf(qp: QueuePair, timer: Timer): number {
  return TIMERS_PER_QUEUE_PAIR * qp.slot + PLACE[timer];
}

export function setTimer(device: Device, qp: QueuePair, at: { timer: Timer; time: Time }): void {
  device.deadlines.set(slotOf(qp, at.timer), at.time);
}

export function clearTimer(device: Device, qp: QueuePair, timer: Timer): void {
  device.deadlines.set(slotOf(qp, timer), NEVER);
}

export function clearTimers(device: Device, qp: QueuePair): void {
  for (const timer of TIMERS) clearTimer(device, qp, timer);
}

export function timerRuns(device: Device, qp: QueuePair, timer: Timer): boolean {
  return device.deadlines.at(slotOf(qp, timer)) !== NEVER;
}

export function timerOfSlot(slot: number): { readonly qpSlot: number; readonly timer: Timer } {
  const place = slot % TIMERS_PER_QUEUE_PAIR;
  return { qpSlot: (slot - place) / TIMERS_PER_QUEUE_PAIR, timer: TIMERS[place]! };
}

export function startTimer(device: Device, qp: QueuePair): void {
  if (qp.timeoutPs === 0 || !rights(qp.state).sends) return;
  setTimer(device, qp, { timer: "requester", time: device.now + qp.timeoutPs });
}
