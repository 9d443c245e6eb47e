/**
 * A card's state of hints: as requester, which requests wait behind which; as responder, what was fetched and what
 * is being prepared. The functions of `hints/` change it.
 */
import { Fifo } from "../../../../fabric/base/fifo.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { HintPlan } from "../../../../fabric/rack/plan/hint_plan.ts";
import { HINT_BATCH } from "../../../../fabric/rack/plan/hint_plan.ts";
import type { HintWork, WorkJob, WorkPiece } from "../../../../fabric/rack/plan/hint_work.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../../fabric/wire/roce/hint.ts";
import type {
  HintEncoding,
  HintOperands,
  HintReason,
} from "../../../../fabric/wire/roce/hint_eth.ts";
import type { AtomicTurn } from "../../state/responder_state.ts";
import type { MemoryWait, WantedPage } from "../../state/paging_state.ts";
import type { QueuePair, RingAhead } from "../../state/queue_pair.ts";
import { createLine, type TxOrder } from "../../state/tx_frame.ts";
import { createLeads, type Lead, type Leads } from "./leads.ts";

export interface Hints {
  readonly plan: HintPlan;
  /** [0114]: undefined where all work is done in no time. */
  readonly work: Work | undefined;
  /** Frames of hints: they wait for no payload, and go-back-N of a queue pair leaves them alone. */
  readonly line: TxOrder;
  /** Queue pairs that take part, from RTS on. */
  readonly ends: Map<QueuePair, HintEnd>;
  /** H-08, figure 8: by the peer's address. */
  readonly carriers: Map<number, QueuePair>;
  /** H-08, figure 9: queue pairs that have hints for all peers, each attached to a group. */
  readonly groups: Map<QueuePair, HintGroupEnd>;
  /** Work that waits for its time, sorted by it, for each length of wait. */
  readonly holds: Map<Time, Fifo<Hold>>;
  /** Kinds that are wanted (H-09), as of the last step. */
  wanted: number;
  isLooking: boolean;
  nextSequence: number;
  /** Preparations whose end a requester wants to know (H-22). */
  readonly preparing: Preparation[];
  /** Words that are on the chip, or about to be, for announced atomics: by physical address. */
  readonly words: Map<number, Word>;
  readonly wordCounters: WordCounters;
  readonly operandCounters: OperandCounters;
  /** Peers that are to be told of a miss that no hint had announced. */
  readonly missed: Missed[];
  /** Queue pairs whose receive WQEs are looked at ahead of their SENDs. */
  readonly receiving: Map<QueuePair, ReceiveAhead>;
  readonly charges: Map<number, Charge>;
  readonly byTime: Fifo<Charge>;
  /** H-24: their numbers, by `accountOf`. */
  readonly charged: Map<number, number>;
  /** H-02: scopes of needless hints: of this card's hints, by responder, and of hints to it, by requester. */
  readonly quiet: Remembered<QuietPeer>;
  readonly hinting: Remembered<HintingPeer>;
  readonly counters: HintCounters;
  readonly leads: Leads;
}

/** The subject of needless hints: a region, as its key; a queue pair, as a negative number. */
export type Scope = number;

/** Peers by address, the least recently used first. */
export interface Remembered<P extends { readonly scopes: Map<Scope, unknown> }> {
  readonly peers: Map<number, P>;
  /** Scopes of all peers. */
  size: number;
}

/** As requester, of a responder: the scopes for which hints are rare. */
export interface QuietPeer {
  readonly scopes: Map<Scope, true>;
  /** Every 2^rarity-th batch about these is announced; and the number since the last. */
  rarity: number;
  passedOver: number;
}

/** As responder, of a requester: its hints in a row for which nothing had to be fetched, in all and by scope. */
export interface HintingPeer {
  readonly scopes: Map<Scope, NeedlessScope>;
  needless: number;
  /** A scope is forgotten that the peer was told. */
  hasForgotten: boolean;
}

export interface NeedlessScope {
  needless: number;
  /** Answers name it, as its hints have been needless for long. */
  isNamed: boolean;
  /** It was named, and no miss was told since: the peer may not know of a hint about it that was needed. */
  isRare: boolean;
  /** Key of the region whose part the peer's key opens; undefined of a queue pair. */
  region: number | undefined;
}

/** A miss that no hint had announced, where the peer was told that hints were needless. */
export interface Missed {
  readonly qp: QueuePair;
  readonly scopes: readonly Scope[];
}

export interface HintGroupEnd {
  readonly address: number;
  nextPsn: number;
}

