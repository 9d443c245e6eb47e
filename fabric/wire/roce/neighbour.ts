/**
 * The rack has no ARP: a MAC address is locally administered and contains the IPv4 address's low 24
 * bits (the host's number in 10/8). `topology.ts` numbers RNICs by this rule.
 */

/** 224/4. */
export function isGroupAddress(address: number): boolean {
  return address >>> 28 === 0xe;
}

/**
 * 02:00:00 and the low 24 bits; of a multicast group 01:00:5e and the low 23 bits (`rocev2.md`
 * §1.1).
 */
export function macOfAddress(address: number): number {
  if (isGroupAddress(address)) return 0x0100_5e00_0000 + (address & 0x7f_ffff);
  return 0x0200_0000_0000 + (address & 0xff_ffff);
}

/**
 * RoCEv1: a group's are 33:33 and the GID's low 32 bits, as of any IPv6 group (RFC 2464 §7; Linux:
 * `rdma_get_mcast_mac`).
 */
export function macOfGid(address: number): number {
  return isGroupAddress(address) ? 0x3333_0000_0000 + (address >>> 0) : macOfAddress(address);
}
