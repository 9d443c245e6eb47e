/**
 * Who may wait in the switch. Lossy frames are let in by the length of the output queue and by what
 * all lossy frames take up; lossless ones (PFC) by how much waits that came in by the same port with
 * the same priority: above XOFF its sender is to be paused, and what still comes has the headroom. So
 * a lossless frame is never dropped as long as senders obey; the check stands for those that do not.
 */
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { PRIORITIES } from "../../fabric/wire/roce/pfc.ts";

export interface SharedBuffer {
  readonly queueBytes: number;
  readonly bufferBytes: number;
  readonly pfc: NonNullable<SwitchPlan["congestion"]>["pfc"];
  /** Lossy bytes that wait, in all and by output port. */
  lossyBytes: number;
  readonly lossyByPort: Float64Array;
  /** Lossless bytes that wait, by input port and priority. */
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

/** A frame's way through the switch. */
export interface Passage {
  readonly from: number;
  readonly to: number;
  readonly priority: number;
  readonly bytes: number;
}

export function isLossless({ pfc }: SharedBuffer, priority: number): boolean {
  return pfc !== null && (pfc.lossless & (1 << priority)) !== 0;
}

/** Whether there is room for the frame; else it is dropped. */
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

/** The frame waits from now on. @returns whether its input port's priority is above XOFF now. */
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

/** The frame does not wait any more. @returns whether its input port's priority is at XON or below. */
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
