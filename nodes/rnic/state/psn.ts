/** Arithmetic of 24-bit sequence numbers: PSN, MSN (`rocev2.md` §3.1). */
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";

export const PSN_MASK = 0xff_ffff;
/** The longest message (§3.1). */
export const MESSAGE_BYTES_MAX = 2 ** 31;
/** A PSN within this distance is later or earlier than another (§3.1). */
export const PSN_WINDOW = 2 ** 23;

export function psnAdd(psn: number, count: number): number {
  return (psn + count) & PSN_MASK;
}

/** In [−2^23, 2^23): positive where `to` is later. */
export function psnDistance(from: number, to: number): number {
  return ((to - from) << 8) >> 8;
}

export function isFirst({ position }: Pick<OpcodeRow, "position">): boolean {
  return position === "first" || position === "only";
}

export function isLast({ position }: Pick<OpcodeRow, "position">): boolean {
  return position === "last" || position === "only";
}

export function packetsOf(bytes: number, pathMtu: number): number {
  return bytes <= pathMtu ? 1 : Math.ceil(bytes / pathMtu);
}
