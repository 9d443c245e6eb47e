/**
 * Maps an IPv4 address to a MAC address. The rack has no ARP: MAC addresses are locally
 * administered and contain the IPv4 address's low 24 bits (the host's number in 10/8), so that
 * every sender can compute its neighbour's. `topology.ts` numbers RNICs by this rule.
 */
import { multicastMac } from "./ethernet.ts";

/** Whether an IPv4 address is a multicast group's, of 224/4. */
export function isGroupAddress(address: number): boolean {
  return address >>> 28 === 0xe;
}

/** 02:00:00 and the low 24 bits, or the group address of a multicast group, as a 48-bit number. */
export function macOfAddress(address: number): number {
  if (isGroupAddress(address)) return multicastMac(address);
  return 0x0200_0000_0000 + (address & 0xff_ffff);
}
