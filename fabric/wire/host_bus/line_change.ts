/** A store or an atomic on a line, in messages; `fabric/coherence/line_bytes.ts` applies it. */
import { COHERENCE_LINE_BYTES } from "../roce/coherence_eth.ts";

/**
 * `write`: those bytes of `bytes`, a whole line, whose bit is in `mask`. Atomics: 8 bytes at a
 * multiple of 8, little-endian as in the host's memory (decision 15).
 */
export type LineChange =
  | { readonly kind: "write"; readonly mask: bigint; readonly bytes: Uint8Array }
  | { readonly kind: "add"; readonly offset: number; readonly operand: bigint }
  | {
    readonly kind: "compare-swap";
    readonly offset: number;
    readonly compare: bigint;
    readonly swap: bigint;
  };

/** The only mask that needs none of the old bytes. */
export const WHOLE_LINE = (1n << BigInt(COHERENCE_LINE_BYTES)) - 1n;
