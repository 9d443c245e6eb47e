/**
 * Priority-based flow control (IEEE 802.1Qbb; 802.3 annex 31D): by a MAC control frame a port
 * requests the other end of its cable to pause single priorities (`rocev2.md` §3.9). Bridges do not
 * forward it.
 */
import { LEAST_FRAME_BYTES, readMac, writeMac } from "./ethernet.ts";
import { allocate, viewOf } from "../../base/slab.ts";

/**
 * At 14 the opcode, at 16 a zero byte, at 17 a bit for each priority whose time is valid, then
 * eight times.
 */
const OPCODE_AT = 14, ENABLE_AT = 17, TIMES_AT = 18;
/** The rest of the minimum frame is zero. */
const PFC_BYTES = 34;

const ETHERTYPE_MAC_CONTROL = 0x8808;
const PFC_MAC = 0x0180_c200_0001;
const PFC_OPCODE = 0x0101;
/** 802.1Q. */
export const PRIORITIES = 8;
export const PAUSE_QUANTA_MAX = 0xffff;
/** Its transmission time at the cable's rate is a quantum. */
export const QUANTUM_BITS = 512;

export interface Pfc {
  readonly sourceMac: number;
  /** By priority: quanta to pause, 0 to resume; undefined where nothing changes. */
  readonly quanta: readonly (number | undefined)[];
}

export function priorityOfDscp(dscp: number): number {
  return dscp >> 3;
}

export function encodePfc(
  pfc: { readonly sourceMac: number; readonly priorities: number; readonly quanta: number },
): Uint8Array<ArrayBuffer> {
  const { sourceMac, priorities, quanta } = pfc;
  const bytes = allocate(LEAST_FRAME_BYTES);
  const view = viewOf(bytes);
  writeMac(view, 0, PFC_MAC);
  writeMac(view, 6, sourceMac);
  view.setUint16(12, ETHERTYPE_MAC_CONTROL);
  view.setUint16(OPCODE_AT, PFC_OPCODE);
  view.setUint8(ENABLE_AT, priorities);
  for (let priority = 0; priority < PRIORITIES; priority++) {
    if ((priorities & (1 << priority)) !== 0) view.setUint16(TIMES_AT + 2 * priority, quanta);
  }
  return bytes;
}

/** Such as a pause: never forwarded. */
export function isMacControl(bytes: Uint8Array): boolean {
  return bytes.length >= PFC_BYTES && bytes[12] === 0x88 && bytes[13] === 0x08;
}

/** Undefined where the frame is not PFC. Never throws. */
export function decodePfc(bytes: Uint8Array<ArrayBuffer>): Pfc | undefined {
  if (!isMacControl(bytes)) return undefined;
  const view = viewOf(bytes);
  if (view.getUint16(OPCODE_AT) !== PFC_OPCODE || readMac(view, 0) !== PFC_MAC) return undefined;
  const enabled = view.getUint8(ENABLE_AT);
  const quanta = Array.from(
    { length: PRIORITIES },
    (_, priority) =>
      (enabled & (1 << priority)) === 0 ? undefined : view.getUint16(TIMES_AT + 2 * priority),
  );
  return { sourceMac: readMac(view, 6), quanta };
}

export function describePfc({ quanta }: Pfc): string {
  const words = quanta.flatMap((time, priority) =>
    time === undefined ? [] : [`${priority}: ${time === 0 ? "go on" : `pause ${time}`}`]
  );
  return `PFC ${words.join(", ")}`;
}
