/** The state of a responder: the incoming message, owed answers, and records for duplicates. */
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

/** A packet with its row, and the headers of its frame for the GRH area of UD. */
export interface PacketIn {
  readonly packet: RocePacket;
  readonly row: OpcodeRow;
  readonly head: Uint8Array<ArrayBuffer>;
}

/** A request packet, with its operation's demands on the responder. */
export interface RequestIn extends PacketIn {
  readonly operation: OperationFacts;
}

export interface RecvWqe {
  /** Ring position, or slot of a shared queue. */
  position: number;
  readonly sges: readonly Sge[];
}

export interface OpenMessage {
  readonly operation: OperationFacts;
  /** FIRST came with the vendor's opcode: the others must too. */
  readonly vendor: boolean;
  readonly firstPsn: number;
  /** WRITE: where it goes; SEND: the receive WQE's memory. */
  readonly va: number;
  readonly region: Region | undefined;
  readonly segments: readonly MemorySegment[];
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
  readonly segments: readonly MemorySegment[];
  readonly length: number;
  readonly packets: number;
  readonly msn: number;
  /** Answers a duplicate: takes no slot of its own (§3.5). */
  readonly repeat: boolean;
  next: number;
  /** Its last frame has left, or it failed: answers behind it may go. */
  done: boolean;
  /** Of a READ that failed, or stands behind one that did: the PSN that the NAK names. */
  failedPsn: number | undefined;
}

/** A request that is answered by one packet of its own: an atomic, a FLUSH, a verified write. */
export interface SingleService {
  readonly kind: "single";
  readonly operation: OperationFacts;
  readonly psn: number;
  readonly msn: number;
  readonly repeat: boolean;
  /** The operation of an atomic in its turn; undefined for a FLUSH, which is begun at once. */
  readonly task: AtomicTask | undefined;
  /** Of an atomic: the region that granted its word. */
  readonly region?: Region;
  /** Of a verified write: its checks and their result, which answers duplicates too. */
  verified?: VerifiedWrite | undefined;
  result?: VerifyResult;
  state: "waiting" | "running" | "done" | "failed";
  /** The word as it was before the atomic: its ACK carries it, and its duplicates' too. */
  original: bigint;
  readyAt: Time;
}

/** A service for an accepted request, with the known parts of its answer. */
export function createService(
  { operation, packet }: Pick<RequestIn, "operation" | "packet">,
  known: Pick<SingleService, "msn" | "state" | "readyAt"> & Partial<SingleService>,
): SingleService {
  const { psn } = packet.bth;
  return { kind: "single", operation, psn, repeat: false, task: undefined, original: 0n, ...known };
}

/** An ACK or NAK of its own packet. */
export interface AckService {
  readonly kind: "ack";
  psn: number;
  readonly syndrome: number;
  /** Of a NAK that ends the queue pair: the reason, for this side. */
  readonly reason?: string | undefined;
  /** Of a persistence ACK only known as it leaves: that of the answer before it. */
  msn: number;
  readonly original?: bigint;
  /** READ RESPONSE ONLY: the result of a verified write (V-01). */
  readonly payload?: Uint8Array<ArrayBuffer>;
  readyAt: Time;
  /** P-28: the second ACKs of the messages that it acknowledges; they are due already and follow it. */
  persisted?: AckService[];
  /** A NAK whose packet has come meanwhile: it does not leave. */
  withdrawn?: boolean;
}

/**
 * A responder resource: an executed request, for its duplicates (§3.5). A READ is executed again, an atomic is
 * answered with the value that it found.
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
 * Only `responder_changes.ts`, `persist_records.ts` and `verify_state.ts` write the read-only fields; modules that
 * decide on the others set them.
 */
