/** A queue pair's two deadlines: the requester's timer, and the next look at an empty receive queue. */
import type { Time } from "../../fabric/time/time.ts";
import { NEVER } from "../../fabric/time/time.ts";
import type { Device } from "./device.ts";
import type { QueuePair } from "./queue_pair.ts";

/** `requester`: local ACK time-out, or the end of an RNR wait. `receive`: P-26's retry. */
export type Timer = "requester" | "receive";

function slotOf(qp: QueuePair, timer: Timer): number {
  return 2 * qp.slot + (timer === "requester" ? 0 : 1);
}

export function setTimer(device: Device, qp: QueuePair, at: { timer: Timer; time: Time }): void {
  device.deadlines.set(slotOf(qp, at.timer), at.time);
}

export function clearTimer(device: Device, qp: QueuePair, timer: Timer): void {
  device.deadlines.set(slotOf(qp, timer), NEVER);
}

export function timerRuns(device: Device, qp: QueuePair, timer: Timer): boolean {
  return device.deadlines.at(slotOf(qp, timer)) !== NEVER;
}

/** Which timer a slot of the device's deadlines is. */
export function timerOfSlot(slot: number): { readonly qpSlot: number; readonly timer: Timer } {
  return { qpSlot: slot >> 1, timer: (slot & 1) === 0 ? "requester" : "receive" };
}
