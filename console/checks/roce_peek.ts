/** What a checker needs to know of a RoCEv2 frame, without decoding it and without a look at its ICRC. */
import { viewOf } from "../../fabric/base/slab.ts";
import { readAeth } from "../../fabric/wire/roce/aeth.ts";
import { BTH_BYTES, readBth } from "../../fabric/wire/roce/bth.ts";
import { ETHERNET_BYTES } from "../../fabric/wire/roce/ethernet.ts";
import { frameOpcode, framePayload } from "../../fabric/wire/roce/frame_peek.ts";
import { IPV4_BYTES } from "../../fabric/wire/roce/ipv4.ts";
import { type OpcodeRow, opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { readReth } from "../../fabric/wire/roce/reth.ts";
import { UDP_BYTES } from "../../fabric/wire/roce/udp.ts";

const UDP_AT = ETHERNET_BYTES + IPV4_BYTES;
const BTH_AT = UDP_AT + UDP_BYTES;
const EXTENSIONS_AT = BTH_AT + BTH_BYTES;

export interface RoceSeen {
  readonly row: OpcodeRow;
  readonly sourceAddress: number;
  readonly destinationAddress: number;
  readonly udpSourcePort: number;
  readonly destQpn: number;
  readonly psn: number;
  readonly payloadBytes: number;
  /** Of a READ request: how much it asks for; else 0. */
  readonly length: number;
  /** Where there is an AETH. */
  readonly syndrome: number | undefined;
  readonly msn: number | undefined;
}

/** Undefined for what is no RoCEv2 packet of a known opcode. */
export function peekRoce(frame: Uint8Array<ArrayBuffer>): RoceSeen | undefined {
  const code = frameOpcode(frame);
  const row = code < 0 ? undefined : opcodeRow(code);
  if (row === undefined || frame.length < EXTENSIONS_AT + row.headerBytes) return undefined;
  const view = viewOf(frame);
  const { destQpn, psn } = readBth(view, BTH_AT);
  const payload = framePayload(frame);
  // Both stand first among extension headers, where they are.
  const hasAeth = row.headers[0] === "aeth";
  const aeth = hasAeth ? readAeth(view, EXTENSIONS_AT) : undefined;
  const isRead = row.operation === "read-request";
  return {
    row,
    sourceAddress: view.getUint32(ETHERNET_BYTES + 12),
    destinationAddress: view.getUint32(ETHERNET_BYTES + 16),
    udpSourcePort: view.getUint16(UDP_AT),
    destQpn,
    psn,
    payloadBytes: payload === undefined ? 0 : payload.to - payload.from,
    length: isRead ? readReth(view, EXTENSIONS_AT).length : 0,
    syndrome: aeth?.syndrome,
    msn: aeth?.msn,
  };
}
