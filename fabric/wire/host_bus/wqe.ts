/**
 * Work queue elements in host memory: written by verbs, fetched by the RNIC by DMA. Modelled on
 * mlx5's (`rocev2.md` §5.1): 64-byte units of 16-byte segments, big-endian. A WQE starts on a unit
 * boundary, spans one or several units (Q-01), and wraps at the ring's end.
 *
 *   control 16 | [address vector 16, UD] | [remote address 16, RDMA] | [atomic 16] | [flush 16] |
 *   [verify 16] | [bind 32] | [objects 80] | [parts 80] | data 16… or inline
 */
import { fail } from "../../base/assert.ts";
import { allocate, copyOf, viewOf } from "../../base/slab.ts";
import { VERIFY_LEVELS, type VerifyLevel } from "../roce/verify_eth.ts";
import { type Operand, WQE_OPCODES, type WqeOpcode } from "./wqe_opcode.ts";

/** mlx5's WQEBB. */
export const WQE_UNIT_BYTES = 64;
/** 1024 B (mlx5: max_wqe_sz_sq): {@link MAX_SGE} elements behind all segments fit. */
export const MAX_WQE_UNITS = 16;
/** CALIBRATION: what shipped programs send inline: an RDMA WRITE of so much fills the longest WQE of BlueFlame. */
export const MAX_INLINE_BYTES = 220;
/** CALIBRATION: the limit of a queue pair. A SEND's WQE has no remote address: perftest sends 16 B more inline. */
export const MAX_INLINE_DATA = MAX_INLINE_BYTES + 16;
/** max_sge of ConnectX-4 and later. */
export const MAX_SGE = 30;
/** H-01: of one work request. */
export const MAX_OBJECTS = 8;

const OPCODE_NAMES = new Map<number, WqeOpcode>(
  Object.entries(WQE_OPCODES).map(([name, { code }]) => [code, name as WqeOpcode]),
);

/** One scatter/gather element. */
export interface Sge {
  /** Virtual address of the first byte. */
  readonly address: number;
  /** In bytes. */
  readonly length: number;
  /** Of the region that it lies in. */
  readonly lkey: number;
}

/** Address vector of a UD send. */
export interface UdAddress {
  readonly qKey: number;
  readonly qpn: number;
  /** IPv4 address as a number; a group's where `qpn` is 0xFFFFFF. */
  readonly address: number;
  /** DSCP in the upper six bits. */
  readonly trafficClass: number;
  /** Time to live. */
  readonly hopLimit: number;
  /** 0: derived from the two QPNs (`rocev2.md` §1.1). */
  readonly udpSourcePort: number;
}

/** Operands of a FLUSH (`rocev2.md` §1.3): FETH's fields and the length of its range. */
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
   * Computed by the program, so that it also covers the path to the RNIC. Without it the RNIC
   * computes the CRC of the fetched data (V-02).
   */
  readonly crc?: number;
}

/**
 * Operands of a BIND_MW (`rocev2.md` §4.5): binds a range of a region to a window under a new key.
 */
export interface BindOperands {
  /** The window's new key: the same index, another variant. */
  readonly rkey: number;
  /** Key of the region. */
  readonly lkey: number;
  /** Start of the range, in the region's addresses; 0 bytes unbind a window of type 1. */
  readonly va: bigint;
  readonly length: number;
  /** ACCESS bits that the window grants. */
  readonly access: number;
}

/** H-03 [0086]: of an object the part that a request works on, in bytes. */
export interface ObjectPart {
  /** In the object. */
  readonly offset: number;
  /** In bytes. */
  readonly length: number;
}

/** Exactly one of `sges` and `inline` carries the payload. */
export interface SendWqe {
  readonly opcode: WqeOpcode;
  /** Position of the first unit in the ring, low 16 bits: the CQE returns it. */
  readonly index: number;
  readonly qpn: number;
  readonly signaled: boolean;
  readonly solicited: boolean;
  readonly fence: boolean;
  /**
   * Immediate, key to invalidate (the peer's or local), or, for `persistence-ack`, the persistent
   * PSN.
   */
  readonly immediate: number;
  readonly remote?: { readonly va: bigint; readonly rkey: number };
  readonly atomic?: { readonly swapAdd: bigint; readonly compare: bigint };
  readonly flush?: FlushOperands;
  readonly verify?: VerifyOperands;
  readonly bind?: BindOperands;
  readonly ud?: UdAddress;
  /** H-01: such a WQE has no inline data. */
  readonly objects?: readonly bigint[];
  /** Of each object, in their order. */
  readonly parts?: readonly ObjectPart[];
  readonly sges: readonly Sge[];
  readonly inline?: Uint8Array<ArrayBuffer>;
}

