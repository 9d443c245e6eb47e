/**
 * The change of a line by a store or an atomic, in messages; `fabric/coherence/line_bytes.ts`
 * applies it.
 */
import { LINE_BYTES } from "../../base/cache_line.ts";

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

/** The mask of a store to all bytes of a line: the only one that needs none of the old bytes. */
export const WHOLE_LINE = (1n << BigInt(LINE_BYTES)) - 1n;
