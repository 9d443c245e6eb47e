/**
 * The data path. A post writes WQEs and the write pointer to host memory and rings one doorbell,
 * without a command to the RNIC.
 */
import { FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import type { QpState } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  encodeRecvWqe,
  encodeSendWqe,
  type FlushOperands,
  type SendWqe,
  type Sge,
  WQE_UNIT_BYTES,
  wqeBytes,
  wqeUnits,
} from "../../../fabric/wire/host_bus/wqe.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import { ProgramError, verbError } from "./device.ts";
import { IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, type SendFlags } from "./flags.ts";
import { NULL_MR_BYTES } from "./memory_region.ts";
import { bindOperands, incRkey } from "./memory_window.ts";
import type { Steps } from "../cpu/program.ts";
import {
  asksInline,
  isSent,
  MESSAGE_BYTES_MAX,
  NO_SGES,
  noRoom,
  payloadBytes,
  refuseElements,
  refuseSend,
  refuseState,
  tooManyElements,
} from "./refuse_send.ts";
import type {
  Device,
  FlushRequest,
  Mr,
  Mw,
  MwBindInfo,
  PostError,
  Qp,
  RecvRequest,
  SendRequest,
  SendRing,
  VerbError,
  WrId,
} from "./objects.ts";
import { postAll, ringDoorbell, ringSends, shownWrId } from "./rings.ts";

/**
 * The part of a region that a request uses: all from `offset` on by default; for a null region,
 * which contains every address, the length of the longest message. Only the card checks an element
 * that is written as an object literal: a range outside the region ends in LOC_PROT_ERR, as with
 * libibverbs.
 * @throws ProgramError for a part outside the region.
 */
export function sge(mr: Mr, offset = 0, length = restOf(mr, offset)): Sge {
  if (!(offset >= 0 && length >= 0 && offset + length <= mr.length)) {
    const part = `${length} B from byte ${offset} on`;
    throw new ProgramError(
      `EINVAL: The element is ${part}: expected a part of the region's ${mr.length} B`,
    );
  }
  return { address: mr.address + offset, length, lkey: mr.lkey };
}

function restOf(mr: Mr, offset: number): number {
  return mr.length === NULL_MR_BYTES ? MESSAGE_BYTES_MAX : mr.length - offset;
}

const SENDING_STATES: ReadonlySet<QpState> = new Set(["rts", "sqd", "sqe", "err"]);

/** whether the data is inlined in the WQE. */
function goesInline(qp: Qp, request: SendRequest, bytes: number): boolean {
  if (WQE_OPCODES[request.opcode].data === "word" || asksInline(request)) return true;
  if (request.objects !== undefined) return false;
  if (!isSent(request.opcode) || bytes === 0) return false;
  const rule = qp.caps.inline;
  if (rule.by === "program" || bytes > rule.bytes) return false;
  if (rule.by === "type" && !rule.opcodes.includes(request.opcode)) return false;
  // The card refuses an element outside of regions, as without the rule, and generates the bytes of
  // one without memory.
  return request.sges!.every((each) => regionOf(qp.device, each) !== undefined);
}

/** The region that contains the whole element; undefined also for one without memory. */
function regionOf({ state }: Device, { address, length, lkey }: Sge): Mr | undefined {
  const mr = state.regions.get(lkey);
  if (mr === undefined || mr.length === NULL_MR_BYTES) return undefined;
  return address >= mr.address && address + length <= mr.address + mr.length ? mr : undefined;
}

/**
 * Elements name a region's addresses, which differ from the program's where there is an `iova`;
 * with IBV_SEND_INLINE, which needs no region (`ibv_post_send`), also the program's.
 */
function gather(device: Device, sges: readonly Sge[], bytes: number): Uint8Array<ArrayBuffer> {
  if (sges.length === 1) return loadElement(device, sges[0]!, bytes);
  const data = new Uint8Array(bytes);
  let at = 0;
  for (const each of sges) {
    data.set(loadElement(device, each, each.length), at);
    at += each.length;
  }
  return data;
}

function loadElement(device: Device, sge: Sge, length: number): Uint8Array<ArrayBuffer> {
  const mr = regionOf(device, sge);
  return device.cpu.load(sge.address + (mr === undefined ? 0 : mr.memory - mr.address), length);
}

