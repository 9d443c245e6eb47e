/** DMA reads under way and their continuations; writes that a card's journal holds. */
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Fifo } from "../../../fabric/base/fifo.ts";
import type { MemoryWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Fill } from "./paging_state.ts";
import type { Word } from "../hints/state/hint_state.ts";
import type { LookUpPart, Pause, QueueLoad } from "./queues.ts";
import type { QueuePair, SharedReceiveQueue } from "./queue_pair.ts";
import type { QueueEntry } from "./queue_cache.ts";
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Gather } from "./tx_frame.ts";
import type { AtomicTurn, PersistRecord, ReadBack } from "./responder_state.ts";

type FlushOnFail = NonNullable<RnicPlan["flushOnFail"]>;

export interface Journal extends FlushOnFail {
  readonly host: string;
  readonly writes: Fifo<JournalWrite>;
  readonly log: HeldLog | undefined;
}

export interface JournalWrite {
  readonly message: MemoryWrite;
  /** When all of it is at the host; NEVER while a host that has missed it is away. */
  arrivesAt: Time;
}

/** Bytes that memory is to have. */
export interface HeldBytes {
  readonly address: number;
  /** Never modified. */
  readonly data: Uint8Array;
}

/**
 * Tells an external observer, with exact times, of all that a card holds of its host's persistent memory: enough to
 * determine what a power failure of the host at *any* instant would leave in the card, without another run up to it
 * (`nodes/host/memory/memory_log.ts` does the same for the host's memory). A card without a log does none of this.
 *
 * Addresses are physical. Times never decrease. A power failure that the card detects at `t` precedes all that it
 * is told of at `t`.
 */
export interface HeldLog {
  /**
   * The journal (`../dma/journal.ts`) has a write. Its arrival time may be known later only: `entry` is the
   * journal's own object, and is updated.
   */
  written(at: Time, entry: JournalWrite): void;
  /**
   * The contents of the local cache of shared regions, and what `../coherence/kept_lines.ts` would keep of it if
   * the power failed now; called when either may have changed. The power domain decides whether it is kept.
   */
  cached(at: Time, kept: readonly HeldBytes[]): void;
}

/** The continuation of a completed read. `life` is the queue pair's at the time of the request. */
export type Continuation =
  | { readonly kind: "queue-space"; readonly load: QueueLoad; readonly part: LookUpPart }
  | {
    readonly kind: "send-wqes";
    readonly qp: QueuePair;
    readonly life: number;
    readonly entry: QueueEntry;
    readonly units: number;
  }
  | {
    readonly kind: "recv-wqes";
    readonly qp: QueuePair;
    readonly life: number;
    readonly entry: QueueEntry;
    readonly units: number;
  }
  | {
    readonly kind: "srq-wqes";
    readonly srq: SharedReceiveQueue;
    readonly entry: QueueEntry;
    readonly units: number;
  }
  | { readonly kind: "translation"; readonly fill: Fill }
  /** Space 2, which the host may have changed. */
  | { readonly kind: "space2"; readonly pause: Pause }
  /** unread units that move; `before` are those up to the ring's end, where two reads bring them. */
  | {
    readonly kind: "ring-units";
    readonly pause: Pause;
    readonly move: RingMove;
    readonly before: Uint8Array | undefined;
  }
  | { readonly kind: "payload"; readonly gather: Gather; readonly offset: number }
  | { readonly kind: "atomic"; readonly turn: AtomicTurn }
  /** H-21: a word ahead of its atomic. */
  | { readonly kind: "preload"; readonly word: Word }
  | {
    readonly kind: "read-back";
    readonly readBack: ReadBack;
    readonly offset: number;
    readonly length: number;
  }
  | LsbRead;

/** the move of a ring. */
export interface RingMove {
  readonly ring: RingPlace;
  readonly units: number;
}

/** S905: the read that pushes this queue pair's earlier writes out (P-24), and the records that it serves. */
export interface LsbRead {
  readonly kind: "lsb";
  readonly qp: QueuePair;
  readonly life: number;
  readonly records: PersistRecord[];
}

export interface ReadRequest {
  readonly address: number;
  readonly length: number;
  readonly noSnoop?: boolean;
  /** Reads the medium itself, without writes on their way there (V-08). */
  readonly medium?: boolean;
  /** The card keeps the data, and the host tells it of changes (H-23). */
  readonly tracked?: boolean;
  readonly continuation: Continuation;
}

/** A read that has completed on the bus, and goes on at `at`; `data` is undefined where it failed. */
export interface DataRead {
  readonly at: Time;
  readonly continuation: Continuation;
  readonly data: Uint8Array<ArrayBuffer> | undefined;
}

/** Reads of one kind, which share a limit. */
export interface ReadEngine {
  readonly freeTags: number[];
  /** Read requests that may still go out on the bus: a long read takes several. */
  freeRequests: number;
  readonly waiting: Fifo<ReadRequest>;
}

/** Memory at the card: it outlasts a reset. */
export interface CardMemory {
  bytes: Uint8Array<ArrayBuffer>;
  /** Queues of the host's earlier life whose information was here when the driver laid it out. */
  kept: number;
}

export interface Dma {
  readonly gather: ReadEngine;
  readonly responder: ReadEngine;
  /** Requests on the bus, by tag: the responder's tags come first. */
  readonly outstanding: (ReadRequest | undefined)[];
  readonly responderTags: number;
  /** Reads of the card's own memory, see `card_memory.ts`. */
  readonly onCard: Fifo<ReadRequest>;
  /** Data that the host has sent and the RNIC is still processing (`dataReadPs`). */
  readonly reading: Fifo<DataRead>;
  /** When the bus has taken the last message handed to it. */
  busFreeAt: Time;
}
