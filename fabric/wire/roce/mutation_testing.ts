/**
 * Damaged frames for fuzz tests: real ones with bits turned over, headers of other frames, other lengths.
 * Most get lengths, checksums and ICRC made right again, else the first check would stop them all.
 */
import type { Rng } from "../../base/rng.ts";
import { BTH_BYTES } from "./bth.ts";
import { frameBth } from "./frame_peek.ts";
import { findGrh, GRH_BYTES } from "./grh.ts";
import { ICRC_BYTES, writeGrhIcrc, writeIcrc } from "./icrc.ts";
import { ipv4Checksum } from "./ipv4.ts";
import { OPCODE_ROWS } from "./opcode.ts";
import { BTH_AT } from "./packet.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const IP_AT = 14, UDP_AT = 34;

/** Offset of the BTH of a frame of RoCEv1 or v2; RoCEv2's for damaged ones. */
function bthOf(frame: Bytes): number {
  const at = frameBth(frame);
  return at < 0 ? BTH_AT : at;
}

/** Less cannot hold an ICRC behind a BTH at this offset. */
function leastBytes(bthAt: number): number {
  return bthAt + BTH_BYTES + ICRC_BYTES;
}

/** Makes lengths, checksum and ICRC of a frame right for the bytes it has, as its sender would. */
export function seal(bytes: Bytes): Bytes {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const grhAt = findGrh(view), end = bytes.length - ICRC_BYTES;
  if (bytes.length < leastBytes(grhAt === undefined ? BTH_AT : grhAt + GRH_BYTES)) return bytes;
  if (grhAt !== undefined) {
    view.setUint16(grhAt + 4, bytes.length - grhAt - GRH_BYTES);
    writeGrhIcrc(view, { from: grhAt, end });
    return bytes;
  }
  view.setUint16(IP_AT + 2, bytes.length - IP_AT);
  view.setUint16(UDP_AT + 4, bytes.length - UDP_AT);
  view.setUint16(IP_AT + 10, 0);
  view.setUint16(IP_AT + 10, ipv4Checksum(view, IP_AT));
  writeIcrc(view, { from: IP_AT, end });
  return bytes;
}

/** Bytes of a frame without what fills it up to the least that Ethernet carries. */
function trimmed(frame: Bytes): Bytes {
  if (bthOf(frame) !== BTH_AT) return frame.slice();
  const end = IP_AT + ((frame[IP_AT + 2]! << 8) | frame[IP_AT + 3]!);
  return frame.slice(0, Math.min(frame.length, Math.max(leastBytes(BTH_AT), end)));
}

/** Changes of a frame with its BTH at `bthAt`. */
const CHANGES: readonly ((rng: Rng, bytes: Bytes, other: Bytes, bthAt: number) => Bytes)[] = [
  // A bit of a header, or of anything.
  (rng, bytes, _other, bthAt) =>
    flipped(rng, bytes, { from: bthAt, end: Math.min(bytes.length, bthAt + 44) }),
  (rng, bytes) => flipped(rng, bytes, { from: 0, end: bytes.length }),
  // Bits of what addresses say, kept apart as the check of each would hide the others.
  (rng, bytes, _other, bthAt) => {
    const from = bthAt + BTH_BYTES;
    return flipped(rng, bytes, { from, end: from + 16 });
  },
  // The PSN a little before or behind: duplicates and gaps.
  (rng, bytes, _other, bthAt) => {
    const at = bthAt + 9;
    const psn = ((bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!) + rng.below(9) - 4;
    bytes.set([(psn >> 16) & 0xff, (psn >> 8) & 0xff, psn & 0xff], at);
    return bytes;
  },
  // Another operation with this one's headers.
  (rng, bytes, _other, bthAt) => {
    bytes[bthAt] = OPCODE_ROWS[rng.below(OPCODE_ROWS.length)]!.code;
    return bytes;
  },
  (rng, bytes, _other, bthAt) => {
    bytes[bthAt] = rng.below(256);
    return bytes;
  },
  // Another frame's BTH, or what is behind it.
  (_rng, bytes, other, bthAt) => {
    const at = bthOf(other);
    bytes.set(other.subarray(at, at + BTH_BYTES), bthAt);
    return bytes;
  },
  (_rng, bytes, other, bthAt) => {
    const joined = new Uint8Array(Math.max(leastBytes(bthAt), other.length));
    joined.set(other);
    joined.set(bytes.subarray(0, bthAt + BTH_BYTES));
    return joined;
  },
  // Shorter, longer.
  (rng, bytes, _other, bthAt) => {
    const least = leastBytes(bthAt);
    return bytes.slice(0, least + rng.below(Math.max(1, bytes.length - least)));
  },
  (rng, bytes) => {
    const longer = new Uint8Array(bytes.length + 4 * (1 + rng.below(300)));
    longer.set(bytes);
    return longer;
  },
];

function flipped(rng: Rng, bytes: Bytes, range: { from: number; end: number }): Bytes {
  const { from, end } = range;
  const at = Math.min(bytes.length - 1, from + rng.below(end - from));
  bytes[at]! ^= 1 << rng.below(8);
  return bytes;
}

/** A frame made of real ones by one to three changes; the real ones stay as they are. */
export function mutate(rng: Rng, frames: readonly Bytes[]): Bytes {
  const frame = frames[rng.below(frames.length)]!;
  const other = frames[rng.below(frames.length)]!;
  let bytes = trimmed(frame);
  for (let i = rng.below(3); i >= 0; i--) {
    bytes = CHANGES[rng.below(CHANGES.length)]!(rng, bytes, trimmed(other), bthOf(frame));
  }
  // Every sixteenth is left as it is, or cut anywhere: those are for the first checks.
  const fate = rng.below(16);
  if (fate === 0) return bytes;
  return fate === 1 ? bytes.slice(0, rng.below(bytes.length + 1)) : seal(bytes);
}