const CONTROL_BYTES = 16;
const FLAG_FENCE = 0x80, FLAG_SIGNALED = 0x08, FLAG_SOLICITED = 0x02, FLAG_UD = 0x01;
const FLAG_OBJECTS = 0x04;
const FLAG_PARTS = 0x10;
const INLINE_BIT = 0x8000_0000;
const VERIFY_PERSIST = 1, VERIFY_HAS_CRC = 2;

type Operands = Pick<SendWqe, "ud" | Operand | "objects" | "parts">;

/** `read` returns undefined for bytes that no driver of the project writes. */
interface SegmentRow<Value> {
  readonly bytes: number;
  /** Marks a WQE that has the segment; without it the opcode decides. */
  readonly flag?: number;
  readonly read: (view: DataView, at: number) => Value | undefined;
  readonly write: (view: DataView, at: number, value: Value) => void;
}

const OBJECTS_AT = 16;
export const OBJECTS_BYTES = OBJECTS_AT + 8 * MAX_OBJECTS;

/** Undefined where the number of values is impossible. */
function readList<T>(view: DataView, at: number, read: (at: number) => T): T[] | undefined {
  const count = view.getUint8(at);
  if (count === 0 || count > MAX_OBJECTS) return undefined;
  return Array.from({ length: count }, (_, i) => read(at + OBJECTS_AT + 8 * i));
}

const SEGMENTS: { readonly [Name in keyof Operands]-?: SegmentRow<NonNullable<Operands[Name]>> } = {
  ud: {
    bytes: 16,
    flag: FLAG_UD,
    read: (view, at) => ({
      qKey: view.getUint32(at),
      qpn: view.getUint32(at + 4),
      address: view.getUint32(at + 8),
      trafficClass: view.getUint8(at + 12),
      hopLimit: view.getUint8(at + 13),
      udpSourcePort: view.getUint16(at + 14),
    }),
    write: (view, at, ud) => {
      view.setUint32(at, ud.qKey);
      view.setUint32(at + 4, ud.qpn);
      view.setUint32(at + 8, ud.address);
      view.setUint8(at + 12, ud.trafficClass);
      view.setUint8(at + 13, ud.hopLimit);
      view.setUint16(at + 14, ud.udpSourcePort);
    },
  },
  remote: {
    bytes: 16,
    read: (view, at) => ({ va: view.getBigUint64(at), rkey: view.getUint32(at + 8) }),
    write: (view, at, { va, rkey }) => {
      view.setBigUint64(at, va);
      view.setUint32(at + 8, rkey);
    },
  },
  atomic: {
    bytes: 16,
    read: (view, at) => ({ swapAdd: view.getBigUint64(at), compare: view.getBigUint64(at + 8) }),
    write: (view, at, { swapAdd, compare }) => {
      view.setBigUint64(at, swapAdd);
      view.setBigUint64(at + 8, compare);
    },
  },
  flush: {
    bytes: 16,
    read: (view, at) => {
      const word = view.getUint32(at);
      return { select: (word >>> 4) & 3, placement: word & 0xf, length: view.getUint32(at + 4) };
    },
    write: (view, at, { select, placement, length }) => {
      view.setUint32(at, (select << 4) | placement);
      view.setUint32(at + 4, length);
    },
  },
  verify: {
    bytes: 16,
    // No requester can ask for an unknown level.
    read: (view, at) => {
      const level = VERIFY_LEVELS[view.getUint8(at)];
      if (level === undefined) return undefined;
      const flags = view.getUint8(at + 1);
      const persist = (flags & VERIFY_PERSIST) !== 0;
      const hasCrc = (flags & VERIFY_HAS_CRC) !== 0;
      return hasCrc ? { level, persist, crc: view.getUint32(at + 4) } : { level, persist };
    },
    write: (view, at, { level, persist, crc }) => {
      const hasCrc = crc === undefined ? 0 : VERIFY_HAS_CRC;
      view.setUint8(at, VERIFY_LEVELS.indexOf(level));
      view.setUint8(at + 1, (persist ? VERIFY_PERSIST : 0) | hasCrc);
      view.setUint32(at + 4, crc ?? 0);
    },
  },
  bind: {
    bytes: 32,
    read: (view, at) => ({
      va: view.getBigUint64(at),
      length: Number(view.getBigUint64(at + 8)),
      rkey: view.getUint32(at + 16),
      lkey: view.getUint32(at + 20),
      access: view.getUint32(at + 24),
    }),
    write: (view, at, { va, length, rkey, lkey, access }) => {
      view.setBigUint64(at, va);
      view.setBigUint64(at + 8, BigInt(length));
      view.setUint32(at + 16, rkey);
      view.setUint32(at + 20, lkey);
      view.setUint32(at + 24, access);
    },
  },
  objects: {
    bytes: OBJECTS_BYTES,
    flag: FLAG_OBJECTS,
    read: (view, at) => readList(view, at, (place) => view.getBigUint64(place)),
    write: (view, at, objects) => {
      view.setUint8(at, objects.length);
      for (const [i, identity] of objects.entries()) {
        view.setBigUint64(at + OBJECTS_AT + 8 * i, identity);
      }
    },
  },
  parts: {
    bytes: OBJECTS_BYTES,
    flag: FLAG_PARTS,
    read: (view, at) =>
      readList(view, at, (place) => ({
        offset: view.getUint32(place),
        length: view.getUint32(place + 4),
      })),
    write: (view, at, parts) => {
      view.setUint8(at, parts.length);
      for (const [i, { offset, length }] of parts.entries()) {
        view.setUint32(at + OBJECTS_AT + 8 * i, offset);
        view.setUint32(at + OBJECTS_AT + 8 * i + 4, length);
      }
    },
  },
};

