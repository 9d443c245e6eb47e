/** The state of one RNIC. */
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

/** Synchronous calls to a floor above the caller's (README), bound in `upcalls.ts`. */
export interface Upcalls {
  readonly queueEvent: (device: Device, event: RnicEvent) => void;
  readonly giveReceive: (
    device: Device,
    qp: QueuePair,
    turn: { readonly waiter: RecvWaiter; readonly recv: RecvWqe },
  ) => void;
  readonly refuseRecv: (device: Device, qp: QueuePair) => void;
  readonly flushWork: (device: Device, qp: QueuePair) => void;
  readonly failFatally: (device: Device, qp: QueuePair) => void;
  readonly frameSent: (device: Device, frame: TxFrame, sent: PacketFrame) => void;
  readonly frameFailed: (device: Device, frame: TxFrame) => void;
  /** S1014. @returns whether a message with this PSN waits for it. */
  readonly answerPersistenceAck: (device: Device, qp: QueuePair, psn: number) => boolean;
  readonly startAtomic: (device: Device, qp: QueuePair, service: SingleService) => void;
  readonly memoryReady: (device: Device, wait: MemoryWait) => void;
  /** An atomic was executed, or a verified write's data was placed (V-02). */
  readonly resumeBehindAtomics: (device: Device, qp: QueuePair) => void;
  /** V-09: the data is persistent, or that is not known. */
  readonly verifiedPersisted: (
    device: Device,
    qp: QueuePair,
    done: { readonly service: SingleService; readonly at: Time },
  ) => void;
  readonly verifiedUnproven: (device: Device, qp: QueuePair, service: SingleService) => void;
  readonly cardQueuePairFailed: (device: Device, qp: QueuePair) => void;
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
  /** H-22: memory of these tables, or a context, is absent. */
  readonly noteMiss: (hints: Hints, qp: QueuePair, tables: readonly TranslationTable[]) => void;
  /** H-02: units to read ahead of the send queue; undefined: as many as without hints. */
  readonly unitsAhead: (hints: Hints, qp: QueuePair) => number | undefined;
  /**
   * H-23: the card has written these bytes. `keepsWord`: it has the value of the word on the chip.
   */
  readonly wordsOverwritten: (
    device: Device,
    hints: Hints,
    write: { readonly address: number; readonly length: number; readonly keepsWord: boolean },
  ) => void;
}

export type Found = "there" | "coming" | "gone";

export interface Device {
  readonly up: Upcalls;
  readonly name: string;
  readonly plan: RnicPlan;
  readonly timing: RnicTiming;
  now: Time;
  out: Outputs;
  /** `now` plus the module's processing time. */
  stageAt: Time;
  spaces: QueueSpaces | undefined;
  /** */
  readonly store: StoreLayout;
  readonly scheme: QueuePlan["scheme"];
  readonly readPointer: QueuePlan["readPointer"];
  persistence: PersistencePlan;
  /** Undefined where the card's buffers do not survive its host's power failure. */
  journal: Journal | undefined;
  readonly heldLog: HeldLog | undefined;
  memory: CardMemory | undefined;
  readonly counters: Counters;
  readonly drops: Map<DropReason, number>;
  readonly lossesNoted: Set<string>;
  readonly dma: Dma;
  readonly port: CoherentPort | undefined;
  readonly transmitter: Transmitter;
  readonly regions: RegionTable;
  readonly paging: Paging;
  readonly pageEvents: Fifo<DueEvent>;
  /** Undefined without shared regions, and until the driver has initialised it. */
  coherence: Coherence | undefined;
  /** The coherence protocol's, where the rack has its own. */
  readonly tables: Tables | undefined;
  startedAt: Time;
  isPortUp: boolean;
  readonly warnings: CardWarning[];
  readonly hints: Hints | undefined;
  readonly queuePairs: Map<number, QueuePair>;
  /** IPv4 group → UD queue pairs in the order of attaching; no empty group. */
  readonly multicast: Map<number, readonly QueuePair[]>;
  readonly completionQueues: Map<number, CompletionQueue>;
  eventQueue: CompletionQueue | undefined;
  readonly sharedReceiveQueues: Map<number, SharedReceiveQueue>;
  readonly owners: (QueueOwner | undefined)[];
  readonly doorbells: Fifo<TakenDoorbell>;
  readonly doorbellPlan: DoorbellPlan;
  readonly doorbellRng: Rng;
  readonly blueFlame: Map<number, WriteCombined>;
  readonly cache: QueueCache;
  /** */
  readonly loads: Map<number, QueueLoad>;
  /** Q-07; held for the queue pair's turn. */
  readonly contextWaits: Map<number, ContextWait>;
  readonly contextsHeld: Map<number, QueueEntry>;
  /** */
  readonly pauses: Map<number, Pause>;
  /** the host's pointers at the move: older ones in space 3 belong to the old ring. */
  readonly moved: Map<number, StampedPointer>;
  readonly atomicWords: AtomicWords;
  readonly verify: VerifyState;
  readonly roundRobin: Fifo<QueuePair>;
  /** `isWanted`: the queue pair was scheduled again since its turn began. */
  readonly turn: { of: QueuePair | undefined; isWanted: boolean };
  readonly congestion: Congestion | undefined;
  /** V-08. */
  readonly flips: readonly Flip[];
  deadlines: Deadlines;
  readonly slots: (QueuePair | undefined)[];
  /** All numbers of queues, and all slots, below these are taken. */
  readonly lowestFree: { queue: number; slot: number };
  nextQpn: number;
  identification: number;
}

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

/** The reply leaves behind the writes that the command caused. */
export function sendReply(device: Device, id: number, reply: RnicReply): void {
  sendBehindWrites(device, { kind: "reply", id, reply }, device.stageAt);
}

const WARNINGS_KEPT = 16;

/** A note of the run, which `inspect` shows, too. */
export function warn({ out, now: atPs, warnings }: Device, message: string): void {
  out.report("warning", { message });
  if (warnings.push({ atPs, message }) > WARNINGS_KEPT) warnings.shift();
}

/** Notes the first loss of each kind. */
export function noteLoss(device: Device, kind: string, message: () => string): void {
  if (device.lossesNoted.has(kind)) return;
  device.lossesNoted.add(kind);
  warn(device, message());
}

export function raiseEvent(device: Device, event: RnicEvent): void {
  if (device.eventQueue !== undefined) return device.up.queueEvent(device, event);
  sendBehindWrites(device, { kind: "event", event }, device.stageAt);
}
