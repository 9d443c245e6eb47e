/** Reads the fields of a RoCEv2 frame that a capture needs, without decoding the frame. */
import { BTH_BYTES, readBth } from "../wire/roce/bth.ts";
import { ETHERNET_BYTES, ETHERTYPE_IPV4 } from "../wire/roce/ethernet.ts";
import { IPV4_BYTES, PROTOCOL_UDP } from "../wire/roce/ipv4.ts";
import { OPCODE } from "../wire/roce/opcode.ts";
import { viewOf } from "../base/slab.ts";
import { ROCE_PORT, UDP_BYTES } from "../wire/roce/udp.ts";

const UDP_AT = ETHERNET_BYTES + IPV4_BYTES;
const BTH_AT = UDP_AT + UDP_BYTES;
const AETH_AT = BTH_AT + BTH_BYTES;
const DESTINATION_AT = ETHERNET_BYTES + 16;
/** IPv4 with a header of five words. */
const VERSION_AND_WORDS = 0x45;

export interface BthPeek {
  readonly destination: number;
  readonly opcode: number;
  readonly destQpn: number;
  readonly psn: number;
  /** For an ACKNOWLEDGE only. */
  readonly syndrome: number | undefined;
}

/** Undefined for a frame that is not RoCEv2 over IPv4. Ignores the ICRC. */
export function peekBth(frame: Uint8Array<ArrayBuffer>): BthPeek | undefined {
  if (frame.length < BTH_AT + BTH_BYTES) return undefined;
  const view = viewOf(frame);
  const isRoce = view.getUint16(12) === ETHERTYPE_IPV4 &&
    view.getUint8(ETHERNET_BYTES) === VERSION_AND_WORDS &&
    view.getUint8(ETHERNET_BYTES + 9) === PROTOCOL_UDP &&
    view.getUint16(UDP_AT + 2) === ROCE_PORT;
  if (!isRoce) return undefined;
  const { opcode, destQpn, psn } = readBth(view, BTH_AT);
  const isAck = opcode === OPCODE["RC ACKNOWLEDGE"] && frame.length > AETH_AT;
  const syndrome = isAck ? view.getUint8(AETH_AT) : undefined;
  return { destination: view.getUint32(DESTINATION_AT), opcode, destQpn, psn, syndrome };
}
