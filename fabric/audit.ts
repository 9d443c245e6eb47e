/**
 * What programs were told, as data, when they were told it: the record by which the checkers of
 * `tests/checkers` judge a run. A note is taken by whoever listens the moment it is made, so that what
 * a program was promised is known also of one that is killed before it can say so.
 */
import type { Time } from "./base/time.ts";
import type { WcStatus } from "./wire/host_bus/cqe.ts";

/** A program is about to write `bytes` at an offset into a host's SCM: made before the first post. */
export interface WritesNote {
  readonly kind: "writes";
  /** The write's number: no other of the same program ({@link TimedNote.by}) has it. */
  readonly id: number;
  /** The host in whose SCM it is, and the offset there. */
  readonly on: string;
  readonly at: number;
  readonly bytes: Uint8Array;
  /** Writes of the same program with the same number are made in this order (P-31: one queue pair). */
  readonly line?: number;
  /** Writes of the same program that must not be missing where this one is found. */
  readonly after?: readonly number[];
  /** True where only the method claims that order, and nothing promises it (P-04). */
  readonly isOrderClaimed?: true;
}

/** The write can be read at the responder: what the method takes for that, no promise. */
export interface VisibleNote {
  readonly kind: "visible";
  readonly id: number;
}

/** The write survives a power failure from now on. */
export interface PersistentNote {
  readonly kind: "persistent";
  readonly id: number;
  /** False where only the method claims so, and nothing promises it (P-12, and P-10 with P-04). */
  readonly promised: boolean;
}

/** A work request was put into a queue. */
export interface PostedNote {
  readonly kind: "posted";
  /** `shared`: a shared receive queue, whose number stands in `qpn`. */
  readonly queue: "send" | "recv" | "shared";
  readonly qpn: number;
  /** Position of its first unit in the ring: what its completion names. */
  readonly wqe: number;
  readonly wrId: number;
  /** Whether success makes a completion. */
  readonly signaled: boolean;
}

/** A program took a completion. */
export interface CompletedNote {
  readonly kind: "completed";
  readonly queue: "send" | "recv" | "shared";
  /** The queue pair; of a receive from a shared queue too, whose number is `srqn`. */
  readonly qpn: number;
  readonly srqn?: number;
  readonly wqe: number;
  readonly wrId: number;
  readonly status: WcStatus;
}

/** A queue begins, or begins again (RESET): what was posted before will not complete any more. */
export interface EmptiedNote {
  readonly kind: "emptied";
  readonly queue: "pair" | "shared";
  /** Of the queue pair, or of the shared receive queue. */
  readonly qpn: number;
}

/** A send queue that an error had stopped goes on (SQE to RTS, of UC and UD). */
export interface ResumedNote {
  readonly kind: "resumed";
  readonly qpn: number;
}

/** A replicated log's client was told so by enough replicas: its first data records are durable. */
export interface LogNote {
  readonly kind: "log";
  /** Name of the log; its replicas, and where its segments are in their SCM as far as the client was told. */
  readonly log: string;
  readonly replicas: readonly { readonly host: string; readonly at: readonly number[] }[];
  /** How many of them make a record durable. */
  readonly quorum: number;
  /** Most bytes of a record, and the slots of each segment: with the name, how it is read. */
  readonly recordBytes: number;
  readonly segments: readonly number[];
  /** Data records that are durable, and the CRC-32 of their payloads one behind the other. */
  readonly durable: number;
  readonly crc: number;
  /** False where only the method claims so, at too many of the replicas (P-12). */
  readonly promised: boolean;
  /** The log is begun anew: what was durable before counts no more. */
  readonly anew?: true;
}

/** What programs say of the bytes that they write. */
export type WriteNote = WritesNote | VisibleNote | PersistentNote;

/** What is said of work requests. */
export type QueueNote = PostedNote | CompletedNote | EmptiedNote | ResumedNote;

export type Note = WriteNote | QueueNote | LogNote;

/** A note with who made it, and when. Those of one node stand in the order of their making. */
export interface TimedNote {
  readonly time: Time;
  /** Name of the node. */
  readonly node: string;
  /** The program that made it: its host, the host's life, its name, as `a/0/put#0`. */
  readonly by: string;
  readonly note: Note;
}
