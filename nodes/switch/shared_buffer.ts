/**
 * Admission to the switch's buffer, which all ports share, as in data centre switches (SAI's model; HPCC's ns-3
 * `switch-mmu.cc`). `fabric/rack/plan/switch_buffer.ts` divides the memory.
 *
 * A priority group is a lossless priority of an input port. Its queued bytes take the group's reserved bytes first,
 * then the shared pool up to the group's threshold, then its headroom; the first byte of headroom asks the sender
 * to pause. The threshold is fixed (XOFF), or a share alpha of the pool's free bytes (dynamic threshold: Choudhury
 * and Hahne, IEEE/ACM ToN 1998). A lossless frame is dropped where the headroom is full: it was too small, or the
 * sender does not obey.
 *
 * Lossy frames are counted by output port: reserved bytes first, then the pool, up to the queue's limit.
 */
import { bufferParts } from "../../fabric/rack/plan/switch_buffer.ts";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { PRIORITIES } from "../../fabric/wire/roce/pfc.ts";

export interface SharedBuffer {
  readonly queueBytes: number;
  readonly reservedBytes: number;
  readonly sharedBytes: number;
  readonly alpha: number | undefined;
  readonly pfc: NonNullable<SwitchPlan["congestion"]>["pfc"];
  readonly headroomPoolBytes: number;
  /** Used bytes of the pool, of all headroom and of all memory, and the most of the last. */
  sharedUsed: number;
  headroomUsed: number;
  bytes: number;
  peakBytes: number;
  readonly lossyByPort: Float64Array;
  /** Bytes of each priority group outside headroom, and in it. */
  readonly keptBytes: Float64Array;
  readonly headroomBytes: Float64Array;
  headroomPeakBytes: number;
}

export function createSharedBuffer(plan: SwitchPlan): SharedBuffer {
  const pfc = plan.congestion?.pfc ?? null;
  return {
    queueBytes: plan.queueBytes,
    reservedBytes: plan.reservedBytes ?? 0,
    sharedBytes: bufferParts(plan).sharedBytes,
    alpha: plan.alpha,
    pfc,
    headroomPoolBytes: pfc?.headroomPoolBytes ?? Infinity,
    sharedUsed: 0,
    headroomUsed: 0,
    bytes: 0,
    peakBytes: 0,
    lossyByPort: new Float64Array(plan.ports),
    keptBytes: new Float64Array(plan.ports * PRIORITIES),
    headroomBytes: new Float64Array(plan.ports * PRIORITIES),
    headroomPeakBytes: 0,
  };
}

export interface Passage {
  readonly from: number;
  readonly to: number;
  readonly priority: number;
  readonly bytes: number;
}

function isLossless({ pfc }: SharedBuffer, priority: number): boolean {
  return pfc !== null && (pfc.lossless & (1 << priority)) !== 0;
}

function sharedOf({ reservedBytes }: SharedBuffer, bytes: number): number {
  return Math.max(0, bytes - reservedBytes);
}

function shareOfFree({ sharedBytes, sharedUsed }: SharedBuffer, alpha: number): number {
  return Math.floor(alpha * (sharedBytes - sharedUsed));
}

function toHeadroom(buffer: SharedBuffer, group: number, bytes: number): number {
  const { pfc, reservedBytes, sharedBytes, sharedUsed, keptBytes } = buffer;
  const { threshold } = pfc!;
  const kept = keptBytes[group]!;
  const ofPool = sharedOf(buffer, kept) + sharedBytes - sharedUsed;
  const most = threshold.kind === "static"
    ? threshold.xoffBytes
    : reservedBytes + shareOfFree(buffer, threshold.alpha);
  const room = Math.min(most, reservedBytes + ofPool) - kept;
  return bytes - Math.min(bytes, Math.max(0, room));
}

export type Full = "headroom" | "queue" | "share" | "pool";

/** @returns undefined where there is room; otherwise the frame is dropped. */
export function fullFor(buffer: SharedBuffer, passage: Passage): Full | undefined {
  const { from, to, priority, bytes } = passage;
  if (isLossless(buffer, priority)) {
    const group = from * PRIORITIES + priority;
    const beyond = toHeadroom(buffer, group, bytes);
    const isWithin = buffer.headroomBytes[group]! + beyond <=
        buffer.pfc!.ports[from]!.headroomBytes &&
      buffer.headroomUsed + beyond <= buffer.headroomPoolBytes;
    return isWithin ? undefined : "headroom";
  }
  const waits = buffer.lossyByPort[to]!;
  if (waits + bytes > buffer.queueBytes) return "queue";
  const shared = sharedOf(buffer, waits + bytes);
  const { alpha, sharedBytes, sharedUsed } = buffer;
  if (alpha !== undefined && shared > shareOfFree(buffer, alpha)) return "share";
  return sharedUsed + shared - sharedOf(buffer, waits) <= sharedBytes ? undefined : "pool";
}

/** @returns whether its sender has to pause. */
export function occupy(buffer: SharedBuffer, passage: Passage): boolean {
  const { from, to, priority, bytes } = passage;
  buffer.bytes += bytes;
  if (buffer.bytes > buffer.peakBytes) buffer.peakBytes = buffer.bytes;
  if (!isLossless(buffer, priority)) {
    change(buffer, buffer.lossyByPort, to, bytes);
    return false;
  }
  const group = from * PRIORITIES + priority;
  const beyond = toHeadroom(buffer, group, bytes);
  change(buffer, buffer.keptBytes, group, bytes - beyond);
  buffer.headroomUsed += beyond;
  const inHeadroom = buffer.headroomBytes[group]! += beyond;
  if (inHeadroom > buffer.headroomPeakBytes) buffer.headroomPeakBytes = inHeadroom;
  return inHeadroom > 0;
}

/** Takes bytes from the headroom first. @returns whether its sender may go on. */
export function vacate(buffer: SharedBuffer, passage: Passage): boolean {
  const { from, to, priority, bytes } = passage;
  buffer.bytes -= bytes;
  if (!isLossless(buffer, priority)) {
    change(buffer, buffer.lossyByPort, to, -bytes);
    return false;
  }
  const group = from * PRIORITIES + priority;
  const beyond = Math.min(bytes, buffer.headroomBytes[group]!);
  buffer.headroomUsed -= beyond;
  buffer.headroomBytes[group]! -= beyond;
  change(buffer, buffer.keptBytes, group, beyond - bytes);
  return buffer.headroomBytes[group] === 0 && mayGoOn(buffer, buffer.keptBytes[group]!);
}

function mayGoOn(buffer: SharedBuffer, kept: number): boolean {
  const { threshold } = buffer.pfc!;
  if (threshold.kind === "static") return kept <= threshold.xonBytes;
  const shared = sharedOf(buffer, kept);
  return shared === 0 || shared + threshold.xonOffsetBytes <= shareOfFree(buffer, threshold.alpha);
}

function change(buffer: SharedBuffer, counts: Float64Array, at: number, bytes: number): void {
  const before = sharedOf(buffer, counts[at]!);
  const after = sharedOf(buffer, counts[at]! += bytes);
  buffer.sharedUsed += after - before;
}
