/**
 * Work queue elements as they lie in host memory: written by verbs, fetched by the RNIC by DMA.
 * Modelled on mlx5's (`rocev2.md` §5.1): 64-byte units holding 16-byte segments, big-endian. A WQE
 * starts on a unit boundary, spans one unit or several (Q-01), and wraps at the ring's end.
 *
 *   control 16 | [address vector 16, UD] | [remote address 16, RDMA] | [atomic 16] | [flush 16] |
 *   [verify 16] | [bind 32] | data 16… or inline
 */
import { fail } from "../../base/assert.ts";
import { allocate, copyOf, viewOf } from "../../base/slab.ts";
import { VERIFY_LEVELS, type VerifyLevel } from "../roce/verify_eth.ts";

/** Bytes of one unit of a send queue (mlx5's WQEBB). */
export const WQE_UNIT_BYTES = 64;
/** Most units that one WQE takes: 220 B inline (CALIBRATION: the inline limit) and its segments. */
export const MAX_WQE_UNITS = 5;
export const MAX_INLINE_BYTES = 220;
export const MAX_SGE = 4;

/**
 * Operations a WQE can ask for, with mlx5's codes where it has one. The vendor's own begin at 0x40:
 * `write-persistence` carries the persist opcode on the wire (P-21), `write-persist-address` is a
 * plain WRITE that the requester knows to lie in a persistence region (P-22), `persistence-ack` is
 * the SEND by which the responder's CPU says "flushed" (P-26). `flush` and `atomic-write` are the
 * memory placement extensions (P-50), for which mlx5 has no codes. `write-verify` is a write that the
 * receiver checks, and answers with what became of it (V-01).
 */
export const WQE_OPCODES = {
  "nop": 0x00,
  "send-invalidate": 0x01,
  "write": 0x08,
  "write-immediate": 0x09,
  "send": 0x0a,
  "send-immediate": 0x0b,
  "read": 0x10,
  "compare-swap": 0x11,
  "fetch-add": 0x12,
  "bind-mw": 0x18,
  "local-invalidate": 0x1b,
  "write-persistence": 0x40,
  "write-persist-address": 0x41,
  "persistence-ack": 0x42,
  "flush": 0x43,
  "atomic-write": 0x44,
  "write-verify": 0x45,
} as const;
export type WqeOpcode = keyof typeof WQE_OPCODES;

const OPCODE_NAMES = new Map<number, WqeOpcode>(
  Object.entries(WQE_OPCODES).map(([name, code]) => [code, name as WqeOpcode]),
);

/** Operations that name remote memory. */
const REMOTE: ReadonlySet<WqeOpcode> = new Set(
  [
    "write",
    "write-immediate",
    "read",
    "compare-swap",
    "fetch-add",
    "write-persistence",
    "write-persist-address",
    "flush",
    "atomic-write",
    "write-verify",
  ],
);
const ATOMIC: ReadonlySet<WqeOpcode> = new Set(["compare-swap", "fetch-add"]);

/** One scatter/gather element: local virtual address, length in bytes, local key. */
export interface Sge {
  readonly address: number;
  readonly length: number;
  readonly lkey: number;
}

/** Address vector of a UD send. */
export interface UdAddress {
  readonly qKey: number;
  readonly qpn: number;
  /** IPv4 address as a number, a group's where `qpn` is 0xFFFFFF. */
  readonly address: number;
  /** DSCP in the upper six bits. */
  readonly trafficClass: number;
  /** Time to live. */
  readonly hopLimit: number;
  /** 0: the two QPNs choose it (`rocev2.md` §1.1). */
  readonly udpSourcePort: number;
}

/** What a FLUSH is about (`rocev2.md` §1.3): FETH's fields and the bytes of its range. */
export interface FlushOperands {
  /** FLUSH_SELECT: the remote range, or the whole region. */
  readonly select: number;
  /** Bits of FLUSH_PLACEMENT. */
  readonly placement: number;
  readonly length: number;
}

