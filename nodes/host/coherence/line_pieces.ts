/** Cuts a range of a region into pieces of its lines, and describes a store to each. */
import { allocateKept } from "../../../fabric/base/slab.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";

/** Bytes [from, to) of line `line`. */
export interface Piece {
  readonly line: number;
  readonly from: number;
  readonly to: number;
}

/** The piece that begins at byte `offset`, up to the end of its line or to `end`. */
export function pieceAt(offset: number, end: number): Piece {
  const from = offset % LINE_BYTES, start = offset - from;
  return { line: start / LINE_BYTES, from, to: Math.min(LINE_BYTES, end - start) };
}

export function piecesOf(offset: number, length: number): Piece[] {
  const pieces: Piece[] = [];
  const end = offset + length;
  for (let at = offset; at < end;) {
    const piece = pieceAt(at, end);
    pieces.push(piece);
    at += piece.to - piece.from;
  }
  return pieces;
}

/** Masks by their first and last byte, cached as big integers are slow to make. */
const MASKS: (bigint | undefined)[] = [];

function maskOf(from: number, to: number): bigint {
  const key = from * (LINE_BYTES + 1) + to;
  return MASKS[key] ??= ((1n << BigInt(to - from)) - 1n) << BigInt(from);
}

/** A write of `bytes`, which fill the piece and are copied. */
export function writeOf({ from, to }: Piece, bytes: Uint8Array): LineChange & { kind: "write" } {
  const line = allocateKept(LINE_BYTES);
  line.set(bytes, from);
  return { kind: "write", mask: maskOf(from, to), bytes: line };
}