/** A queue pair's part in hints. */
export interface HintEnd {
  readonly life: number;
  /** H-09: kinds that the peer wants; undefined before it has said anything: it gets no hint. */
  agreed: number | undefined;
  /** H-06: how long work should wait behind a hint, by the bit of its kind, as far as both ends agree. */
  waits: ReadonlyMap<number, Time>;
  /** Work up to this number may begin as far as the interval is concerned, the next one from then on. */
  permitted: number;
  nextAt: Time;
  /** The begin for which the queue pair is already to be woken. */
  wakeAt: Time;
  /** The kinds that the peer was last told are wanted here. */
  told: number;
  asked: number;
  askedAt: Time;
  lookedTo: number;
  /** PSN of the next packet with a hint: hints have PSNs of their own. */
  nextPsn: number;
  batch: number;
  /** The last work that was looked at was announced. */
  isAnnouncing: boolean;
  readonly batches: Batch[];
  /** Since when the next request has been held back; undefined where it is not. */
  heldSince: Time | undefined;
  /** Answers in a row that did not come. */
  silences: number;
  /** H-24: the peer's hints that named memory which it may not access. */
  refusedKeys: number;
}

/** Work elements of one hint, by number: [first, end). */
export interface Batch {
  readonly first: number;
  readonly end: number;
  /** The queue pair that the hint went by. */
  readonly carrier: QueuePair;
  readonly leads: boolean;
  /** A rare hint, sent to see whether hints are needed again. */
  readonly probes: boolean;
  readonly scopes: readonly Scope[];
  /** Unanswered messages, where an answer is waited for. */
  readonly unanswered: Set<number>;
  /** Messages of the hint that are being made: the work begins behind them. */
  unsent: number;
  /** How long the work waits from then on, at most. */
  readonly waitPs: Time;
  held: boolean;
}

/** Work that is held until a hint leaves. */
export interface HeldWork {
  readonly qp: QueuePair;
  readonly life: number;
  readonly batch: Batch;
}

export interface Hold {
  readonly at: Time;
  readonly qp: QueuePair;
  readonly life: number;
  /** Absent: the queue pair's next request waits for the interval. */
  readonly batch?: Batch;
}

/** A hint that is being acted on; answered once everything has come. */
export interface Preparation {
  readonly qp: QueuePair;
  readonly life: number;
  readonly requester: number;
  readonly sequence: number;
  readonly elements: readonly HintElement[];
  /** Lines of translations: done when none is missing. */
  readonly lines: MemoryWait;
  /** Else the peer is told only which scopes hints have been needless for. */
  readonly isAsked: boolean;
  /** Beyond the answers that one requester may wait for: it is answered as it stands. */
  readonly isOverfull: boolean;
}

/** An element of a hint, and its result (H-22). */
export interface HintElement {
  readonly ends: Pick<HintGroup, "destQpn" | "sourceQpn">;
  readonly entry: HintEntry;
  readonly pages: readonly WantedPage[];
  readonly word: Word | undefined;
  readonly receiver: QueuePair | undefined;
  readonly reason: HintReason;
  /** The scope that a hint for it is needed, or needless, for; undefined where it was refused. */
  readonly scope: Scope | undefined;
}

/** Untagged messages that were announced, and the receive WQEs that are to take them (H-21). */
export interface ReceiveAhead {
  readonly life: number;
  readonly requester: number;
  readonly position: number;
  /** Its own ring, or the shared one. */
  readonly ring: RingAhead;
  wanted: number;
  /** H-21: when the units that set them aside have done so. */
  readyAt: Time;
  /** A look at the ring has begun since `wanted` last grew: if it finds none, none are posted for these. */
  isFetching: boolean;
  /** Pages of their memory, and why some were not asked for. */
  readonly pages: WantedPage[];
  reason: HintReason;
}

/**
 * An atomic's original data, read ahead (H-21). The chip writes through: memory is never older than the copy,
 * except for writes on the bus.
 */
export interface Word {
  readonly address: number;
  readonly charge: Charge;
  /** Of the announced request, for its ladder. */
  readonly qp: QueuePair;
  readonly psn: number;
  /**
   * `behind`: it is to be read behind a write that stands before it; `coming`: a DMA read is under way; `here`;
   * `gone`: it is used, or has changed, and is in no map any more.
   */
  state: "behind" | "coming" | "here" | "gone";
  value: bigint;
  /** Announced atomics on it that have not been executed. */
  uses: number;
  /** One of them has been executed. */
  used: boolean;
  turn: AtomicTurn | undefined;
  /** Announced operands of atomics on it: they are compared, and decide nothing (H-24). */
  readonly announced: AnnouncedOperands[];
}

