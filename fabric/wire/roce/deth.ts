/** Of UD packets (`rocev2.md` §1.3). */
import type { HeaderOf } from "../../base/fields.ts";

export const DETH_FIELDS = [
  ["qKey", 32],
  ["reserved", 8],
  ["sourceQpn", 24],
] as const;
type Deth = HeaderOf<typeof DETH_FIELDS>;

export const GSI_QKEY = 0x8001_0000;

export function readDeth(view: DataView, at: number): Deth {
  return {
    qKey: view.getUint32(at),
    reserved: view.getUint8(at + 4),
    sourceQpn: view.getUint32(at + 4) & 0xff_ffff,
  };
}

export function writeDeth(view: DataView, at: number, header: Deth): void {
  view.setUint32(at, header.qKey);
  view.setUint32(at + 4, (header.reserved << 24) | header.sourceQpn);
}
