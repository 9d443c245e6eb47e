/**
 * The table of send WQE opcodes: one row has all differences between opcodes before a request crosses
 * the wire: in the checks of `ibv_post_send`, in the ring's bytes and in the card's requester
 * (`rocev2.md` §3.2, §4.3, §5.1). `nodes/rnic/responder/operations.ts` has the responder's side.
 */
import { ANSWERS, type RequestOperation, takesSlot } from "../roce/opcode.ts";
import type { HintOperation } from "../roce/hint_eth.ts";
import { ACCESS, type QpType } from "./rnic_command.ts";

/** ibv_wr_opcode as text, and the card's own opcodes. */
export type WqeOpcode =
  | "nop"
  | "send-invalidate"
  | "write"
  | "write-immediate"
  | "send"
  | "send-immediate"
  | "read"
  | "compare-swap"
  | "fetch-add"
  | "bind-mw"
  | "local-invalidate"
  | "write-persistence"
  | "write-persist-address"
  | "persistence-ack"
  | "flush"
  | "atomic-write"
  | "write-verify";

/** Arguments with segments of their own, by their names in refusals. */
export const OPERANDS = {
  remote: "remote address",
  atomic: "atomic operands",
  flush: "flush arguments",
  bind: "window to bind",
  verify: "verify arguments",
} as const;
export type Operand = keyof typeof OPERANDS;

export interface WqeOpcodeRow {
  /** mlx5's where it has one; vendor-specific ones begin at 0x40. */
  readonly code: number;
  /** libibverbs' name of it. */
  readonly there: `IBV_WR_${string}` | undefined;
  /** Services that have it (§4.3). */
  readonly types: readonly QpType[];
  readonly operands: readonly Operand[];
  /**
   * The use of its elements. `sent`: the payload, which may be inline. `word`: eight sent bytes,
   * always inline. `room`, `word room`: the place of the answer, of any length or of eight bytes.
   * `none`: it has none, and the card checks that. `unread`: it has none, and the card would not
   * read them.
   */
  readonly data: "sent" | "word" | "room" | "word room" | "none" | "unread";
  /** It takes a receive of the peer: always, or if the peer's CPU is to flush (flow 2, P-26). */
  readonly takesRecv: "always" | "to flush" | "never";
  /**
   * True if it may cover data transfer objects (H-01), which need the key of a region. The
   * responder could not find a SEND's objects, and its peer may have rights to none of them (H-24).
   */
  readonly coversObjects: boolean;
  /** The request on the wire; `none` if there is none. */
  readonly wire: RequestOperation | "none";
  readonly immediate: boolean;
  /** SEND WITH INVALIDATE: the immediate is a key of the peer's. */
  readonly invalidate: boolean;
  /**
   * An answer of its own completes it instead of an ACK, and a fence behind it waits (§3.2): the
   * answer needs the host's memory at the peer.
   */
  readonly answered: boolean;
  /** Counts against max_rd_atomic (§3.2). */
  readonly takesSlot: boolean;
  /** Whose packets have its PSNs: a READ's request takes all those of its answer (§3.1). */
  readonly psnsOf: "request" | "answer";
  /** The compare operand is one of its own; else 0 is sent. */
  readonly compares: boolean;
  /**
   * Answered once, with the PSN of the last of its packets (V-01). Its request is a stream of
   * packets like a WRITE's, of which all but the last are acknowledged on the way.
   */
  readonly streams: boolean;
  /**
   * Its data goes to the peer's memory like a WRITE's: it can be this side's last write, and V-08's
   * faults apply.
   */
  readonly writes: boolean;
  /** P-21: vendor opcode. */
  readonly persistOpcode: boolean;
  /** A persistence ACK is awaited (P-25, P-28), in either form of request (P-21, P-22). */
  readonly awaitsPersistence: boolean;
  /** ACCESS bits that local memory needs. */
  readonly localNeed: number;
  /** Its name in a hint (H-01); undefined if hints do not announce it. */
  readonly hint: HintOperation | undefined;
  /** The counter of its frames as they leave the card; undefined if there is none. */
  readonly counter: FrameCounter | undefined;
}

type FrameCounter =
  | "sendFramesOut"
  | "writeFramesOut"
  | "persistWriteFramesOut"
  | "verifyWriteFramesOut"
  | "readRequestsOut"
  | "atomicRequestsOut"
  | "flushRequestsOut";

/** A row's columns that neither follow from others nor have the usual value. */
type Given =
  & Pick<WqeOpcodeRow, "code" | "types" | "data" | "wire">
  & Partial<Omit<WqeOpcodeRow, "answered" | "takesSlot" | "psnsOf" | "localNeed">>;

const RC = ["rc"] as const, RC_UC = ["rc", "uc"] as const, ALL = ["rc", "uc", "ud"] as const;

