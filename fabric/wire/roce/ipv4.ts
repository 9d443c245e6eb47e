/** IPv4 without options, as RoCEv2 uses it: never fragmented, with a real header checksum (§1.1). */
import { type HeaderOf, sizeOf } from "../../base/fields.ts";

export const IPV4_FIELDS = [
  ["version", 4],
  /** In 32-bit words: 5, as there are no options. */
  ["headerWords", 4],
  ["dscp", 6],
  /** 0 not ECN-capable, 1 and 2 capable, 3 congestion experienced (RFC 3168). */
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
export type Ipv4 = HeaderOf<typeof IPV4_FIELDS>;

export const PROTOCOL_UDP = 17;
export const ECN = { notCapable: 0, capable1: 1, capable0: 2, congestion: 3 } as const;

export function readIpv4(view: DataView, at: number): Ipv4 {
  const first = view.getUint16(at), fragment = view.getUint16(at + 6);
  return {
    version: first >> 12,
    headerWords: (first >> 8) & 0xf,
    dscp: (first >> 2) & 0x3f,
    ecn: first & 3,
    totalLength: view.getUint16(at + 2),
    identification: view.getUint16(at + 4),
    reservedFlag: (fragment & 0x8000) !== 0,
    dontFragment: (fragment & 0x4000) !== 0,
    moreFragments: (fragment & 0x2000) !== 0,
    fragmentOffset: fragment & 0x1fff,
    ttl: view.getUint8(at + 8),
    protocol: view.getUint8(at + 9),
    checksum: view.getUint16(at + 10),
    source: view.getUint32(at + 12),
    destination: view.getUint32(at + 16),
  };
}

export function writeIpv4(view: DataView, at: number, header: Ipv4): void {
  view.setUint16(
    at,
    (header.version << 12) | (header.headerWords << 8) | (header.dscp << 2) | header.ecn,
  );
  view.setUint16(at + 2, header.totalLength);
  view.setUint16(at + 4, header.identification);
  view.setUint16(
    at + 6,
    (header.reservedFlag ? 0x8000 : 0) | (header.dontFragment ? 0x4000 : 0) |
      (header.moreFragments ? 0x2000 : 0) | header.fragmentOffset,
  );
  view.setUint8(at + 8, header.ttl);
  view.setUint8(at + 9, header.protocol);
  view.setUint16(at + 10, header.checksum);
  view.setUint32(at + 12, header.source);
  view.setUint32(at + 16, header.destination);
}

/**
 * The Internet checksum (RFC 1071) of a 20-byte header: the value to store where its checksum field
 * is zero; 0 for a valid received header.
 */
export function ipv4Checksum(view: DataView, at: number): number {
  let sum = 0;
  for (let i = 0; i < IPV4_BYTES; i += 2) sum += view.getUint16(at + i);
  sum = (sum & 0xffff) + (sum >>> 16);
  sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
