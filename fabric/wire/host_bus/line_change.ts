/** What a store or an atomic does to a line, as messages carry it; `fabric/coherence/line_bytes.ts` does it. */
import { COHERENCE_LINE_BYTES } from "../roce/coherence_eth.ts";

/**
 * `write`: of `bytes`, a whole line, those whose bit is in `mask`. `add` and `compare-swap`: on 8 bytes at a
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

/** The mask of a store to all bytes of a line: the only one that needs nothing of what was there. */
export const WHOLE_LINE = (1n << BigInt(COHERENCE_LINE_BYTES)) - 1n;