/** How a verified write is to be checked (V-04, V-09). */
export interface VerifyOperands {
  readonly level: VerifyLevel;
  /** V-09: verified and persisted in one request. */
  readonly persist: boolean;
  /**
   * CRC-32 of the message's data as the program had it, so that the way to the RNIC is covered too.
   * Without it the RNIC computes one of what it has fetched (V-02).
   */
  readonly crc?: number;
}

/** What a BIND_MW binds (`rocev2.md` §4.5): a range of a region to a window under a new key. */
export interface BindOperands {
  /** The window's new key: its index with another variant. */
  readonly rkey: number;
  /** The region's. */
  readonly lkey: number;
  /** Where in the region, by the region's addresses; 0 bytes unbind a window of type 1. */
  readonly va: bigint;
  readonly length: number;
  /** ACCESS bits that the window grants. */
  readonly access: number;
}

/** A decoded send WQE. Exactly one of `sges` and `inline` carries the payload. */
export interface SendWqe {
  readonly opcode: WqeOpcode;
  /** Position of the first unit in the ring, low 16 bits: comes back in the CQE. */
  readonly index: number;
  readonly qpn: number;
  readonly signaled: boolean;
  readonly solicited: boolean;
  readonly fence: boolean;
  /** Immediate, key to invalidate (the peer's, or here), or, for `persistence-ack`, the PSN that is persistent. */
  readonly immediate: number;
  readonly remote?: { readonly va: bigint; readonly rkey: number };
  readonly atomic?: { readonly swapAdd: bigint; readonly compare: bigint };
  readonly flush?: FlushOperands;
  readonly verify?: VerifyOperands;
  readonly bind?: BindOperands;
  readonly ud?: UdAddress;
  readonly sges: readonly Sge[];
  readonly inline?: Uint8Array<ArrayBuffer>;
}

const FLAG_FENCE = 0x80, FLAG_SIGNALED = 0x08, FLAG_SOLICITED = 0x02, FLAG_UD = 0x01;
const INLINE_BIT = 0x8000_0000;
/** Second byte of a verify segment. */
const VERIFY_PERSIST = 1, VERIFY_HAS_CRC = 2;

/** Units that the WQE takes. */
export function wqeUnits(wqe: SendWqe): number {
  const bytes = 16 + (wqe.ud ? 16 : 0) + (wqe.remote ? 16 : 0) + (wqe.atomic ? 16 : 0) +
    (wqe.flush ? 16 : 0) + (wqe.verify ? 16 : 0) + (wqe.bind ? 32 : 0) +
    (wqe.inline === undefined ? 16 * wqe.sges.length : 4 + wqe.inline.length);
  return Math.max(1, Math.ceil(bytes / WQE_UNIT_BYTES));
}

/** The bytes of a send WQE, a whole number of units. */
export function encodeSendWqe(wqe: SendWqe): Uint8Array<ArrayBuffer> {
  const units = wqeUnits(wqe);
  if (units > MAX_WQE_UNITS) {
    fail(`A WQE takes ${units} units, at most ${MAX_WQE_UNITS} are possible`);
  }
  const bytes = allocate(units * WQE_UNIT_BYTES);
  const view = viewOf(bytes);
  view.setUint32(0, ((wqe.index & 0xffff) << 8) | WQE_OPCODES[wqe.opcode]);
  const segments = wqe.inline === undefined ? wqe.sges.length : 0;
  view.setUint32(4, (wqe.qpn << 8) | segments);
  view.setUint8(
    11,
    (wqe.fence ? FLAG_FENCE : 0) | (wqe.signaled ? FLAG_SIGNALED : 0) |
      (wqe.solicited ? FLAG_SOLICITED : 0) |
      (wqe.ud ? FLAG_UD : 0),
  );
  view.setUint32(12, wqe.immediate);
  let at = 16;
  if (wqe.ud !== undefined) {
    view.setUint32(at, wqe.ud.qKey);
    view.setUint32(at + 4, wqe.ud.qpn);
    view.setUint32(at + 8, wqe.ud.address);
    view.setUint8(at + 12, wqe.ud.trafficClass);
    view.setUint8(at + 13, wqe.ud.hopLimit);
    view.setUint16(at + 14, wqe.ud.udpSourcePort);
    at += 16;
  }
  if (wqe.remote !== undefined) {
    view.setBigUint64(at, wqe.remote.va);
    view.setUint32(at + 8, wqe.remote.rkey);
    at += 16;
  }
  if (wqe.atomic !== undefined) {
    view.setBigUint64(at, wqe.atomic.swapAdd);
    view.setBigUint64(at + 8, wqe.atomic.compare);
    at += 16;
  }
  if (wqe.flush !== undefined) {
    view.setUint32(at, (wqe.flush.select << 4) | wqe.flush.placement);
    view.setUint32(at + 4, wqe.flush.length);
    at += 16;
  }
  if (wqe.verify !== undefined) {
    writeVerify(view, at, wqe.verify);
    at += 16;
  }
  if (wqe.bind !== undefined) {
    view.setBigUint64(at, wqe.bind.va);
    view.setBigUint64(at + 8, BigInt(wqe.bind.length));
    view.setUint32(at + 16, wqe.bind.rkey);
    view.setUint32(at + 20, wqe.bind.lkey);
    view.setUint32(at + 24, wqe.bind.access);
    at += 32;
  }
  if (wqe.inline !== undefined) {
    view.setUint32(at, (wqe.inline.length | INLINE_BIT) >>> 0);
    bytes.set(wqe.inline, at + 4);
    return bytes;
  }
  writeSges(view, at, wqe.sges);
  return bytes;
}

