/** DRAM: zeros at power-on, lost with the power (P-05). */
import { SparseBytes } from "./sparse_bytes.ts";

/** Bytes that the medium takes at once: one line. */
export const DRAM_BLOCK_BYTES = 64;

export function createDram(bytes: number): SparseBytes {
  return new SparseBytes(bytes);
}
