/** A send WQE on the chip, from its fetch to its completion. */
import type { VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import type { VerifyResult } from "../../../fabric/wire/roce/verify_eth.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { WQE_OPCODES, type WqeOpcodeRow } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { CoherenceClass, CoherenceEth } from "../../../fabric/wire/roce/coherence_eth.ts";
import type { MemorySegment } from "./memory.ts";
import { CRC_START } from "../../../fabric/wire/roce/icrc.ts";

export type WorkPlan = Omit<WqeOpcodeRow, "wire"> & {
  readonly wire: WqeOpcodeRow["wire"] | "unsupported";
};

const UNTOLD = { hint: undefined, counter: undefined } as const;
/** Work that is refused with LOC_QP_OP_ERR. */
const UNSUPPORTED: WorkPlan = { ...WQE_OPCODES.send, ...UNTOLD, wire: "unsupported" };

export interface OutstandingWqe {
  readonly wqe: SendWqe | undefined;
  readonly plan: WorkPlan;
  /** The ring position of its first unit, as the driver wrote it. */
  position: number;
  index: number;
  readonly length: number;
  /** Checked when the work starts; empty for inline data. */
  segments: readonly MemorySegment[];
  started: boolean;
  firstPsn: number;
  packets: number;
  responses: number;
  rereadAsked: boolean;
  /** §3.2. */
  ssn: number;
  acked: boolean;
  /** Work that crosses no wire is done, perhaps ahead of its turn. */
  carriedOut: boolean;
  persisted: boolean;
  /** V-02: undefined unless the card computes the CRC. */
  readonly digest: MessageDigest | undefined;
  /** V-01. */
  verdict: VerifyResult | undefined;
  readonly coherence: CoherenceEth | undefined;
  completed: boolean;
  failure: VendorError | undefined;
}

export function createWork(wqe: SendWqe | undefined, position: number): OutstandingWqe {
  const plan = wqe === undefined ? UNSUPPORTED : WQE_OPCODES[wqe.opcode];
  return newWork({ wqe, plan, position, coherence: undefined });
}

const CARD_PLANS: Readonly<Record<CoherenceClass, WorkPlan>> = {
  "coherence-request": { ...WQE_OPCODES.send, ...UNTOLD, wire: "coherence-request" },
  "coherence-snoop": { ...WQE_OPCODES.send, ...UNTOLD, wire: "coherence-snoop" },
  "coherence-response": { ...WQE_OPCODES.send, ...UNTOLD, wire: "coherence-response" },
};

/** The firmware has queued it in the card's own memory. */
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

interface MessageDigest {
  packets: number;
  register: number;
}

function needsDigest(wqe: SendWqe | undefined): boolean {
  const verify = wqe?.verify;
  return verify !== undefined && verify.level !== "none" && verify.crc === undefined;
}
