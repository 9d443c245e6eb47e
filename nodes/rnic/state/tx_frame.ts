/** A data frame: its payload is fetched, then it waits for the transmitter. */
import type { Time } from "../../../fabric/base/time.ts";
import type { Frame, Span } from "../../../fabric/node.ts";
import type { OpcodeName, OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { frameBytes, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { HintMessage } from "../../../fabric/wire/roce/hint.ts";
import type { Reth } from "../../../fabric/wire/roce/reth.ts";
import type { UdAddress } from "../../../fabric/wire/host_bus/wqe.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { OutstandingWqe } from "./outstanding_wqe.ts";
import type { AckService, ReadService } from "./responder_state.ts";

export interface TxOrder {
  readonly jobs: Fifo<TxFrame>;
  /** Frames of earlier epochs never leave: go-back-N began anew. */
  epoch: number;
}

export type RareHeaders = Pick<
  RocePacket,
  "atomicEth" | "coherenceEth" | "feth" | "hintEth" | "ieth" | "verifyEth"
>;

/**
 * H-07: a hint in a packet with another purpose, or the flag of a READ or WRITE of no bytes, with
 * its range.
 */
export type FrameHint =
  | {
    readonly form: "header" | "payload";
    readonly message: HintMessage;
    readonly bytes: number;
  }
  | { readonly form: "range"; readonly length: number; readonly bytes: 0 };

export interface TxFrame {
  readonly qp: QueuePair;
  readonly line: TxOrder;
  readonly life: number;
  readonly epoch: number;
  readonly row: OpcodeRow;
  readonly psn: number;
  readonly ackReq: boolean;
  readonly solicited: boolean;
  readonly reth: Reth | undefined;
  readonly immediate: number | undefined;
  readonly rare: RareHeaders | undefined;
  readonly hint: FrameHint | undefined;
  readonly ud: UdAddress | undefined;
  readonly work: OutstandingWqe | undefined;
  readonly read: ReadService | undefined;
  readonly last: boolean;
  readonly payloadBytes: number;
  payload: Uint8Array<ArrayBuffer>;
  readyAt: Time;
  fetching: boolean;
  failed: boolean;
}

/** DMA reads of one segment, for one or several frames: short packets share a read request. */
export interface Gather {
  readonly jobs: readonly TxFrame[];
  readonly bytes: number;
  missing: number;
  /** The frame is complete once nothing is missing. */
  data: Uint8Array<ArrayBuffer>;
  failed: boolean;
}

export function createLine(): TxOrder {
  return { jobs: new Fifo(), epoch: 0 };
}

/** FCS, preamble and gap. */
const WIRE_OVERHEAD_BYTES = 24;

export function lineBytes({ row, payloadBytes, hint }: TxFrame, bthAt?: number): number {
  return frameBytes(row, payloadBytes + (hint?.bytes ?? 0), bthAt) + WIRE_OVERHEAD_BYTES;
}

export function isStale(job: TxFrame): boolean {
  return job.life !== job.qp.life || job.epoch !== job.line.epoch;
}

export type ControlOpcode = Extract<
  OpcodeName,
  | "RC ACKNOWLEDGE"
  | "RC ATOMIC ACKNOWLEDGE"
  | "RC RDMA READ RESPONSE ONLY"
  | "VENDOR PERSISTENCE ACKNOWLEDGE"
>;

export interface ControlFrame {
  readonly qp: QueuePair;
  readonly life: number;
  readonly opcode: ControlOpcode;
  readonly ack: AckService;
}

export interface Transmitter {
  readonly control: Fifo<ControlFrame>;
  readonly data: Fifo<TxFrame>;
  bufferedBytes: number;
  freeAt: Time;
  readonly looped: Fifo<{ readonly frame: Frame; readonly span: Span }>;
  loopedUntil: Time;
}
