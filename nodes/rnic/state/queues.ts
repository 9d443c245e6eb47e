/** Completion queues, and look-ups of queue information that are under way. */
import type { Doorbell, StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import type {
  QueueField,
  QueueFields,
  Space,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { QueuePair, SharedReceiveQueue } from "./queue_pair.ts";
import type { QueueEntry } from "./queue_cache.ts";
import type { PacketIn } from "./responder_state.ts";
import type { ControlFrame } from "./tx_frame.ts";
import type { RingPlace, RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Fifo } from "../../../fabric/base/fifo.ts";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import type { Time } from "../../../fabric/base/time.ts";

/** A doorbell that is not served yet, with its WQE where that has come along whole (BlueFlame). */
export interface TakenDoorbell extends Doorbell {
  readonly wqe?: Uint8Array<ArrayBuffer>;
  /** A note for the observer of stale pointers, see `RegisterWrite.stored`. */
  readonly stored?: StampedPointer;
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
    readonly stored: TakenDoorbell["stored"];
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
  | { readonly kind: "cq"; readonly cq: CompletionQueue; readonly reread: boolean }
  | { readonly kind: "pause"; readonly pause: Pause; readonly reread: boolean }
  | { readonly kind: "context"; readonly wait: ContextWait };

/** What waits for half of a queue pair's context, in the order in which it came. */
export interface ContextWait {
  readonly qp: QueuePair;
  readonly life: number;
  readonly queue: number;
  /** Packets that were received. */
  readonly packets: PacketIn[];
  /** ACKs, NAKs and answers in a header that are to be sent. */
  readonly controls: ControlFrame[];
  /** The queue pair has data frames to begin. */
  wantsTurn: boolean;
}

/** What a doorbell brought. */
export type DoorbellContent = Omit<Extract<Waiter, { kind: "doorbell" }>, "kind">;

/**
 * What one read of a look-up brings: a space, a queue's record, or, of the classic scheme, the address of the
 * host's pointer or the pointer itself.
 */
export type LookUpPart = Space | "record" | "address" | "pointer";

/** A look-up under way. */
export interface QueueLoad {
  readonly queue: number;
  /** What is cached already, where only space 3 is read. */
  readonly known: QueueEntry | undefined;
  /** When it began. */
  readonly since: Time;
  /** Reads that have not completed. */
  missing: number;
  /** What the completed ones have brought. */
  readonly found: { -readonly [F in QueueField]?: QueueFields[F] };
  failed: boolean;
  /** See `QueueEntry.rung`: a doorbell has come since the read of the pointer has left. */
  rung: boolean;
  /** The queue was made anew or removed meanwhile: no waiter is to be resumed. */
  void: boolean;
  readonly waiters: Waiter[];
  /** Came after the read of space 3 had left, and must not get an older pointer. */
  readonly late: Waiter[];
}

/**
 * A queue that is paused: nothing of it is fetched or written, and its completions are
 * held. A lock is a pause that the host has asked for.
 */
export interface Pause {
  readonly queue: number;
  /** The command that is answered next, or the word of host memory; undefined where none waits. */
  asker: Asker | undefined;
  /** What is to be done when the queue is at rest. */
  task: PauseTask;
  /**
   * `drains`: fetches of before are under way. `locked`: the host may write space 2. `works`: the RNIC
   * carries out the task.
   */
  stage: "drains" | "locked" | "works";
  /** When a lock is taken back; NEVER in other stages. */
  until: Time;
  /** The queue's information, held on the chip; undefined until it is there. */
  entry: QueueEntry | undefined;
  /** The host may have changed space 2 in memory. */
  hostWrote: boolean;
  /** Completions of receives, to be written afterwards. */
  readonly held: Fifo<HeldCompletion>;
}

/** Who is told of a pause's outcome: a command, or, for a lock, a word of host memory. */
export type Asker = { readonly command: number } | { readonly answerAt: number };

export type PauseTask =
  /** `by`: the process that asked, where the card holds the rules. */
  | { readonly kind: "lock"; readonly by?: number }
  /** Space 2 is read, as the host has left it. */
  | { readonly kind: "unlock" }
  /** Bytes of space 2, handed over by the host. */
  | { readonly kind: "write"; readonly offset: number; readonly data: Uint8Array }
  | { readonly kind: "move"; readonly ring: RingPlace };

export interface HeldCompletion {
  readonly cqn: number;
  readonly cqe: Cqe;
}

export interface CompletionQueue {
  /** The queue's number as well. */
  readonly cqn: number;
  ring: RingPlace;
  readonly vector: number | null;
  /** Its entries have the card's time. */
  readonly timestamps: boolean;
  /** Queue pairs that complete here. */
  users: number;
  /** CQEs written since the queue was made; its passes give the owner bit. */
  written: number;
  /** Of these the last one that a solicited-only arm waits for. */
  lastSolicited: number;
  armed: "no" | "solicited" | "any";
  /** CQEs that wait for queue information. */
  readonly pending: Fifo<Cqe>;
  /** Events of its queue pairs that come behind so many CQEs. */
  readonly events: Fifo<{ readonly behind: number; readonly event: RnicEvent }>;
  /** A look-up is under way. */
  busy: boolean;
  /** CQ_ERR has been raised: nothing is written any more (`rocev2.md` §4.4). */
  overflowed: boolean;
  /** Of a resized queue: pointers that the host stored before are about the old ring. */
  resized: StampedPointer;
}
