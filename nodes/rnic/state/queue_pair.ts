/**
 * A queue pair's context on the chip: configuration, requester, responder. `life_cycle.ts` has each state's rights.
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

export type Attributes = { readonly [Name in Exclude<keyof QpAttributes, Momentary>]-?: number };

type Momentary = "state" | "curState" | "enSqdAsyncNotify";

export type RecvWaiter =
  | { readonly kind: "packet" }
  /** S1006: the host's CPU must flush a message. */
  | { readonly kind: "persist"; readonly record: PersistRecord }
  /** P-27: the completion of a persistent write. */
  | { readonly kind: "confirmed"; readonly work: OutstandingWqe };

export interface ReceiveQueue {
  busy: boolean;
  readonly fetched: Fifo<RecvWqe>;
  readonly waiters: Fifo<RecvWaiter>;
  /** Looks at the empty queue for the first waiter. */
  retries: number;
  readonly ahead: RingAhead;
}

export interface SendQueue {
  busy: boolean;
  /** A doorbell came, or the last look left WQEs. */
  mayHaveMore: boolean;
  /** The first units of a WQE, and their position, if the last fetch did not bring the others. */
  partial: Uint8Array<ArrayBuffer> | undefined;
  partialPosition: number;
  drainNotify: boolean;
}

/** An ACK or NAK of a PSN that was never sent: the peer's rq_psn may differ from `sq_psn` here. */
export interface PsnsApart {
  readonly expected: number;
  /** True for a NAK; an ACK confirms the PSN before. */
  readonly isAsking: boolean;
  /** Where false, it may be a late answer of an earlier connection. */
  readonly isSure: boolean;
}

/** Only `requester_changes.ts` and this file write the read-only fields. */
export interface Requester {
  readonly work: ReadonlyFifo<OutstandingWqe>;
  readonly cursor: number;
  readonly cursorPacket: number;
  readonly nextPsn: number;
  readonly unacknowledged: number;
  readonly ackCursor: number;
  /** One past the highest PSN ever sent: an ACK beyond is invalid. */
  readonly issuedEnd: number;
  readonly line: TxOrder;
  /** A fence waits for these. */
  readonly unanswered: number;
  /** Requests that take slots: all but FLUSHes. */
  readonly slotsTaken: number;
  readonly nextSsn: number;
  /** Undefined where the peer's answers have no credits (§3.2). */
  creditLimit: number | undefined;
  readonly retriesLeft: number;
  readonly rnrRetriesLeft: number;
  rnrWaiting: boolean;
  readonly rnrSince: Time | undefined;
  readonly sinceAckReq: number;
  /** A sure one stays; otherwise the last one. */
  apart: PsnsApart | undefined;
  /** Writes without their second ACK, by last PSN (P-28). */
  readonly persistWaiting: ReadonlyMap<number, OutstandingWqe>;
  /** Their last packet is to be sent again (P-30). */
  readonly probes: ReadonlyFifo<OutstandingWqe>;
  /** Persistence ACKs of the CPU that are not carried out (P-26). */
  readonly cpuAcks: ReadonlyFifo<OutstandingWqe>;
}

/** A firmware's queue pair has no queues. */
export const NO_QUEUE = -1;

interface Identity {
  readonly qpn: number;
  readonly type: QpType;
  readonly pd: number;
  readonly sqQueue: number;
  readonly rqQueue: number;
  readonly rqStride: number;
  readonly srq: SharedReceiveQueue | undefined;
  readonly rings: { sq: RingPlace; rq: RingPlace | undefined };
  readonly sendCq: number;
  readonly recvCq: number;
  readonly persistCompletion: "persistence" | "reception";
  readonly weight: number;
  /** By policy where absent (H-09). */
  readonly hints?: HintPart | undefined;
  /** By policy where absent (H-07). */
  readonly hintEncoding?: HintEncoding | undefined;
  /**
   * The class of a firmware's own queue pair between coherent cards; undefined for a program's. Its
   * work is queued on the card, and its queue numbers are {@link NO_QUEUE}.
   */
  readonly card?: CoherenceClass | undefined;
  readonly slot: number;
}

export interface QueuePair extends Identity {
  readonly state: QpState;
  /** Work of an earlier life is void. */
  readonly life: number;
  readonly attributes: Attributes;
  readonly timeoutPs: Time;
  readonly path: Path;
  readonly sq: SendQueue;
  readonly rq: ReceiveQueue;
  readonly requester: Requester;
  readonly responder: Responder;
  scheduled: boolean;
  /** Bytes that it may still send in this round; negative where overdrawn. */
  surplus: number;
  answersNext: boolean;
  /** Distinguishes a SEND that asks from one that answers, for traces. */
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

/** `rocev2.md` §1.1. */
export interface Path {
  readonly address: number;
  readonly destQpn: number;
  readonly dscp: number;
  readonly ttl: number;
  readonly udpSourcePort: number;
  /**
   * RoCEv1. Without one in the address vector it is computed from the two QPNs, as RoCEv2's source
   * port is, so that captures can tell flows apart; Linux leaves it 0.
   */
  readonly flowLabel: number;
}

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

function own(qp: QueuePair): Writable<QueuePair> {
  return qp as Writable<QueuePair>;
}

/** RTR and RTS set the first sequence numbers. */
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

/** Progress, or new attributes, reload the counters (§3.3). */
export function reloadRetries({ requester, attributes }: QueuePair): void {
  const own = requester as Writable<Requester>;
  own.retriesLeft = attributes.retryCnt;
  own.rnrRetriesLeft = attributes.rnrRetry;
  own.rnrSince = undefined;
}

/**
 * `err`: nothing is sent or received, all work completes with an error. `sqe`: sends fail, receives
 * go on.
 */
export function enterState(qp: QueuePair, state: "err" | "sqe"): void {
  own(qp).state = state;
}

export function resetQueuePair(queuePair: QueuePair): void {
  const qp = own(queuePair);
  qp.life++;
  Object.assign(qp, inReset(qp.qpn));
}

export function permits(qp: QueuePair, need: number): boolean {
  return (qp.attributes.accessFlags & need) === need;
}

export interface SharedReceiveQueue {
  readonly srqn: number;
  ring: RingPlace;
  readonly stride: number;
  readonly pd: number;
  users: number;
  /** SRQ_LIMIT_REACHED below this; 0: not armed. */
  limit: number;
  busy: boolean;
  readonly fetched: Fifo<RecvWqe>;
  readonly waiting: Set<QueuePair>;
  readonly ahead: RingAhead;
}

/** H-21. */
export interface RingAhead {
  /** Hints have looked at WQEs on the chip up to this number. */
  looked: number;
  wanted: number;
  /** The look under way is for hints: it fetches WQEs though no queue pair waits. */
  isWanted: boolean;
  /** The last look since hints began found none. */
  isEmpty: boolean;
}

export function createRingAhead(): RingAhead {
  return { looked: 0, wanted: 0, isWanted: false, isEmpty: false };
}

/** The GSI's is fixed. */
export function qKeyOf(qp: QueuePair): number {
  return qp.qpn === GSI_QPN ? GSI_QKEY : qp.attributes.qKey >>> 0;
}