/**
 * Units that a WQE takes, from its first unit alone, so that the RNIC knows how much more to fetch;
 * undefined where the unit is no WQE.
 */
export function unitsOfWqe(firstUnit: Uint8Array): number | undefined {
  return unitsIn(viewOf(firstUnit));
}

function unitsIn(view: DataView): number | undefined {
  const opcode = OPCODE_NAMES.get(view.getUint8(3));
  if (opcode === undefined) return undefined;
  let at = 16;
  if ((view.getUint8(11) & FLAG_UD) !== 0) at += 16;
  if (REMOTE.has(opcode)) at += 16;
  if (ATOMIC.has(opcode) || opcode === "flush" || opcode === "write-verify") at += 16;
  if (opcode === "bind-mw") at += 32;
  const segments = view.getUint8(7);
  if (segments > MAX_SGE) return undefined;
  const bytes = at < WQE_UNIT_BYTES && segments === 0 && (view.getUint32(at) & INLINE_BIT) !== 0
    ? at + 4 + (view.getUint32(at) & ~INLINE_BIT)
    : at + 16 * segments;
  const units = Math.max(1, Math.ceil(bytes / WQE_UNIT_BYTES));
  return units > MAX_WQE_UNITS ? undefined : units;
}

/** Reads a send WQE from its whole units; undefined where the bytes are none (LOC_QP_OP_ERR). */
export function decodeSendWqe(bytes: Uint8Array): SendWqe | undefined {
  const view = viewOf(bytes);
  const units = unitsIn(view);
  if (units === undefined || bytes.length < units * WQE_UNIT_BYTES) return undefined;
  const opcode = OPCODE_NAMES.get(view.getUint8(3))!;
  const flags = view.getUint8(11);
  let at = 16;
  const wqe: { -readonly [Field in keyof SendWqe]: SendWqe[Field] } = {
    opcode,
    index: (view.getUint32(0) >>> 8) & 0xffff,
    qpn: view.getUint32(4) >>> 8,
    signaled: (flags & FLAG_SIGNALED) !== 0,
    solicited: (flags & FLAG_SOLICITED) !== 0,
    fence: (flags & FLAG_FENCE) !== 0,
    immediate: view.getUint32(12),
    sges: NO_SGES,
  };
  if ((flags & FLAG_UD) !== 0) {
    wqe.ud = {
      qKey: view.getUint32(at),
      qpn: view.getUint32(at + 4),
      address: view.getUint32(at + 8),
      trafficClass: view.getUint8(at + 12),
      hopLimit: view.getUint8(at + 13),
      udpSourcePort: view.getUint16(at + 14),
    };
    at += 16;
  }
  if (REMOTE.has(opcode)) {
    wqe.remote = { va: view.getBigUint64(at), rkey: view.getUint32(at + 8) };
    at += 16;
  }
  if (ATOMIC.has(opcode)) {
    wqe.atomic = { swapAdd: view.getBigUint64(at), compare: view.getBigUint64(at + 8) };
    at += 16;
  }
  if (opcode === "flush") {
    const word = view.getUint32(at);
    const length = view.getUint32(at + 4);
    wqe.flush = { select: (word >>> 4) & 3, placement: word & 0xf, length };
    at += 16;
  }
  if (opcode === "write-verify") {
    const verify = readVerify(view, at);
    if (verify === undefined) return undefined;
    wqe.verify = verify;
    at += 16;
  }
  if (opcode === "bind-mw") {
    wqe.bind = {
      va: view.getBigUint64(at),
      length: Number(view.getBigUint64(at + 8)),
      rkey: view.getUint32(at + 16),
      lkey: view.getUint32(at + 20),
      access: view.getUint32(at + 24),
    };
    at += 32;
  }
  const segments = view.getUint8(7);
  const word = segments === 0 && at + 4 <= bytes.length ? view.getUint32(at) : 0;
  if ((word & INLINE_BIT) === 0) wqe.sges = readSges(view, at, segments);
  else wqe.inline = copyOf(bytes.subarray(at + 4, at + 4 + (word & ~INLINE_BIT)));
  return wqe;
}

