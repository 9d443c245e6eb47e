/**
 * Admission to the switch's buffer. Lossy frames are admitted by the length of the output queue and
 * by the total of all lossy frames; lossless ones (PFC) by the bytes queued from the same input
 * port and priority: above XOFF the switch pauses the sender, and frames that still arrive use the
 * headroom. So a lossless frame is never dropped as long as senders obey pauses; the check handles
 * those that do not.
 */
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { PRIORITIES } from "../../fabric/wire/roce/pfc.ts";

export interface SharedBuffer {
  readonly queueBytes: number;
  readonly bufferBytes: number;
  readonly pfc: NonNullable<SwitchPlan["congestion"]>["pfc"];
  /** Queued lossy bytes, in total and by output port. */
  lossyBytes: number;
  readonly lossyByPort: Float64Array;
  /** Queued lossless bytes, by input port and priority. */
  readonly ingressBytes: Float64Array;
}

export function createSharedBuffer(plan: SwitchPlan): SharedBuffer {
  return {
    queueBytes: plan.queueBytes,
    bufferBytes: plan.bufferBytes ?? Infinity,
    pfc: plan.congestion?.pfc ?? null,
    lossyBytes: 0,
    lossyByPort: new Float64Array(plan.ports),
    ingressBytes: new Float64Array(plan.ports * PRIORITIES),
  };
}

/** A frame's path through the switch. */
export interface Passage {
  readonly from: number;
  readonly to: number;
  readonly priority: number;
  readonly bytes: number;
}

export function isLossless({ pfc }: SharedBuffer, priority: number): boolean {
  return pfc !== null && (pfc.lossless & (1 << priority)) !== 0;
}

/** Whether there is room for the frame; otherwise it is dropped. */
export function hasRoom(buffer: SharedBuffer, passage: Passage): boolean {
  const { from, to, priority, bytes } = passage;
  if (isLossless(buffer, priority)) {
    const { xoffBytes, ports } = buffer.pfc!;
    const limit = xoffBytes + ports[from]!.headroomBytes;
    return buffer.ingressBytes[from * PRIORITIES + priority]! + bytes <= limit;
  }
  return buffer.lossyByPort[to]! + bytes <= buffer.queueBytes &&
    buffer.lossyBytes + bytes <= buffer.bufferBytes;
}

/** Adds a queued frame. @returns whether its input port's priority is above XOFF now. */
export function occupy(buffer: SharedBuffer, passage: Passage): boolean {
  const { from, to, priority, bytes } = passage;
  if (!isLossless(buffer, priority)) {
    buffer.lossyBytes += bytes;
    buffer.lossyByPort[to]! += bytes;
    return false;
  }
  const waits = buffer.ingressBytes[from * PRIORITIES + priority]! += bytes;
  return waits > buffer.pfc!.xoffBytes;
}

/** Removes a queued frame. @returns whether its input port's priority is at XON or below. */
export function vacate(buffer: SharedBuffer, passage: Passage): boolean {
  const { from, to, priority, bytes } = passage;
  if (!isLossless(buffer, priority)) {
    buffer.lossyBytes -= bytes;
    buffer.lossyByPort[to]! -= bytes;
    return false;
  }
  const waits = buffer.ingressBytes[from * PRIORITIES + priority]! -= bytes;
  return waits <= buffer.pfc!.xonBytes;
}
