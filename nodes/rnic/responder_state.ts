/** What a responder knows: the message that is coming in, what it has to answer, what it remembers. */
import type { OpcodeRow } from "../../fabric/wire/opcode.ts";
import type { RocePacket } from "../../fabric/wire/packet.ts";
import type { Sge } from "../../fabric/wire/wqe.ts";
import type { Time } from "../../fabric/time/time.ts";
import { Fifo } from "./fifo.ts";
import { createLine, type FrameLine } from "./frame_job.ts";
import type { Region } from "./memory_region.ts";
import type { PersistRecord } from "./pm_module.ts";
import type { Stretch } from "./translation.ts";

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
  readonly operation: "send" | "write";
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
  next: number;
  /** Its last frame has left, or it failed: what is behind it may go. */
  done: boolean;
}

/** An ACK or NAK of its own packet. */
export interface AckService {
  readonly kind: "ack";
  psn: number;
  readonly syndrome: number;
  msn: number;
  readyAt: Time;
  /** Handed to the transmitter's queue but not sent: may still be merged into. */
  queued: boolean;
}

/** A READ that was answered, for its duplicates (§3.5). */
export interface ReadRecord {
  readonly psn: number;
  readonly packets: number;
  readonly va: number;
  readonly length: number;
  readonly key: number;
}

export interface Responder {
  expectedPsn: number;
  msn: number;
  /** One NAK 0x60 per gap. */
  gapNaked: boolean;
  open: OpenMessage | undefined;
  /** Packets behind one that waits for its receive WQE, that one first. */
  readonly stalled: Fifo<PacketIn>;
  /** The receive WQE that the first stalled packet waited for. */
  granted: RecvWqe | undefined;
  readonly responses: Fifo<ReadService | AckService>;
  /** The ACK that waits for the transmitter: later ones are merged into it. */
  pendingAck: AckService | undefined;
  readonly line: FrameLine;
  readonly reads: ReadRecord[];
  readonly persists: Fifo<PersistRecord>;
  established: boolean;
  /** A NAK that ends the queue pair is owed: nothing more is taken. */
  failing: boolean;
}

export function createResponder(rqPsn: number): Responder {
  return {
    expectedPsn: rqPsn,
    msn: 0,
    gapNaked: false,
    open: undefined,
    stalled: new Fifo(),
    granted: undefined,
    responses: new Fifo(),
    pendingAck: undefined,
    line: createLine(),
    reads: [],
    persists: new Fifo(),
    established: false,
    failing: false,
  };
}
