/** A responder's state: the incoming message, owed answers, records for duplicates. */
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { VerifyLevel, VerifyResult } from "../../../fabric/wire/roce/verify_eth.ts";
import { createDirtyRanges, type DirtyRanges, type Span } from "./dirty_ranges.ts";
import { Fifo, type ReadonlyFifo } from "../../../fabric/base/fifo.ts";
import type { AtomicTask, OperationFacts } from "./operation.ts";
import { psnAdd } from "./psn.ts";
import { createLine, type TxOrder } from "./tx_frame.ts";
import type { MemorySegment, Region } from "./memory.ts";
import type { QueuePair } from "./queue_pair.ts";

export interface PacketIn {
  readonly packet: RocePacket;
  readonly row: OpcodeRow;
  readonly head: Uint8Array<ArrayBuffer>;
}

export interface RequestIn extends PacketIn {
  readonly operation: OperationFacts;
}

export interface RecvWqe {
  position: number;
  readonly sges: readonly Sge[];
}

export interface OpenMessage {
  readonly operation: OperationFacts;
  /** FIRST had the vendor's opcode: the others must have it. */
  readonly vendor: boolean;
  readonly firstPsn: number;
  readonly va: number;
  readonly region: Region | undefined;
  readonly segments: readonly MemorySegment[];
  readonly length: number;
  readonly recv: RecvWqe | undefined;
  readonly persist: boolean;
  readonly verify?: OpenVerify;
  received: number;
}

/** Frames `next` … `packets` − 1 are to be begun. */
export interface ReadService {
  readonly kind: "read";
  readonly psn: number;
  readonly segments: readonly MemorySegment[];
  readonly length: number;
  readonly packets: number;
  readonly msn: number;
  /** A repeated READ takes no slot of its own (§3.5). */
  readonly repeat: boolean;
  next: number;
  done: boolean;
  /** The NAK's PSN, if this READ or one before it failed. */
  failedPsn: number | undefined;
}

export interface SingleService {
  readonly kind: "single";
  readonly operation: OperationFacts;
  readonly psn: number;
  readonly msn: number;
  readonly repeat: boolean;
  /** Undefined for a FLUSH, which begins at once. */
  readonly task: AtomicTask | undefined;
  readonly region?: Region;
  verified?: VerifiedWrite | undefined;
  result?: VerifyResult;
  state: "waiting" | "running" | "done" | "failed";
  /** Value before the atomic, in all its ACKs. */
  original: bigint;
  readyAt: Time;
}

export function createService(
  { operation, packet }: Pick<RequestIn, "operation" | "packet">,
  known: Pick<SingleService, "msn" | "state" | "readyAt"> & Partial<SingleService>,
): SingleService {
  const { psn } = packet.bth;
  return { kind: "single", operation, psn, repeat: false, task: undefined, original: 0n, ...known };
}

export interface AckService {
  readonly kind: "ack";
  psn: number;
  readonly syndrome: number;
  readonly reason?: string | undefined;
  /** A persistence ACK gets the MSN of the answer before it, as it leaves. */
  msn: number;
  readonly original?: bigint;
  /** The result of a verified write (V-01). */
  readonly payload?: Uint8Array<ArrayBuffer>;
  readyAt: Time;
  /** P-28: second ACKs that are due and follow it. */
  persisted?: AckService[];
  /** The NAK's packet has come: it does not leave. */
  withdrawn?: boolean;
}

/**
 * Answered requests, kept for duplicates (§3.5): a READ is executed again, an atomic is answered
 * with the value that it found.
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

/**
 * Only `responder_changes.ts`, `persist_records.ts` and `verify_state.ts` write the read-only
 * fields.
 */
export interface Responder {
  readonly expectedPsn: number;
  readonly msn: number;
  lastMsnSent: number;
  /** The transmitter has its reception ACK, or a later answer implies it. */
  readonly receptionPsn: number;
  /** A gap gets only one NAK 0x60. */
  gapNaked: boolean;
  /** NAK 0x60 or RNR NAK: withdrawn where its packet comes before it leaves. */
  readonly pendingNak: AckService | undefined;
  /** The last packet dropped behind a missing one, until a NAK asks for it. */
  lastDropped: number | undefined;
  readonly open: OpenMessage | undefined;
  readonly droppingRest: boolean;
  readonly stalled: ReadonlyFifo<RequestIn>;
  /** `atomic`: earlier requests have not taken effect. */
  readonly stalledFor: "recv" | "atomic" | "memory";
  readonly granted: RecvWqe | undefined;
  readonly responses: ReadonlyFifo<ReadService | SingleService | AckService>;
  /** One READ at a time reads data (`dataReadPs`). */
  nextReadAt: Time;
  readonly atomics: number;
  /** Later ACKs are merged into it. */
  readonly pendingAck: AckService | undefined;
  readonly unsentControl: number;
  readonly line: TxOrder;
  /** max_dest_rd_atomic slots; a new request takes the oldest one. */
  readonly resources: readonly Resource[];
  readonly stagedBytes: number;
  /** Verified writes whose data is not all with the bus: later requests wait. */
  readonly placing: number;
  readonly persists: ReadonlyFifo<PersistRecord>;
  /** The first record that is not known to be persistent. */
  readonly persistHead: number;
  readonly dirty: DirtyRanges;
  readonly established: boolean;
  failing: boolean;
}

