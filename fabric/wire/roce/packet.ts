/**
 * A RoCEv2 packet as a value, and the Ethernet frame that carries it (`rocev2.md` §1). Encoding
 * computes lengths and checksums; decoding validates them once: a decoded packet encodes to the
 * same bytes.
 */
import { fail } from "../../base/assert.ts";
import { type Bth, BTH_BYTES, readBth, writeBth } from "./bth.ts";
import {
  ETHERNET_BYTES,
  ETHERTYPE_IPV4,
  LEAST_FRAME_BYTES,
  readMac,
  writeMac,
} from "./ethernet.ts";
import { ICRC_BYTES, icrcHolds, writeIcrc } from "./icrc.ts";
import { IPV4_BYTES, ipv4Checksum, PROTOCOL_UDP } from "./ipv4.ts";
import { EXTENSION_ROWS, type ExtensionHeader, type Extensions } from "./extension_headers.ts";
import { type OpcodeRow, opcodeRow } from "./opcode.ts";
import { allocate, bufferViewOf, viewOf } from "../../base/slab.ts";
import { ROCE_PORT, UDP_BYTES } from "./udp.ts";

/** A RoCEv2 packet over IPv4, without the fields that follow from others. */
export interface RocePacket extends Extensions {
  readonly destinationMac: number;
  readonly sourceMac: number;
  readonly sourceAddress: number;
  readonly destinationAddress: number;
  readonly dscp: number;
  /** Values of `ECN` in `ipv4.ts`. */
  readonly ecn: number;
  readonly ttl: number;
  readonly identification: number;
  readonly udpSourcePort: number;
  /** Encoding computes `padCount` from the payload. */
  readonly bth: Bth;
  /** A view of the frame's bytes, without the pad. */
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Why a frame is not a packet. A receiver drops it silently, and counts it. */
export type RefusalReason =
  | "too-short"
  | "not-roce"
  | "bad-ip-header"
  | "bad-ip-checksum"
  | "bad-udp-checksum"
  | "bad-length"
  | "bad-icrc"
  | "bad-tver"
  | "unknown-opcode"
  | "bad-padding";

/** Distinguishes the two results of {@link decodePacket}. */
export function isRefusal(answer: RocePacket | RefusalReason): answer is RefusalReason {
  return typeof answer === "string";
}

const IP_AT = ETHERNET_BYTES;
const UDP_AT = IP_AT + IPV4_BYTES;
const BTH_AT = UDP_AT + UDP_BYTES;
const EXTENSIONS_AT = BTH_AT + BTH_BYTES;
/** Bytes of a frame besides extension headers, payload, pad and filling. */
const FRAME_OVERHEAD_BYTES = EXTENSIONS_AT + ICRC_BYTES;

/** IPv4 version 4, five words of header. */
const VERSION_AND_WORDS = 0x45;
/** Don't fragment, no fragment. */
const FRAGMENT_WORD = 0x4000;

/** Size of the frame of a packet with this opcode and payload, without preamble and FCS. */
export function frameBytes(row: OpcodeRow, payloadBytes: number): number {
  const bytes = FRAME_OVERHEAD_BYTES + row.headerBytes + payloadBytes + (-payloadBytes & 3);
  return Math.max(LEAST_FRAME_BYTES, bytes);
}

/** The Ethernet frame of a packet. The packet must have the extension headers of its opcode. */
export function encodePacket(packet: RocePacket): Uint8Array<ArrayBuffer> {
  const row = opcodeRow(packet.bth.opcode);
  if (row === undefined) fail(`Cannot encode opcode ${packet.bth.opcode}: it has no row`);
  const payloadBytes = packet.payload.length, pad = -payloadBytes & 3;
  const end = EXTENSIONS_AT + row.headerBytes + payloadBytes + pad;
  const ipBytes = end + ICRC_BYTES - IP_AT;
  if (ipBytes > 0xffff) fail(`A payload of ${payloadBytes} B does not fit an IPv4 packet`);
  const bytes = allocate(Math.max(LEAST_FRAME_BYTES, end + ICRC_BYTES));
  // Shares a view: a new view for each frame would cost as much as writing the headers.
  const view = bufferViewOf(bytes), base = bytes.byteOffset;
  writeOuterHeaders(view, base, { packet, ipBytes });
  const bthAt = base + BTH_AT;
  writeBth(view, bthAt, packet.bth);
  view.setUint8(bthAt + 1, (view.getUint8(bthAt + 1) & ~0x30) | (pad << 4));
  let at = base + EXTENSIONS_AT;
  for (let i = 0; i < row.headers.length; i++) {
    const name = row.headers[i]!, { write, bytes: size } = EXTENSION_ROWS[name];
    write(view, at, required(packet[name], name));
    at += size;
  }
  if (payloadBytes > 0) bytes.set(packet.payload, at - base);
  writeIcrc(view, { from: base + IP_AT, end: base + end });
  return bytes;
}

/** Ethernet, IPv4 and UDP as in `ethernet.ts`, `ipv4.ts` and `udp.ts`, with constants merged. */
function writeOuterHeaders(
  view: DataView,
  base: number,
  { packet, ipBytes }: { readonly packet: RocePacket; readonly ipBytes: number },
): void {
  const ip = base + IP_AT, udp = base + UDP_AT;
  writeMac(view, base, packet.destinationMac);
  writeMac(view, base + 6, packet.sourceMac);
  view.setUint16(base + 12, ETHERTYPE_IPV4);
  view.setUint8(ip, VERSION_AND_WORDS);
  view.setUint8(ip + 1, (packet.dscp << 2) | packet.ecn);
  view.setUint16(ip + 2, ipBytes);
  view.setUint16(ip + 4, packet.identification);
  view.setUint16(ip + 6, FRAGMENT_WORD);
  view.setUint8(ip + 8, packet.ttl);
  view.setUint8(ip + 9, PROTOCOL_UDP);
  view.setUint32(ip + 12, packet.sourceAddress);
  view.setUint32(ip + 16, packet.destinationAddress);
  view.setUint16(ip + 10, ipv4Checksum(view, ip));
  view.setUint16(udp, packet.udpSourcePort);
  view.setUint16(udp + 2, ROCE_PORT);
  view.setUint16(udp + 4, ipBytes - IPV4_BYTES);
}

function required<Header>(value: Header | undefined, header: ExtensionHeader): Header {
  if (value === undefined) fail(`The packet's opcode asks for ${header}, which it does not have`);
  return value;
}

/**
 * The packet in a frame, or the reason of its refusal. Never throws, whatever the bytes. Validates
 * the ICRC before it reads anything behind UDP. It does not check a request's payload against its
 * opcode's rule: that is the responder's check, which sends a NAK (`payloadFits`).
 */
export function decodePacket(bytes: Uint8Array<ArrayBuffer>): RocePacket | RefusalReason {
  const view = viewOf(bytes);
  const outer = checkOuterHeaders(view);
  if (outer !== undefined) return outer;
  const end = IP_AT + view.getUint16(IP_AT + 2) - ICRC_BYTES;
  if (!icrcHolds(view, { from: IP_AT, end })) return "bad-icrc";
  const bth = readBth(view, BTH_AT);
  if (bth.tver !== 0) return "bad-tver";
  const row = opcodeRow(bth.opcode);
  if (row === undefined) return "unknown-opcode";
  const payloadAt = EXTENSIONS_AT + row.headerBytes, payloadEnd = end - bth.padCount;
  const inner = checkInner(view, { row, payloadAt, payloadEnd, end });
  if (inner !== undefined) return inner;
  const packet: RocePacket = {
    destinationMac: readMac(view, 0),
    sourceMac: readMac(view, 6),
    sourceAddress: view.getUint32(IP_AT + 12),
    destinationAddress: view.getUint32(IP_AT + 16),
    dscp: view.getUint8(IP_AT + 1) >> 2,
    ecn: view.getUint8(IP_AT + 1) & 3,
    ttl: view.getUint8(IP_AT + 8),
    identification: view.getUint16(IP_AT + 4),
    udpSourcePort: view.getUint16(UDP_AT),
    bth,
    payload: new Uint8Array(bytes.buffer, bytes.byteOffset + payloadAt, payloadEnd - payloadAt),
  };
  const extensions: Partial<Record<ExtensionHeader, Extensions[ExtensionHeader]>> = packet;
  let at = EXTENSIONS_AT;
  for (let i = 0; i < row.headers.length; i++) {
    const name = row.headers[i]!, { read, bytes: size } = EXTENSION_ROWS[name];
    extensions[name] = read(view, at);
    at += size;
  }
  return packet;
}

/** Validates Ethernet, IPv4, UDP and the frame's length; undefined where they are valid. */
function checkOuterHeaders(view: DataView): RefusalReason | undefined {
  const length = view.byteLength;
  if (length < LEAST_FRAME_BYTES) return "too-short";
  if (view.getUint16(12) !== ETHERTYPE_IPV4) return "not-roce";
  if (view.getUint8(IP_AT) !== VERSION_AND_WORDS) return "bad-ip-header";
  // A valid checksum has two representations; senders never write 0xFFFF (RFC 1624).
  if (ipv4Checksum(view, IP_AT) !== 0 || view.getUint16(IP_AT + 10) === 0xffff) {
    return "bad-ip-checksum";
  }
  if (view.getUint16(IP_AT + 6) !== FRAGMENT_WORD) return "bad-ip-header";
  if (view.getUint8(IP_AT + 9) !== PROTOCOL_UDP) return "not-roce";
  if (view.getUint16(UDP_AT + 2) !== ROCE_PORT) return "not-roce";
  // RoCE senders omit it (§1.1), and the ICRC does not cover it.
  if (view.getUint16(UDP_AT + 6) !== 0) return "bad-udp-checksum";
  const ipBytes = view.getUint16(IP_AT + 2);
  if (ipBytes < FRAME_OVERHEAD_BYTES - IP_AT || (ipBytes & 3) !== 0) return "bad-length";
  if (length !== Math.max(LEAST_FRAME_BYTES, IP_AT + ipBytes)) return "bad-length";
  if (view.getUint16(UDP_AT + 4) !== ipBytes - IPV4_BYTES) return "bad-length";
  for (let at = IP_AT + ipBytes; at < length; at++) {
    if (view.getUint8(at) !== 0) return "bad-padding";
  }
  return undefined;
}

interface InnerLayout {
  readonly row: OpcodeRow;
  readonly payloadAt: number;
  readonly payloadEnd: number;
  readonly end: number;
}

/** Validates the part behind the base transport header; undefined where it is valid. */
function checkInner(view: DataView, layout: InnerLayout): RefusalReason | undefined {
  const { row, payloadAt, payloadEnd, end } = layout;
  if (payloadEnd < payloadAt) return "bad-length";
  if (
    row.direction !== "request" && typeof row.payload === "number" &&
    payloadEnd - payloadAt !== row.payload
  ) return "bad-length";
  for (let at = payloadEnd; at < end; at++) {
    if (view.getUint8(at) !== 0) return "bad-padding";
  }
  return undefined;
}
