/**
 * Completion queue elements in host memory: 64 bytes, written by DMA. The owner bit, by which the
 * host detects a new one, toggles with each pass of the ring (`rocev2.md` §5.3).
 */
import { allocate, viewOf } from "../../base/slab.ts";

export const CQE_BYTES = 64;

/** [choice] Unit of timestamps: a nanosecond, as in ConnectX-6 Dx's real-time clock. */
export const CLOCK_KHZ = 1_000_000;

/** `recv-persistence` is the RECV that the PM module consumed (P-26). */
export const CQE_OPCODES = {
  "requester": 0,
  "recv-write-immediate": 1,
  "recv": 2,
  "recv-immediate": 3,
  "recv-invalidate": 4,
  "resize": 5,
  /** `event_entry.ts`. */
  "event": 6,
  "recv-persistence": 8,
  "requester-error": 13,
  "responder-error": 14,
} as const satisfies Record<CqeOpcode, number>;
/** The kind of a completion entry. */
export type CqeOpcode =
  | "requester"
  | "recv-write-immediate"
  | "recv"
  | "recv-immediate"
  | "recv-invalidate"
  | "resize"
  | "event"
  | "recv-persistence"
  | "requester-error"
  | "responder-error";

/**
 * ibv_wc_status with its numbers, of RC, UC and UD. VERIFY_ERR is vendor-specific (V-01): the write
 * was answered, but not with "written"; the queue pair remains operational.
 */
export const WC_STATUS = {
  SUCCESS: 0,
  LOC_LEN_ERR: 1,
  LOC_QP_OP_ERR: 2,
  LOC_PROT_ERR: 4,
  WR_FLUSH_ERR: 5,
  MW_BIND_ERR: 6,
  BAD_RESP_ERR: 7,
  LOC_ACCESS_ERR: 8,
  REM_INV_REQ_ERR: 9,
  REM_ACCESS_ERR: 10,
  REM_OP_ERR: 11,
  RETRY_EXC_ERR: 12,
  RNR_RETRY_EXC_ERR: 13,
  FATAL_ERR: 19,
  GENERAL_ERR: 21,
  VERIFY_ERR: 24,
} as const satisfies Record<WcStatus, number>;
/** ibv_wc_status without IBV_WC_. */
export type WcStatus =
  | "SUCCESS"
  | "LOC_LEN_ERR"
  | "LOC_QP_OP_ERR"
  | "LOC_PROT_ERR"
  | "WR_FLUSH_ERR"
  | "MW_BIND_ERR"
  | "BAD_RESP_ERR"
  | "LOC_ACCESS_ERR"
  | "REM_INV_REQ_ERR"
  | "REM_ACCESS_ERR"
  | "REM_OP_ERR"
  | "RETRY_EXC_ERR"
  | "RNR_RETRY_EXC_ERR"
  | "FATAL_ERR"
  | "GENERAL_ERR"
  | "VERIFY_ERR";

export interface Cqe {
  readonly opcode: CqeOpcode;
  readonly status: WcStatus;
  /** A code of `vendor_error.ts`; 0 for success. */
  readonly vendorError: number;
  readonly qpn: number;
  /**
   * Position (low 16 bits) of the WQE's first unit: it retires this and earlier unsignalled WQEs.
   */
  readonly wqeIndex: number;
  readonly byteCount: number;
  readonly immediate: number;
  readonly wqeOpcode: number;
  /** P-25, P-26: of persistent writes and the RECVs they consume. */
  readonly psn: number;
  /** P-25, P-26: destination VA of the persisted range. */
  readonly va: bigint;
  readonly sourceQpn: number;
  /** V-01: the verdict on a verified write, see {@link encodeVerdict}. */
  readonly verify: number;
  readonly solicited: boolean;
  /** The card's clock at the entry's write, in its ticks; only if the queue was made with it. */
  readonly timestamp?: number;
}

export const PLAIN_CQE = {
  status: "SUCCESS",
  vendorError: 0,
  byteCount: 0,
  immediate: 0,
  wqeOpcode: 0,
  psn: 0,
  va: 0n,
  sourceQpn: 0,
  verify: 0,
  solicited: false,
} as const;

const OPCODE_NAMES = new Map<number, CqeOpcode>(
  Object.entries(CQE_OPCODES).map(([name, code]) => [code, name as CqeOpcode]),
);
const STATUS_NAMES = new Map<number, WcStatus>(
  Object.entries(WC_STATUS).map(([name, code]) => [code, name as WcStatus]),
);
const OWNER_BIT = 1, SOLICITED_BIT = 2;

/** Of an unwritten entry: the driver initialises the ring with it. */
export const CQE_INVALID = 0xf1;

/** The owner bit at `position`, which counts entries since the queue was created. */
export function ownerBit(position: number, entries: number): 0 | 1 {
  return (Math.floor(position / entries) & 1) as 0 | 1;
}

export function encodeCqe(cqe: Cqe, owner: 0 | 1): Uint8Array<ArrayBuffer> {
  const bytes = allocate(CQE_BYTES);
  const view = viewOf(bytes);
  view.setBigUint64(0, cqe.va);
  view.setUint32(8, cqe.psn);
  view.setUint32(12, cqe.sourceQpn);
  view.setUint16(16, cqe.verify);
  if (cqe.timestamp !== undefined) view.setBigUint64(24, BigInt(cqe.timestamp));
  view.setUint32(36, cqe.immediate);
  view.setUint32(44, cqe.byteCount);
  view.setUint8(54, cqe.vendorError);
  view.setUint8(55, WC_STATUS[cqe.status]);
  view.setUint32(56, ((cqe.wqeOpcode << 24) | cqe.qpn) >>> 0);
  view.setUint16(60, cqe.wqeIndex & 0xffff);
  view.setUint8(63, (CQE_OPCODES[cqe.opcode] << 4) | (cqe.solicited ? SOLICITED_BIT : 0) | owner);
  return bytes;
}

/** The entry at `position` if the RNIC has written it in this pass; else undefined. */
export function decodeCqe(bytes: Uint8Array, position: number, entries: number): Cqe | undefined {
  const last = bytes[63]!;
  const opcode = OPCODE_NAMES.get(last >> 4);
  if (opcode === undefined || (last & OWNER_BIT) !== ownerBit(position, entries)) return undefined;
  const view = viewOf(bytes);
  const word = view.getUint32(56);
  const timestamp = Number(view.getBigUint64(24));
  return {
    ...(timestamp !== 0 && { timestamp }),
    opcode,
    status: STATUS_NAMES.get(bytes[55]!) ?? "GENERAL_ERR",
    vendorError: bytes[54]!,
    qpn: word & 0xff_ffff,
    wqeOpcode: word >>> 24,
    wqeIndex: view.getUint16(60),
    byteCount: view.getUint32(44),
    immediate: view.getUint32(36),
    psn: view.getUint32(8),
    va: view.getBigUint64(0),
    sourceQpn: view.getUint32(12),
    verify: view.getUint16(16),
    solicited: (last & SOLICITED_BIT) !== 0,
  };
}