/** Operands of the atomic with that PSN. */
export interface AnnouncedOperands {
  readonly qp: QueuePair;
  readonly psn: number;
  readonly operands: HintOperands;
}

/** A page, line of translations, context or word that was fetched for a hint. */
export interface Charge {
  readonly key: number;
  readonly kind: "page" | "line" | "context" | "word";
  readonly requester: number;
  readonly until: Time;
  /** Place of its element in the hint: the first may stall, later ones should not (H-30). */
  readonly position: number;
  /** Of the operation that it was fetched for. */
  readonly lead: Lead;
}

export interface HintCounters {
  /** Messages that announced work, their frames and bytes, and the work elements in them. */
  hintsSent: number;
  hintFramesOut: number;
  hintBytesOut: number;
  hintElements: number;
  /** H-03: elements with a list of objects, and the calls that the lists have saved. */
  hintObjectLists: number;
  hintCallsSaved: number;
  /** Answers to them, and those that did not come in time. */
  hintsPrepared: number;
  hintsRefused: number;
  hintsUnanswered: number;
  /** Unexpected answers: duplicate, late, or of a peer that nothing was announced to. */
  hintAnswersUnknown: number;
  /** Elements that the peer has not prepared itself for, by reason (H-22). */
  hintElementsRefused: number;
  hintElementsUnable: number;
  hintElementsFailed: number;
  /** Batches without a hint, as those before them have brought nothing. */
  hintBatchesPassedOver: number;
  /** Sum of the times for which work was held back behind hints. */
  hintHoldPs: number;
  hintsIn: number;
  hintsMalformed: number;
  /** Queue pairs' parts of hints that needed nothing. */
  hintsNeedless: number;
  /** Hints, or parts of them, that had no effect, by reason. */
  hintsNotWanted: number;
  hintsOverQuota: number;
  hintsNoAccess: number;
  hintsUnknownQp: number;
  /** Events at the driver by which pages were asked for, and those pages; pages that needed nothing. */
  hintPageRequests: number;
  hintPagesAsked: number;
  hintPagesThere: number;
  hintLinesFetched: number;
  /** Pages: there when they were needed, asked for but absent then, not needed (or gone before). */
  hintPagesUseful: number;
  hintPagesLate: number;
  /** Of the late ones those behind their hint's first element. */
  hintPagesLateBehindFirst: number;
  hintPagesWasted: number;
  /** Lines and contexts: on the chip, on their way, or evicted or not needed. */
  hintLinesUseful: number;
  hintLinesLate: number;
  hintLinesWasted: number;
  hintContextsFetched: number;
  hintContextsUseful: number;
  hintContextsLate: number;
  hintContextsWasted: number;
  /** Of the late lines and contexts those behind their hint's first element. */
  hintMissesBehindFirst: number;
  hintReceives: number;
  /** Objects of announced elements that their regions have, and that they have not. */
  hintObjectsPrepared: number;
  hintObjectsUnknown: number;
}

/** Of a card with H-04's atomic kind. */
export interface WordCounters {
  hintWordsRead: number;
  /** Atomics that found their word on the chip, and those that came while it was being read. */
  hintWordsUseful: number;
  hintWordsLate: number;
  /** Words that no atomic has used, as they were changed before, or that none came for. */
  hintWordsWasted: number;
  /** Copies that another write has made void: of a core, and of a queue pair. */
  hintWordsSnooped: number;
  hintWordsOverwritten: number;
}

/** Of a card that compares announced operands with those of the requests (H-03). */
export interface OperandCounters {
  /** Atomics executed on the chip with operands as announced, and with other ones. */
  hintOperandsSame: number;
  hintOperandsOther: number;
}

/** The effect of work, applied when the work is done. */
export type WorkItem =
  | {
    readonly kind: "announcement";
    readonly qp: QueuePair;
    readonly life: number;
    readonly message: HintMessage;
    readonly requester: number;
  }
  | { readonly kind: "answer"; readonly qp: QueuePair; readonly preparation: Preparation }
  | {
    readonly kind: "hint";
    readonly qp: QueuePair;
    readonly life: number;
    readonly end: HintEnd;
    readonly by: QueuePair;
    readonly encoding: HintEncoding;
    readonly group: HintGroupEnd | undefined;
    readonly message: HintMessage;
    /** H-06. */
    readonly held: readonly HeldWork[];
  }
  | {
    readonly kind: "context";
    readonly qp: QueuePair;
    readonly life: number;
    readonly queue: number;
  }
  | { readonly kind: "word"; readonly word: Word }
  | { readonly kind: "receive" };

export interface DueWork {
  readonly at: Time;
  readonly item: WorkItem;
  readonly job: WorkJob | undefined;
  readonly rest: readonly WorkPiece[];
  readonly elements: number;
}

