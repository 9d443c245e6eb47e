/**
 * Queue information, which host and RNIC share; rings and their pointers; doorbells.
 *
 * SQ, RQ and SRQ: the RNIC's pointer is the *read pointer* (next unit to read), the host's the
 * *write pointer* (last unit filled). A CQ's are the reverse. Pointers are unit positions in the
 * ring; {@link filledUnits} distinguishes "empty" from "full".
 */
import type { Time } from "../../base/time.ts";
import { allocate, viewOf } from "../../base/slab.ts";

export type { QueueKind, QueueState } from "./queue_placement.ts";

/** */
export interface StampedPointer {
  readonly pointer: number;
  /** When the host stored it, in ps. */
  readonly stamp: Time;
}

export function ringDistance(from: number, to: number, depth: number): number {
  return (to - from + depth) % depth;
}

/**
 * Not yet read. The last filled unit is right behind the next one to read if the ring is empty, and
 * never if it is full, as one unit always stays free.
 */
export function filledUnits(read: number, write: number, depth: number): number {
  return ringDistance(read, (write + 1) % depth, depth);
}

// Doorbells: registers of the RNIC's BAR, big-endian.

/** A FIFO: the queue number, and (16-byte form) its write pointer with the timestamp. */
export const DOORBELL_OFFSET = 0x800;
/** The same two forms as a message: the card acts on its arrival, without a doorbell space. */
export const DOORBELL_MESSAGE_OFFSET = 0x40;
/** CQ number, the host's next position, solicited only. */
export const CQ_ARM_OFFSET = 0x20;

/**
 * Of `store: device`: a window of the BAR, whose offsets are also the card's addresses and
 * the driver's virtual ones. No DRAM or SCM is there.
 */
export const CARD_MEMORY_BASE = 0x5000_0000_0000;
/** [choice] Far above the information of all queues of a host (`QUEUES_MOST`). */
export const CARD_MEMORY_BYTES = 2 ** 30;

export function inCardMemory(address: number, length: number): boolean {
  return address >= CARD_MEMORY_BASE && address + length <= CARD_MEMORY_BASE + CARD_MEMORY_BYTES;
}

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

/** Undefined for bytes of neither form: the RNIC counts and ignores them. */
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