export function createResponder(rqPsn: number): Responder {
  return {
    expectedPsn: rqPsn,
    msn: 0,
    lastMsnSent: 0,
    receptionPsn: psnAdd(rqPsn, -1),
    gapNaked: false,
    pendingNak: undefined,
    lastDropped: undefined,
    open: undefined,
    droppingRest: false,
    stalled: new Fifo(),
    stalledFor: "recv",
    granted: undefined,
    responses: new Fifo(),
    nextReadAt: 0,
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

/** An atomic that has, or waits for, its word. */
export interface AtomicTurn {
  readonly qp: QueuePair;
  readonly life: number;
  readonly service: SingleService;
  readonly task: AtomicTask;
}

/** Waiters by physical address: the first has the word. */
export type AtomicWords = Map<number, Fifo<AtomicTurn>>;

/** A message to be persisted, from its last packet on; it is kept for duplicates (P-30). */
export interface PersistRecord {
  readonly firstPsn: number;
  /** Both of its ACKs have this PSN (P-28). */
  readonly lastPsn: number;
  /** An address of the host CPU. */
  readonly va: number;
  readonly length: number;
  /** Earlier plain writes to flush with it (P-31). */
  readonly spans: readonly Span[];
  /**
   * `notified`: the CPU is to flush it. `flushed`: it has, but earlier messages are open, whose
   * ranges may cover plain writes before this one (P-31). `refused`: some of it was dropped.
   */
  state: "pending" | "notified" | "flushed" | "persisted" | "refused";
  /**
   * A FLUSH or verified write: answered in its turn, where a WRITE gets a persistence ACK (P-50,
   * V-09).
   */
  readonly service: SingleService | undefined;
  /** Coherent bus: writes to lost lines of a shared region are dropped (decision 13). */
  region?: Region;
}

/** V-04: the check of a verified write whose message is open. */
export interface OpenVerify {
  readonly level: VerifyLevel;
  /** V-02; undefined where nothing is checked. */
  staged: Uint8Array<ArrayBuffer> | undefined;
}

/** A verified write that is complete, but not answered. */
export interface VerifiedWrite {
  readonly opened: OpenMessage;
  readonly level: VerifyLevel;
  /** V-02: the sender's CRC. */
  readonly digest: number;
  placedAt: Time;
  /** All data was with the bus: the answer waits for a read-back or a flush. */
  settledAt: Time;
  /** Bits of `VERIFY_CHECKS`, and the last CRC. */
  checks: number;
  crc: number;
  readBack: ReadBack | undefined;
}

/** The address is physical, `offset` is in the message. */
export interface Place {
  readonly address: number;
  readonly bytes: number;
  readonly offset: number;
}

export interface ReadBack {
  readonly qp: QueuePair;
  readonly service: SingleService;
  readonly firstPsn: number;
  readonly segments: readonly MemorySegment[];
  readonly expected: Uint8Array<ArrayBuffer>;
  /** Undefined where bytes are compared. */
  readonly data: Uint8Array<ArrayBuffer> | undefined;
  places: readonly Place[];
  /** 1: another write has changed the byte. */
  covered: Uint8Array | undefined;
  /** Leading bytes whose writes are with the bus: they may be read back. */
  placed: number;
  /** The first byte that has not been asked for, and the reads under way. */
  next: number;
  missing: number;
  queued: boolean;
  differs: boolean;
  failed: boolean;
  awaited: boolean;
}

export interface StagedData {
  readonly qp: QueuePair;
  readonly service: SingleService;
  readonly data: Uint8Array<ArrayBuffer>;
  offset: number;
}

/** A NAK's syndrome, or silence. */
export type Verdict = number | "drop";

export function isVerdict(found: object | Verdict | undefined): found is Verdict {
  return typeof found === "number" || found === "drop";
}
