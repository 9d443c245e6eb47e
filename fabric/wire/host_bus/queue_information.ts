/**
 * Queue information: the state of one queue that host and RNIC share in host memory, split
 * by write access. Entry i of each space belongs to queue i: K·R1, K·R2 and K·R3
 * bytes.
 *
 *   space 1  RNIC reads and writes, host reads:  place, state, validity, the RNIC's own pointer
 *   space 2  RNIC reads, host writes through RNIC:  depth (a change pauses processing)
 *   space 3  host writes, RNIC reads:            the host's own pointer and when it was stored
 *
 * SQ, RQ and SRQ: the RNIC's pointer is the *read pointer* (next unit to read), the host's the
 * *write pointer* (last unit filled). CQ: the RNIC writes and the host reads, so the RNIC's pointer
 * is the last unit filled and the host's the next unit to read. Pointers are unit positions in the
 * ring; at most depth − 1 units are filled at a time, to distinguish "empty" from "full".
 */
import type { Time } from "../../base/time.ts";
import { allocate, viewOf } from "../../base/slab.ts";

export const SPACE1_BYTES = 32;
export const SPACE2_BYTES = 16;
export const SPACE3_BYTES = 16;

export type QueueKind = "sq" | "rq" | "cq" | "srq";
const KINDS: readonly QueueKind[] = ["sq", "rq", "cq", "srq"];
const STATES = ["reset", "init", "rtr", "rts", "sqd", "sqe", "err"] as const;
export type QueueState = typeof STATES[number];

export interface Space1 {
  /** Physical address of the queue's first unit, and of its index. */
  readonly wqeAddress: number;
  readonly indexAddress: number;
  readonly kind: QueueKind;
  readonly state: QueueState;
  readonly valid: boolean;
  /** Number of the queue's owner: a queue pair, a completion queue or a shared receive queue. */
  readonly owner: number;
  /** The RNIC's own pointer. */
  readonly pointer: number;
}

export interface Space2 {
  /** Units in the ring, a power of two. */
  readonly depth: number;
  readonly unitBytes: number;
}

/** A pointer and its time information. */
export interface StampedPointer {
  readonly pointer: number;
  /** When the host stored it, in ps. */
  readonly stamp: Time;
}

export function encodeSpace1(info: Space1): Uint8Array<ArrayBuffer> {
  const bytes = allocate(SPACE1_BYTES);
  const view = viewOf(bytes);
  view.setBigUint64(0, BigInt(info.wqeAddress));
  view.setBigUint64(8, BigInt(info.indexAddress));
  view.setUint8(16, KINDS.indexOf(info.kind));
  view.setUint8(17, STATES.indexOf(info.state));
  view.setUint8(18, info.valid ? 1 : 0);
  view.setUint32(20, info.owner);
  view.setUint32(24, info.pointer);
  return bytes;
}

export function decodeSpace1(bytes: Uint8Array): Space1 {
  const view = viewOf(bytes);
  return {
    wqeAddress: Number(view.getBigUint64(0)),
    indexAddress: Number(view.getBigUint64(8)),
    kind: KINDS[view.getUint8(16)] ?? "sq",
    state: STATES[view.getUint8(17)] ?? "err",
    valid: view.getUint8(18) === 1,
    owner: view.getUint32(20),
    pointer: view.getUint32(24),
  };
}

export function encodeSpace2(info: Space2): Uint8Array<ArrayBuffer> {
  const bytes = allocate(SPACE2_BYTES);
  const view = viewOf(bytes);
  view.setUint32(0, info.depth);
  view.setUint32(4, info.unitBytes);
  return bytes;
}

export function decodeSpace2(bytes: Uint8Array): Space2 {
  const view = viewOf(bytes);
  return { depth: view.getUint32(0), unitBytes: view.getUint32(4) };
}

export function encodeSpace3(info: StampedPointer): Uint8Array<ArrayBuffer> {
  const bytes = allocate(SPACE3_BYTES);
  const view = viewOf(bytes);
  view.setUint32(0, info.pointer);
  view.setBigUint64(8, BigInt(info.stamp));
  return bytes;
}

export function decodeSpace3(bytes: Uint8Array): StampedPointer {
  const view = viewOf(bytes);
  return { pointer: view.getUint32(0), stamp: Number(view.getBigUint64(8)) };
}

/** Units between two positions of a ring of `depth`, going forward from `from` to `to`. */
export function ringDistance(from: number, to: number, depth: number): number {
  return (to - from + depth) % depth;
}

/** Units filled and not yet read, for read pointer `read` and last-filled `write`. */
export function filledUnits(read: number, write: number, depth: number): number {
  return ringDistance(read, (write + 1) % depth, depth);
}

// Doorbells: registers of the RNIC's BAR, big-endian.

/**
 * Queue doorbell, a FIFO: the queue number, and (16-byte form) its write pointer with the
 * timestamp.
 */
export const DOORBELL_OFFSET = 0x800;
/** Completion queue arm: CQ number, the host's next position, solicited only. */
export const CQ_ARM_OFFSET = 0x20;

export interface Doorbell {
  readonly queue: number;
  /** Absent in the form with the queue number only: the RNIC then reads space 3. */
  readonly write?: StampedPointer;
}

export function encodeDoorbell(doorbell: Doorbell): Uint8Array<ArrayBuffer> {
  const bytes = allocate(doorbell.write === undefined ? 4 : 16);
  const view = viewOf(bytes);
  view.setUint32(0, doorbell.queue);
  if (doorbell.write !== undefined) {
    view.setUint32(4, doorbell.write.pointer);
    view.setBigUint64(8, BigInt(doorbell.write.stamp));
  }
  return bytes;
}

/** Undefined where the bytes have neither form: the RNIC counts and ignores them. */
export function decodeDoorbell(bytes: Uint8Array): Doorbell | undefined {
  const view = viewOf(bytes);
  if (bytes.length === 4) return { queue: view.getUint32(0) };
  if (bytes.length !== 16) return undefined;
  return {
    queue: view.getUint32(0),
    write: { pointer: view.getUint32(4), stamp: Number(view.getBigUint64(8)) },
  };
}

export interface CqArm {
  readonly cqn: number;
  /** Entries the host has read since the queue was created, low 24 bits. */
  readonly position: number;
  readonly solicitedOnly: boolean;
}

export function encodeCqArm(arm: CqArm): Uint8Array<ArrayBuffer> {
  const bytes = allocate(8);
  const view = viewOf(bytes);
  view.setUint32(0, arm.cqn);
  view.setUint32(4, ((arm.position & 0xff_ffff) | (arm.solicitedOnly ? 1 << 24 : 0)) >>> 0);
  return bytes;
}

export function decodeCqArm(bytes: Uint8Array): CqArm | undefined {
  if (bytes.length !== 8) return undefined;
  const view = viewOf(bytes);
  const word = view.getUint32(4);
  return {
    cqn: view.getUint32(0),
    position: word & 0xff_ffff,
    solicitedOnly: (word & (1 << 24)) !== 0,
  };
}