function writeVerify(view: DataView, at: number, verify: VerifyOperands): void {
  const { level, persist, crc } = verify;
  view.setUint8(at, VERIFY_LEVELS.indexOf(level));
  view.setUint8(
    at + 1,
    (persist ? VERIFY_PERSIST : 0) | (crc === undefined ? 0 : VERIFY_HAS_CRC),
  );
  view.setUint32(at + 4, crc ?? 0);
}

/** Undefined where the level is none that is known: the requester cannot ask for it. */
function readVerify(view: DataView, at: number): VerifyOperands | undefined {
  const level = VERIFY_LEVELS[view.getUint8(at)];
  if (level === undefined) return undefined;
  const flags = view.getUint8(at + 1);
  const persist = (flags & VERIFY_PERSIST) !== 0;
  const hasCrc = (flags & VERIFY_HAS_CRC) !== 0;
  return hasCrc ? { level, persist, crc: view.getUint32(at + 4) } : { level, persist };
}

/** lkey that ends a receive WQE before its stride does (`rocev2.md` §5.2). */
const END_OF_LIST_LKEY = 0x100;

/** A receive WQE of `stride` bytes: up to stride/16 elements. */
export function encodeRecvWqe(sges: readonly Sge[], stride: number): Uint8Array<ArrayBuffer> {
  if (sges.length * 16 > stride) {
    fail(`${sges.length} elements do not fit a receive WQE of ${stride} B`);
  }
  const bytes = allocate(stride);
  const view = viewOf(bytes);
  writeSges(view, 0, sges);
  if (sges.length * 16 < stride) view.setUint32(sges.length * 16 + 4, END_OF_LIST_LKEY);
  return bytes;
}

/** The elements of a receive WQE. */
export function decodeRecvWqe(bytes: Uint8Array): Sge[] {
  const view = viewOf(bytes);
  const most = Math.floor(bytes.length / 16);
  let count = 0;
  while (
    count < most &&
    !(view.getUint32(16 * count) === 0 && view.getUint32(16 * count + 4) === END_OF_LIST_LKEY)
  ) {
    count++;
  }
  return readSges(view, 0, count);
}

const NO_SGES: readonly Sge[] = [];

function writeSges(view: DataView, from: number, sges: readonly Sge[]): void {
  let at = from;
  for (const sge of sges) {
    view.setUint32(at, sge.length);
    view.setUint32(at + 4, sge.lkey);
    view.setBigUint64(at + 8, BigInt(sge.address));
    at += 16;
  }
}

function readSges(view: DataView, from: number, count: number): Sge[] {
  const sges: Sge[] = [];
  for (let i = 0; i < count && from + 16 * (i + 1) <= view.byteLength; i++) {
    const at = from + 16 * i;
    sges.push({
      length: view.getUint32(at),
      lkey: view.getUint32(at + 4),
      address: Number(view.getBigUint64(at + 8)),
    });
  }
  return sges;
}
