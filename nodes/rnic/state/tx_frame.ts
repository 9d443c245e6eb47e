/** A data frame: first its payload is fetched, then it waits for the transmitter. */
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

/** Frames of one direction of a queue pair leave in the order in which they were begun. */
export interface TxOrder {
  readonly jobs: Fifo<TxFrame>;
  /** Frames begun in an earlier epoch never leave: go-back-N has begun anew. */
  epoch: number;
}

/** Extension headers that few packets have. */
export type RareHeaders = Pick<
  RocePacket,
  "atomicEth" | "coherenceEth" | "feth" | "hintEth" | "ieth" | "verifyEth"
>;

/**
 * H-07: a hint inside a packet with a purpose of its own, or the flag of a READ or WRITE of no bytes, with its
 * range.
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
  /** The message or READ answer that the frame is part of. A hint has neither. */
  readonly work: OutstandingWqe | undefined;
  readonly read: ReadService | undefined;
  readonly last: boolean;
  readonly payloadBytes: number;
  payload: Uint8Array<ArrayBuffer>;
  readyAt: Time;
  fetching: boolean;
  /** Its payload could not be fetched: the frame must not leave. */
  failed: boolean;
}

/**
 * The DMA reads that fetch one segment of a message's memory, for one frame or several consecutive ones: short
 * packets share one read request of the bus.
 */
export interface Gather {
  readonly jobs: readonly TxFrame[];
  readonly bytes: number;
  missing: number;
  /** Complete once nothing is missing. */
  data: Uint8Array<ArrayBuffer>;
  failed: boolean;
}

export function createLine(): TxOrder {
  return { jobs: new Fifo(), epoch: 0 };
}

/** FCS, preamble and gap: what a frame takes of the line beyond its captured bytes. */
const WIRE_OVERHEAD_BYTES = 24;

/** Bytes of the line that the frame takes. @param bthAt as of {@link frameBytes}. */
export function lineBytes({ row, payloadBytes, hint }: TxFrame, bthAt?: number): number {
  return frameBytes(row, payloadBytes + (hint?.bytes ?? 0), bthAt) + WIRE_OVERHEAD_BYTES;
}

export function isStale(job: TxFrame): boolean {
  return job.life !== job.qp.life || job.epoch !== job.line.epoch;
}

/** Answers without data, or with eight bytes in a header. */
export type ControlOpcode = Extract<
  OpcodeName,
  | "RC ACKNOWLEDGE"
  | "RC ATOMIC ACKNOWLEDGE"
  | "RC RDMA READ RESPONSE ONLY"
  | "VENDOR PERSISTENCE ACKNOWLEDGE"
>;

/** An outgoing ACK, NAK, persistence ACK or answer to an atomic or a FLUSH. */
export interface ControlFrame {
  readonly qp: QueuePair;
  readonly life: number;
  readonly opcode: ControlOpcode;
  /** PSN, syndrome and MSN stand here, so that later ACKs can be merged into a waiting one. */
  readonly ack: AckService;
}

export interface Transmitter {
  readonly control: Fifo<ControlFrame>;
  readonly data: Fifo<TxFrame>;
  /** Payload bytes of frames that were begun and have not left. */
  bufferedBytes: number;
  freeAt: Time;
  /** Frames to the card's own address on their way inside, and when the last of them has left. */
  readonly looped: Fifo<{ readonly frame: Frame; readonly span: Span }>;
  loopedUntil: Time;
}
