/**
 * The output port of a frame, from its destination address: a static table of the rack's RNICs;
 * group addresses are flooded. There is no learning: the rack's plan has every address.
 */
import { frameDestination } from "../../fabric/wire/roce/frame_peek.ts";

/** The least of the addresses 01:80:C2:00:00:00–0F, which a bridge never forwards (IEEE 802.1D §7.12.6). */
const RESERVED_FIRST = 0x0180_c200_0000;
const RESERVED_LAST = RESERVED_FIRST + 0xf;

/** The result of a look-up: an output port, or one of these. */
export const FLOOD = -1;
export const UNKNOWN = -2;
export const RESERVED = -3;

/** Output port of a frame with a complete Ethernet header, or {@link FLOOD} or a drop reason. */
export function lookUp(table: ReadonlyMap<number, number>, bytes: Uint8Array): number {
  const mac = frameDestination(bytes);
  if ((bytes[0]! & 1) === 0) return table.get(mac) ?? UNKNOWN;
  return mac >= RESERVED_FIRST && mac <= RESERVED_LAST ? RESERVED : FLOOD;
}