const SEND = {
  types: ALL,
  data: "sent",
  takesRecv: "always",
  wire: "send",
  hint: "send",
  counter: "sendFramesOut",
} as const;
const WRITE = {
  types: RC_UC,
  operands: ["remote"],
  data: "sent",
  wire: "write",
  writes: true,
  hint: "write",
  counter: "writeFramesOut",
} as const;
const PERSISTENT = { ...WRITE, types: RC, takesRecv: "to flush", awaitsPersistence: true } as const;
const ATOMIC = {
  types: RC,
  operands: ["remote", "atomic"],
  data: "word room",
  coversObjects: true,
  counter: "atomicRequestsOut",
} as const;
const LOCAL = { types: RC_UC, data: "unread", wire: "none" } as const;

const ROWS: Readonly<Record<WqeOpcode, Given>> = {
  "nop": { ...LOCAL, code: 0x00 },
  "send-invalidate": {
    ...SEND,
    code: 0x01,
    there: "IBV_WR_SEND_WITH_INV",
    types: RC,
    invalidate: true,
  },
  "write": { ...WRITE, code: 0x08, there: "IBV_WR_RDMA_WRITE", coversObjects: true },
  "write-immediate": {
    ...WRITE,
    code: 0x09,
    there: "IBV_WR_RDMA_WRITE_WITH_IMM",
    takesRecv: "always",
    coversObjects: true,
    immediate: true,
  },
  "send": { ...SEND, code: 0x0a, there: "IBV_WR_SEND" },
  "send-immediate": { ...SEND, code: 0x0b, there: "IBV_WR_SEND_WITH_IMM", immediate: true },
  "read": {
    code: 0x10,
    there: "IBV_WR_RDMA_READ",
    types: RC,
    operands: ["remote"],
    data: "room",
    coversObjects: true,
    wire: "read-request",
    hint: "read",
    counter: "readRequestsOut",
  },
  "compare-swap": {
    ...ATOMIC,
    code: 0x11,
    there: "IBV_WR_ATOMIC_CMP_AND_SWP",
    wire: "compare-swap",
    compares: true,
    hint: "compare-swap",
  },
  "fetch-add": {
    ...ATOMIC,
    code: 0x12,
    there: "IBV_WR_ATOMIC_FETCH_AND_ADD",
    wire: "fetch-add",
    hint: "fetch-add",
  },
  "bind-mw": { ...LOCAL, code: 0x18, there: "IBV_WR_BIND_MW", operands: ["bind"] },
  "local-invalidate": { ...LOCAL, code: 0x1b, there: "IBV_WR_LOCAL_INV" },
  // P-21: the persist opcode on the wire.
  "write-persistence": {
    ...PERSISTENT,
    code: 0x40,
    persistOpcode: true,
    counter: "persistWriteFramesOut",
  },
  // P-22: a plain WRITE into a region that the requester knows to be persistent.
  "write-persist-address": { ...PERSISTENT, code: 0x41 },
  // P-26: the responder's CPU reports "flushed" by it.
  "persistence-ack": { ...LOCAL, code: 0x42, types: RC, takesRecv: "to flush" },
  // P-50: the memory placement extensions, for which mlx5 has no codes.
  "flush": {
    code: 0x43,
    there: "IBV_WR_FLUSH",
    types: RC,
    operands: ["remote", "flush"],
    data: "none",
    wire: "flush",
    counter: "flushRequestsOut",
  },
  "atomic-write": {
    code: 0x44,
    there: "IBV_WR_ATOMIC_WRITE",
    types: RC,
    operands: ["remote"],
    data: "word",
    wire: "atomic-write",
    hint: "write",
    counter: "atomicRequestsOut",
  },
  // V-01: the receiver verifies it and answers with the result.
  "write-verify": {
    ...WRITE,
    code: 0x45,
    types: RC,
    operands: ["remote", "verify"],
    wire: "write-verify",
    streams: true,
    counter: "verifyWriteFramesOut",
  },
};

/** The usual values: all columns, so that rows have one shape for the engine. */
const OTHERWISE: WqeOpcodeRow = {
  code: 0,
  there: undefined,
  types: [],
  operands: [],
  data: "unread",
  takesRecv: "never",
  coversObjects: false,
  wire: "none",
  immediate: false,
  invalidate: false,
  answered: false,
  takesSlot: false,
  psnsOf: "request",
  compares: false,
  streams: false,
  writes: false,
  persistOpcode: false,
  awaitsPersistence: false,
  localNeed: 0,
  hint: undefined,
  counter: undefined,
};

function rowOf(given: Given): WqeOpcodeRow {
  const { wire, data } = given;
  return {
    ...OTHERWISE,
    ...given,
    answered: wire !== "none" && ANSWERS[wire] !== "acknowledge",
    takesSlot: wire !== "none" && takesSlot(wire),
    psnsOf: data === "room" ? "answer" : "request",
    localNeed: data === "room" || data === "word room" ? ACCESS.localWrite : 0,
  };
}

export const WQE_OPCODES = Object.fromEntries(
  Object.entries(ROWS).map(([name, given]) => [name, rowOf(given)]),
) as Readonly<Record<WqeOpcode, WqeOpcodeRow>>;
