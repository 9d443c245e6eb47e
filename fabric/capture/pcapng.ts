/** Blocks of capture files (draft-ietf-opsawg-pcapng), little-endian. */
import { assert } from "../base/assert.ts";
import type { Time } from "../base/time.ts";

const LINKTYPE_ETHERNET = 1;

const BLOCK = { section: 0x0a0d0d0a, interface: 1, packet: 6 } as const;
const BYTE_ORDER_MAGIC = 0x1a2b3c4d;
const OPTION = { end: 0, comment: 1 } as const;
const SECTION_OPTION = { application: 4 } as const;
const INTERFACE_OPTION = { name: 2, description: 3, speed: 8, resolution: 9 } as const;
const PACKET_OPTION = { flags: 2 } as const;
const DIRECTION = { in: 1, out: 2 } as const;

/** `if_tsresol`: nanoseconds. Readers overflow on picoseconds (see README.md). */
const RESOLUTION_EXPONENT = 9;
const PS_PER_STAMP = 1_000;
const OPTION_BYTES_MAX = 0xffff;

export interface CaptureInterface {
  /** `a-rnic:1` */
  readonly name: string;
  readonly description: string;
  readonly bitsPerSecond: number;
}

export interface CapturedFrame {
  readonly interface: number;
  readonly time: Time;
  readonly direction: "in" | "out";
  /** Without FCS. */
  readonly bytes: Uint8Array;
  /** "" for none. */
  readonly comment: string;
}

const encoder = new TextEncoder();

interface Option {
  readonly code: number;
  readonly value: Uint8Array;
}

export function sectionBlock(section: { application: string; comment: string }): Uint8Array {
  const body = new Uint8Array(16);
  const view = new DataView(body.buffer);
  view.setUint32(0, BYTE_ORDER_MAGIC, true);
  view.setUint16(4, 1, true);
  view.setUint16(6, 0, true);
  // Unknown, as blocks are appended while the capture is written.
  view.setBigUint64(8, 0xffff_ffff_ffff_ffffn, true);
  return block(BLOCK.section, [body], [
    textOption(OPTION.comment, section.comment),
    textOption(SECTION_OPTION.application, section.application),
  ]);
}

/** One for each port, all before the first packet. */
export function interfaceBlock(port: CaptureInterface): Uint8Array {
  const body = new Uint8Array(8);
  // The reserved field and the snap length (0 means no limit) stay 0.
  new DataView(body.buffer).setUint16(0, LINKTYPE_ETHERNET, true);
  const speed = new Uint8Array(8);
  new DataView(speed.buffer).setBigUint64(0, BigInt(port.bitsPerSecond), true);
  return block(BLOCK.interface, [body], [
    textOption(INTERFACE_OPTION.name, port.name),
    textOption(INTERFACE_OPTION.description, port.description),
    { code: INTERFACE_OPTION.speed, value: speed },
    { code: INTERFACE_OPTION.resolution, value: Uint8Array.of(RESOLUTION_EXPONENT) },
  ]);
}

/** Timestamps are truncated to nanoseconds, which keeps their order. */
export function packetBlock(frame: CapturedFrame): Uint8Array {
  const { bytes, comment, direction } = frame;
  assert(frame.time >= 0, `A frame cannot pass at ${frame.time} ps, before the run begins`);
  const head = new Uint8Array(20);
  const view = new DataView(head.buffer);
  const stamp = Math.floor(frame.time / PS_PER_STAMP);
  view.setUint32(0, frame.interface, true);
  view.setUint32(4, Math.floor(stamp / 2 ** 32), true);
  view.setUint32(8, stamp % 2 ** 32, true);
  view.setUint32(12, bytes.length, true);
  view.setUint32(16, bytes.length, true);
  const flags = new Uint8Array(4);
  new DataView(flags.buffer).setUint32(0, DIRECTION[direction], true);
  const options: Option[] = [{ code: PACKET_OPTION.flags, value: flags }];
  if (comment !== "") options.unshift(textOption(OPTION.comment, comment));
  return block(BLOCK.packet, [head, bytes], options);
}

function textOption(code: number, text: string): Option {
  const value = encoder.encode(text);
  assert(value.length <= OPTION_BYTES_MAX, `An option cannot hold ${value.length} B of text`);
  return { code, value };
}

function padded(bytes: number): number {
  return bytes + (-bytes & 3);
}

function block(
  type: number,
  parts: readonly Uint8Array[],
  options: readonly Option[],
): Uint8Array {
  const bodyBytes = parts.reduce((sum, part) => sum + part.length, 0);
  const optionBytes = options.reduce((sum, { value }) => sum + 4 + padded(value.length), 4);
  const total = 12 + padded(bodyBytes) + optionBytes;
  const bytes = new Uint8Array(total);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, type, true);
  view.setUint32(4, total, true);
  let at = 8;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  at = 8 + padded(bodyBytes);
  for (const { code, value } of [...options, END]) {
    view.setUint16(at, code, true);
    view.setUint16(at + 2, value.length, true);
    bytes.set(value, at + 4);
    at += 4 + padded(value.length);
  }
  view.setUint32(total - 4, total, true);
  return bytes;
}

const END: Option = { code: OPTION.end, value: new Uint8Array(0) };
