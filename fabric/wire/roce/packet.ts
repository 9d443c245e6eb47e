/**
 * A RoCE packet as a value, and its Ethernet frame: RoCEv2 (`rocev2.md` §1), or RoCEv1 (`grh.ts`).
 * A decoded packet encodes to the same bytes.
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
import { checkGrh, findGrh, type Grh, GRH_BYTES, grhAt, readGrh, writeGrh } from "./grh.ts";
import { grhIcrcHolds, ICRC_BYTES, icrcHolds, writeGrhIcrc, writeIcrc } from "./icrc.ts";
import { IPV4_BYTES, ipv4Checksum, PROTOCOL_UDP } from "./ipv4.ts";
import { EXTENSION_ROWS, type ExtensionHeader, type Extensions } from "./extension_headers.ts";
import { type OpcodeRow, opcodeRow } from "./opcode.ts";
import { allocate, bufferViewOf, viewOf } from "../../base/slab.ts";
import { ROCE_PORT, UDP_BYTES } from "./udp.ts";

/** Without derived fields. */
export interface RocePacket extends Extensions {
  readonly destinationMac: number;
  readonly sourceMac: number;
  /** IPv4; RoCEv1 has the GIDs that stand for them. */
  readonly sourceAddress: number;
  readonly destinationAddress: number;
  /** Upper six bits of the traffic class. */
  readonly dscp: number;
  /** RoCEv1 has the two bits, but no device sets or obeys them. */
  readonly ecn: number;
  /** Hop limit of a GRH. */
  readonly ttl: number;
  /** 0 in RoCEv1, as is the source port. */
  readonly identification: number;
  readonly udpSourcePort: number;
  /** Absent: RoCEv2. */
  readonly grh?: Grh;
  /** Encoding computes `padCount` from the payload. */
  readonly bth: Bth;
  /** A view of the frame's bytes, without the pad. */
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Why a frame is no packet: a receiver drops it silently, and counts it. */
export type RefusalReason =
  | "too-short"
  | "not-roce"
  | "bad-ip-header"
  | "bad-ip-checksum"
  | "bad-udp-checksum"
  /** RoCEv1: the priority tag, the global route header, a GID of no IPv4 address. */
  | "bad-tag"
  | "bad-grh"
  | "bad-gid"
  | "bad-length"
  | "bad-icrc"
  | "bad-tver"
  | "unknown-opcode"
  | "bad-padding";

export function isRefusal(answer: RocePacket | RefusalReason): answer is RefusalReason {
  return typeof answer === "string";
}

const IP_AT = ETHERNET_BYTES;
const UDP_AT = IP_AT + IPV4_BYTES;
export const BTH_AT = UDP_AT + UDP_BYTES;
const EXTENSIONS_AT = BTH_AT + BTH_BYTES;
/** Besides extension headers, payload, pad and filling. */
const FRAME_OVERHEAD_BYTES = EXTENSIONS_AT + ICRC_BYTES;

/** Version 4, five words. */
const VERSION_AND_WORDS = 0x45;
/** Don't fragment. */
const FRAGMENT_WORD = 0x4000;

/** Without preamble and FCS. @param bthAt {@link BTH_AT}, or {@link bthBehind} of RoCEv1. */
export function frameBytes(row: OpcodeRow, payloadBytes: number, bthAt: number = BTH_AT): number {
  return Math.max(
    LEAST_FRAME_BYTES,
    packetBytes(bthAt + BTH_BYTES + row.headerBytes, payloadBytes),
  );
}

function packetBytes(headBytes: number, payloadBytes: number): number {
  return headBytes + payloadBytes + (-payloadBytes & 3) + ICRC_BYTES;
}

export function bthBehind(grh: Grh): number {
  return grhAt(grh) + GRH_BYTES;
}

export function encodePacket(packet: RocePacket): Uint8Array<ArrayBuffer> {
  return new PacketFrame(packet).bytes;
}

function encodeHead(packet: RocePacket): Uint8Array<ArrayBuffer> {
  const row = opcodeRow(packet.bth.opcode);
  if (row === undefined) fail(`Cannot encode opcode ${packet.bth.opcode}: it has no row`);
  const payloadBytes = packet.payload.length, pad = -payloadBytes & 3;
  const { grh } = packet;
  const headersEnd = (grh === undefined ? BTH_AT : bthBehind(grh)) + BTH_BYTES;
  const length = packetBytes(headersEnd + row.headerBytes, payloadBytes);
  const ipBytes = length - IP_AT;
  if (ipBytes > 0xffff) fail(`A payload of ${payloadBytes} B does not fit a RoCE packet`);
  const head = allocate(headersEnd + row.headerBytes);
  // Shares a view: a new view for each frame would cost as much as writing the headers.
  const view = bufferViewOf(head), base = head.byteOffset;
  if (grh === undefined) writeOuterHeaders(view, base, { packet, ipBytes });
  else writeGrhHeaders(view, base, { packet, grh, length });
  const bthAt = base + headersEnd - BTH_BYTES;
  writeBth(view, bthAt, packet.bth);
  view.setUint8(bthAt + 1, (view.getUint8(bthAt + 1) & ~0x30) | (pad << 4));
  let at = base + headersEnd;
  for (let i = 0; i < row.headers.length; i++) {
    const name = row.headers[i]!, { write, bytes: size } = EXTENSION_ROWS[name];
    write(view, at, required(packet[name], name));
    at += size;
  }
  return head;
}

function completeFrame({ packet, head, length }: PacketFrame): Uint8Array<ArrayBuffer> {
  const { payload, grh } = packet;
  const bytes = allocate(length);
  bytes.set(head);
  bytes.set(payload, head.length);
  const view = bufferViewOf(bytes), base = bytes.byteOffset;
  const end = base + packetBytes(head.length, payload.length) - ICRC_BYTES;
  if (grh === undefined) writeIcrc(view, { from: base + IP_AT, end });
  else writeGrhIcrc(view, { from: base + grhAt(grh), end });
  return bytes;
}

/** A frame that this process has made of a packet is a {@link PacketFrame}. */
export interface FrameBytes {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The first bytes, with all headers: {@link headOf}. */
  readonly head?: Uint8Array<ArrayBuffer>;
  /** {@link lengthOf}. */
  readonly length?: number;
}

/**
 * Of a packet that no longer changes. Its headers, which is all that switches read, are there at
 * once; its bytes, with payload and ICRC, are made when a capture, another process or a fault needs
 * them.
 */
export class PacketFrame implements FrameBytes {
  readonly kind = "frame";
  hash: number | undefined = undefined;
  readonly packet: RocePacket;
  readonly head: Uint8Array<ArrayBuffer>;
  readonly length: number;
  #bytes: Uint8Array<ArrayBuffer> | undefined = undefined;

