/**
 * The fields of a frame that a switch needs, without decoding. Accepts arbitrary bytes; a frame
 * that is not IPv4 has DSCP 0 and ECN 0, and the priority of its 802.1Q tag.
 */
import { assert } from "../../base/assert.ts";
import { ETHERNET_BYTES, ETHERTYPE_IPV4 } from "./ethernet.ts";
import { ECN, IPV4_BYTES } from "./ipv4.ts";
import { BTH_BYTES } from "./bth.ts";
import { ETHERTYPE_VLAN, findGrh, GRH_BYTES } from "./grh.ts";
import { ICRC_BYTES, writeGrhIcrc, writeIcrc } from "./icrc.ts";
import { opcodeRow } from "./opcode.ts";
import { priorityOfDscp } from "./pfc.ts";
import { copyOf } from "../../base/slab.ts";
import { ROCE_PORT, UDP_BYTES } from "./udp.ts";

const IP_AT = ETHERNET_BYTES;
/** Version 4, five words. */
const IPV4_NO_OPTIONS = 0x45;
const PROTOCOL_UDP = 17;
const OPCODE_AT = IP_AT + IPV4_BYTES + UDP_BYTES;

/** 48 bits; 0 where the frame is too short. */
export function frameDestination(bytes: Uint8Array): number {
  return macAt(bytes, 0);
}

/** 48 bits. */
export function frameSource(bytes: Uint8Array): number {
  return macAt(bytes, 6);
}

function macAt(bytes: Uint8Array, at: number): number {
  if (bytes.length < at + 6) return 0;
  const high = (bytes[at]! << 8) | bytes[at + 1]!;
  const low = (bytes[at + 2]! << 24) | (bytes[at + 3]! << 16) | (bytes[at + 4]! << 8) |
    bytes[at + 5]!;
  return high * 0x1_0000_0000 + (low >>> 0);
}

function trafficClass(bytes: Uint8Array): number {
  if (bytes.length < IP_AT + IPV4_BYTES) return 0;
  if (((bytes[12]! << 8) | bytes[13]!) !== ETHERTYPE_IPV4) return 0;
  return bytes[IP_AT + 1]!;
}

/** See {@link ECN}: a switch may mark a frame whose bits are not 0. */
export function frameEcn(bytes: Uint8Array): number {
  return trafficClass(bytes) & 3;
}

/** Six bits, which determine the frame's priority. */
export function frameDscp(bytes: Uint8Array): number {
  return trafficClass(bytes) >> 2;
}

/** 0 to 7: of its tag (IEEE 802.1Q), else of its DSCP. */
export function framePriority(bytes: Uint8Array): number {
  const isTagged = bytes.length > ETHERNET_BYTES && bytes[12] === ETHERTYPE_VLAN >> 8 &&
    bytes[13] === (ETHERTYPE_VLAN & 255);
  return isTagged ? bytes[ETHERNET_BYTES]! >> 5 : priorityOfDscp(frameDscp(bytes));
}

/**
 * A copy marked "congestion experienced" (RFC 3168), which the ICRC does not cover. The IPv4
 * checksum is updated, not recomputed (RFC 1624, equation 3), so that a damaged header stays
 * detectable. The frame must be ECN-capable.
 */
export function markCongestion(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  assert(frameEcn(bytes) !== ECN.notCapable, "Cannot mark a frame that is not ECN-capable");
  const marked = copyOf(bytes);
  const view = new DataView(marked.buffer, marked.byteOffset, marked.length);
  const before = view.getUint16(IP_AT);
  marked[IP_AT + 1] = marked[IP_AT + 1]! | ECN.congestion;
  let sum = (~view.getUint16(IP_AT + 10) & 0xffff) + (~before & 0xffff) + view.getUint16(IP_AT);
  sum = (sum & 0xffff) + (sum >>> 16);
  sum = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(IP_AT + 10, ~sum & 0xffff);
  return marked;
}

/** Of a RoCE frame with a known opcode; undefined for other frames. */
export function framePayload(
  bytes: Uint8Array,
): { readonly from: number; readonly to: number } | undefined {
  const at = frameBth(bytes);
  const row = at < 0 ? undefined : opcodeRow(bytes[at]!);
  if (row === undefined) return undefined;
  const pad = (bytes[at + 1]! >> 4) & 3;
  const from = at + BTH_BYTES + row.headerBytes;
  const to = frameEnd(bytes, at) - pad;
  return to > from && to <= bytes.length - ICRC_BYTES ? { from, to } : undefined;
}

export function sealFrame(bytes: Uint8Array): void {
  const view = viewOfAny(bytes), at = frameBth(bytes), end = frameEnd(bytes, at);
  if (at === OPCODE_AT) writeIcrc(view, { from: IP_AT, end });
  else writeGrhIcrc(view, { from: at - GRH_BYTES, end });
}

function frameEnd(bytes: Uint8Array, bthAt: number): number {
  const isIpv4 = bthAt === OPCODE_AT;
  const lengthAt = isIpv4 ? IP_AT + 2 : bthAt - GRH_BYTES + 4;
  const length = (bytes[lengthAt]! << 8) | bytes[lengthAt + 1]!;
  return (isIpv4 ? IP_AT : bthAt) + length - ICRC_BYTES;
}

/** Of a RoCE frame (`rocev2.md` §1.1); −1 for other frames. */
export function frameOpcode(bytes: Uint8Array): number {
  const at = frameBth(bytes);
  return at < 0 ? at : bytes[at]!;
}

/** Offset of the BTH, of either version; −1 for other frames. */
export function frameBth(bytes: Uint8Array): number {
  if (bytes.length <= OPCODE_AT) return -1;
  if (((bytes[12]! << 8) | bytes[13]!) !== ETHERTYPE_IPV4) return bthBehindGrh(bytes);
  if (bytes[IP_AT] !== IPV4_NO_OPTIONS || bytes[IP_AT + 9] !== PROTOCOL_UDP) return -1;
  const udp = IP_AT + IPV4_BYTES;
  return ((bytes[udp + 2]! << 8) | bytes[udp + 3]!) === ROCE_PORT ? OPCODE_AT : -1;
}

function bthBehindGrh(bytes: Uint8Array): number {
  const at = findGrh(viewOfAny(bytes));
  return at === undefined || bytes.length <= at + GRH_BYTES ? -1 : at + GRH_BYTES;
}

function viewOfAny(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
