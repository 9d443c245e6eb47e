/**
 * Storage-class memory: the medium behind the iMC. Its content outlives the power (P-05); a host
 * process is given what an earlier life left as an image, and hands on what became persistent by
 * `Node.takeDurable` (see `scm_store.ts` for where that goes).
 */
import { type ImageReader, SparseBytes } from "./sparse_bytes.ts";

/**
 * The medium takes 256 B at once; the interface to it is 64 B wide, so lines of one block that follow
 * each other are one write to the medium (Yang et al., FAST'20, §2.1).
 */
export const SCM_BLOCK_BYTES = 256;

/** What is written to persistent memory is never torn below this (P-41). */
export const SCM_ATOMIC_BYTES = 8;

export function createScm(bytes: number, image?: ImageReader): SparseBytes {
  return new SparseBytes(bytes, image);
}
