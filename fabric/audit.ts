/**
 * Records by which the checkers in `console/checks` judge a run. An observer takes each record at once:
 * confirmations are known even if the program is killed before its report.
 */
import type { Time } from "./base/time.ts";
import type { WcStatus } from "./wire/host_bus/cqe.ts";

/** Before the first post of a write into a host's SCM. */
export interface WritesRecord {
  readonly kind: "writes";
  /** Unique in its program ({@link TimedRecord.by}). */
  readonly id: number;
  readonly on: string;
  readonly at: number;
  readonly bytes: Uint8Array;
  /** Writes of one program with the same number execute in this order (P-31: one queue pair). */
  readonly line?: number;
  /** Writes of the same program that must have survived if this one has. */
  readonly after?: readonly number[];
  /** The method claims that order without a promise (P-04). */
  readonly isOrderClaimed?: boolean;
}

/** Readable at the responder, as far as the method can tell. */
export interface VisibleRecord {
  readonly kind: "visible";
  readonly id: number;
}

/** The write survives a power failure from now on. */
export interface PersistentRecord {
  readonly kind: "persistent";
  readonly id: number;
  /** False where the method claims that without a promise (P-12, and P-10 with P-04). */
  readonly promised: boolean;
}

/** A queue's number is unique on one card only. */
interface OfRnic {
  /** From 0; absent: the host's first one. */
  readonly rnic?: number;
}

export interface PostedRecord extends OfRnic {
  readonly kind: "posted";
  /** `shared`: a shared receive queue, with its number in `qpn`. */
  readonly queue: "send" | "recv" | "shared";
  readonly qpn: number;
  readonly wqe: number;
  /** A bigint as its decimal text. */
  readonly wrId: number | string;
  readonly signaled: boolean;
}

export interface CompletedRecord extends OfRnic {
  readonly kind: "completed";
  readonly queue: "send" | "recv" | "shared";
  /** Also for a receive from a shared queue, whose number is `srqn`. */
  readonly qpn: number;
  readonly srqn?: number;
  readonly wqe: number;
  readonly wrId: number | string;
  readonly status: WcStatus;
}

/** A queue continues in another ring. */
export interface MovedRecord extends OfRnic {
  readonly kind: "moved";
  readonly queue: "send" | "recv";
  readonly qpn: number;
  /** New positions of the outstanding work requests, the oldest first. */
  readonly wqes: readonly number[];
}

/** A queue is created or reset (RESET): earlier work requests will not complete. */
export interface EmptiedRecord extends OfRnic {
  readonly kind: "emptied";
  readonly queue: "pair" | "shared";
  readonly qpn: number;
}

/**
 * A program brings a queue pair to RTR: its responder begins with `rqPsn` and MSN 0. Emitted before
 * the card is told.
 */
export interface ConnectsRecord extends OfRnic {
  readonly kind: "connects";
  /** The queue pair's number. */
  readonly qpn: number;
  /** PSN of the first request that it executes. */
  readonly rqPsn: number;
}

/** A send queue (UC, UD) continues after an error stopped it (SQE to RTS). */
export interface ResumedRecord extends OfRnic {
  readonly kind: "resumed";
  readonly qpn: number;
}

/** Enough replicas of a log have confirmed its first data records. */
export interface LogRecord {
  readonly kind: "log";
  /** With the known places of its segments. */
  readonly log: string;
  readonly replicas: readonly { readonly host: string; readonly at: readonly number[] }[];
  readonly quorum: number;
  /** With `log` and `segments` they give the layout. */
  readonly recordBytes: number;
  readonly segments: readonly number[];
  /** `crc`: CRC-32 of their concatenated payloads. */
  readonly durable: number;
  readonly crc: number;
  /** False where too many of the replicas use a method that claims without a promise (P-12). */
  readonly promised: boolean;
  /** Earlier durable records no longer count. */
  readonly anew?: boolean;
}

/**
 * Replaced as a whole. `begun`: the program has the place for it. `asked`: all is written; the
 * program is about to ask the host's service to store it. `stored`: confirmed. `withdrawn`, by the
 * service: about to remove it before a new one is written. `removing`, `removed`: likewise of a
 * removal.
 */
export interface ObjectRecord {
  readonly kind: "object";
  readonly state: "begun" | "asked" | "stored" | "withdrawn" | "removing" | "removed";
  readonly name: string;
  /** Absent: the program's own host. `at`: the offset in its SCM; `length`: 0 for a removal. */
  readonly on?: string;
  readonly at: number;
  readonly length: number;
  /** Of an object asked for or stored: false if it shall only be shown as incomplete. */
  readonly complete?: boolean;
}

/**
 * The content is no longer promised, and others use the range without a note. Emitted before the
 * directory says so.
 */
export interface FreedRecord {
  readonly kind: "freed";
  readonly at: number;
  readonly length: number;
}

/** C-03: emitted before a host's first access, and again after its power has returned. */
export interface RegionRecord {
  readonly kind: "region";
  readonly region: string;
  readonly home: string;
  readonly bytes: number;
  /** In home's SCM; absent: in DRAM, which a power failure of home clears. */
  readonly at?: number;
  /** Upper bound in ps for each access, whatever fails (C-10, decision 13). */
  readonly answerWithinPs: Time;
  /**
   * After home's power returns, far hosts may load their copies for this time, in ps; home serves
   * nothing.
   */
  readonly homeWaitPs: Time;
}

const REGION_OPS = ["load", "store", "add", "compare-swap", "flush"] as const;
export type RegionOp = typeof REGION_OPS[number];

