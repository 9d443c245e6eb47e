/**
 * A queue pair's context on the chip: its configuration, its send queue with the requester, its receive queue with
 * the responder. `life_cycle.ts` has the rights of each state.
 *
 * Circle of three modules (types): a queue pair has a responder and a line of frames, a frame names its queue pair,
 * and an answer of the responder its frames. See `responder_state.ts`, `tx_frame.ts`.
 */
import type { HintEncoding } from "../../../fabric/wire/roce/hint_eth.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type {
  HintPart,
  QpAttributes,
  QpState,
  QpType,
  RingPlace,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { flowLabel as flowLabelOf, udpSourcePort } from "../../../fabric/wire/roce/udp.ts";
import { Fifo, type ReadonlyFifo } from "../../../fabric/base/fifo.ts";
import { createLine, type TxOrder } from "./tx_frame.ts";
import { TIMEOUT_UNIT_PS } from "./limits.ts";
import {
  createResponder,
  type PersistRecord,
  type RecvWqe,
  type Responder,
} from "./responder_state.ts";
import type { OutstandingWqe } from "./outstanding_wqe.ts";
import type { Writable } from "./writable.ts";
import type { CoherenceClass } from "../../../fabric/wire/roce/coherence_eth.ts";
import { GSI_QPN } from "../../../fabric/wire/roce/bth.ts";
import { GSI_QKEY } from "../../../fabric/wire/roce/deth.ts";

/** Attributes that always have a value; the life cycle ensures that used ones were given. */
export type Attributes = { readonly [Name in Exclude<keyof QpAttributes, Momentary>]-?: number };

type Momentary = "state" | "curState" | "enSqdAsyncNotify";

/** A waiter for a receive WQE; waiters are served in turn. */
export type RecvWaiter =
  | { readonly kind: "packet" }
  /** S1006: a message that has come and that the host's CPU must flush. */
  | { readonly kind: "persist"; readonly record: PersistRecord }
  /** P-27: a persistence ACK that completes a RECV of the requester. */
  | { readonly kind: "confirmed"; readonly work: OutstandingWqe };

export interface ReceiveQueue {
  busy: boolean;
  readonly fetched: Fifo<RecvWqe>;
  readonly waiters: Fifo<RecvWaiter>;
  /** How often an empty queue was looked at again for the first waiter. */
  retries: number;
  readonly ahead: RingAhead;
}

export interface SendQueue {
  busy: boolean;
  /** A doorbell came, or the last look left WQEs in the ring. */
  mayHaveMore: boolean;
  /** Units of a WQE whose other units the last fetch did not bring, and their ring position. */
  partial: Uint8Array<ArrayBuffer> | undefined;
  partialPosition: number;
  /** SQ_DRAINED is to be raised when all that was started has completed. */
  drainNotify: boolean;
}

/** An ACK or NAK with a PSN that was never sent: the peer's rq_psn may differ from `sq_psn` here. */
export interface PsnsApart {
  readonly expected: number;
  /** A NAK asks for it; else an ACK confirms the one before. */
  readonly isAsking: boolean;
  /** Else it may be a late answer of an earlier connection. */
  readonly isSure: boolean;
}

/** Only `requester_changes.ts` and this file write the read-only fields; modules that decide on the others set them. */
export interface Requester {
  readonly work: ReadonlyFifo<OutstandingWqe>;
  /** Number of the work whose packet `cursorPacket` is to be sent next. */
  readonly cursor: number;
  readonly cursorPacket: number;
  readonly nextPsn: number;
  readonly unacknowledged: number;
  readonly ackCursor: number;
  /** One past the highest PSN ever begun to be sent: an ACK beyond is invalid. */
  readonly issuedEnd: number;
  readonly line: TxOrder;
  /** Started work that waits for an answer of its own: a fence waits for it. */
  readonly unanswered: number;
  /** Of these, those that count against max_rd_atomic: all but FLUSHes. */
  readonly slotsTaken: number;
  /** SSN that the next message to be started gets: the first is 1. */
  readonly nextSsn: number;
  /** SSN up to which the peer has receive WQEs; undefined where its answers have no credits (§3.2). */
  creditLimit: number | undefined;
  readonly retriesLeft: number;
  readonly rnrRetriesLeft: number;
  /** Sending rests after an RNR NAK until the timer fires. */
  rnrWaiting: boolean;
  /** When the first RNR NAK since the last progress came; undefined without one. */
  readonly rnrSince: Time | undefined;
  readonly sinceAckReq: number;
  /** The answer that is sure, else the last one. */
  apart: PsnsApart | undefined;
  /** P-28: persistent writes without their second ACK, by the PSN of their last packet. */
  readonly persistWaiting: ReadonlyMap<number, OutstandingWqe>;
  /** P-30: those of them whose last packet is to be sent again. */
  readonly probes: ReadonlyFifo<OutstandingWqe>;
  /** P-26: persistence ACKs of the CPU that have not been carried out. */
  readonly cpuAcks: ReadonlyFifo<OutstandingWqe>;
}

