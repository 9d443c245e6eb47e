/**
 * The output port of a frame, from its destination address: a static table, as the plan has every
 * address; group addresses are flooded.
 */
import { frameDestination } from "../../fabric/wire/roce/frame_peek.ts";

/** 01:80:C2:00:00:00–0F are never forwarded (IEEE 802.1D §7.12.6). */
const RESERVED_FIRST = 0x0180_c200_0000;
const RESERVED_LAST = RESERVED_FIRST + 0xf;

export const FLOOD = -1;
export const UNKNOWN = -2;
export const RESERVED = -3;

/** @returns a port, {@link FLOOD} or a drop reason. The Ethernet header is complete. */
export function lookUp(table: ReadonlyMap<number, number>, bytes: Uint8Array): number {
  const mac = frameDestination(bytes);
  if ((bytes[0]! & 1) === 0) return table.get(mac) ?? UNKNOWN;
  return mac >= RESERVED_FIRST && mac <= RESERVED_LAST ? RESERVED : FLOOD;
}