export interface Responder {
  readonly expectedPsn: number;
  readonly msn: number;
  lastMsnSent: number;
  /** The latest PSN whose reception ACK is with the transmitter or has left, or that a later answer implies. */
  readonly receptionPsn: number;
  /** One NAK 0x60 per gap: packets behind the expected one are dropped in silence until it has come. */
  gapNaked: boolean;
  /** A NAK 0x60 or RNR NAK that has not left: it is withdrawn where its packet comes meanwhile. */
  readonly pendingNak: AckService | undefined;
  /** The last of the packets that were dropped behind a missing one, while no NAK has asked for it. */
  lastDropped: number | undefined;
  readonly open: OpenMessage | undefined;
  /** UC: the rest of a message is to come of which a packet was dropped. */
  readonly droppingRest: boolean;
  /** Stalled packets, the one that waits for its receive WQE first. */
  readonly stalled: ReadonlyFifo<RequestIn>;
  /** The first stalled packet waits for its WQE, for earlier requests that have not taken effect, or for its memory. */
  readonly stalledFor: "recv" | "atomic" | "memory";
  /** The receive WQE that the first stalled packet waited for. */
  readonly granted: RecvWqe | undefined;
  readonly responses: ReadonlyFifo<ReadService | SingleService | AckService>;
  /** When the next READ may be begun: the RNIC reads data for one at a time (`dataReadPs`). */
  nextReadAt: Time;
  /** Of these, atomics and ATOMIC WRITEs that have not been executed. */
  readonly atomics: number;
  /** The ACK that waits for the transmitter: later ones are merged into it. */
  readonly pendingAck: AckService | undefined;
  /** Control frames that the transmitter has and that have not left: READ responses wait for them. */
  readonly unsentControl: number;
  readonly line: TxOrder;
  /** A ring of max_dest_rd_atomic slots: the oldest goes. */
  readonly resources: readonly Resource[];
  readonly stagedBytes: number;
  /** Verified writes whose data is not all with the bus: requests behind them wait. */
  readonly placing: number;
  readonly persists: ReadonlyFifo<PersistRecord>;
  /** The first of these that is not known to be persistent. */
  readonly persistHead: number;
  /** The peer's plain writes that no CPU was asked to flush (P-31). */
  readonly dirty: DirtyRanges;
  readonly established: boolean;
  /** A NAK that ends the queue pair is owed: the responder takes nothing more. */
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

/** Words in use by their physical address: the first of each list has it, the others wait. */
export type AtomicWords = Map<number, Fifo<AtomicTurn>>;

/** A message to be persisted, from its last packet on; kept for its duplicates (P-30). */
export interface PersistRecord {
  readonly firstPsn: number;
  /** The PSN of both of its ACKs (P-28). */
  readonly lastPsn: number;
  /** In the host CPU's address space, whatever key was used. */
  readonly va: number;
  readonly length: number;
  /** Earlier plain writes, which are to be flushed with it (P-31). */
  readonly spans: readonly Span[];
  /**
   * `notified`: the host's CPU is to flush it. `flushed`: it has, and the record waits for earlier messages, whose
   * ranges may cover plain writes before this one (P-31). `refused`: some of it was dropped.
   */
  state: "pending" | "notified" | "flushed" | "persisted" | "refused";
  /**
   * A FLUSH or verified write: answered in its turn, where a persistent WRITE gets a persistence ACK
   * (P-50, V-09).
   */
  readonly service: SingleService | undefined;
  /**
   * On a coherent bus: the region of its bytes, as writes to lost lines of a shared region are dropped (decision
   * 13).
   */
  region?: Region;
}

/** The demand of a verified write's first packet (V-04). */
export interface OpenVerify {
  readonly level: VerifyLevel;
  /** V-02: the data so far; undefined where nothing is checked, so that data goes to memory as it comes. */
  staged: Uint8Array<ArrayBuffer> | undefined;
}

/** A verified write that is complete and not answered yet. */
export interface VerifiedWrite {
  readonly opened: OpenMessage;
  readonly level: VerifyLevel;
  /** V-02: the sender's CRC. */
  readonly digest: number;
  placedAt: Time;
  /** When all of its data was with the bus: from then on the answer waits for a read-back or a flush. */
  settledAt: Time;
  /** Bits of `VERIFY_CHECKS` so far, and the CRC computed last. */
  checks: number;
  crc: number;
  /** Undefined where memory is not read back. */
  readBack: ReadBack | undefined;
}

/** A physical piece of the memory that is read back, and its offset in the message. */
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
  /** The data read, where its CRC is wanted; undefined where bytes are compared. */
  readonly data: Uint8Array<ArrayBuffer> | undefined;
  places: readonly Place[];
  /** 1 for each byte that another write has changed since; undefined where there is none. */
  covered: Uint8Array | undefined;
  /** Number of bytes, from the first on, whose writes are with the bus: they may be read back. */
  placed: number;
  /** Offset of the first byte that was not asked for yet, and the number of reads under way. */
  next: number;
  missing: number;
  /** Stands in line for the read engine. */
  queued: boolean;
  differs: boolean;
  failed: boolean;
  /** The answer waits for nothing but this. */
  awaited: boolean;
}

/** A message's data, of which `offset` bytes are with the bus. */
export interface StagedData {
  readonly qp: QueuePair;
  readonly service: SingleService;
  readonly data: Uint8Array<ArrayBuffer>;
  offset: number;
}

/** The result of a check: a NAK's syndrome, or silence. */
export type Verdict = number | "drop";

export function isVerdict(found: object | Verdict | undefined): found is Verdict {
  return typeof found === "number" || found === "drop";
}