/** Stands for no queue: of a firmware's queue pair, and of its completions. */
export const NO_QUEUE = -1;

interface Identity {
  readonly qpn: number;
  readonly type: QpType;
  readonly pd: number;
  readonly sqQueue: number;
  /** Its own, or the shared one's. */
  readonly rqQueue: number;
  /** 0 with a shared receive queue. */
  readonly rqStride: number;
  readonly srq: SharedReceiveQueue | undefined;
  /** The rings, as the driver laid them out. */
  readonly rings: { sq: RingPlace; rq: RingPlace | undefined };
  readonly sendCq: number;
  readonly recvCq: number;
  readonly persistCompletion: "persistence" | "reception";
  /** Its share of the line beside other queue pairs, 1 to 255. */
  readonly weight: number;
  /** H-09: the program asks for hints, wants none, or lets it carry those of others; absent: by policy. */
  readonly hints?: HintPart | undefined;
  /** H-07: of hints that go by it; absent: by policy. */
  readonly hintEncoding?: HintEncoding | undefined;
  /**
   * The class of messages of the firmware's own queue pair between coherent cards; its work is queued on the card.
   * It has no rings, and its queue numbers are {@link NO_QUEUE}. Undefined of a program's.
   */
  readonly card?: CoherenceClass | undefined;
  /** Index of its deadlines in the device's. */
  readonly slot: number;
}

export interface QueuePair extends Identity {
  readonly state: QpState;
  /** Counts resets: work under way for an earlier life is void. */
  readonly life: number;
  readonly attributes: Attributes;
  readonly timeoutPs: Time;
  readonly path: Path;
  readonly sq: SendQueue;
  readonly rq: ReceiveQueue;
  readonly requester: Requester;
  readonly responder: Responder;
  scheduled: boolean;
  /** Bytes on the line that it may begin in this round; negative where it began more in the last. */
  surplus: number;
  answersNext: boolean;
  /** Direction of the last WRITE: distinguishes a SEND that asks from one that answers, for traces. */
  lastWrite: "none" | "out" | "in";
}

const INITIAL: Attributes = {
  accessFlags: 0,
  pathMtu: 256,
  destAddress: 0,
  trafficClass: 0,
  hopLimit: 64,
  flowLabel: 0,
  udpSourcePort: 0,
  destQpn: 0,
  rqPsn: 0,
  sqPsn: 0,
  maxDestRdAtomic: 0,
  maxRdAtomic: 0,
  minRnrTimer: 0,
  timeout: 0,
  retryCnt: 0,
  rnrRetry: 0,
  qKey: 0,
};

/** Fields of a frame's outer headers (`rocev2.md` §1.1). */
export interface Path {
  readonly address: number;
  readonly destQpn: number;
  readonly dscp: number;
  readonly ttl: number;
  readonly udpSourcePort: number;
  /**
   * Of a GRH (RoCEv1). Without one in the address vector it comes from the two QPNs, as RoCEv2's source port does:
   * a choice, by which captures can tell flows apart. Linux leaves it 0.
   */
  readonly flowLabel: number;
}

/** The path of a connected queue pair: its own source port, else its flow label's, else the QPNs'. */
function pathOf(qpn: number, attributes: Attributes): Path {
  const { destAddress, destQpn, trafficClass, hopLimit, flowLabel } = attributes;
  return {
    address: destAddress >>> 0,
    destQpn,
    dscp: trafficClass >> 2,
    ttl: hopLimit,
    udpSourcePort: attributes.udpSourcePort || udpSourcePort(qpn, destQpn, flowLabel),
    flowLabel: flowLabel || flowLabelOf(qpn, destQpn),
  };
}

export function createQueuePair(identity: Identity): QueuePair {
  return {
    ...identity,
    life: 0,
    ...inReset(identity.qpn),
    scheduled: false,
    surplus: 0,
    answersNext: false,
  };
}

function inReset(qpn: number) {
  return {
    state: "reset" as const,
    attributes: { ...INITIAL },
    timeoutPs: 0,
    path: pathOf(qpn, INITIAL),
    sq: {
      busy: false,
      mayHaveMore: false,
      partial: undefined,
      partialPosition: 0,
      drainNotify: false,
    },
    rq: {
      busy: false,
      fetched: new Fifo<RecvWqe>(),
      waiters: new Fifo<RecvWaiter>(),
      retries: 0,
      ahead: createRingAhead(),
    },
    requester: createRequester(0),
    responder: createResponder(0),
    lastWrite: "none" as const,
  };
}