/** By a core, or by home's card (`dma`): emitted before the access can have any effect. */
export interface AccessRecord {
  readonly kind: "access";
  /** Unique in its program ({@link TimedRecord.by}). */
  readonly id: number;
  readonly region: string;
  /** In the region. An access that crosses lines proceeds line by line. */
  readonly offset: number;
  readonly length: number;
  readonly op: RegionOp;
  /** For a verb or other DMA on the region: no program is told, no bound holds. */
  readonly dma?: true;
  /**
   * `store`: the bytes written; `add`: the operand; `compare-swap`: the new value. The last two 8
   * B, little-endian.
   */
  readonly bytes?: Uint8Array;
  /** `compare-swap`: the expected value, 8 B. */
  readonly compare?: Uint8Array;
  readonly core?: number;
  /**
   * The {@link BufferedRecord} of a store that leaves the core's buffer; `forwarded`: whose bytes a
   * load found there.
   */
  readonly buffered?: number;
  readonly forwarded?: number;
}

/**
 * A core's store enters its store buffer, and its program goes on. An `access` follows when it
 * leaves.
 */
export interface BufferedRecord {
  readonly kind: "buffered";
  readonly id: number;
  readonly region: string;
  readonly offset: number;
  readonly length: number;
  readonly core: number;
  readonly bytes: Uint8Array;
}

export interface StoreFenceRecord {
  readonly kind: "store-fence";
  readonly core: number;
}

export interface AccessedRecord {
  readonly kind: "accessed";
  readonly id: number;
  /**
   * `lost`: needed bytes are gone; other lines may have been accessed. `fenced`: with or without an
   * effect (decision 13). `refused`: no effect, as the card does not know the region.
   */
  readonly result: "done" | "lost" | "fenced" | "refused";
  /** Of a `done` access: a load's bytes; the old value of `add` and `compare-swap`. */
  readonly bytes?: Uint8Array;
}

/** Software is told (C-10): a load reports the loss until the bytes are written. */
export interface RegionLostRecord {
  readonly kind: "region-lost";
  readonly region: string;
  readonly ranges: readonly { readonly offset: number; readonly length: number }[];
}

/** The processor's LLC, the card's local or remote cache (C-01). */
const LINE_CACHES = ["llc", "local", "remote"] as const;
export type LineCache = typeof LINE_CACHES[number];

export interface LineStateRecord {
  readonly kind: "line-state";
  readonly region: string;
  readonly line: number;
  readonly cache: LineCache;
  readonly state: "M" | "E" | "S" | "I";
}

/**
 * Emitted by home's card: queued, begun, or dropped before it began. A far card has at most one
 * request of a kind for a line.
 */
export interface LineTurnRecord {
  readonly kind: "line-turn";
  readonly region: string;
  readonly line: number;
  /** 0 is home's local cache, for a verb or for a far card's access. */
  readonly agent: number;
  /** A message name of the protocol between cards. */
  readonly request: string;
  readonly step: "taken" | "begun" | "dropped";
}

/** `coherence.md`. */
export type SharedRecord =
  | RegionRecord
  | AccessRecord
  | BufferedRecord
  | StoreFenceRecord
  | AccessedRecord
  | RegionLostRecord
  | LineStateRecord
  | LineTurnRecord;

export const OBJECT_TYPES = ["register", "counter", "map", "log", "queue"] as const;

/**
 * Begin of an operation of an abstract object that survives power failures, before any of its
 * effects. By these `rack explore` judges `recover`'s answer under `objects`.
 */
export interface OperationRecord {
  /** An operation begins. */
  readonly kind: "operation";
  /** The operation's number, unique in its program ({@link TimedRecord.by}). */
  readonly id: number;
  /** The host whose recovery answers for the object. */
  readonly on: string;
  /** The object's name in `recover`'s answer. */
  readonly object: string;
  /** It determines the calls and the form of the state. */
  readonly type: typeof OBJECT_TYPES[number];
  /** The object's value before its first operation; by default null, 0, {} or []. */
  readonly initial?: unknown;
  /** register: write, read; counter: add, read; map: put, remove, get; log: append, read; queue: enqueue, dequeue. */
  readonly call: string;
  /** The key of a map's call. */
  readonly key?: string;
  /** Plain data. */
  readonly value?: unknown;
}

/** The operation has ended, and its effect survives from now on. */
export interface OperationEndRecord {
  /** An operation has ended. */
  readonly kind: "operation-end";
  /** The number of its {@link OperationRecord}. */
  readonly id: number;
  /** The answer of a call that has one. */
  readonly result?: unknown;
  /** True: it may have had its effect or not. */
  readonly failed?: boolean;
}

/** The program asked for a connection and got none: its intended work over it is not done. */
export interface RefusedRecord {
  readonly kind: "refused";
  /** The host, by its name or its address. */
  readonly to: string;
  /** In words. */
  readonly reason: string;
}

export type WriteRecord = WritesRecord | VisibleRecord | PersistentRecord;

export type QueueRecord =
  | PostedRecord
  | CompletedRecord
  | MovedRecord
  | EmptiedRecord
  | ResumedRecord;

/** The records that `cpu.note` takes; checkers outside the nodes judge a run by them. */
export type AuditRecord =
  | WriteRecord
  | QueueRecord
  | ConnectsRecord
  | LogRecord
  | ObjectRecord
  | FreedRecord
  | RefusedRecord
  | OperationRecord
  | OperationEndRecord
  | SharedRecord;

/** A record with its program and time. Records of one node are in the order of their emission. */
export interface TimedRecord {
  /** When it was made, in ps. */
  readonly time: Time;
  /** The host. */
  readonly node: string;
  /** The program that made it, with the host and the host's life: `a/0/put#0`. */
  readonly by: string;
  /** The record. */
  readonly note: AuditRecord;
}
