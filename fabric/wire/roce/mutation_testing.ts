/**
 * Damaged frames for fuzz tests: real ones with bits turned over, headers of other frames, other lengths.
 * Most get lengths, checksums and ICRC made right again, else the first check would stop them all.
 */
import type { Rng } from "../../base/rng.ts";
import { writeIcrc } from "./icrc.ts";
import { ipv4Checksum } from "./ipv4.ts";
import { OPCODE_ROWS } from "./opcode.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const IP_AT = 14, UDP_AT = 34, BTH_AT = 42, EXTENSIONS_AT = 54;
/** Less cannot hold an ICRC behind a BTH. */
const LEAST_BYTES = EXTENSIONS_AT + 4;

/** Makes lengths, checksum and ICRC of a frame right for the bytes it has, as its sender would. */
export function seal(bytes: Bytes): Bytes {
  if (bytes.length < LEAST_BYTES) return bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  view.setUint16(IP_AT + 2, bytes.length - IP_AT);
  view.setUint16(UDP_AT + 4, bytes.length - UDP_AT);
  view.setUint16(IP_AT + 10, 0);
  view.setUint16(IP_AT + 10, ipv4Checksum(view, IP_AT));
  writeIcrc(view, { from: IP_AT, end: bytes.length - 4 });
  return bytes;
}

/** Bytes of a frame without what fills it up to the least that Ethernet carries. */
function trimmed(frame: Bytes): Bytes {
  const end = IP_AT + ((frame[IP_AT + 2]! << 8) | frame[IP_AT + 3]!);
  return frame.slice(0, Math.min(frame.length, Math.max(LEAST_BYTES, end)));
}

const CHANGES: readonly ((rng: Rng, bytes: Bytes, other: Bytes) => Bytes)[] = [
  // A bit of a header, or of anything.
  (rng, bytes) => flipped(rng, bytes, { from: BTH_AT, end: Math.min(bytes.length, BTH_AT + 44) }),
  (rng, bytes) => flipped(rng, bytes, { from: 0, end: bytes.length }),
  // Bits of what addresses say, kept apart as the check of each would hide the others.
  (rng, bytes) => flipped(rng, bytes, { from: EXTENSIONS_AT, end: EXTENSIONS_AT + 16 }),
  // The PSN a little before or behind: duplicates and gaps.
  (rng, bytes) => {
    const psn = ((bytes[51]! << 16) | (bytes[52]! << 8) | bytes[53]!) + rng.below(9) - 4;
    bytes.set([(psn >> 16) & 0xff, (psn >> 8) & 0xff, psn & 0xff], 51);
    return bytes;
  },
  // Another operation with this one's headers.
  (rng, bytes) => {
    bytes[BTH_AT] = OPCODE_ROWS[rng.below(OPCODE_ROWS.length)]!.code;
    return bytes;
  },
  (rng, bytes) => {
    bytes[BTH_AT] = rng.below(256);
    return bytes;
  },
  // Another frame's BTH, or what is behind it.
  (_rng, bytes, other) => {
    bytes.set(other.subarray(BTH_AT, EXTENSIONS_AT), BTH_AT);
    return bytes;
  },
  (_rng, bytes, other) => {
    const joined = new Uint8Array(Math.max(LEAST_BYTES, other.length));
    joined.set(other);
    joined.set(bytes.subarray(0, EXTENSIONS_AT));
    return joined;
  },
  // Shorter, longer.
  (rng, bytes) => bytes.slice(0, LEAST_BYTES + rng.below(Math.max(1, bytes.length - LEAST_BYTES))),
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
    bytes = CHANGES[rng.below(CHANGES.length)]!(rng, bytes, trimmed(other));
  }
  // Every sixteenth is left as it is, or cut anywhere: those are for the first checks.
  const fate = rng.below(16);
  if (fate === 0) return bytes;
  return fate === 1 ? bytes.slice(0, rng.below(bytes.length + 1)) : seal(bytes);
}
