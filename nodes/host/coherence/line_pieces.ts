/** A range of a region as pieces of its lines, and what a store changes in each. */
import type { LineChange } from "../../../fabric/coherence/line_bytes.ts";
import { LINE_BYTES } from "../memory/llc.ts";

/** Bytes [from, to) of line `line`. */
export interface Piece {
  readonly line: number;
  readonly from: number;
  readonly to: number;
}

/** The pieces of bytes [offset, offset + length), in order. */
export function piecesOf(offset: number, length: number): Piece[] {
  const pieces: Piece[] = [];
  for (let at = offset; at < offset + length;) {
    const line = Math.floor(at / LINE_BYTES), from = at % LINE_BYTES;
    const to = Math.min(LINE_BYTES, from + offset + length - at);
    pieces.push({ line, from, to });
    at += to - from;
  }
  return pieces;
}

/** Writes `bytes`, as many as the piece has. */
export function writeOf({ from, to }: Piece, bytes: Uint8Array): LineChange {
  const line = new Uint8Array(LINE_BYTES);
  line.set(bytes, from);
  const mask = ((1n << BigInt(to - from)) - 1n) << BigInt(from);
  return { kind: "write", mask, bytes: line };
}