  constructor(packet: RocePacket) {
    this.packet = packet;
    this.head = encodeHead(packet);
    const bytes = packetBytes(this.head.length, packet.payload.length);
    this.length = Math.max(LEAST_FRAME_BYTES, bytes);
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes ??= completeFrame(this);
  }
}

export function headOf(frame: FrameBytes): Uint8Array<ArrayBuffer> {
  return frame.head ?? frame.bytes;
}

/** Without preamble and FCS. */
export function lengthOf(frame: FrameBytes): number {
  return frame.length ?? frame.bytes.length;
}

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

function writeGrhHeaders(
  view: DataView,
  base: number,
  { packet, grh, length }: {
    readonly packet: RocePacket;
    readonly grh: Grh;
    readonly length: number;
  },
): void {
  writeMac(view, base, packet.destinationMac);
  writeMac(view, base + 6, packet.sourceMac);
  writeGrh(view, base, {
    ...grh,
    sourceAddress: packet.sourceAddress,
    destinationAddress: packet.destinationAddress,
    trafficClass: (packet.dscp << 2) | packet.ecn,
    hopLimit: packet.ttl,
    payloadLength: length - bthBehind(grh),
  });
}

function required<Header>(value: Header | undefined, header: ExtensionHeader): Header {
  if (value === undefined) fail(`The packet's opcode asks for ${header}, which it does not have`);
  return value;
}

/**
 * Never throws. Validates the ICRC before it reads anything behind UDP or the GRH. The responder
 * checks a request's payload against its opcode's rule and sends a NAK (`payloadFits`).
 */
export function decodePacket(bytes: Uint8Array<ArrayBuffer>): RocePacket | RefusalReason {
  const view = viewOf(bytes);
  const outer = checkOuterHeaders(view);
  if (outer !== undefined && outer !== "grh") return outer;
  const isV2 = outer === undefined;
  const from = isV2 ? IP_AT : findGrh(view)!;
  const bthAt = isV2 ? BTH_AT : from + GRH_BYTES;
  const end = (isV2 ? IP_AT + view.getUint16(IP_AT + 2) : view.byteLength) - ICRC_BYTES;
  if (!(isV2 ? icrcHolds(view, { from, end }) : grhIcrcHolds(view, { from, end }))) {
    return "bad-icrc";
  }
  const bth = readBth(view, bthAt);
  if (bth.tver !== 0) return "bad-tver";
  const row = opcodeRow(bth.opcode);
  if (row === undefined) return "unknown-opcode";
  let at = bthAt + BTH_BYTES;
  const payloadAt = at + row.headerBytes, payloadEnd = end - bth.padCount;
  const inner = checkInner(view, { row, payloadAt, payloadEnd, end });
  if (inner !== undefined) return inner;
  const payload = new Uint8Array(
    bytes.buffer,
    bytes.byteOffset + payloadAt,
    payloadEnd - payloadAt,
  );
  const packet = isV2 ? readOuter(view, bth, payload) : readGrhOuter(view, from, { bth, payload });
  const extensions: Partial<Record<ExtensionHeader, Extensions[ExtensionHeader]>> = packet;
  for (let i = 0; i < row.headers.length; i++) {
    const name = row.headers[i]!, { read, bytes: size } = EXTENSION_ROWS[name];
    extensions[name] = read(view, at);
    at += size;
  }
  return packet;
}

function readOuter(view: DataView, bth: Bth, payload: Uint8Array<ArrayBuffer>): RocePacket {
  return {
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
    payload,
  };
}

function readGrhOuter(
  view: DataView,
  from: number,
  { bth, payload }: Pick<RocePacket, "bth" | "payload">,
): RocePacket {
  const values = readGrh(view, from);
  const { sourceAddress, destinationAddress, trafficClass, flowLabel, priority } = values;
  return {
    destinationMac: readMac(view, 0),
    sourceMac: readMac(view, 6),
    sourceAddress,
    destinationAddress,
    dscp: trafficClass >> 2,
    ecn: trafficClass & 3,
    ttl: values.hopLimit,
    identification: 0,
    udpSourcePort: 0,
    bth,
    payload,
    grh: { flowLabel, priority },
  };
}

/** Ethernet, IPv4, UDP and the frame's length; undefined for valid ones, "grh" for RoCEv1. */
function checkOuterHeaders(view: DataView): RefusalReason | "grh" | undefined {
  const length = view.byteLength;
  if (length < LEAST_FRAME_BYTES) return "too-short";
  if (view.getUint16(12) !== ETHERTYPE_IPV4) return checkGrhHeaders(view);
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

function checkGrhHeaders(view: DataView): RefusalReason | "grh" {
  const from = findGrh(view);
  if (from === undefined) return "not-roce";
  const isShort = view.byteLength < from + GRH_BYTES + BTH_BYTES + ICRC_BYTES;
  return isShort ? "bad-length" : checkGrh(view, from) ?? "grh";
}

interface InnerLayout {
  readonly row: OpcodeRow;
  readonly payloadAt: number;
  readonly payloadEnd: number;
  readonly end: number;
}

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