function flushOperands({ placement, selectivity, length = 0 }: FlushRequest): FlushOperands {
  const select = selectivity === "range" ? FLUSH_SELECT.range : FLUSH_SELECT.region;
  return { select, placement, length };
}

function wqeOf(qp: Qp, request: SendRequest): SendWqe {
  const sges = request.sges ?? NO_SGES;
  const bytes = payloadBytes(sges);
  const inline = goesInline(qp, request, bytes);
  const { remote, atomic, ud, sendFlags = 0 } = request;
  const wqe: { -readonly [Field in keyof SendWqe]: SendWqe[Field] } = {
    opcode: request.opcode,
    index: (qp.sq.write + 1) % qp.sq.depth,
    qpn: qp.qpn,
    signaled: qp.caps.sqSigAll || (sendFlags & IBV_SEND_SIGNALED) !== 0,
    solicited: (sendFlags & IBV_SEND_SOLICITED) !== 0,
    fence: (sendFlags & IBV_SEND_FENCE) !== 0,
    immediate: request.immediate ?? 0,
    sges: inline ? NO_SGES : sges,
  };
  if (remote !== undefined) wqe.remote = { va: BigInt(remote.va), rkey: remote.rkey };
  if (atomic !== undefined) wqe.atomic = atomic;
  if (request.flush !== undefined) wqe.flush = flushOperands(request.flush);
  if (request.verify !== undefined) wqe.verify = { persist: false, ...request.verify };
  if (request.bind !== undefined) wqe.bind = bindOperands(request.bind);
  if (request.objects !== undefined) wqe.objects = request.objects;
  if (request.parts !== undefined) wqe.parts = request.parts;
  if (ud !== undefined) {
    const { address, trafficClass, hopLimit, udpSourcePort } = ud.ah;
    wqe.ud = { qKey: ud.qKey, qpn: ud.qpn, address, trafficClass, hopLimit, udpSourcePort };
  }
  if (inline) wqe.inline = gather(qp.device, sges, bytes);
  return wqe;
}

function fill(device: Device, sq: SendRing, wqe: SendWqe): void {
  const bytes = encodeSendWqe(wqe);
  const units = bytes.length / WQE_UNIT_BYTES;
  const first = wqe.index;
  const straight = Math.min(units, sq.depth - first) * WQE_UNIT_BYTES;
  if (straight === bytes.length) {
    device.cpu.store(sq.address + first * WQE_UNIT_BYTES, bytes);
  } else {
    device.cpu.store(sq.address + first * WQE_UNIT_BYTES, bytes.subarray(0, straight));
    device.cpu.store(sq.address, bytes.subarray(straight));
  }
  sq.newest = { bytes: bytes.subarray(0, wqeBytes(wqe)), isInline: wqe.inline !== undefined };
  const payload = wqe.inline?.length ?? payloadBytes(wqe.sges);
  sq.units[first] = units;
  sq.posted[first] = { opcode: wqe.opcode, remote: wqe.remote, sges: wqe.sges, bytes: payload };
  sq.write = (first + units - 1) % sq.depth;
  sq.used += units;
  sq.requests++;
  sq.unsignaled = wqe.signaled ? 0 : sq.unsignaled + 1;
}

export function nextRecvs({ rq }: Qp, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (rq.write + 1 + i) % rq.depth);
}

function enqueueSend(qp: Qp, request: SendRequest): VerbError | undefined {
  const wqe = fillSend(qp, request);
  if ("errno" in wqe) return wqe;
  noteSend(qp, request, wqe);
  return undefined;
}

/** Writes neither a trace nor the checks' records. @returns the reason against the request. */
export function fillSend(qp: Qp, request: SendRequest): SendWqe | VerbError {
  const { sq, device } = qp;
  if (!SENDING_STATES.has(qp.life.state)) return refuseState(qp, "sends: expected rts");
  const refusal = refuseSend(qp, request);
  if (refusal !== undefined) return verbError("EINVAL", refusal);
  if (sq.requests >= sq.requestsMax) {
    return noRoom(`${sq.requests} sends are outstanding`, "maxSendWr");
  }
  const wqe = wqeOf(qp, request);
  if (sq.used + wqeUnits(wqe) > sq.depth - 1) {
    return noRoom(`${sq.used} of ${sq.depth} units are filled`, "maxSendWr");
  }
  device.cpu.charge(device.state.timing.postPs);
  sq.wrIds[wqe.index] = request.wrId ?? 0;
  fill(device, sq, wqe);
  // The new key is valid from now on, as in ibv_bind_mw.
  if (request.bind !== undefined) request.bind.mw.rkey = request.bind.rkey;
  return wqe;
}

