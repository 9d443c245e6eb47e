/**
 * Frames. That of a packet has its headers at once, which is what switches look at and the digest takes up; its
 * bytes with payload and ICRC are made when something needs them: a capture, another process, a fault.
 */
import type { Frame } from "../../node.ts";
import { completeFrame, encodeHead, frameBytesOf, type RocePacket } from "./packet.ts";

/** The frame of a packet that does not change any more. */
export class PacketFrame implements Frame {
  readonly kind = "frame";
  hash: number | undefined = undefined;
  readonly packet: RocePacket;
  readonly head: Uint8Array<ArrayBuffer>;
  readonly length: number;
  #bytes: Uint8Array<ArrayBuffer> | undefined = undefined;

  constructor(packet: RocePacket) {
    this.packet = packet;
    this.head = encodeHead(packet);
    this.length = frameBytesOf(packet, this.head.length);
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes ??= completeFrame(this.packet, this.head);
  }
}

/** The first bytes of a frame, with all headers of a packet. */
export function headOf(frame: Frame): Uint8Array<ArrayBuffer> {
  return frame.head ?? frame.bytes;
}

/** Bytes of a frame, without preamble and FCS. */
export function lengthOf(frame: Frame): number {
  return frame.length ?? frame.bytes.length;
}
