/**
 * The state of one RNIC, and what all its modules share. Modules are functions over it; nothing here
 * decides anything.
 */
import type { Outputs } from "../../../fabric/node.ts";
import type { RnicPlan, RnicTiming } from "../../../fabric/rack/plan/plan.ts";
import { Deadlines } from "../../../fabric/base/deadlines.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { PersistencePlan, QueueSpaces } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Counters, DropReason } from "./counters.ts";
import type { Doorbell } from "../../../fabric/wire/host_bus/queue_information.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { Flip } from "./flips.ts";
import { QueueCache } from "./queue_cache.ts";
import type { QueuePair, SharedReceiveQueue } from "./queue_pair.ts";
import type { VerifyState } from "./verify_state.ts";
import type { RegionTable } from "./memory.ts";
import type { CompletionQueue, QueueLoad } from "./queues.ts";
import type { AtomicWords } from "./responder_state.ts";
import type { Congestion } from "./congestion_state.ts";
import type { Transmitter } from "./tx_frame.ts";
import type { Dma, Journal } from "./dma_state.ts";

/** Whose queue a queue number is. */
export type QueueOwner =
  | { readonly kind: "sq" | "rq"; readonly qp: QueuePair }
  | { readonly kind: "srq"; readonly srq: SharedReceiveQueue }
  | { readonly kind: "cq"; readonly cq: CompletionQueue };

export interface Device {
  readonly name: string;
  readonly plan: RnicPlan;
  readonly timing: RnicTiming;
  /** The instant of the current step, and where its outputs go. */
  now: Time;
  out: Outputs;
  /** When the module that took this step's input has passed it on: outputs depart from then on. */
  stageAt: Time;
  /** Undefined until the driver has laid out queue information. */
  spaces: QueueSpaces | undefined;
  persistence: PersistencePlan;
  /** Where the card's buffers survive a power failure of its host; else undefined. */
  journal: Journal | undefined;
  readonly counters: Counters;
  readonly drops: Map<DropReason, number>;
  readonly dma: Dma;
  readonly transmitter: Transmitter;
  readonly regions: RegionTable;
  readonly queuePairs: Map<number, QueuePair>;
  /** IPv4 group → its UD queue pairs in the order of attaching; no group without one. */
  readonly multicast: Map<number, readonly QueuePair[]>;
  readonly completionQueues: Map<number, CompletionQueue>;
  readonly sharedReceiveQueues: Map<number, SharedReceiveQueue>;
  /** Queue number → its owner. */
  readonly owners: (QueueOwner | undefined)[];
  /** doorbells not served yet. */
  readonly doorbells: Fifo<Doorbell>;
  readonly cache: QueueCache;
  /** reads of queue information under way, by queue number. */
  readonly loads: Map<number, QueueLoad>;
  /** queues whose space 2 the host holds. */
  readonly locked: Set<number>;
  /** Words of host memory that atomics hold. */
  readonly atomicWords: AtomicWords;
  /** Verified writes under way, and what senders' earlier ones were like. */
  readonly verify: VerifyState;
  /** Queue pairs with something to send, in turn. */
  readonly roundRobin: Fifo<QueuePair>;
  /** ECN, DCQCN, PFC; undefined where all of it is off. */
  readonly congestion: Congestion | undefined;
  /** V-08: what damages data inside the card; empty where the plan has none. */
  readonly flips: readonly Flip[];
  /** Some per queue pair, see `timers.ts`. */
  deadlines: Deadlines;
  readonly slots: (QueuePair | undefined)[];
  nextQpn: number;
  /** IPv4 identification of the next frame. */
  identification: number;
}

/** Counts a frame that is dropped without an answer (`rocev2.md` §3.4). */
export function drop(device: Device, reason: DropReason): void {
  device.drops.set(reason, (device.drops.get(reason) ?? 0) + 1);
}

/** Puts a queue pair into the round robin, where it is not. */
export function schedule(device: Device, qp: QueuePair): void {
  if (qp.scheduled) return;
  qp.scheduled = true;
  device.roundRobin.push(qp);
}