export function noteSend(
  { device, sq: { queue } }: Qp,
  { opcode, wrId = 0 }: SendRequest,
  wqe: SendWqe,
): void {
  const { qpn, index, signaled } = wqe;
  if (device.cpu.tracing) {
    const text = `WQE of ${opcode} at ${index} of the send queue`;
    const shown = shownWrId(wrId);
    device.cpu.trace({ step: "wqe", text, wrId: shown, qpn, wqe: index, queue });
  }
  if (device.cpu.auditing) {
    const posted = { kind: "posted", queue: "send", qpn, wqe: index, signaled } as const;
    device.cpu.note({ ...posted, wrId: shownWrId(wrId) });
  }
}

/**
 * Posts sends in order, with one doorbell for all. Stops at the first that cannot be posted: EINVAL
 * where the request is invalid or the queue pair's state permits no sends, ENOMEM where the ring is
 * full.
 * @returns undefined where all are posted.
 */
export function postSend(
  qp: Qp,
  requests: SendRequest | readonly SendRequest[],
): Steps<PostError | undefined> {
  const { device, sq } = qp;
  return postAll(requests, {
    device,
    queue: sq,
    enqueue: (request) => enqueueSend(qp, request),
    ring: (posted) => ringSends(qp, posted),
  });
}

function enqueueRecv(qp: Qp, request: RecvRequest): VerbError | undefined {
  const { rq, device } = qp;
  if (qp.life.state === "reset") return refuseState(qp, "receives: expected init, rtr or rts");
  if (qp.srq !== undefined) {
    return verbError("EINVAL", "Receives of this queue pair are posted to its shared queue");
  }
  if (request.sges.length > qp.caps.maxRecvSge) {
    return verbError("EINVAL", tooManyElements(request.sges, "maxRecvSge", qp.caps.maxRecvSge));
  }
  const tooLong = refuseElements(request.sges);
  if (tooLong !== undefined) return verbError("EINVAL", tooLong);
  if (rq.requests >= rq.requestsMax || rq.used >= rq.depth - 1) {
    return noRoom(`${rq.requests} receives are outstanding`, "maxRecvWr");
  }
  device.cpu.charge(device.state.timing.postPs);
  const at = (rq.write + 1) % rq.depth;
  device.cpu.store(rq.address + at * rq.stride, encodeRecvWqe(request.sges, rq.stride));
  rq.wrIds[at] = request.wrId ?? 0;
  rq.write = at;
  rq.used++;
  rq.requests++;
  if (device.cpu.auditing) {
    const posted = { kind: "posted", queue: "recv", wqe: at, signaled: true } as const;
    device.cpu.note({ ...posted, qpn: qp.qpn, wrId: shownWrId(request.wrId ?? 0) });
  }
  return undefined;
}

/** Posts receives in order, with one doorbell; errors as of {@link postSend}. */
export function postRecv(
  qp: Qp,
  requests: RecvRequest | readonly RecvRequest[],
): Steps<PostError | undefined> {
  const { device, rq } = qp;
  return postAll(requests, {
    device,
    queue: rq,
    enqueue: (request) => enqueueRecv(qp, request),
    ring: () => ringDoorbell(device, rq),
  });
}

/** ibv_mw_bind: options of `bindMw`. */
export interface BindOptions extends MwBindInfo {
  /** The completion returns it; 0 by default. */
  readonly wrId?: WrId;
  /** IBV_SEND_… by `|`; none by default. */
  readonly sendFlags?: SendFlags;
}

/**
 * Binds a window of type 1 under a new key, or unbinds it (`length` 0), by a work request of the
 * queue pair: the key is valid for later requests. EINVAL for a window of type 2.
 */
export function* bindMw(qp: Qp, mw: Mw, options: BindOptions): Steps<PostError | undefined> {
  if (mw.type !== 1) return { ...verbError("EINVAL", "Type 2 is bound by a post"), bad: 0 };
  const { wrId = 0, sendFlags = 0, ...info } = options;
  const bind = { ...info, mw, rkey: incRkey(mw.rkey) };
  return yield* postSend(qp, { opcode: "bind-mw", wrId, sendFlags, bind });
}