interface Unit {
  freeAt: Time;
}

export interface Work {
  readonly plan: HintWork;
  readonly firmware: Unit;
  /** By time; equal times in the order in which they came. */
  readonly due: DueWork[];
  readonly atHost: Map<number, DueWork>;
  nextId: number;
  /** A core has the present decision, so the card need not ask it over the bus again. */
  isOnCore: boolean;
  readonly counters: WorkCounters;
}

interface WorkCounters {
  /** Events by which a core was told of work. */
  hintWorkEvents: number;
  /** Time for which the firmware has worked for hints, and for which hints have waited for it. */
  hintFirmwarePs: number;
  hintFirmwareWaitPs: number;
  /** Hints and answers that were lost, as too many waited for work. */
  hintsOverrun: number;
}

function createWork(plan: HintWork | undefined): Work | undefined {
  if (plan === undefined) return undefined;
  const counters = {
    hintWorkEvents: 0,
    hintFirmwarePs: 0,
    hintFirmwareWaitPs: 0,
    hintsOverrun: 0,
  };
  const firmware = { freeAt: 0 };
  return { plan, firmware, due: [], atHost: new Map(), nextId: 0, isOnCore: false, counters };
}

export function createHints(plan: HintPlan | undefined): Hints | undefined {
  if (plan === undefined) return undefined;
  return {
    plan,
    work: createWork(plan.work),
    line: createLine(),
    ends: new Map(),
    carriers: new Map(),
    groups: new Map(),
    holds: new Map(),
    wanted: 0,
    isLooking: false,
    nextSequence: 0,
    preparing: [],
    words: new Map(),
    wordCounters: {
      hintWordsRead: 0,
      hintWordsUseful: 0,
      hintWordsLate: 0,
      hintWordsWasted: 0,
      hintWordsSnooped: 0,
      hintWordsOverwritten: 0,
    },
    operandCounters: { hintOperandsSame: 0, hintOperandsOther: 0 },
    missed: [],
    receiving: new Map(),
    charges: new Map(),
    byTime: new Fifo(),
    charged: new Map(),
    leads: createLeads(),
    quiet: { peers: new Map(), size: 0 },
    hinting: { peers: new Map(), size: 0 },
    counters: {
      hintsSent: 0,
      hintFramesOut: 0,
      hintBytesOut: 0,
      hintElements: 0,
      hintObjectLists: 0,
      hintCallsSaved: 0,
      hintsPrepared: 0,
      hintsRefused: 0,
      hintsUnanswered: 0,
      hintAnswersUnknown: 0,
      hintElementsRefused: 0,
      hintElementsUnable: 0,
      hintElementsFailed: 0,
      hintBatchesPassedOver: 0,
      hintHoldPs: 0,
      hintsIn: 0,
      hintsMalformed: 0,
      hintsNeedless: 0,
      hintsNotWanted: 0,
      hintsOverQuota: 0,
      hintsNoAccess: 0,
      hintsUnknownQp: 0,
      hintPageRequests: 0,
      hintPagesAsked: 0,
      hintPagesThere: 0,
      hintLinesFetched: 0,
      hintPagesUseful: 0,
      hintPagesLate: 0,
      hintPagesLateBehindFirst: 0,
      hintPagesWasted: 0,
      hintLinesUseful: 0,
      hintLinesLate: 0,
      hintLinesWasted: 0,
      hintContextsFetched: 0,
      hintContextsUseful: 0,
      hintContextsLate: 0,
      hintContextsWasted: 0,
      hintMissesBehindFirst: 0,
      hintReceives: 0,
      hintObjectsPrepared: 0,
      hintObjectsUnknown: 0,
    },
  };
}

/**
 * H-02: where no request waits for its hint, an adaptive batch begins as long as the look-ahead finds work waiting:
 * the longer it is, the fewer are late. Where requests wait, the first one waits for all of it.
 */
function firstBatch({ batch, follow }: HintPlan): number {
  if (batch !== "adaptive") return batch;
  return follow === "at-once" ? HINT_BATCH.most : HINT_BATCH.first;
}

export function createEnd(plan: HintPlan, { life, requester }: QueuePair): HintEnd {
  return {
    life,
    agreed: undefined,
    waits: new Map(),
    permitted: -1,
    nextAt: 0,
    wakeAt: 0,
    told: 0,
    asked: 0,
    askedAt: 0,
    lookedTo: requester.cursor,
    nextPsn: 0,
    batch: firstBatch(plan),
    isAnnouncing: false,
    batches: [],
    heldSince: undefined,
    silences: 0,
    refusedKeys: 0,
  };
}
