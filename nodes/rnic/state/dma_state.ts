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
  /** NEVER while the host is away. */
  arrivesAt: Time;
}

export interface HeldBytes {
  readonly address: number;
  readonly data: Uint8Array;
}

/**
 * Tells an observer, with exact times, all that a card holds of its host's persistent memory: what a power failure at
 * *any* instant would leave (`nodes/host/memory/memory_log.ts` does it for the host's memory).
 *
 * Addresses are physical. Times never decrease. A power failure that the card detects at `t` precedes all that it
 * is told of at `t`.
 */
export interface HeldLog {
  /** `entry` is the journal's own object; its arrival time may be filled in later. */
  written(at: Time, entry: JournalWrite): void;
  /**
   * The local cache of shared regions, and what `../coherence/kept_lines.ts` would keep of it;
   * called when either may have changed. The power domain decides whether it is kept.
   */
  cached(at: Time, kept: readonly HeldBytes[]): void;
  /**
   * Dirty lines of the remote cache, of regions in the SCM of that host: its power failure leaves them here, out of its
   * reach. Called when they may have changed.
   */
  cachedOf(home: string, at: Time, lines: readonly HeldBytes[]): void;
}

/** `life` is the queue pair's at the time of the request. */
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
  | { readonly kind: "space2"; readonly pause: Pause }
  /**
   * unread units. `before` is the number of those up to the ring's end, where two reads bring
   * them.
   */
  | {
    readonly kind: "ring-units";
    readonly pause: Pause;
    readonly move: RingMove;
    readonly before: Uint8Array | undefined;
  }
  | { readonly kind: "payload"; readonly gather: Gather; readonly offset: number }
  | { readonly kind: "atomic"; readonly turn: AtomicTurn }
  /** H-21: reads a word ahead of its atomic. */
  | { readonly kind: "preload"; readonly word: Word }
  | {
    readonly kind: "read-back";
    readonly readBack: ReadBack;
    readonly offset: number;
    readonly length: number;
  }
  | LsbRead;

export interface RingMove {
  readonly ring: RingPlace;
  readonly units: number;
}

/** S905: the read that pushes earlier writes out (P-24), and its records. */
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
  /** The read passes writes that are on their way (V-08). */
  readonly medium?: boolean;
  /** The host reports later changes of these bytes (H-23). */
  readonly tracked?: boolean;
  readonly continuation: Continuation;
}

/** The read goes on at `at`; `data` is undefined where it failed. */
export interface DataRead {
  readonly at: Time;
  readonly continuation: Continuation;
  readonly data: Uint8Array<ArrayBuffer> | undefined;
}

export interface ReadEngine {
  readonly freeTags: number[];
  freeRequests: number;
  readonly waiting: Fifo<ReadRequest>;
}

/** it outlasts a reset. */
export interface CardMemory {
  bytes: Uint8Array<ArrayBuffer>;
  /** Queues of the host's earlier life that the driver's layout found here. */
  kept: number;
}

export interface Dma {
  readonly gather: ReadEngine;
  readonly responder: ReadEngine;
  readonly outstanding: (ReadRequest | undefined)[];
  readonly responderTags: number;
  readonly onCard: Fifo<ReadRequest>;
  /** Data that has come, but is still being processed (`dataReadPs`). */
  readonly reading: Fifo<DataRead>;
  busFreeAt: Time;
}