type Segment = readonly [name: keyof Operands, row: SegmentRow<Operands[keyof Operands]>];
const ROWS = Object.entries(SEGMENTS) as unknown as readonly Segment[];

const SEGMENT_FLAGS = FLAG_UD | FLAG_OBJECTS | FLAG_PARTS;

const SEGMENTS_OF = new Map(
  (Object.keys(WQE_OPCODES) as WqeOpcode[]).map((opcode) => {
    const operands: ReadonlySet<keyof Operands> = new Set(WQE_OPCODES[opcode].operands);
    const lists = Array.from(
      { length: SEGMENT_FLAGS + 1 },
      (_, flags) =>
        ROWS.filter(([name, { flag }]) =>
          flag === undefined ? operands.has(name) : (flags & flag) !== 0
        ),
    );
    return [opcode, lists];
  }),
);

function segmentsOf(opcode: WqeOpcode, flags: number): readonly Segment[] {
  return SEGMENTS_OF.get(opcode)![flags & SEGMENT_FLAGS]!;
}

/** Bytes of the WQE's segments: the used part of its units. */
export function wqeBytes(wqe: SendWqe): number {
  let bytes = CONTROL_BYTES;
  for (const [name, row] of ROWS) if (wqe[name] !== undefined) bytes += row.bytes;
  bytes += wqe.inline === undefined ? 16 * wqe.sges.length : 4 + wqe.inline.length;
  return Math.ceil(bytes / 16) * 16;
}

export function wqeUnits(wqe: SendWqe): number {
  return Math.ceil(wqeBytes(wqe) / WQE_UNIT_BYTES);
}

