/**
 * The state of one RNIC, and what all its modules share. Modules are functions over it; nothing here
 * decides anything.
 */
import type { Outputs } from "../../../fabric/node.ts";
import type { RnicPlan, RnicTiming } from "../../../fabric/rack/plan/plan.ts";
import { Deadlines } from "../../../fabric/base/deadlines.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { PersistencePlan, QueueSpaces } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { AtomicWords } from "../responder/atomic.ts";
import type { CompletionQueue } from "../queues/completion_queue.ts";
import { type Congestion, createCongestion } from "../transmit/congestion.ts";
import { type Counters, createCounters, type DropReason } from "./counters.ts";
import { createDma, type Dma } from "../dma/dma.ts";
import type { Doorbell } from "../../../fabric/wire/host_bus/queue_information.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { createFlips, type Flip } from "./flips.ts";
import { createRegionTable, type RegionTable } from "../dma/memory_region.ts";
import { QueueCache } from "../queues/queue_cache.ts";
import type { Journal } from "../dma/journal.ts";
import type { QueueLoad } from "../queues/queue_information.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { SharedReceiveQueue } from "../queues/shared_receive_queue.ts";
import { createTransmitter, type Transmitter } from "../transmit/send.ts";
import { createVerifyState, type VerifyState } from "./verify_state.ts";

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

const NOWHERE: Outputs = {
  send: (_port, _message, departAt) => departAt,
  tracing: false,
  trace() {},
  report() {},
};

/** Queue pair numbers 0 and 1 have a meaning of their own. */
const FIRST_QPN = 17;

/** A card that has just got power. */
export function createDevice(
  name: string,
  plan: RnicPlan,
  options: { readonly seed: number },
): Device {
  return {
    name,
    plan,
    timing: plan.timing,
    now: 0,
    out: NOWHERE,
    stageAt: 0,
    spaces: undefined,
    persistence: { flow: 1, flush: "read", noSnoop: false },
    journal: undefined,
    counters: createCounters(),
    drops: new Map(),
    dma: createDma({ responder: plan.timing.dmaReadsMax, gather: plan.timing.gatherReadsMax }),
    transmitter: createTransmitter(),
    regions: createRegionTable(),
    queuePairs: new Map(),
    multicast: new Map(),
    completionQueues: new Map(),
    sharedReceiveQueues: new Map(),
    owners: [],
    doorbells: new Fifo(),
    cache: new QueueCache(plan.queueCache, rngFor(options.seed, `${name}/queue-cache`)),
    loads: new Map(),
    locked: new Set(),
    atomicWords: new Map(),
    verify: createVerifyState({ name, seed: options.seed }),
    roundRobin: new Fifo(),
    congestion: createCongestion(plan),
    flips: createFlips(plan, { name, seed: options.seed }),
    deadlines: new Deadlines(0),
    slots: [],
    nextQpn: FIRST_QPN,
    identification: 0,
  };
}

/** Counts a frame that is dropped without an answer (`rocev2.md` §3.4). */
export function drop(device: Device, reason: DropReason): void {
  device.drops.set(reason, (device.drops.get(reason) ?? 0) + 1);
}
