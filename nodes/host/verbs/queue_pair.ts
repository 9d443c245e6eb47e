/** Queue pairs, and the driver's record of their rings. */
import { encodeHint, type HintMessage } from "../../../fabric/wire/roce/hint.ts";
import type { HintEncoding } from "../../../fabric/wire/roce/hint_eth.ts";
import { decodeEntry, entryAddress } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { refuseModify } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import type {
  CqesWritten,
  HintPart,
  QpAttributes,
  QpState,
  QpType,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { OBJECTS_BYTES, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { endLife, refuseCq } from "./completion_queue.ts";
import {
  allocated,
  contiguous,
  dropEvents,
  failed,
  giveBack,
  inTime,
  perform,
  powerOfTwo,
  refusePd,
  refuseQp,
  refuseStale,
  refuseUnacknowledged,
  request,
  storePointer,
  verbError,
} from "./device.ts";
import type { BlueFlame } from "../../../fabric/rack/plan/plan.ts";
import type { Steps } from "../cpu/program.ts";
import { LIMITS, refuseBeyond, RING_UNITS_MAX } from "./limits.ts";
import { depthFor, memoryOf, resizeRing } from "./resize_queue.ts";
import type {
  Cq,
  Device,
  InlineRule,
  Pd,
  Qp,
  QpCaps,
  RecvRing,
  SendRing,
  Srq,
  VerbError,
} from "./objects.ts";

/** ibv_qp_init_attr: options of `createQp`. */
export interface QpOptions {
  /** rc, uc or ud. */
  readonly type: QpType;
  /** The completion queue of sends. */
  readonly sendCq: Cq;
  /** The completion queue of receives; may be the same. */
  readonly recvCq: Cq;
  /** 0: the queue pair only receives, and posts of sends are ENOMEM. */
  readonly maxSendWr: number;
  /**
   * 0: the queue pair only sends, and messages that need a receive get an RNR NAK. Ignored with
   * `srq`.
   */
  readonly maxRecvWr: number;
  /** Receives come from this shared queue. */
  readonly srq?: Srq;
  /**
   * Elements of one send, 0 to {@link LIMITS}; 1 by default. A WQE with more takes more of the
   * ring.
   */
  readonly maxSendSge?: number;
  /** Elements of one receive, 0 to {@link LIMITS}; 1 by default. */
  readonly maxRecvSge?: number;
  /**
   * max_inline_data: bytes that may go inline, up to {@link LIMITS}; 0 by default. `caps` has the
   * granted value, which is the WQEs' room: 28 B where none are requested (12 B for UD).
   */
  readonly maxInlineData?: number;
  /** Q-02; the device's rule by default. */
  readonly inline?: InlineRule;
  /** sq_sig_all: every send is signaled; false by default. */
  readonly sqSigAll?: boolean;
  /**
   * WQEs that, posted alone, are sent to the RNIC with their doorbell; the device's rule by
   * default.
   */
  readonly blueFlame?: BlueFlame;
  /** P-29: when a persistent write completes; `persistence` by default. */
  readonly persistCompletion?: "persistence" | "reception";
  /**
   * Weight of its share of the line beside the port's other queue pairs, 1 to 255; the program's
   * weight by default, else 1.
   */
  readonly weight?: number;
  /**
   * H-09: whether its requests are announced to the peer, and the peer's requests prepared for; the
   * card's policy by default. H-08: a `carrier` at both ends carries the hints of all queue pairs
   * of the two cards. A `group`, which is UD and attached to a multicast group, carries those of
   * its protection domain, or of the card where that trusts it, for all peers; EPERM where the card
   * trusts it and the program is not privileged. The card takes the messages to a `group`.
   */
  readonly hints?: HintPart;
  /**
   * H-07: the encoding of hints that it carries, where its service or part carries hints; the
   * card's policy by default.
   */
  readonly hintEncoding?: HintEncoding;
  /**
   * no posted request takes a receive of the peer, so the peer's receive queue may be small:
   * a SEND, or a WRITE with immediate, is refused with EINVAL.
   */
  readonly oneSided?: boolean;
  /** H-01: objects that one request may cover, up to {@link LIMITS}; 0 by default. */
  readonly maxObjects?: number;
  /** Only the GSI requests a number. */
  readonly qpn?: number;
}

const INLINE_HEADER_BYTES = 4;

/** Control segment, remote address, and a datagram's. */
function segmentBytes(type: QpType): number {
  return 16 + 16 + (type === "ud" ? 16 : 0);
}

/** Inline data can use the rest of the largest WQE (as mlx5's calc_sq_size). */
function grantedInline(type: QpType, caps: Parameters<typeof largestUnits>[1]): number {
  const room = largestUnits(type, caps) * WQE_UNIT_BYTES - segmentBytes(type);
  return Math.max(
    caps.maxInlineData,
    Math.min(room - INLINE_HEADER_BYTES, LIMITS.inlineBytes.most),
  );
}

function largestUnits(
  type: QpType,
  { maxSendSge: maxSge, maxInlineData, maxObjects }: Pick<
    QpCaps,
    "maxSendSge" | "maxInlineData" | "maxObjects"
  >,
): number {
  const payload = Math.max(16 * maxSge, INLINE_HEADER_BYTES + maxInlineData, 16);
  const bytes = Math.max(
    segmentBytes(type) + payload,
    // An atomic has operands, but no inline data.
    16 + 16 + 16 + (maxObjects > 0 ? 2 * OBJECTS_BYTES : 0) + 16 * maxSge,
  );
  return Math.ceil(bytes / WQE_UNIT_BYTES);
}

function capsOf(device: Device, options: QpOptions): QpCaps {
  const { type, maxInlineData: asked = 0 } = options;
  const inline = options.inline ?? device.state.inline;
  const sizes = {
    maxSendSge: options.maxSendSge ?? 1,
    maxInlineData: inline.by === "program" ? asked : Math.max(asked, inline.bytes),
    maxObjects: options.maxObjects ?? 0,
  };
  return {
    ...sizes,
    maxSendWr: options.maxSendWr,
    // a peer can rely on the shared queue's size.
    maxRecvWr: options.srq?.caps.maxWr ?? options.maxRecvWr,
    maxRecvSge: options.maxRecvSge ?? 1,
    maxInlineData: grantedInline(type, sizes),
    inline,
    sqSigAll: options.sqSigAll ?? false,
    blueFlame: options.blueFlame ?? device.state.blueFlame,
    weight: options.weight ?? device.weight ?? 1,
    persistCompletion: options.persistCompletion ?? "persistence",
    oneSided: options.oneSided ?? false,
  };
}

function refuseCreate(pd: Pd, caps: QpCaps, options: QpOptions): VerbError | undefined {
  const { device } = pd;
  const { sendCq, recvCq, srq } = options;
  const foreign = [sendCq, recvCq, ...(srq ? [srq.pd] : [])].some((each) =>
    each.device.state !== device.state
  );
  if (foreign) {
    return verbError("EINVAL", "A queue is of another card than the protection domain");
  }
  const gone = refuseCq(device, sendCq) ?? refuseCq(device, recvCq) ??
    (srq && refuseStale(device, srq.pd.epoch)) ?? refusePd(pd);
  if (gone !== undefined) return gone;
  if (srq !== undefined && !srq.uses.alive) {
    return verbError("EINVAL", "The shared receive queue is gone");
  }
  for (const [name, limit] of SIZES) {
    const beyond = refuseBeyond(name, caps[name], limit);
    if (beyond !== undefined) return beyond;
  }
  const { maxObjects } = caps;
  if (maxObjects > 0 && options.hintEncoding === "flagged") {
    return verbError(
      "EINVAL",
      "Hints that are flagged name no objects: a READ or WRITE of no bytes has no room for a list",
    );
  }
  if (maxObjects > 0 && options.type === "ud") {
    return verbError("EINVAL", "Requests of a UD queue pair cover no objects: they have no hints");
  }
  const { maxInlineData: inline = 0 } = options;
  return refuseBeyond("maxInlineData", inline, LIMITS.inlineBytes) ??
    refuseBeyond("maxInlineData", caps.maxInlineData, LIMITS.inlineBytes);
}

/** The rings limit depths, too (ENOMEM). */
const SIZES = [
  ["maxSendWr", LIMITS.requests],
  ["maxRecvWr", LIMITS.requests],
  ["maxSendSge", LIMITS.elements],
  ["maxRecvSge", LIMITS.elements],
  ["weight", LIMITS.weight],
  ["maxObjects", LIMITS.objects],
] as const;

const EMPTY_RING = { stamp: 0, resizing: false, write: -1, tail: 0, used: 0, requests: 0 };

/**
 * ibv_create_qp: a queue pair in state RESET. EINVAL for a size, weight or rule out of range, or a
 * destroyed object; ENOMEM without enough room in a ring, memory, or numbers of the card; ENOENT
 * where the RNIC has failed.
 */
export function* createQp(pd: Pd, options: QpOptions): Steps<Qp | VerbError> {
  const { device } = pd;
  const caps = capsOf(device, options);
  const wrong = refuseCreate(pd, caps, options);
  if (wrong !== undefined) return wrong;
  const unitsEach = largestUnits(options.type, caps);
  const sqDepth = depthFor(caps.maxSendWr, unitsEach);
  const { srq } = options;
  const rqDepth = srq === undefined ? depthFor(caps.maxRecvWr) : 0;
  const stride = caps.maxRecvSge <= 1 ? 16 : 16 * powerOfTwo(caps.maxRecvSge);
  if (sqDepth > RING_UNITS_MAX || rqDepth > RING_UNITS_MAX) {
    return verbError("ENOMEM", `A ring has at most ${RING_UNITS_MAX} units`);
  }
  const sqBuffer = allocated(() => device.cpu.allocateContiguous(sqDepth * WQE_UNIT_BYTES));
  if (failed(sqBuffer)) return sqBuffer;
  const rqBuffer = srq === undefined
    ? allocated(() => device.cpu.allocateContiguous(rqDepth * stride))
    : sqBuffer;
  if (failed(rqBuffer)) {
    device.cpu.free(sqBuffer);
    return rqBuffer;
  }
  const answer = yield* request(device.cpu, "create-qp", {
    op: "create-qp",
    type: options.type,
    sq: { address: contiguous(sqBuffer), units: sqDepth },
    ...(srq === undefined
      ? { rq: { address: contiguous(rqBuffer), units: rqDepth }, rqStride: stride }
      : { srq: srq.srqn }),
    sendCq: options.sendCq.cqn,
    recvCq: options.recvCq.cqn,
    pd: pd.handle,
    persistCompletion: caps.persistCompletion,
    ...(caps.weight !== 1 && { weight: caps.weight }),
    ...(options.hints !== undefined && { hints: options.hints }),
    ...(options.hintEncoding !== undefined && { hintEncoding: options.hintEncoding }),
    // H-08: a card that trusts its group checks the owner's privilege.
    ...(options.hints === "group" && device.privileged && { privileged: true }),
    ...(options.qpn !== undefined && { qpn: options.qpn }),
  });
  const reply = inTime(answer, device, pd.epoch);
  if (failed(reply)) {
    device.cpu.free(sqBuffer);
    if (srq === undefined) device.cpu.free(rqBuffer);
    return reply;
  }
  const sq: SendRing = {
    ...EMPTY_RING,
    queue: reply.sqQueue,
    ...memoryOf(sqBuffer),
    depth: sqDepth,
    requestsMax: caps.maxSendWr,
    wrIds: [],
    units: new Uint8Array(sqDepth),
    posted: [],
    unsignaled: 0,
    newest: undefined,
    buffer: 0,
  };
  const rq: RecvRing = {
    ...EMPTY_RING,
    queue: reply.rqQueue,
    ...memoryOf(rqBuffer),
    depth: rqDepth,
    requestsMax: srq === undefined ? caps.maxRecvWr : 0,
    wrIds: [],
    stride,
  };
  const { sendCq, recvCq, type } = options;
  const life: Qp["life"] = { state: "reset", attributes: {} };
  const { qpn } = reply;
  const groups = new Set<number>();
  const qp: Qp = { device, pd, qpn, type, sendCq, recvCq, sq, rq, srq, groups, life, caps };
  emptyRings(qp);
  device.state.queuePairs.set(qp.qpn, qp);
  device.state.held.set(sq, sq.address);
  if (srq === undefined) device.state.held.set(rq, rq.address);
  pd.uses.count++;
  sendCq.place.users++;
  recvCq.place.users++;
  if (srq !== undefined) srq.uses.count++;
  return qp;
}

function emptyRings(qp: Qp): void {
  const { cpu } = qp.device;
  if (cpu.auditing) cpu.note({ kind: "emptied", queue: "pair", qpn: qp.qpn });
  for (const ring of qp.srq === undefined ? [qp.sq, qp.rq] : [qp.sq]) {
    ring.write = ring.depth - 1;
    ring.tail = ring.used = ring.requests = 0;
    storePointer(qp.device, ring, ring.write);
  }
}

/**
 * Moves the queue pair to another state, or changes attributes within one. EINVAL for transitions
 * or attributes that the life-cycle table does not permit, without any change.
 *
 * @example Two queue pairs of one host
 * ```ts
 * import { must, type ProgramContext, type Qp, type Steps } from "rackmesh";
 *
 * export default function* connected({ cpu, device }: ProgramContext): Steps<void> {
 *   const { allocPd, createCq, createQp, modifyQp, queryQp } = device.verbs;
 *   const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 8 }));
 *   const options = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 } as const;
 *   const one = must(yield* createQp(pd, options)), other = must(yield* createQp(pd, options));
 *   const destAddress = cpu.addresses[cpu.host]!;
 *   function* connect(qp: Qp, destQpn: number): Steps<void> {
 *     must(yield* modifyQp(qp, { state: "init", accessFlags: 0 }));
 *     const path = { pathMtu: 1024, destAddress, destQpn, rqPsn: 0 } as const;
 *     must(yield* modifyQp(qp, { state: "rtr", ...path, maxDestRdAtomic: 1, minRnrTimer: 12 }));
 *     const timers = { timeout: 14, retryCnt: 7, rnrRetry: 7 };
 *     must(yield* modifyQp(qp, { state: "rts", ...timers, sqPsn: 0, maxRdAtomic: 1 }));
 *   }
 *   yield* connect(one, other.qpn);
 *   yield* connect(other, one.qpn);
 *   cpu.report("result", { state: must(yield* queryQp(one)).state });
 * }
 * ```
 */
export function* modifyQp(qp: Qp, attributes: QpAttributes): Steps<VerbError | undefined> {
  const { type, life, qpn, device } = qp;
  const gone = refuseQp(qp);
  if (gone !== undefined) return gone;
  // The kernel refuses it for processes without CAP_NET_RAW.
  if ((attributes.qKey ?? 0) >= 0x8000_0000 && !device.privileged) {
    return verbError("EPERM", `Q_Key ${attributes.qKey} is a controlled one`);
  }
  const refusal = refuseModify({ type, state: life.state, mtu: device.state.mtu }, attributes);
  if (refusal !== undefined) {
    return verbError("EINVAL", `Cannot modify QP ${qpn} as ${refusal}`);
  }
  const { state, curState: _, enSqdAsyncNotify: __, ...given } = attributes;
  const command = { op: "modify-qp", qpn, attributes } as const;
  if (state === "reset") {
    const reply = yield* request(device.cpu, "qp-emptied", command);
    if (failed(reply)) return reply;
    endLives(qp, reply.written);
    emptyRings(qp);
    life.attributes = {};
  } else {
    const { rqPsn } = given;
    if (state === "rtr" && rqPsn !== undefined && device.cpu.auditing) {
      device.cpu.note({ kind: "connects", qpn, rqPsn });
    }
    const wrong = yield* perform(device.cpu, command);
    if (wrong !== undefined) return wrong;
    life.attributes = { ...life.attributes, ...given };
    if (state === "rts" && device.cpu.auditing) device.cpu.note({ kind: "resumed", qpn });
  }
  life.state = state ?? life.state;
  return undefined;
}

function endLives({ qpn, sendCq, recvCq, srq }: Qp, written: CqesWritten): void {
  endLife(sendCq, qpn, { before: written.send, srq });
  endLife(recvCq, qpn, { before: written.recv, srq });
}

/** The result of ibv_query_qp. */
export interface QpInfo {
  /** RESET to ERR. */
  readonly state: QpState;
  /** Sizes, as granted. */
  readonly caps: QpCaps;
  /** As set by `modifyQp` in this life. */
  readonly attributes: QpAttributes;
}

/**
 * ibv_query_qp: state, sizes, attributes. The state is the card's own, read from queue information,
 * space 1. EINVAL for a destroyed queue pair.
 */
export function* queryQp(qp: Qp): Steps<QpInfo | VerbError> {
  const { cpu, state } = qp.device;
  const gone = refuseQp(qp);
  if (gone !== undefined) return gone;
  const address = entryAddress(state.store, state, { queue: qp.sq.queue, space: 1 });
  const found = decodeEntry(state.store, 1, yield* cpu.read(address, state.store.bytes[1])).state!;
  if (mayBecome(qp.life.state, found)) qp.life.state = found;
  yield* cpu.settle();
  return { state: qp.life.state, caps: qp.caps, attributes: qp.life.attributes };
}

/**
 * Only the RNIC itself can have changed the state so. Otherwise the stored state is older than the
 * driver's: a reply may arrive before the preceding write is visible.
 */
function mayBecome(known: QpState, found: QpState): boolean {
  if (found === "err") return known !== "reset";
  return found === "sqe" && (known === "rts" || known === "sqd");
}

/**
 * ibv_destroy_qp: its unread completions and events are lost. EINVAL the second time. EBUSY while
 * one of its events is unacknowledged, or it is attached to a multicast group.
 */
export function* destroyQp(qp: Qp): Steps<VerbError | undefined> {
  const { device } = qp;
  const wrong = refuseQp(qp) ?? refuseUnacknowledged(device.context, qp.sq);
  if (wrong !== undefined) return wrong;
  const command = { op: "destroy-qp", qpn: qp.qpn } as const;
  const reply = inTime(yield* request(device.cpu, "qp-emptied", command), device, qp.pd.epoch);
  if (failed(reply)) return reply;
  endLives(qp, reply.written);
  qp.life.state = "reset";
  for (const ring of [qp.sq, qp.rq]) giveBack(device, ring);
  if (qp.srq !== undefined) qp.srq.uses.count--;
  dropEvents(device.context, qp.sq);
  device.state.queuePairs.delete(qp.qpn);
  qp.pd.uses.count--;
  qp.sendCq.place.users--;
  qp.recvCq.place.users--;
  return undefined;
}

/**
 * Sends a hint unchanged (H-09): a program may know its next operations before it posts them. The
 * responder prepares what the queue pair has rights to (H-24). EINVAL where the queue pair sends no
 * hints, its peer has not announced which it takes, or the hint is longer than a packet.
 */
export function* postHint(qp: Qp, hint: HintMessage): Steps<VerbError | undefined> {
  const { device, qpn } = qp;
  const stale = refuseStale(device, qp.pd.epoch);
  if (stale !== undefined) return stale;
  return yield* perform(device.cpu, { op: "send-hint", qpn, message: encodeHint(hint) });
}

/** Sizes of a queue pair's own rings, in work requests; absent: unchanged. */
export interface QpSize {
  /** Sends that may be outstanding. */
  readonly maxSendWr?: number;
  /** Receives that may be outstanding. */
  readonly maxRecvWr?: number;
}

/**
 * resizes the rings of a queue pair in use, first the send queue's, then the receive queue's:
 * no work request is lost, repeated or reordered. This is `ibv_modify_qp` with IBV_QP_CAP, for
 * cards with IBV_DEVICE_RESIZE_MAX_WR; here it is a verb of its own, as `modifyQp` is about states.
 * Posts to the queue, and completions of its completion queue, wait meanwhile.
 *
 * EINVAL for an invalid size, or for a shared receive queue (`modifySrq` resizes that one); ENOMEM
 * for a size beyond the ring's limit or the memory; EBUSY where more requests are outstanding,
 * where the part of the ring to be cut holds some, or where the queue is being resized.
 */
export function* resizeQp(qp: Qp, size: QpSize): Steps<VerbError | undefined> {
  const { maxSendWr = qp.caps.maxSendWr, maxRecvWr = qp.caps.maxRecvWr } = size;
  const wrong = refuseQp(qp) ?? refuseSize(qp, size);
  if (wrong !== undefined) return wrong;
  const { type, sq, rq } = qp;
  const sqDepth = depthFor(maxSendWr, largestUnits(type, qp.caps));
  const rqDepth = qp.srq === undefined ? depthFor(maxRecvWr) : 0;
  if (sqDepth > RING_UNITS_MAX || rqDepth > RING_UNITS_MAX) {
    return verbError("ENOMEM", `A ring has at most ${RING_UNITS_MAX} units`);
  }
  if (size.maxSendWr !== undefined) {
    const refused = yield* resizeRing({ queue: "send", ring: sq, qp }, sqDepth);
    if (refused !== undefined) return refused;
    sq.requestsMax = maxSendWr;
    qp.caps = { ...qp.caps, maxSendWr };
  }
  if (size.maxRecvWr !== undefined) {
    const refused = yield* resizeRing({ queue: "recv", ring: rq, qp }, rqDepth);
    if (refused !== undefined) return refused;
    rq.requestsMax = maxRecvWr;
    qp.caps = { ...qp.caps, maxRecvWr };
  }
  return undefined;
}

function refuseSize(qp: Qp, { maxSendWr, maxRecvWr }: QpSize): VerbError | undefined {
  if (maxRecvWr !== undefined && qp.srq !== undefined) {
    return verbError("EINVAL", "Receives come from a shared queue, which has a size of its own");
  }
  const rows = [["maxSendWr", maxSendWr, qp.sq], ["maxRecvWr", maxRecvWr, qp.rq]] as const;
  for (const [name, wanted, ring] of rows) {
    if (wanted === undefined) continue;
    const beyond = refuseBeyond(name, wanted, LIMITS.requests);
    if (beyond !== undefined) return beyond;
    if (wanted < ring.requests) {
      return verbError("EBUSY", `${ring.requests} work requests are outstanding, not ${wanted}`);
    }
  }
  return undefined;
}

/**
 * Sends all packets of a connected queue pair from this UDP port, which selects a path for the
 * flow; 0 restores the computed port (`rocev2.md` §1.1). EINVAL in another state than RTS.
 */
export function modifyQpUdpSport(qp: Qp, udpSourcePort: number): Steps<VerbError | undefined> {
  return modifyQp(qp, { udpSourcePort });
}
