/** Reads the fields of a RoCE frame that a capture needs, without decoding the frame. */
import { BTH_BYTES, readBth } from "../wire/roce/bth.ts";
import { ETHERNET_BYTES } from "../wire/roce/ethernet.ts";
import { frameBth } from "../wire/roce/frame_peek.ts";
import { OPCODE } from "../wire/roce/opcode.ts";
import { viewOf } from "../base/slab.ts";
import { BTH_AT } from "../wire/roce/packet.ts";

/** The destination's IPv4 address: in the IPv4 header, and at the end of a GRH's destination GID. */
const DESTINATION_AT = ETHERNET_BYTES + 16;
const BEHIND_GRH = -4;

export interface BthPeek {
  readonly destination: number;
  readonly opcode: number;
  readonly destQpn: number;
  readonly psn: number;
  /** For an ACKNOWLEDGE only. */
  readonly syndrome: number | undefined;
}

/** Undefined for a frame that is not RoCE. Ignores the ICRC. */
export function peekBth(frame: Uint8Array<ArrayBuffer>): BthPeek | undefined {
  const at = frameBth(frame);
  if (at < 0 || frame.length < at + BTH_BYTES) return undefined;
  const view = viewOf(frame);
  const { opcode, destQpn, psn } = readBth(view, at);
  const isAck = opcode === OPCODE["RC ACKNOWLEDGE"] && frame.length > at + BTH_BYTES;
  const syndrome = isAck ? view.getUint8(at + BTH_BYTES) : undefined;
  const destination = view.getUint32(at === BTH_AT ? DESTINATION_AT : at + BEHIND_GRH);
  return { destination, opcode, destQpn, psn, syndrome };
}
