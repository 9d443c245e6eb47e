/**
 * BlueFlame: a doorbell that carries its WQE. The driver stores both into a write-combined register
 * of the RNIC's BAR, so that the RNIC need not fetch the WQE (mlx5: rdma-core,
 * `providers/mlx5/qp.c`, `post_send_db`, `mlx5_bf_copy`). Each send queue has two buffers, used in
 * turn. The doorbell ends a buffer: its place is fixed, and it is last in order of addresses.
 *
 *   buffer of 320 B:  … not used | padding to 64 B | WQE, whole segments of 16 B | doorbell 16 B
 *
 * A core's write-combining buffer is a line, and goes to the bus as one write when it is full.
 * Evicted sooner, its words of 8 B arrive in pieces, in any order (Intel SDM, vol. 3, §12.3.1).
 * `sfence` behind each doorbell orders them before the next one.
 */
import { allocate, viewOf } from "../../base/slab.ts";
import { type Doorbell, encodeDoorbell, type StampedPointer } from "./queue_information.ts";

const BLUE_FLAME_OFFSET = 0x10_0000;
const CHUNK_BYTES = 64;
/** The unit in which a write-combined line may be cut. */
export const WORD_BYTES = 8;
const BUFFER_STRIDE = 512;
export const BUFFER_BYTES = 320;
const DOORBELL_BYTES = 16;
const SEGMENT_BYTES = 16;
/** mlx5: a register of 512 B, so two buffers of 256 B. */
export const BLUE_FLAME_WQE_BYTES = 256;
const SEGMENTS_SHIFT = 24;

export interface BufferPlace {
  /** Twice the queue's number, plus 0 or 1. */
  readonly buffer: number;
  readonly at: number;
}

export function placeOfRegister(offset: number): BufferPlace | undefined {
  const from = offset - BLUE_FLAME_OFFSET;
  if (from < 0) return undefined;
  return { buffer: Math.floor(from / BUFFER_STRIDE), at: from % BUFFER_STRIDE };
}

/**
 * Whole lines up to the end of the buffer, for a WQE of whole segments up to {@link
 * BLUE_FLAME_WQE_BYTES}.
 */
export function encodeBlueFlame(
  doorbell: { readonly queue: number; readonly write: StampedPointer },
  wqe: Uint8Array,
  buffer: 0 | 1,
): { readonly offset: number; readonly bytes: Uint8Array<ArrayBuffer> } {
  const used = wqe.length + DOORBELL_BYTES;
  const bytes = allocate(Math.ceil(used / CHUNK_BYTES) * CHUNK_BYTES);
  bytes.set(wqe, bytes.length - used);
  bytes.set(encodeDoorbell(doorbell), bytes.length - DOORBELL_BYTES);
  const view = viewOf(bytes);
  const segments = wqe.length / SEGMENT_BYTES;
  view.setUint32(bytes.length - DOORBELL_BYTES, (segments << SEGMENTS_SHIFT) | doorbell.queue);
  const place = (2 * doorbell.queue + buffer) * BUFFER_STRIDE + BUFFER_BYTES - bytes.length;
  return { offset: BLUE_FLAME_OFFSET + place, bytes };
}

export interface BlueFlameDoorbell extends Required<Doorbell> {
  readonly start: number;
  readonly wqeStart: number;
  readonly wqeBytes: number;
}

export function decodeBlueFlameDoorbell(buffer: Uint8Array): BlueFlameDoorbell | undefined {
  const view = viewOf(buffer);
  const at = BUFFER_BYTES - DOORBELL_BYTES;
  const word = view.getUint32(at);
  const wqeBytes = (word >>> SEGMENTS_SHIFT) * SEGMENT_BYTES;
  if (wqeBytes === 0 || wqeBytes > BLUE_FLAME_WQE_BYTES) return undefined;
  const wqeStart = at - wqeBytes;
  return {
    queue: word & ((1 << SEGMENTS_SHIFT) - 1),
    write: { pointer: view.getUint32(at + 4), stamp: Number(view.getBigUint64(at + 8)) },
    start: wqeStart - wqeStart % CHUNK_BYTES,
    wqeStart,
    wqeBytes,
  };
}
