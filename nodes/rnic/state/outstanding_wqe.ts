/** A send WQE on the chip, from its fetch to its completion. */
import type { RequestOperation } from "./operation.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import type { VerifyResult } from "../../../fabric/wire/roce/verify_eth.ts";
import type { SendWqe, WqeOpcode } from "../../../fabric/wire/host_bus/wqe.ts";
import type { CoherenceClass, CoherenceEth } from "../../../fabric/wire/roce/coherence_eth.ts";
import type { Counters } from "./counters.ts";
import type { MemorySegment } from "./memory.ts";
import { CRC_START } from "../../../fabric/wire/roce/icrc.ts";

/** What a WQE opcode asks of the requester. One row per opcode: the only place that knows. */
export interface WorkPlan {
  /** What crosses the wire; `none` where no request does. */
  readonly wire: RequestOperation | "none" | "unsupported";
  readonly immediate: boolean;
  /** SEND WITH INVALIDATE: the immediate is a key of the peer's. */
  readonly invalidate: boolean;
  /**
   * An answer of its own completes it, no ACK does, and a fence behind it waits (§3.2). These are
   * what needs the host's memory at the peer before it can be answered.
   */
  readonly answered: boolean;
  /** Counts against max_rd_atomic, as it takes a slot of the responder (§3.2, §3.5). */
  readonly takesSlot: boolean;
  /**
   * Answered once, with the PSN of the last of its packets (V-01). Its request is a stream of packets
   * as a WRITE's, of which all but the last are acknowledged on the way.
   */
  readonly streams: boolean;
  /** P-21: vendor opcode. */
  readonly persistOpcode: boolean;
  /** A persistence ACK is awaited (P-25, P-28), whichever form asks for it (P-21, P-22). */
  readonly awaitsPersistence: boolean;
  /** ACCESS bits that local memory needs. */
  readonly localNeed: number;
  /** What counts its frames as they leave; undefined of messages between cards, which are counted by kind. */
  readonly counter: keyof Counters | undefined;
}

const PLAIN: WorkPlan = {
  wire: "send",
  immediate: false,
  invalidate: false,
  answered: false,
  takesSlot: false,
  streams: false,
  persistOpcode: false,
  awaitsPersistence: false,
  localNeed: 0,
  counter: "sendFramesOut",
};
const NOTHING: WorkPlan = { ...PLAIN, wire: "none" };
/** Bytes that are no WQE: refused with LOC_QP_OP_ERR. */
const UNSUPPORTED: WorkPlan = { ...PLAIN, wire: "unsupported" };
const ANSWERED: WorkPlan = {
  ...PLAIN,
  answered: true,
  takesSlot: true,
  localNeed: ACCESS.localWrite,
  counter: "atomicRequestsOut",
};
const WRITE: WorkPlan = { ...PLAIN, wire: "write", counter: "writeFramesOut" };

const WORK_PLANS: Readonly<Record<WqeOpcode, WorkPlan>> = {
  "nop": NOTHING,
  "send": PLAIN,
  "send-immediate": { ...PLAIN, immediate: true },
  "send-invalidate": { ...PLAIN, invalidate: true },
  "write": WRITE,
  "write-immediate": { ...WRITE, immediate: true },
  "read": { ...ANSWERED, wire: "read-request", counter: "readRequestsOut" },
  "compare-swap": { ...ANSWERED, wire: "compare-swap" },
  "fetch-add": { ...ANSWERED, wire: "fetch-add" },
  "write-persistence": {
    ...WRITE,
    persistOpcode: true,
    awaitsPersistence: true,
    counter: "persistWriteFramesOut",
  },
  "write-persist-address": { ...WRITE, awaitsPersistence: true },
  "persistence-ack": NOTHING,
  "bind-mw": NOTHING,
  "local-invalidate": NOTHING,
  // As rxe has it: a FLUSH does not count, an ATOMIC WRITE does.
  "flush": {
    ...ANSWERED,
    wire: "flush",
    takesSlot: false,
    localNeed: 0,
    counter: "flushRequestsOut",
  },
  "atomic-write": { ...ANSWERED, wire: "atomic-write", localNeed: 0 },
  "write-verify": {
    ...ANSWERED,
    wire: "write-verify",
    streams: true,
    localNeed: 0,
    counter: "verifyWriteFramesOut",
  },
};

