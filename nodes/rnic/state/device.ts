/** The state of one RNIC, shared by its modules. Modules are functions over it; nothing here decides anything. */
import type { CardWarning } from "../../../fabric/inspection.ts";
import type { Outputs } from "../../../fabric/node.ts";
import type { RnicPlan, RnicTiming } from "../../../fabric/rack/plan/plan.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { DoorbellPlan, QueuePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import type { Deadlines } from "../../../fabric/base/deadlines.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type {
  PersistencePlan,
  QueueSpaces,
  RnicEvent,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Counters, DropReason } from "./counters.ts";
import type { StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import type { StoreLayout } from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { Fifo } from "../../../fabric/base/fifo.ts";
import type { Flip } from "./flips.ts";
import type { QueueCache, QueueEntry } from "./queue_cache.ts";
import type { QueuePair, RecvWaiter, SharedReceiveQueue } from "./queue_pair.ts";
import type { VerifyState } from "./verify_state.ts";
import type { RegionTable } from "./memory.ts";
import type {
  CompletionQueue,
  ContextWait,
  Pause,
  QueueLoad,
  TakenDoorbell,
  WriteCombined,
} from "./queues.ts";
import type { AtomicWords, RecvWqe, SingleService } from "./responder_state.ts";
import type { Congestion } from "./congestion_state.ts";
import type { Transmitter, TxFrame } from "./tx_frame.ts";
import type { CardMemory, Dma, HeldLog, Journal } from "./dma_state.ts";
import { type CoherentPort, type LineTask, sendBehindWrites } from "./coherent_port_state.ts";
import type { Hints } from "../hints/state/hint_state.ts";
import type { Coherence } from "../coherence/state/coherence_state.ts";
import type { Tables } from "../../../fabric/coherence/tables.ts";
import type { PacketFrame, RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { DueEvent, MemoryWait, Paging } from "./paging_state.ts";
import type { TranslationTable } from "./translation_table.ts";

export type QueueOwner =
  | { readonly kind: "sq" | "rq"; readonly qp: QueuePair }
  | { readonly kind: "srq"; readonly srq: SharedReceiveQueue }
  | { readonly kind: "cq"; readonly cq: CompletionQueue };

/**
 * Calls of a module to a module on a floor above its own (README, floors). `upcalls.ts` binds each to its function;
 * the calls are synchronous.
 */
export interface Upcalls {
  /** The driver has given the card an event queue. */
  readonly queueEvent: (device: Device, event: RnicEvent) => void;
  /** A receive WQE is on the chip for the first waiter. */
  readonly giveReceive: (
    device: Device,
    qp: QueuePair,
    turn: { readonly waiter: RecvWaiter; readonly recv: RecvWqe },
  ) => void;
  /** No receive WQE is posted: the first stalled packet is refused. */
  readonly refuseRecv: (device: Device, qp: QueuePair) => void;
  /** WQEs have come to a queue pair whose sends are flushed. */
  readonly flushWork: (device: Device, qp: QueuePair) => void;
  /** The card cannot read what it needs of the queue pair. */
  readonly failFatally: (device: Device, qp: QueuePair) => void;
  readonly frameSent: (device: Device, frame: TxFrame, sent: PacketFrame) => void;
  /** The memory that a data frame's payload comes from could not be read. */
  readonly frameFailed: (device: Device, frame: TxFrame) => void;
  /**
   * The CPU says "flushed" (S1014).
   * @returns whether a message with this PSN waits for it.
   */
  readonly answerPersistenceAck: (device: Device, qp: QueuePair, psn: number) => boolean;
  readonly startAtomic: (device: Device, qp: QueuePair, service: SingleService) => void;
  /** An access has the translations or pages that it waited for. */
  readonly memoryReady: (device: Device, wait: MemoryWait) => void;
  /** An atomic is executed, or the data of a verified write placed (V-02). */
  readonly resumeBehindAtomics: (device: Device, qp: QueuePair) => void;
  /** V-09: a verified write's data is persistent, or it is not known whether it is. */
  readonly verifiedPersisted: (
    device: Device,
    qp: QueuePair,
    done: { readonly service: SingleService; readonly at: Time },
  ) => void;
  readonly verifiedUnproven: (device: Device, qp: QueuePair, service: SingleService) => void;
  /** A queue pair between coherent cards has failed, and carries no more messages. */
  readonly cardQueuePairFailed: (device: Device, qp: QueuePair) => void;
  /** A greeting that has waited is taken now. */
  readonly takeGreeting: (device: Device, packet: RocePacket) => boolean;
  /** Begins an access of a verb or DMA to a line of a shared region. */
  readonly accessLine: (device: Device, port: CoherentPort, task: LineTask) => void;
  /** H-30: a peer's request accesses a page, or needs a line of translations or a context, which a hint may have brought. */
  readonly redeemPage: (
    hints: Hints,
    page: { readonly table: TranslationTable; readonly page: number; readonly now: Time },
    isThere: boolean,
  ) => void;
  readonly redeemLine: (
    hints: Hints,
    line: { readonly table: TranslationTable; readonly line: number; readonly now: Time },
    found: Found,
  ) => void;
  readonly redeemContext: (
    hints: Hints,
    context: { readonly queue: number; readonly now: Time },
    found: Found,
  ) => void;
  /** H-22: the request has met memory of these tables, or a context, that is absent. */
  readonly noteMiss: (hints: Hints, qp: QueuePair, tables: readonly TranslationTable[]) => void;
  /** H-02: units of the send queue that the next read of WQEs should bring; undefined: as many as without hints. */
  readonly unitsAhead: (hints: Hints, qp: QueuePair) => number | undefined;
  /** H-23: the card has written these bytes; `keepsWord`: they are the new value of the word on the chip. */
  readonly wordsOverwritten: (
    device: Device,
    hints: Hints,
    write: { readonly address: number; readonly length: number; readonly keepsWord: boolean },
  ) => void;
}

/** Where a request finds a line of translations or a context: on the chip, on its way there, or neither. */
export type Found = "there" | "coming" | "gone";

export interface Device {
  readonly up: Upcalls;
  readonly name: string;
  readonly plan: RnicPlan;
  readonly timing: RnicTiming;
  /** The instant of the current step, and where its outputs go. */
  now: Time;
  out: Outputs;
  /** Departure time of the step's outputs: when the module that took its input has passed it on. */
  stageAt: Time;
  spaces: QueueSpaces | undefined;
  /** Layout of the fields of queue information. */
  readonly store: StoreLayout;
  readonly scheme: QueuePlan["scheme"];
  readonly readPointer: QueuePlan["readPointer"];
  persistence: PersistencePlan;
  /** Undefined where the card's buffers do not survive a power failure of its host. */
  journal: Journal | undefined;
  /** Observes what the card holds of its host's persistent memory; undefined in most runs. */
  readonly heldLog: HeldLog | undefined;
  /** Undefined unless queue information lies at the card. */
  memory: CardMemory | undefined;
  readonly counters: Counters;
  readonly drops: Map<DropReason, number>;
  /** Kinds of silent losses that were noted (`responder/silent_loss.ts`). */
  readonly lossesNoted: Set<string>;
  readonly dma: Dma;
  /** Undefined on PCIe. */
  readonly port: CoherentPort | undefined;
  readonly transmitter: Transmitter;
  readonly regions: RegionTable;
  readonly paging: Paging;
  readonly pageEvents: Fifo<DueEvent>;
  /** Undefined until its driver has initialised it, and of a card without shared regions. */
  coherence: Coherence | undefined;
  /** Of the coherence protocol, where it is the rack's own. */
  readonly tables: Tables | undefined;
  /** When it got power; 0 at the run's begin. */
  startedAt: Time;
  /** Whether the network cable's other end has power, as far as the card was told. */
  isPortUp: boolean;
  readonly warnings: CardWarning[];
  /** Undefined where the card takes no part in hints. */
  readonly hints: Hints | undefined;
  readonly queuePairs: Map<number, QueuePair>;
  /** IPv4 group → its UD queue pairs in the order of attaching; no group without one. */
  readonly multicast: Map<number, readonly QueuePair[]>;
  readonly completionQueues: Map<number, CompletionQueue>;
  /** Destination of asynchronous events; undefined: each goes to the driver as a message. */
  eventQueue: CompletionQueue | undefined;
  readonly sharedReceiveQueues: Map<number, SharedReceiveQueue>;
  readonly owners: (QueueOwner | undefined)[];
  readonly doorbells: Fifo<TakenDoorbell>;
  readonly doorbellPlan: DoorbellPlan;
  readonly doorbellRng: Rng;
  /** BlueFlame buffers that have come in part, by their number. */
  readonly blueFlame: Map<number, WriteCombined>;
  readonly cache: QueueCache;
  /** reads of queue information under way, by queue number. */
  readonly loads: Map<number, QueueLoad>;
  /** waiters for a context, and contexts held for the turn of their queue pair, by queue. */
  readonly contextWaits: Map<number, ContextWait>;
  readonly contextsHeld: Map<number, QueueEntry>;
  /** queues that are paused, by number. */
  readonly pauses: Map<number, Pause>;
  /**
   * the host's pointers of moved queues, as the RNIC knows them: older ones in space 3 belong to the old
   * ring.
   */
  readonly moved: Map<number, StampedPointer>;
  readonly atomicWords: AtomicWords;
  readonly verify: VerifyState;
  readonly roundRobin: Fifo<QueuePair>;
  /** The queue pair whose turn it is, which may go on in a later step, and whether it was scheduled since. */
  readonly turn: { of: QueuePair | undefined; isWanted: boolean };
  /** ECN, DCQCN, PFC; undefined where all are off. */
  readonly congestion: Congestion | undefined;
  /** V-08: sources of damage inside the card; empty where the plan has none. */
  readonly flips: readonly Flip[];
  deadlines: Deadlines;
  readonly slots: (QueuePair | undefined)[];
  /** All numbers of queues and all slots below these are taken. */
  readonly lowestFree: { queue: number; slot: number };
  nextQpn: number;
  identification: number;
}

/** Counts a frame that is dropped without an answer (`rocev2.md` §3.4). */
export function drop(device: Device, reason: DropReason): void {
  device.drops.set(reason, (device.drops.get(reason) ?? 0) + 1);
}

export function schedule(device: Device, qp: QueuePair): void {
  if (qp.scheduled) return;
  if (device.turn.of === qp) {
    device.turn.isWanted = true;
    return;
  }
  qp.scheduled = true;
  device.roundRobin.push(qp);
}

/** Answers a command of the host's driver; the reply leaves behind the writes that it caused. */
export function sendReply(device: Device, id: number, reply: RnicReply): void {
  sendBehindWrites(device, { kind: "reply", id, reply }, device.stageAt);
}

/** Warnings kept for `inspect`. */
const WARNINGS_KEPT = 16;

/** A note of the run, which the card also keeps for `inspect`. */
export function warn({ out, now: atPs, warnings }: Device, message: string): void {
  out.report("warning", { message });
  if (warnings.push({ atPs, message }) > WARNINGS_KEPT) warnings.shift();
}

/** Notes the first loss of a kind of which the sender does not hear; `message` is called only for that one. */
export function noteLoss(device: Device, kind: string, message: () => string): void {
  if (device.lossesNoted.has(kind)) return;
  device.lossesNoted.add(kind);
  warn(device, message());
}

export function raiseEvent(device: Device, event: RnicEvent): void {
  if (device.eventQueue !== undefined) return device.up.queueEvent(device, event);
  sendBehindWrites(device, { kind: "event", event }, device.stageAt);
}
