import { type HeaderOf, sizeOf } from "../../base/fields.ts";

export const BTH_FIELDS = [
  ["opcode", 8],
  ["solicited", 1],
  /** 1 = not migrating. */
  ["migReq", 1],
  /** (−payload) & 3. */
  ["padCount", 2],
  ["tver", 4],
  ["pKey", 16],
  ["fecn", 1],
  ["becn", 1],
  /** Not covered by the ICRC, like FECN and BECN; receivers ignore it. */
  ["reserved6", 6],
  /** 0xFFFFFF = multicast, 1 = GSI. */
  ["destQpn", 24],
  ["ackReq", 1],
  ["reserved7", 7],
  ["psn", 24],
] as const;
export const BTH_BYTES = sizeOf(BTH_FIELDS);
export type Bth = HeaderOf<typeof BTH_FIELDS>;

/** Full member of the default partition. */
export const DEFAULT_PKEY = 0xffff;
export const MULTICAST_QPN = 0xff_ffff;
export const GSI_QPN = 1;

export function readBth(view: DataView, at: number): Bth {
  const flags = view.getUint8(at + 1);
  const destination = view.getUint32(at + 4), sequence = view.getUint32(at + 8);
  return {
    opcode: view.getUint8(at),
    solicited: (flags & 0x80) !== 0,
    migReq: (flags & 0x40) !== 0,
    padCount: (flags >> 4) & 3,
    tver: flags & 0xf,
    pKey: view.getUint16(at + 2),
    fecn: (destination & 0x8000_0000) !== 0,
    becn: (destination & 0x4000_0000) !== 0,
    reserved6: (destination >>> 24) & 0x3f,
    destQpn: destination & 0xff_ffff,
    ackReq: (sequence & 0x8000_0000) !== 0,
    reserved7: (sequence >>> 24) & 0x7f,
    psn: sequence & 0xff_ffff,
  };
}

export function writeBth(view: DataView, at: number, header: Bth): void {
  view.setUint8(at, header.opcode);
  view.setUint8(
    at + 1,
    (header.solicited ? 0x80 : 0) | (header.migReq ? 0x40 : 0) | (header.padCount << 4) |
      header.tver,
  );
  view.setUint16(at + 2, header.pKey);
  view.setUint32(
    at + 4,
    (header.fecn ? 0x8000_0000 : 0) | (header.becn ? 0x4000_0000 : 0) | (header.reserved6 << 24) |
      header.destQpn,
  );
  view.setUint32(
    at + 8,
    (header.ackReq ? 0x8000_0000 : 0) | (header.reserved7 << 24) | header.psn,
  );
}
