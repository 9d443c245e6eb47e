/** Completion queues, and look-ups of queue information that are under way. */
import type {
  Doorbell,
  Space1,
  Space2,
  StampedPointer,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import type { QueuePair, SharedReceiveQueue } from "./queue_pair.ts";
import type { QueueEntry } from "./queue_cache.ts";
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Fifo } from "../../../fabric/base/fifo.ts";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";

/** A doorbell that is not served yet, with its WQE where that has come along whole (BlueFlame). */
export interface TakenDoorbell extends Doorbell {
  readonly wqe?: Uint8Array<ArrayBuffer>;
}

/** What has come of a BlueFlame buffer, by its words of 8 B: missing, here, or late. */
export interface WriteCombined {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly words: Uint8Array;
}

/** What goes on when a queue's information is there. `life` is the queue pair's when it asked. */
export type Waiter =
  | {
    readonly kind: "doorbell";
    readonly write: StampedPointer | undefined;
    readonly wqe: TakenDoorbell["wqe"];
  }
  | { readonly kind: "send"; readonly qp: QueuePair; readonly life: number }
  | {
    readonly kind: "recv";
    readonly qp: QueuePair;
    readonly life: number;
    /** Space 3 has been read on purpose: its pointer now is final. */
    readonly reread: boolean;
  }
  | { readonly kind: "srq"; readonly srq: SharedReceiveQueue; readonly reread: boolean }
  | { readonly kind: "cq"; readonly cq: CompletionQueue; readonly reread: boolean };

/** What a doorbell brought. */
export type DoorbellContent = Pick<Extract<Waiter, { kind: "doorbell" }>, "write" | "wqe">;

/** A look-up under way. */
export interface QueueLoad {
  readonly queue: number;
  /** What is cached already, where only space 3 is read. */
  readonly known: QueueEntry | undefined;
  /** Reads that have not completed. */
  missing: number;
  space1: Space1 | undefined;
  space2: Space2 | undefined;
  space3: StampedPointer | undefined;
  failed: boolean;
  /** The queue was made anew or removed meanwhile: no waiter is to be resumed. */
  void: boolean;
  readonly waiters: Waiter[];
  /** Came after the read of space 3 had left, and must not get an older pointer. */
  readonly late: Waiter[];
}

export interface CompletionQueue {
  /** The queue's number as well. */
  readonly cqn: number;
  ring: RingPlace;
  readonly vector: number | null;
  /** Queue pairs that complete here. */
  users: number;
  /** CQEs written since the queue was made; its passes give the owner bit. */
  written: number;
  /** Of these the last one that a solicited-only arm waits for. */
  lastSolicited: number;
  armed: "no" | "solicited" | "any";
  /** CQEs that wait for queue information. */
  readonly pending: Fifo<Cqe>;
  /** A look-up is under way. */
  busy: boolean;
  /** CQ_ERR has been raised: nothing is written any more (`rocev2.md` §4.4). */
  overflowed: boolean;
  /** Of a resized queue: pointers that the host stored before are about the old ring. */
  resized: StampedPointer;
}