export interface OutstandingWqe {
  /** Undefined where the fetched bytes are no WQE. */
  readonly wqe: SendWqe | undefined;
  readonly plan: WorkPlan;
  /** Ring position of its first unit, and what its completion names it by: as the driver wrote it. */
  position: number;
  index: number;
  readonly length: number;
  /** Local memory, checked when the work is started; empty where the data is inline. */
  segments: readonly MemorySegment[];
  started: boolean;
  firstPsn: number;
  packets: number;
  /** What is answered: packets of the answer that are here. */
  responses: number;
  /** What is answered: asked for again, and nothing has come since. */
  rereadAsked: boolean;
  /** Its place among the messages sent: SSN, compared with the credits' limit (§3.2). */
  ssn: number;
  /** The responder has received it all (reception ACK), or answered it. */
  acked: boolean;
  /** What crosses no wire: done, maybe ahead of its turn, in which it is `acked`. */
  carriedOut: boolean;
  persisted: boolean;
  /** V-02: of a verified write whose CRC is computed here. */
  readonly digest: MessageDigest | undefined;
  /** V-01: what became of a verified write. */
  verdict: VerifyResult | undefined;
  /** The header of a message between coherent cards, whose payload is inline. */
  readonly coherence: CoherenceEth | undefined;
  /** Its CQE is written, or it needed none. */
  completed: boolean;
  /** Why it cannot succeed; completes when all before it has. */
  failure: VendorError | undefined;
}

export function createWork(wqe: SendWqe | undefined, position: number): OutstandingWqe {
  const plan = wqe === undefined ? UNSUPPORTED : WORK_PLANS[wqe.opcode];
  return newWork({ wqe, plan, position, coherence: undefined });
}

const CARD_PLANS: Readonly<Record<CoherenceClass, WorkPlan>> = {
  "coherence-request": { ...PLAIN, wire: "coherence-request", counter: undefined },
  "coherence-snoop": { ...PLAIN, wire: "coherence-snoop", counter: undefined },
  "coherence-response": { ...PLAIN, wire: "coherence-response", counter: undefined },
};

/** A message between coherent cards, which the firmware has queued in the card's own memory. */
export function createCardWork(
  qpn: number,
  message: {
    readonly operation: CoherenceClass;
    readonly header: CoherenceEth;
    readonly payload: Uint8Array<ArrayBuffer>;
  },
): OutstandingWqe {
  const { operation, header, payload } = message;
  const wqe: SendWqe = {
    opcode: "send",
    index: 0,
    qpn,
    signaled: false,
    solicited: false,
    fence: false,
    immediate: 0,
    sges: [],
    inline: payload,
  };
  return newWork({ wqe, plan: CARD_PLANS[operation], position: 0, coherence: header });
}

function newWork(
  given: Pick<OutstandingWqe, "wqe" | "plan" | "position" | "coherence">,
): OutstandingWqe {
  const { wqe, plan, position, coherence } = given;
  let length = wqe?.inline?.length ?? 0;
  if (wqe !== undefined && wqe.inline === undefined) {
    for (const sge of wqe.sges) length += sge.length;
  }
  return {
    wqe,
    plan,
    position,
    index: wqe?.index ?? position & 0xffff,
    length,
    segments: [],
    started: false,
    firstPsn: 0,
    packets: 0,
    responses: 0,
    rereadAsked: false,
    ssn: 0,
    acked: false,
    carriedOut: false,
    persisted: false,
    digest: needsDigest(wqe) ? { packets: 0, register: CRC_START } : undefined,
    verdict: undefined,
    coherence,
    completed: false,
    failure: undefined,
  };
}

export function lastPsnOf(work: OutstandingWqe): number {
  return (work.firstPsn + work.packets - 1) & 0xff_ffff;
}

/** What has gone into a message's CRC. */
interface MessageDigest {
  /** Packets from the first on, each once. */
  packets: number;
  /** As `crcUpdate` has it, raw. */
  register: number;
}

/** Whether the card computes the CRC: a level that has one, and a program that has brought none. */
function needsDigest(wqe: SendWqe | undefined): boolean {
  const verify = wqe?.verify;
  return verify !== undefined && verify.level !== "none" && verify.crc === undefined;
}
