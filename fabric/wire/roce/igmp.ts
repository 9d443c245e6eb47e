/**
 * Group membership reports (IGMP, RFC 3376, RFC 2236), by which a port joins and leaves multicast
 * groups and from which a snooping switch learns them. Real frames: IPv4 with the router alert
 * option to 224.0.0.22, time to live 1.
 *
 *   Ethernet 14 | IPv4 20 + router alert 4 | type 0x22, checksum, records | record 8 each | padding
 */
import { ETHERNET_BYTES, ETHERTYPE_IPV4, LEAST_FRAME_BYTES, writeMac } from "./ethernet.ts";
import { isGroupAddress, macOfAddress } from "./neighbour.ts";
import { allocate, viewOf } from "../../base/slab.ts";

const PROTOCOL_IGMP = 2;
/** 224.0.0.22 (RFC 3376 §4.2.14). */
const REPORT_ADDRESS = 0xe000_0016;
/** How often a report is sent, as one may be lost (RFC 3376 §8.1). */
export const ROBUSTNESS = 2;
/** A frame has room for 180. */
export const REPORT_RECORDS_MAX = 128;

export interface MembershipChange {
  /** IPv4 address in 224/4. */
  readonly group: number;
  readonly member: boolean;
}

const IP_AT = ETHERNET_BYTES;
/** With the router alert option (RFC 2113), which a report must have. */
const IP_BYTES = 24;
const ROUTER_ALERT = 0x9404_0000;
/** Network control, as hosts mark IGMP. */
const TYPE_OF_SERVICE = 0xc0;
const V3_REPORT = 0x22, V2_REPORT = 0x16, V1_REPORT = 0x12, V2_LEAVE = 0x17;
const V3_HEADER_BYTES = 8, RECORD_BYTES = 8;
/** RFC 3376 §4.2.12. */
const RECORD = {
  isInclude: 1,
  isExclude: 2,
  toInclude: 3,
  toExclude: 4,
  allow: 5,
  block: 6,
} as const;

/** RFC 1071 over an even number of bytes: the value to store; 0 over valid bytes. */
function checksum(view: DataView, from: number, bytes: number): number {
  let sum = 0;
  for (let i = 0; i < bytes; i += 2) sum += view.getUint16(from + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

export function encodeReport(
  source: { readonly mac: number; readonly address: number },
  changes: readonly MembershipChange[],
): Uint8Array<ArrayBuffer> {
  const igmpBytes = V3_HEADER_BYTES + RECORD_BYTES * changes.length;
  const igmpAt = IP_AT + IP_BYTES;
  const bytes = allocate(Math.max(LEAST_FRAME_BYTES, igmpAt + igmpBytes));
  const view = viewOf(bytes);
  writeMac(view, 0, macOfAddress(REPORT_ADDRESS));
  writeMac(view, 6, source.mac);
  view.setUint16(12, ETHERTYPE_IPV4);
  view.setUint16(IP_AT, 0x4600 | TYPE_OF_SERVICE);
  view.setUint16(IP_AT + 2, IP_BYTES + igmpBytes);
  view.setUint16(IP_AT + 6, 0x4000);
  view.setUint16(IP_AT + 8, (1 << 8) | PROTOCOL_IGMP);
  view.setUint32(IP_AT + 12, source.address);
  view.setUint32(IP_AT + 16, REPORT_ADDRESS);
  view.setUint32(IP_AT + 20, ROUTER_ALERT);
  view.setUint16(IP_AT + 10, checksum(view, IP_AT, IP_BYTES));
  view.setUint8(igmpAt, V3_REPORT);
  view.setUint16(igmpAt + 6, changes.length);
  let at = igmpAt + V3_HEADER_BYTES;
  for (const { group, member } of changes) {
    view.setUint8(at, member ? RECORD.toExclude : RECORD.toInclude);
    view.setUint32(at + 4, group);
    at += RECORD_BYTES;
  }
  view.setUint16(igmpAt + 2, checksum(view, igmpAt, igmpBytes));
  return bytes;
}

export function isIgmp(bytes: Uint8Array): boolean {
  return bytes.length >= IP_AT + 20 && bytes[12] === 0x08 && bytes[13] === 0x00 &&
    bytes[IP_AT]! >> 4 === 4 && bytes[IP_AT + 9] === PROTOCOL_IGMP;
}

/**
 * Of any IGMP version; undefined for invalid reports, queries and other frames. Sources are not
 * distinguished: a port that wants one source receives the group.
 */
export function decodeReport(bytes: Uint8Array<ArrayBuffer>): MembershipChange[] | undefined {
  if (!isIgmp(bytes)) return undefined;
  const view = viewOf(bytes);
  const headerBytes = (bytes[IP_AT]! & 0xf) * 4;
  const igmpAt = IP_AT + headerBytes;
  const end = IP_AT + view.getUint16(IP_AT + 2);
  if (headerBytes < 20 || end > bytes.length || end - igmpAt < 8) return undefined;
  if (checksum(view, IP_AT, headerBytes) !== 0) return undefined;
  if (((end - igmpAt) & 1) !== 0 || checksum(view, igmpAt, end - igmpAt) !== 0) return undefined;
  const type = view.getUint8(igmpAt);
  if (type === V3_REPORT) return recordsOf(view, igmpAt, end);
  if (type !== V2_REPORT && type !== V1_REPORT && type !== V2_LEAVE) return undefined;
  const group = view.getUint32(igmpAt + 4);
  return isGroupAddress(group) ? [{ group, member: type !== V2_LEAVE }] : undefined;
}

function recordsOf(view: DataView, igmpAt: number, end: number): MembershipChange[] | undefined {
  const changes: MembershipChange[] = [];
  let at = igmpAt + V3_HEADER_BYTES;
  for (let left = view.getUint16(igmpAt + 6); left > 0; left--) {
    if (at + RECORD_BYTES > end) return undefined;
    const kind = view.getUint8(at), sources = view.getUint16(at + 2);
    const group = view.getUint32(at + 4);
    at += RECORD_BYTES + 4 * (sources + view.getUint8(at + 1));
    if (at > end || !isGroupAddress(group)) return undefined;
    if (kind === RECORD.isExclude || kind === RECORD.toExclude || kind === RECORD.allow) {
      changes.push({ group, member: true });
    } else if (kind === RECORD.isInclude || kind === RECORD.toInclude) {
      changes.push({ group, member: sources > 0 });
    }
  }
  return changes;
}
