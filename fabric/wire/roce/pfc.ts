/**
 * Priority-based flow control (IEEE 802.1Qbb; 802.3 annex 31D): a MAC control frame by which a port
 * requests the other end of its cable to pause single priorities (`rocev2.md` §3.9). Bridges do not
 * forward its group address.
 */
import { LEAST_FRAME_BYTES } from "./ethernet.ts";
import { type HeaderOf, readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { allocate, viewOf } from "../../base/slab.ts";

export const PFC_FIELDS = [
  ["destination", 48],
  ["source", 48],
  ["etherType", 16],
  ["opcode", 16],
  ["", 8],
  /** Bit i: the time of priority i is valid. */
  ["enableVector", 8],
  ["time0", 16],
  ["time1", 16],
  ["time2", 16],
  ["time3", 16],
  ["time4", 16],
  ["time5", 16],
  ["time6", 16],
  ["time7", 16],
] as const;
/** The rest of the minimum frame is zero. */
export const PFC_BYTES = sizeOf(PFC_FIELDS);

const ETHERTYPE_MAC_CONTROL = 0x8808;
const PFC_MAC = 0x0180_c200_0001;
const PFC_OPCODE = 0x0101;
/** Priorities of a port (802.1Q). */
export const PRIORITIES = 8;
/** The longest pause, in quanta. */
export const PAUSE_QUANTA_MAX = 0xffff;
/** A quantum is the transmission time of so many bits at the cable's rate. */
export const QUANTUM_BITS = 512;

/** The request of a frame. */
export interface Pfc {
  readonly sourceMac: number;
  /** By priority: quanta to pause, 0 to resume; undefined where nothing changes. */
  readonly quanta: readonly (number | undefined)[];
}

/** The priority of a DSCP: its class selector, the default map of switches and RNICs. */
export function priorityOfDscp(dscp: number): number {
  return dscp >> 3;
}

/** The frame with this request for all priorities in a bit mask. */
export function encodePfc(
  pfc: { readonly sourceMac: number; readonly priorities: number; readonly quanta: number },
): Uint8Array<ArrayBuffer> {
  const { sourceMac, priorities, quanta } = pfc;
  const bytes = allocate(LEAST_FRAME_BYTES);
  const time = (priority: number) => (priorities & (1 << priority)) === 0 ? 0 : quanta;
  const header: HeaderOf<typeof PFC_FIELDS> = {
    destination: PFC_MAC,
    source: sourceMac,
    etherType: ETHERTYPE_MAC_CONTROL,
    opcode: PFC_OPCODE,
    enableVector: priorities,
    time0: time(0),
    time1: time(1),
    time2: time(2),
    time3: time(3),
    time4: time(4),
    time5: time(5),
    time6: time(6),
    time7: time(7),
  };
  writeFields(PFC_FIELDS, header, { view: viewOf(bytes), at: 0 });
  return bytes;
}

/** Whether the frame is a MAC control frame, such as a pause: it is never forwarded. */
export function isMacControl(bytes: Uint8Array): boolean {
  return bytes.length >= PFC_BYTES && bytes[12] === 0x88 && bytes[13] === 0x08;
}

/** The request of the frame; undefined where it is not a PFC frame. Never throws. */
export function decodePfc(bytes: Uint8Array<ArrayBuffer>): Pfc | undefined {
  if (!isMacControl(bytes)) return undefined;
  const header = readFields(PFC_FIELDS, { view: viewOf(bytes), at: 0 });
  if (header.opcode !== PFC_OPCODE || header.destination !== PFC_MAC) return undefined;
  const times = [
    header.time0,
    header.time1,
    header.time2,
    header.time3,
    header.time4,
    header.time5,
    header.time6,
    header.time7,
  ];
  const quanta = times.map((time, priority) =>
    (header.enableVector & (1 << priority)) === 0 ? undefined : time
  );
  return { sourceMac: header.source, quanta };
}

/** `PFC 3: pause 65535, 6: go on`. */
export function describePfc({ quanta }: Pfc): string {
  const words = quanta.flatMap((time, priority) =>
    time === undefined ? [] : [`${priority}: ${time === 0 ? "go on" : `pause ${time}`}`]
  );
  return `PFC ${words.join(", ")}`;
}
