/** What a responder knows: the message that is coming in, what it has to answer, what it remembers. */
import type { OpcodeRow, Operation } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { VerifyResult } from "../../../fabric/wire/roce/verify_eth.ts";
import type { AtomicTask } from "../responder/atomic.ts";
import { createDirtyRanges, type DirtyRanges } from "./dirty_ranges.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { createLine, type FrameLine } from "./tx_frame.ts";
import type { Region } from "../dma/memory_region.ts";
import type { PersistRecord } from "../persistence/pm_module.ts";
import type { Stretch } from "../dma/translation.ts";
import type { OpenVerify, VerifiedWrite } from "./verify_state.ts";

/** A request packet with its row, and its frame for the GRH area of UD. */
export interface PacketIn {
  readonly packet: RocePacket;
  readonly row: OpcodeRow;
  readonly frame: Uint8Array<ArrayBuffer>;
}

/** A receive WQE on the chip. */
export interface RecvWqe {
  /** Ring position. */
  readonly position: number;
  readonly sges: readonly Sge[];
}

/** A message of which more packets are to come. */
export interface OpenMessage {
  readonly operation: "send" | "write" | "write-verify";
  /** FIRST came with the vendor's opcode: the others must too. */
  readonly vendor: boolean;
  readonly firstPsn: number;
  /** WRITE: where it goes; SEND: the receive WQE's memory. */
  readonly va: number;
  readonly region: Region | undefined;
  readonly stretches: readonly Stretch[];
  /** WRITE: bytes announced; SEND: bytes that fit. */
  readonly length: number;
  readonly recv: RecvWqe | undefined;
  readonly persist: boolean;
  /** Of a verified write: how its data is to be checked. */
  readonly verify?: OpenVerify;
  received: number;
}

/** A READ that is being answered: frames `next` … `packets` − 1 are still to be begun. */
export interface ReadService {
  readonly kind: "read";
  readonly psn: number;
  readonly stretches: readonly Stretch[];
  readonly length: number;
  readonly packets: number;
  readonly msn: number;
  /** Answers a duplicate: takes no slot of its own (§3.5). */
  readonly repeat: boolean;
  next: number;
  /** Its last frame has left, or it failed: what is behind it may go. */
  done: boolean;
}

/** Requests whose answer is one packet: without payload, or what became of a verified write. */
export type SingleOperation = Extract<
  Operation,
  "compare-swap" | "fetch-add" | "atomic-write" | "flush" | "write-verify"
>;

/** An atomic, an ATOMIC WRITE or a FLUSH that is being answered. */
export interface SingleService {
  readonly kind: "single";
  readonly operation: SingleOperation;
  readonly psn: number;
  readonly msn: number;
  readonly repeat: boolean;
  /** What an atomic does, when its turn has come; undefined for a FLUSH, which is begun at once. */
  readonly task: AtomicTask | undefined;
  /** Of an atomic: what granted its word. */
  readonly region?: Region;
  /** Of a verified write: what is to be found out, and what was: its answer, for duplicates too. */
  verified?: VerifiedWrite | undefined;
  result?: VerifyResult;
  state: "waiting" | "running" | "done" | "failed";
  /** The word as it was before the atomic: what its ACK carries, and its duplicates' too. */
  original: bigint;
  /** When what it acknowledges has been handed to the bus. */
  readyAt: Time;
}

/** An ACK or NAK of its own packet. */
export interface AckService {
  readonly kind: "ack";
  psn: number;
  readonly syndrome: number;
  /** Of a persistence ACK only known as it leaves: that of the answer before it. */
  msn: number;
  /** ATOMIC ACK: the value before. */
  readonly original?: bigint;
  /** READ RESPONSE ONLY: what became of a verified write (V-01). */
  readonly payload?: Uint8Array<ArrayBuffer>;
  readyAt: Time;
  /** A NAK whose packet has come meanwhile: it does not leave. */
  withdrawn?: boolean;
}

/**
 * A responder resource: what was executed, for its duplicates (§3.5). A READ is executed again, an
 * atomic is answered with what it found.
 */
export type Resource = ReadRecord | SingleService;

export interface ReadRecord {
  readonly kind: "read-record";
  readonly psn: number;
  readonly packets: number;
  readonly va: bigint;
  readonly length: number;
  readonly key: number;
}

export interface Responder {
  expectedPsn: number;
  msn: number;
  /** MSN of the last answer that has left. */
  msnTold: number;
  /** One NAK 0x60 per gap. */
  gapNaked: boolean;
  /** A NAK 0x60 or RNR NAK that has not left: it is withdrawn where its packet comes meanwhile. */
  pendingNak: AckService | undefined;
  /** The last of the packets that were dropped behind a missing one, where no NAK has told of it. */
  lastDropped: number | undefined;
  open: OpenMessage | undefined;
  /** Packets behind one that waits for its receive WQE, that one first. */
  readonly stalled: Fifo<PacketIn>;
  /** What the first stalled packet waits for: its WQE, or what has not taken effect before it. */
  stalledFor: "recv" | "atomic";
  /** The receive WQE that the first stalled packet waited for. */
  granted: RecvWqe | undefined;
  readonly responses: Fifo<ReadService | SingleService | AckService>;
  /** Of these the atomics and ATOMIC WRITEs that have not been executed. */
  atomics: number;
  /** The ACK that waits for the transmitter: later ones are merged into it. */
  pendingAck: AckService | undefined;
  /** Control frames that the transmitter has and that have not left: READ responses wait for them. */
  unsentControl: number;
  readonly line: FrameLine;
  /** A ring of max_dest_rd_atomic slots: the oldest goes. */
  readonly resources: Resource[];
  /** Of the card's room for data that waits to be checked (V-02). */
  stagedBytes: number;
  /** Verified writes whose data is not all with the bus: what is behind them waits. */
  placing: number;
  readonly persists: Fifo<PersistRecord>;
  /** Of these the first that is not known to be persistent. */
  persistHead: number;
  /** What the peer has written plainly and no CPU was told to flush (P-31). */
  readonly dirty: DirtyRanges;
  established: boolean;
  /** A NAK that ends the queue pair is owed: nothing more is taken. */
  failing: boolean;
}

export function createResponder(rqPsn: number): Responder {
  return {
    expectedPsn: rqPsn,
    msn: 0,
    msnTold: 0,
    gapNaked: false,
    pendingNak: undefined,
    lastDropped: undefined,
    open: undefined,
    stalled: new Fifo(),
    stalledFor: "recv",
    granted: undefined,
    responses: new Fifo(),
    atomics: 0,
    pendingAck: undefined,
    unsentControl: 0,
    line: createLine(),
    resources: [],
    stagedBytes: 0,
    placing: 0,
    persists: new Fifo(),
    persistHead: 0,
    dirty: createDirtyRanges(),
    established: false,
    failing: false,
  };
}