function createRequester(sqPsn: number): Requester {
  return {
    work: new Fifo(),
    cursor: 0,
    cursorPacket: 0,
    nextPsn: sqPsn,
    unacknowledged: sqPsn,
    ackCursor: 0,
    issuedEnd: sqPsn,
    line: createLine(),
    unanswered: 0,
    slotsTaken: 0,
    nextSsn: 1,
    creditLimit: undefined,
    retriesLeft: 0,
    rnrRetriesLeft: 0,
    rnrWaiting: false,
    rnrSince: undefined,
    sinceAckReq: 0,
    apart: undefined,
    persistWaiting: new Map(),
    probes: new Fifo(),
    cpuAcks: new Fifo(),
  };
}

/** Write access to the read-only fields of {@link QueuePair}, in this file alone. */
function own(qp: QueuePair): Writable<QueuePair> {
  return qp as Writable<QueuePair>;
}

/** Takes attributes over; a transition to RTR or RTS starts the sequence numbers. */
export function applyAttributes(queuePair: QueuePair, attributes: QpAttributes): void {
  const qp = own(queuePair);
  const { state, curState: _, enSqdAsyncNotify, ...given } = attributes;
  const known = { ...qp.attributes } as Writable<Attributes>;
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) known[name as keyof Attributes] = value;
  }
  qp.attributes = known;
  const { timeout } = qp.attributes;
  qp.timeoutPs = timeout === 0 ? 0 : TIMEOUT_UNIT_PS * 2 ** timeout;
  qp.path = pathOf(qp.qpn, qp.attributes);
  if (state === "rtr" && qp.state === "init") qp.responder = createResponder(qp.attributes.rqPsn);
  if (state === "rts" && qp.state === "rtr") {
    qp.requester = createRequester(qp.attributes.sqPsn);
  }
  if (given.retryCnt !== undefined || given.rnrRetry !== undefined) reloadRetries(qp);
  if (state === "sqd" && qp.state === "rts") qp.sq.drainNotify = enSqdAsyncNotify ?? false;
  if (state !== undefined) qp.state = state;
}

/** Progress was acknowledged, or the attributes are new: both retry counters start anew (§3.3). */
export function reloadRetries({ requester, attributes }: QueuePair): void {
  const own = requester as Writable<Requester>;
  own.retriesLeft = attributes.retryCnt;
  own.rnrRetriesLeft = attributes.rnrRetry;
  own.rnrSince = undefined;
}

/**
 * It fails. `err`: it sends and receives nothing any more, and all posted work completes with an error.
 * `sqe`: its sends fail, it still receives.
 */
export function enterState(qp: QueuePair, state: "err" | "sqe"): void {
  own(qp).state = state;
}

/** RESET: forgets, silently, all that was under way. */
export function resetQueuePair(queuePair: QueuePair): void {
  const qp = own(queuePair);
  qp.life++;
  Object.assign(qp, inReset(qp.qpn));
}

export function permits(qp: QueuePair, need: number): boolean {
  return (qp.attributes.accessFlags & need) === need;
}

export interface SharedReceiveQueue {
  /** The queue's number as well. */
  readonly srqn: number;
  ring: RingPlace;
  readonly stride: number;
  readonly pd: number;
  users: number;
  /** SRQ_LIMIT_REACHED is raised at fewer WQEs than this; 0: not armed. */
  limit: number;
  busy: boolean;
  readonly fetched: Fifo<RecvWqe>;
  /** Queue pairs that have a waiter, in turn, each once. */
  readonly waiting: Set<QueuePair>;
  readonly ahead: RingAhead;
}

/** Receive WQEs of a ring that hints want ahead of their messages (H-21). */
export interface RingAhead {
  /** WQEs on the chip up to this number were looked at. */
  looked: number;
  /** Number of further ones wanted, by all queue pairs of the ring together. */
  wanted: number;
  /** The look at a shared ring that is under way is for hints, too: it fetches WQEs though no queue pair waits. */
  isWanted: boolean;
  /** A look since the last one for hints began has found none posted. */
  isEmpty: boolean;
}

export function createRingAhead(): RingAhead {
  return { looked: 0, wanted: 0, isWanted: false, isEmpty: false };
}

/** The Q_Key that datagrams to this queue pair must carry: the GSI's is fixed. */
export function qKeyOf(qp: QueuePair): number {
  return qp.qpn === GSI_QPN ? GSI_QKEY : qp.attributes.qKey >>> 0;
}
