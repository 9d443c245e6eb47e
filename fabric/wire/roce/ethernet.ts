import { sizeOf } from "../../base/fields.ts";

export const ETHERNET_FIELDS = [
  ["destination", 48],
  ["source", 48],
  ["etherType", 16],
] as const;
export const ETHERNET_BYTES = sizeOf(ETHERNET_FIELDS);

export const ETHERTYPE_IPV4 = 0x0800;
/** Shorter frames are padded with zeros; the IP length gives the real end. */
export const LEAST_FRAME_BYTES = 60;

export function readMac(view: DataView, at: number): number {
  return view.getUint16(at) * 0x1_0000_0000 + view.getUint32(at + 2);
}

export function writeMac(view: DataView, at: number, mac: number): void {
  view.setUint16(at, Math.floor(mac / 0x1_0000_0000));
  view.setUint32(at + 2, mac >>> 0);
}
