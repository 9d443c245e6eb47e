/**
 * Storage-class memory: the medium behind the iMC. Its content outlives the power (P-05); a host
 * process is given what an earlier life left as an image, and hands on what became persistent by
 * `Node.takeDurable` (see `scm_store.ts` for where that goes).
 */
import type { StuckBit } from "../../../fabric/rack/plan/plan.ts";
import { type ImageReader, SparseBytes, type Stick } from "./sparse_bytes.ts";

/**
 * The medium takes 256 B at once; the interface to it is 64 B wide, so lines of one block that follow
 * each other are one write to the medium (Yang et al., FAST'20, §2.1).
 */
export const SCM_BLOCK_BYTES = 256;

/** What is written to persistent memory is never torn below this (P-41). */
export const SCM_ATOMIC_BYTES = 8;

/** @returns what the cells make of bytes; undefined where there are none (V-08). */
export function stickTo(cells: readonly StuckBit[] = []): Stick | undefined {
  if (cells.length === 0) return undefined;
  const sorted = [...cells].sort((x, y) => x.offset - y.offset);
  return (offset, bytes) => {
    let stuck = bytes;
    for (const cell of sorted) {
      if (cell.offset < offset) continue;
      const at = cell.offset - offset;
      if (at >= bytes.length) break;
      const mask = 1 << cell.bit;
      const byte = cell.value === 1 ? stuck[at]! | mask : stuck[at]! & ~mask;
      if (byte === stuck[at]) continue;
      if (stuck === bytes) stuck = bytes.slice();
      stuck[at] = byte;
    }
    return stuck;
  };
}

/** The medium, whose broken cells take nothing else than what they hold. */
export function createScm(bytes: number, image?: ImageReader, stick?: Stick): SparseBytes {
  if (stick === undefined) return new SparseBytes(bytes, image);
  const initial: ImageReader = (offset, length) =>
    stick(offset, image?.(offset, length) ?? new Uint8Array(length));
  return new SparseBytes(bytes, initial, stick);
}