export function encodeSendWqe(wqe: SendWqe): Uint8Array<ArrayBuffer> {
  const units = wqeUnits(wqe);
  if (units > MAX_WQE_UNITS) {
    fail(`A WQE takes ${units} units, at most ${MAX_WQE_UNITS} are possible`);
  }
  const bytes = allocate(units * WQE_UNIT_BYTES);
  const view = viewOf(bytes);
  view.setUint32(0, ((wqe.index & 0xffff) << 8) | WQE_OPCODES[wqe.opcode].code);
  const sges = wqe.inline === undefined ? wqe.sges.length : 0;
  view.setUint32(4, (wqe.qpn << 8) | sges);
  view.setUint8(
    11,
    (wqe.fence ? FLAG_FENCE : 0) | (wqe.signaled ? FLAG_SIGNALED : 0) |
      (wqe.solicited ? FLAG_SOLICITED : 0) |
      (wqe.ud ? FLAG_UD : 0) | (wqe.objects ? FLAG_OBJECTS : 0) |
      (wqe.parts ? FLAG_PARTS : 0),
  );
  view.setUint32(12, wqe.immediate);
  let at = CONTROL_BYTES;
  for (const [name, row] of ROWS) {
    const operands = wqe[name];
    if (operands === undefined) continue;
    row.write(view, at, operands);
    at += row.bytes;
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
 * From its first unit, so that the RNIC knows how much more to fetch; undefined where the unit is
 * not the start of a WQE.
 */
export function unitsOfWqe(view: DataView): number | undefined {
  const opcode = OPCODE_NAMES.get(view.getUint8(3));
  if (opcode === undefined) return undefined;
  let at = CONTROL_BYTES;
  for (const [, { bytes }] of segmentsOf(opcode, view.getUint8(11))) at += bytes;
  const sges = view.getUint8(7);
  if (sges > MAX_SGE) return undefined;
  const bytes = at < WQE_UNIT_BYTES && sges === 0 && (view.getUint32(at) & INLINE_BIT) !== 0
    ? at + 4 + (view.getUint32(at) & ~INLINE_BIT)
    : at + 16 * sges;
  const units = Math.max(1, Math.ceil(bytes / WQE_UNIT_BYTES));
  return units > MAX_WQE_UNITS ? undefined : units;
}

/** Gives the WQE at `view` another position. */
export function renumberWqe(view: DataView, index: number): void {
  view.setUint32(0, ((index & 0xffff) << 8) | view.getUint8(3));
}

/** From all its units; undefined for invalid bytes (LOC_QP_OP_ERR). */
export function decodeSendWqe(bytes: Uint8Array): SendWqe | undefined {
  const view = viewOf(bytes);
  const units = unitsOfWqe(view);
  if (units === undefined || bytes.length < units * WQE_UNIT_BYTES) return undefined;
  const opcode = OPCODE_NAMES.get(view.getUint8(3))!;
  const flags = view.getUint8(11);
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
  const operands: Partial<Record<keyof Operands, Operands[keyof Operands]>> = wqe;
  let at = CONTROL_BYTES;
  for (const [name, row] of segmentsOf(opcode, flags)) {
    const value = row.read(view, at);
    if (value === undefined) return undefined;
    operands[name] = value;
    at += row.bytes;
  }
  const sges = view.getUint8(7);
  const word = sges === 0 && at < WQE_UNIT_BYTES ? view.getUint32(at) : 0;
  if ((word & INLINE_BIT) === 0) wqe.sges = readSges(view, at, sges);
  else wqe.inline = copyOf(bytes.subarray(at + 4, at + 4 + (word & ~INLINE_BIT)));
  return wqe;
}

/** Terminates a receive WQE's list before its stride (`rocev2.md` §5.2). */
const END_OF_LIST_LKEY = 0x100;

/**
 * Up to stride/16 elements. Those of no bytes are left out, as one of them could end the list
 * (rdma-core, `providers/mlx5/qp.c`, `mlx5_post_recv`).
 */
export function encodeRecvWqe(all: readonly Sge[], stride: number): Uint8Array<ArrayBuffer> {
  const sges = all.filter(({ length }) => length > 0);
  if (sges.length * 16 > stride) {
    fail(`${sges.length} elements do not fit a receive WQE of ${stride} B`);
  }
  const bytes = allocate(stride);
  const view = viewOf(bytes);
  writeSges(view, 0, sges);
  if (sges.length * 16 < stride) view.setUint32(sges.length * 16 + 4, END_OF_LIST_LKEY);
  return bytes;
}

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
