/**
 * The invariant CRC of RoCEv2 over IPv4 (`rocev2.md` §1.5) and of RoCEv1: Ethernet's CRC-32 over
 * eight bytes of ones and the packet, with every field that a switch or router may change replaced
 * by ones. Sixteen bytes per step ("slicing by 16"), without a copy: the masks are or-ed into the
 * fixed headers' words.
 */
import { BTH_BYTES } from "./bth.ts";
import { GRH_BYTES } from "./grh.ts";
import { IPV4_BYTES } from "./ipv4.ts";
import { UDP_BYTES } from "./udp.ts";

export const ICRC_BYTES = 4;

const POLYNOMIAL = 0xedb8_8320;
export const CRC_START = -1;
/** After the eight bytes of ones that stand in for the absent local route header. */
const ICRC_SEED = 0xdebb_20e3 | 0;

/** Table s, at 256·s, is the effect of a byte followed by s more bytes. */
const TABLES = makeTables();

function makeTables(): Int32Array {
  const tables = new Int32Array(16 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let register = byte;
    for (let bit = 0; bit < 8; bit++) {
      register = (register & 1) !== 0 ? (register >>> 1) ^ POLYNOMIAL : register >>> 1;
    }
    tables[byte] = register;
  }
  for (let i = 256; i < tables.length; i++) {
    const shorter = tables[i - 256]!;
    tables[i] = (shorter >>> 8) ^ tables[shorter & 255]!;
  }
  return tables;
}

function step(register: number, word: number): number {
  const mixed = register ^ word;
  return TABLES[768 + (mixed & 255)]! ^ TABLES[512 + ((mixed >>> 8) & 255)]! ^
    TABLES[256 + ((mixed >>> 16) & 255)]! ^ TABLES[mixed >>> 24]!;
}

interface ByteRange {
  readonly from: number;
  readonly end: number;
}

/** Raw, not complemented, after the bytes `from` … `end` − 1. */
export function crcUpdate(register: number, view: DataView, range: ByteRange): number {
  const end = range.end;
  let crc = register, at = range.from;
  for (; at + 16 <= end; at += 16) {
    const a = view.getInt32(at, true) ^ crc, b = view.getInt32(at + 4, true);
    const c = view.getInt32(at + 8, true), d = view.getInt32(at + 12, true);
    crc = TABLES[3840 + (a & 255)]! ^ TABLES[3584 + ((a >>> 8) & 255)]! ^
      TABLES[3328 + ((a >>> 16) & 255)]! ^ TABLES[3072 + (a >>> 24)]! ^
      TABLES[2816 + (b & 255)]! ^ TABLES[2560 + ((b >>> 8) & 255)]! ^
      TABLES[2304 + ((b >>> 16) & 255)]! ^ TABLES[2048 + (b >>> 24)]! ^
      TABLES[1792 + (c & 255)]! ^ TABLES[1536 + ((c >>> 8) & 255)]! ^
      TABLES[1280 + ((c >>> 16) & 255)]! ^ TABLES[1024 + (c >>> 24)]! ^
      TABLES[768 + (d & 255)]! ^ TABLES[512 + ((d >>> 8) & 255)]! ^
      TABLES[256 + ((d >>> 16) & 255)]! ^ TABLES[d >>> 24]!;
  }
  for (; at + 4 <= end; at += 4) crc = step(crc, view.getInt32(at, true));
  for (; at < end; at++) crc = (crc >>> 8) ^ TABLES[(crc ^ view.getUint8(at)) & 255]!;
  return crc;
}

/** As Ethernet and zlib compute it, unsigned. */
export function crc32(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return ~crcUpdate(CRC_START, view, { from: 0, end: bytes.length }) >>> 0;
}

/** Headers with masked fields; their ten words are processed one by one. */
const MASKED_BYTES = IPV4_BYTES + UDP_BYTES + BTH_BYTES;

// Little-endian words.
const MASK_TRAFFIC_CLASS = 0x0000_ff00;
const MASK_TTL_CHECKSUM = 0xffff_00ff | 0;
const MASK_UDP_CHECKSUM = 0xffff_0000 | 0;
/** BTH byte 4: FECN, BECN and six reserved bits. */
const MASK_CONGESTION = 0x0000_00ff;

/**
 * From the IPv4 header at `from` to the end of the pad; IPv4, UDP and base transport headers must
 * be complete. @returns the value to be stored little-endian.
 */
export function computeIcrc(view: DataView, range: ByteRange): number {
  const ip = range.from, udp = ip + IPV4_BYTES, bth = udp + UDP_BYTES;
  let crc = step(ICRC_SEED, view.getInt32(ip, true) | MASK_TRAFFIC_CLASS);
  crc = step(crc, view.getInt32(ip + 4, true));
  crc = step(crc, view.getInt32(ip + 8, true) | MASK_TTL_CHECKSUM);
  crc = step(crc, view.getInt32(ip + 12, true));
  crc = step(crc, view.getInt32(ip + 16, true));
  crc = step(crc, view.getInt32(udp, true));
  crc = step(crc, view.getInt32(udp + 4, true) | MASK_UDP_CHECKSUM);
  crc = step(crc, view.getInt32(bth, true));
  crc = step(crc, view.getInt32(bth + 4, true) | MASK_CONGESTION);
  crc = step(crc, view.getInt32(bth + 8, true));
  return ~crcUpdate(crc, view, { from: ip + MASKED_BYTES, end: range.end }) >>> 0;
}

/** GRH bytes 0 to 3: all but the version. */
const MASK_GRH_FIRST = 0xffff_ff0f | 0;
const MASK_HOP_LIMIT = 0xff00_0000 | 0;

/**
 * From the GRH at `from` to the end of the pad (annex A16): InfiniBand's own (volume 1, §7.8.1),
 * the absent local route header taken as ones.
 */
function computeGrhIcrc(view: DataView, { from, end }: ByteRange): number {
  const gids = from + 8, bth = from + GRH_BYTES;
  let crc = step(ICRC_SEED, view.getInt32(from, true) | MASK_GRH_FIRST);
  crc = step(crc, view.getInt32(from + 4, true) | MASK_HOP_LIMIT);
  crc = crcUpdate(crc, view, { from: gids, end: bth });
  crc = step(crc, view.getInt32(bth, true));
  crc = step(crc, view.getInt32(bth + 4, true) | MASK_CONGESTION);
  crc = step(crc, view.getInt32(bth + 8, true));
  return ~crcUpdate(crc, view, { from: bth + BTH_BYTES, end }) >>> 0;
}

/** As {@link writeIcrc}, from the GRH on. */
export function writeGrhIcrc(view: DataView, range: ByteRange): void {
  view.setUint32(range.end, computeGrhIcrc(view, range), true);
}

/** As {@link icrcHolds}, from the GRH on. */
export function grhIcrcHolds(view: DataView, range: ByteRange): boolean {
  return view.getUint32(range.end, true) === computeGrhIcrc(view, range);
}

export function writeIcrc(view: DataView, range: ByteRange): void {
  view.setUint32(range.end, computeIcrc(view, range), true);
}

export function icrcHolds(view: DataView, range: ByteRange): boolean {
  return view.getUint32(range.end, true) === computeIcrc(view, range);
}
