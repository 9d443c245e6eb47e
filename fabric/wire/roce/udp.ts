import { sizeOf } from "../../base/fields.ts";

export const UDP_FIELDS = [
  ["sourcePort", 16],
  ["destinationPort", 16],
  /** This header, BTH to pad, and the ICRC. */
  ["length", 16],
  ["checksum", 16],
] as const;
export const UDP_BYTES = sizeOf(UDP_FIELDS);

export const ROCE_PORT = 4791;

/**
 * The same in both directions. The product has 48 bits, so it is folded in two halves rather than
 * as a bigint.
 */
export function flowLabel(localQpn: number, remoteQpn: number): number {
  const product = localQpn * remoteQpn;
  const high = Math.floor(product / 0x10_0000), low = product % 0x10_0000;
  return (low ^ (high & 0xf_ffff) ^ (high >>> 20)) & 0xf_ffff;
}

/** 0xC000…0xFFFF from a 20-bit flow label: ECMP hashes it. */
export function sourcePortOfFlow(label: number): number {
  return ((label & 0x3fff) ^ (label >>> 14)) | 0xc000;
}

/**
 * From the flow label if that is set, else from the two QPNs and so the same in both directions.
 */
export function udpSourcePort(localQpn: number, remoteQpn: number, label = 0): number {
  return sourcePortOfFlow(label === 0 ? flowLabel(localQpn, remoteQpn) : label);
}
