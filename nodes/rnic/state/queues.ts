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

/** A doorbell that is not served yet, with its WQE where that has come whole (BlueFlame). */
export interface TakenDoorbell extends Doorbell {
  readonly wqe?: Uint8Array<ArrayBuffer>;
  /** A note for the observer of stale pointers, see `RegisterWrite.stored`. */
  readonly stored?: StampedPointer;
}

/** The words of 8 B of a BlueFlame buffer that have come: missing, here, or late. */
export interface WriteCombined {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly words: Uint8Array;
}

/** A continuation that needs a queue's information. `life` is the queue pair's when it asked. */
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
    /** Space 3 has been read on purpose: its pointer is final. */
    readonly reread: boolean;
  }
  | { readonly kind: "srq"; readonly srq: SharedReceiveQueue; readonly reread: boolean }
  | { readonly kind: "cq"; readonly cq: CompletionQueue; readonly reread: boolean }
  | { readonly kind: "pause"; readonly pause: Pause; readonly reread: boolean }
  | { readonly kind: "context"; readonly wait: ContextWait };

/** Waiters for half of a queue pair's context, in order of arrival. */
export interface ContextWait {
  readonly qp: QueuePair;
  readonly life: number;
  readonly queue: number;
  readonly packets: PacketIn[];
  /** ACKs, NAKs and header-only answers that are to be sent. */
  readonly controls: ControlFrame[];
  wantsTurn: boolean;
}

export type DoorbellContent = Omit<Extract<Waiter, { kind: "doorbell" }>, "kind">;

/**
 * The result of one read of a look-up: a space, a queue's record, or, of the classic scheme, the address of the
 * host's pointer or the pointer itself.
 */
export type LookUpPart = Space | "record" | "address" | "pointer";

/** A look-up under way. */
export interface QueueLoad {
  readonly queue: number;
  /** The cached entry, where only space 3 is read. */
  readonly known: QueueEntry | undefined;
  readonly since: Time;
  missing: number;
  /** The fields that completed reads have brought. */
  readonly found: { -readonly [F in QueueField]?: QueueFields[F] };
  failed: boolean;
  /** See `QueueEntry.rung`: a doorbell has come since the read of the pointer left. */
  rung: boolean;
  /** The queue was made anew or removed meanwhile: no waiter resumes. */
  void: boolean;
  readonly waiters: Waiter[];
  /** Waiters that came after the read of space 3 had left, and must not get an older pointer. */
  readonly late: Waiter[];
}

/**
 * A paused queue: the card fetches and writes nothing of it, and holds its completions. A lock is a
 * pause that the host has asked for.
 */
export interface Pause {
  readonly queue: number;
  /** The command that is answered next, or the word of host memory; undefined where none waits. */
  asker: Asker | undefined;
  task: PauseTask;
  /**
   * `drains`: earlier fetches are under way. `locked`: the host may write space 2. `works`: the RNIC carries out
   * the task.
   */
  stage: "drains" | "locked" | "works";
  /** When a lock is taken back; NEVER in other stages. */
  until: Time;
  entry: QueueEntry | undefined;
  /** The host may have changed space 2 in memory. */
  hostWrote: boolean;
  /** Completions of receives, to be written afterwards. */
  readonly held: Fifo<HeldCompletion>;
}

/** Receiver of a pause's outcome: a command, or, for a lock, a word of host memory. */
export type Asker = { readonly command: number } | { readonly answerAt: number };

export type PauseTask =
  /** `by`: the process that asked, where the card enforces the rules. */
  | { readonly kind: "lock"; readonly by?: number }
  /** The card reads space 2, which the host may have changed. */
  | { readonly kind: "unlock" }
  /** Bytes of space 2 from the host. */
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
  readonly timestamps: boolean;
  users: number;
  /** CQEs written since the queue was made; its passes give the owner bit. */
  written: number;
  /** The last of these for which a solicited-only arm waits. */
  lastSolicited: number;
  armed: "no" | "solicited" | "any";
  readonly pending: Fifo<Cqe>;
  /** Events of its queue pairs that follow so many CQEs. */
  readonly events: Fifo<{ readonly behind: number; readonly event: RnicEvent }>;
  busy: boolean;
  /** CQ_ERR has been raised: the card writes no more CQEs (`rocev2.md` §4.4). */
  overflowed: boolean;
  /** Of a resized queue: pointers that the host stored before belong to the old ring. */
  resized: StampedPointer;
}
