/** IPv4 without options, as RoCEv2 uses it: never fragmented, with a real header checksum (§1.1). */
import { sizeOf } from "../../base/fields.ts";

export const IPV4_FIELDS = [
  ["version", 4],
  /** In 32-bit words. */
  ["headerWords", 4],
  ["dscp", 6],
  /** RFC 3168. */
  ["ecn", 2],
  ["totalLength", 16],
  ["identification", 16],
  ["reservedFlag", 1],
  ["dontFragment", 1],
  ["moreFragments", 1],
  ["fragmentOffset", 13],
  ["ttl", 8],
  ["protocol", 8],
  ["checksum", 16],
  ["source", 32],
  ["destination", 32],
] as const;
export const IPV4_BYTES = sizeOf(IPV4_FIELDS);

export const PROTOCOL_UDP = 17;
export const ECN = { notCapable: 0, capable1: 1, capable0: 2, congestion: 3 } as const;

/**
 * RFC 1071, of a 20-byte header: the value to store where the checksum field is zero; 0 for a valid
 * header.
 */
export function ipv4Checksum(view: DataView, at: number): number {
  let sum = 0;
  for (let i = 0; i < IPV4_BYTES; i += 2) sum += view.getUint16(at + i);
  sum = (sum & 0xffff) + (sum >>> 16);
  sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
