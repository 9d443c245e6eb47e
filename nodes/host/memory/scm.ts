/**
 * The medium behind the iMC. Its content survives power failures (P-05): a host process receives
 * the content of its earlier life as an image, and outputs durable bytes by `Node.takeDurable`. A
 * stuck cell (`HostPlan.stuckBits`, V-08) holds its value against every write, and in the image.
 */
import type { StuckBit } from "../../../fabric/rack/plan/plan.ts";
import type { Stick } from "./sparse_bytes.ts";

/**
 * One write to the medium; the interface is 64 B wide, so consecutive lines of a block share it
 * (Yang et al., FAST'20, §2.1).
 */
export const SCM_BLOCK_BYTES = 256;

/** P-41. */
export const SCM_ATOMIC_BYTES = 8;

/** @returns undefined without broken cells (V-08). */
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
