/** Completion queues, and look-ups of queue information. */
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

/** `wqe`: the WQE has come whole (BlueFlame). */
export interface TakenDoorbell extends Doorbell {
  readonly wqe?: Uint8Array<ArrayBuffer>;
  /** See `RegisterWrite.stored`. */
  readonly stored?: StampedPointer;
}

export interface WriteCombined {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly words: Uint8Array;
}

/** `life` is the queue pair's when it asked. */
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
    /** The pointer is final. */
    readonly reread: boolean;
  }
  | { readonly kind: "srq"; readonly srq: SharedReceiveQueue; readonly reread: boolean }
  | { readonly kind: "cq"; readonly cq: CompletionQueue; readonly reread: boolean }
  | { readonly kind: "pause"; readonly pause: Pause; readonly reread: boolean }
  | { readonly kind: "context"; readonly wait: ContextWait };

export interface ContextWait {
  readonly qp: QueuePair;
  readonly life: number;
  readonly queue: number;
  readonly packets: PacketIn[];
  readonly controls: ControlFrame[];
  wantsTurn: boolean;
}

export type DoorbellContent = Omit<Extract<Waiter, { kind: "doorbell" }>, "kind">;

/** The result of one read. `address` and `pointer` are the classic scheme's. */
export type LookUpPart = Space | "record" | "address" | "pointer";

export interface QueueLoad {
  readonly queue: number;
  readonly known: QueueEntry | undefined;
  readonly since: Time;
  missing: number;
  readonly found: { -readonly [F in QueueField]?: QueueFields[F] };
  failed: boolean;
  /** A doorbell has come since the read of the pointer left, see `QueueEntry.rung`. */
  rung: boolean;
  /** The queue was made anew or removed: no waiter resumes. */
  void: boolean;
  readonly waiters: Waiter[];
  /** They came after space 3 was read, so they must not get an older pointer. */
  readonly late: Waiter[];
}

/**
 * the card fetches and writes nothing of the queue, and holds its completions. A lock
 * is the host's pause.
 */
export interface Pause {
  readonly queue: number;
  asker: Asker | undefined;
  task: PauseTask;
  /**
   * `drains`: earlier fetches are under way. `locked`: the host may write space 2. `works`: the
   * task is carried out.
   */
  stage: "drains" | "locked" | "works";
  until: Time;
  entry: QueueEntry | undefined;
  hostWrote: boolean;
  readonly held: Fifo<HeldCompletion>;
}

/** A command, or, for a lock, a word of host memory. */
export type Asker = { readonly command: number } | { readonly answerAt: number };

export type PauseTask =
  /** `by`: the process, where the card enforces the rules. */
  | { readonly kind: "lock"; readonly by?: number }
  | { readonly kind: "unlock" }
  | { readonly kind: "write"; readonly offset: number; readonly data: Uint8Array }
  | { readonly kind: "move"; readonly ring: RingPlace };

export interface HeldCompletion {
  readonly cqn: number;
  readonly cqe: Cqe;
}

export interface CompletionQueue {
  readonly cqn: number;
  ring: RingPlace;
  readonly vector: number | null;
  readonly timestamps: boolean;
  users: number;
  /** Its number of passes gives the owner bit. */
  written: number;
  lastSolicited: number;
  armed: "no" | "solicited" | "any";
  readonly pending: Fifo<Cqe>;
  readonly events: Fifo<{ readonly behind: number; readonly event: RnicEvent }>;
  busy: boolean;
  /** CQ_ERR: no more CQEs (`rocev2.md` §4.4). */
  overflowed: boolean;
  /** Older pointers of the host belong to the old ring. */
  resized: StampedPointer;
}
