/**
 * Receive WQEs of a shared receive queue: a segment of 16 bytes, then a WQE like those of a receive
 * queue, as in mlx5 (`mlx5_wqe_srq_next_seg`). Queue pairs complete them in any order, so the
 * completion returns the driver's slot instead of a position in the ring.
 *
 *   reserved 2 | slot 2 | reserved 12 | data 16…
 */
import { allocate, viewOf } from "../../base/slab.ts";
import { decodeRecvWqe, encodeRecvWqe, type Sge } from "./wqe.ts";

export const SRQ_SEGMENT_BYTES = 16;

export interface SrqWqe {
  /** 0 to 65535. */
  readonly slot: number;
  readonly sges: readonly Sge[];
}

export function encodeSrqWqe({ slot, sges }: SrqWqe, stride: number): Uint8Array<ArrayBuffer> {
  const bytes = allocate(stride);
  viewOf(bytes).setUint16(2, slot);
  bytes.set(encodeRecvWqe(sges, stride - SRQ_SEGMENT_BYTES), SRQ_SEGMENT_BYTES);
  return bytes;
}

export function decodeSrqWqe(bytes: Uint8Array): SrqWqe {
  const sges = decodeRecvWqe(bytes.subarray(SRQ_SEGMENT_BYTES));
  return { slot: viewOf(bytes).getUint16(2), sges };
}
