/**
 * The data path: `ibv_post_send`, `ibv_post_recv`. A post writes WQEs and the write pointer to host
 * memory and rings one doorbell; the RNIC is never called.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import {
  DOORBELL_OFFSET,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import type { QpState } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { VerifyLevel } from "../../../fabric/wire/roce/verify_eth.ts";
import {
  encodeRecvWqe,
  encodeSendWqe,
  type FlushOperands,
  type SendWqe,
  type Sge,
  type UdAddress,
  type VerifyOperands,
  WQE_UNIT_BYTES,
  type WqeOpcode,
  wqeUnits,
} from "../../../fabric/wire/host_bus/wqe.ts";
import type { Ah } from "./address_handle.ts";
import { type Device, storePointer, type VerbError, verbError } from "./device.ts";
import type { Mr } from "./memory_region.ts";
import { bindOperands, type MwBind } from "./memory_window.ts";
import type { Steps } from "../cpu/program.ts";
import type { Qp, SendRing } from "./queue_pair.ts";
import { NO_SGES, payloadBytes, refuseSend, SHAPES } from "./refuse_send.ts";

/** ibv_send_wr. */
export interface SendRequest {
  readonly opcode: Exclude<WqeOpcode, "nop">;
  /** Comes back in the completion; 0 by default. */
  readonly wrId?: number;
  /** Where the payload is, or where a READ or an atomic puts its answer. */
  readonly sges?: readonly Sge[];
  /** data goes into the WQE (true), or is fetched by DMA (false), whatever the rule says. */
  readonly inline?: boolean;
  /** Whether success makes a completion; true by default. Failure always does. */
  readonly signaled?: boolean;
  readonly solicited?: boolean;
  /** Waits for earlier READs and atomics of this queue pair. */
  readonly fence?: boolean;
  /** Immediate, key to invalidate, or, for `persistence-ack`, the PSN that is persistent (P-26). */
  readonly immediate?: number;
  readonly remote?: { readonly va: number; readonly rkey: number };
  readonly atomic?: { readonly swapAdd: bigint; readonly compare: bigint };
  /** Of `flush` (ibv_wr_flush): what of the remote memory, and how far it is to come. */
  readonly flush?: FlushRequest;
  /** Of `write-verify`: how far its data is to be checked. */
  readonly verify?: VerifyRequest;
  /** Of `bind-mw`: which part of which region gets which key. */
  readonly bind?: MwBind;
  readonly ud?: UdDestination;
}

/** Where a UD send goes: `wr.ud` of ibv_send_wr. */
export interface UdDestination {
  readonly ah: Ah;
  /** 0xFFFFFF where the handle names a multicast group. */
  readonly qpn: number;
  /** The receiver's; with bit 31 set the sending queue pair's own Q_Key stands in for it. */
  readonly qKey: number;
}

/** Arguments of ibv_wr_flush beside the remote address and its key. */
export interface FlushRequest {
  /** IBV_FLUSH_GLOBAL: visible to every observer there. IBV_FLUSH_PERSISTENT: survives power loss. */
  readonly placement: readonly ("global" | "persistent")[];
  /** IBV_FLUSH_RANGE: `length` bytes from the remote address. IBV_FLUSH_MR: all of its region. */
  readonly selectivity: "range" | "mr";
  /** Bytes of the range; 0 by default. */
  readonly length?: number;
}

/** How a `write-verify` is to be checked; the peer must let it (`remoteWriteVerify`). */
export interface VerifyRequest {
  /**
   * V-04: `none` answers when the data has been written; `check` writes nothing whose CRC is wrong;
   * `verify` also reads back and compares; `verify-crc` compares by the CRC of what it has read.
   */
  readonly level: VerifyLevel;
  /** V-09: the answer also says that the data survives a power failure; false by default. */
  readonly persist?: boolean;
  /** CRC-32 of the data as the program has it; the RNIC computes one unless given. */
  readonly crc?: number;
}

/** ibv_recv_wr. */
export interface RecvRequest {
  readonly wrId?: number;
  readonly sges: readonly Sge[];
}

/** The post stopped at request number `bad`; the earlier ones are posted (`rocev2.md` §4.3). */
export interface PostError extends VerbError {
  readonly bad: number;
}

/** The part of a region that a request uses. */
export function sge(mr: Mr, offset = 0, length = mr.length - offset): Sge {
  return { address: mr.address + offset, length, lkey: mr.lkey };
}

const SENDING_STATES: ReadonlySet<QpState> = new Set(["rts", "sqd", "sqe", "err"]);

/** whether the payload goes into the WQE. */
function goesInline(qp: Qp, request: SendRequest, bytes: number): boolean {
  if (SHAPES[request.opcode].inline === "always") return true;
  if (request.inline !== undefined) return request.inline;
  if (!SHAPES[request.opcode].inline || bytes === 0) return false;
  const rule = qp.caps.inline;
  if (rule.by === "program" || bytes > rule.bytes) return false;
  return rule.by === "size" || rule.opcodes.includes(request.opcode);
}

function gather(device: Device, sges: readonly Sge[], bytes: number): Uint8Array<ArrayBuffer> {
  const { cpu } = device;
  if (sges.length === 1) return cpu.load(sges[0]!.address, bytes);
  const data = new Uint8Array(bytes);
  let at = 0;
  for (const each of sges) {
    data.set(cpu.load(each.address, each.length), at);
    at += each.length;
  }
  return data;
}

function flushOperands({ placement, selectivity, length = 0 }: FlushRequest): FlushOperands {
  const { globalVisibility, persistence } = FLUSH_PLACEMENT;
  return {
    select: selectivity === "range" ? FLUSH_SELECT.range : FLUSH_SELECT.region,
    placement: (placement.includes("global") ? globalVisibility : 0) |
      (placement.includes("persistent") ? persistence : 0),
    length,
  };
}

function verifyOperands({ level, persist = false, crc }: VerifyRequest): VerifyOperands {
  return crc === undefined ? { level, persist } : { level, persist, crc };
}

function udAddress({ ah, qpn, qKey }: UdDestination): UdAddress {
  const { address, trafficClass, hopLimit, udpSourcePort } = ah;
  return { qKey, qpn, address, trafficClass, hopLimit, udpSourcePort };
}

function wqeOf(qp: Qp, request: SendRequest): SendWqe {
  const sges = request.sges ?? NO_SGES;
  const bytes = payloadBytes(sges);
  const inline = goesInline(qp, request, bytes);
  const { remote, atomic, ud } = request;
  const wqe: { -readonly [Field in keyof SendWqe]: SendWqe[Field] } = {
    opcode: request.opcode,
    index: (qp.sq.write + 1) % qp.sq.depth,
    qpn: qp.qpn,
    signaled: request.signaled ?? true,
    solicited: request.solicited ?? false,
    fence: request.fence ?? false,
    immediate: request.immediate ?? 0,
    sges: inline ? NO_SGES : sges,
  };
  if (remote !== undefined) wqe.remote = { va: BigInt(remote.va), rkey: remote.rkey };
  if (atomic !== undefined) wqe.atomic = atomic;
  if (request.flush !== undefined) wqe.flush = flushOperands(request.flush);
  if (request.verify !== undefined) wqe.verify = verifyOperands(request.verify);
  if (request.bind !== undefined) wqe.bind = bindOperands(request.bind);
  if (ud !== undefined) wqe.ud = udAddress(ud);
  if (inline) wqe.inline = gather(qp.device, sges, bytes);
  return wqe;
}

/** Puts one WQE at the ring's end; the ring wraps inside a WQE too. */
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
  sq.units[first] = units;
  sq.opcodes[first] = wqe.opcode;
  sq.write = (first + units - 1) % sq.depth;
  sq.used += units;
  sq.requests++;
}

function traceWqe(qp: Qp, request: SendRequest, wqe: number): void {
  const { opcode, wrId = 0 } = request;
  const text = `WQE of ${opcode} at ${wqe} of the send queue`;
  qp.device.cpu.trace({ step: "wqe", text, wrId, qpn: qp.qpn, wqe });
}

function notePosted({ device, qpn, sq }: Qp, wqe: number, signaled: boolean): void {
  const wrId = sq.wrIds[wqe] ?? 0;
  device.cpu.note({ kind: "posted", queue: "send", qpn, wqe, wrId, signaled });
}

/** Positions of the receive WQEs that the next so many posts fill. */
export function nextRecvs({ rq }: Qp, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (rq.write + 1 + i) % rq.depth);
}

/** Puts one request into the ring, or says why not. */
export function enqueueSend(qp: Qp, request: SendRequest): VerbError | undefined {
  const { sq, device } = qp;
  if (!SENDING_STATES.has(qp.life.state)) {
    return verbError("EINVAL", `A queue pair in ${qp.life.state} takes no sends`);
  }
  const refusal = refuseSend(qp, request);
  if (refusal !== undefined) return verbError("EINVAL", refusal);
  if (sq.requests >= sq.requestsMax) {
    return verbError("ENOMEM", `${sq.requests} sends are outstanding, room is for no more`);
  }
  const wqe = wqeOf(qp, request);
  if (sq.used + wqeUnits(wqe) > sq.depth - 1) {
    return verbError("ENOMEM", `${sq.used} of ${sq.depth} units are filled, room is for no more`);
  }
  device.cpu.charge(device.state.timing.postPs);
  sq.wrIds[wqe.index] = request.wrId ?? 0;
  fill(device, sq, wqe);
  // As ibv_bind_mw does: the key is the new one from now on.
  if (request.bind !== undefined) request.bind.mw.rkey = request.bind.rkey;
  if (device.cpu.tracing) traceWqe(qp, request, wqe.index);
  if (device.cpu.noting) notePosted(qp, wqe.index, wqe.signaled);
  return undefined;
}

/**
 * Posts sends in order, with one doorbell for all. Stops at the first that cannot be posted: EINVAL
 * where it is wrong in itself or the queue pair's state takes none, ENOMEM where the ring is full.
 * @returns undefined where all are posted.
 */
export function postSend(
  qp: Qp,
  requests: SendRequest | readonly SendRequest[],
): Steps<PostError | undefined> {
  const { device, sq } = qp;
  return postAll(requests, { device, ring: sq, enqueue: (request) => enqueueSend(qp, request) });
}

/** Puts requests into a ring up to the first that is refused, and rings once for those before it. */
export function* postAll<Request extends object>(
  requests: Request | readonly Request[],
  to: {
    readonly device: Device;
    readonly ring: Parameters<typeof ringDoorbell>[1];
    readonly enqueue: (request: Request) => VerbError | undefined;
  },
): Steps<PostError | undefined> {
  const { device, ring, enqueue } = to;
  const list = Array.isArray(requests) ? requests as readonly Request[] : [requests as Request];
  let posted = 0;
  let error: PostError | undefined;
  for (const request of list) {
    const wrong = enqueue(request);
    if (wrong !== undefined) {
      error = { ...wrong, bad: posted };
      break;
    }
    posted++;
  }
  if (posted > 0) yield* ringDoorbell(device, ring);
  return error;
}

/** The new write pointer in space 3, then the doorbell (`rocev2.md` §5.2: in this order). */
export function* ringDoorbell(
  device: Device,
  queue: { readonly queue: number; readonly write: number; stamp: Time },
): Steps<void> {
  const pointer = queue.write;
  const stamp = storePointer(device, queue, pointer);
  const doorbell = device.state.doorbell === "pointer"
    ? { queue: queue.queue, write: { pointer, stamp } }
    : { queue: queue.queue };
  yield* device.cpu.registerWrite(DOORBELL_OFFSET, encodeDoorbell(doorbell));
}

function enqueueRecv(qp: Qp, request: RecvRequest): VerbError | undefined {
  const { rq, device } = qp;
  if (qp.life.state === "reset") {
    return verbError("EINVAL", "A queue pair in reset takes no receives");
  }
  if (qp.srq !== undefined) {
    return verbError("EINVAL", "Receives of this queue pair are posted to its shared queue");
  }
  if (request.sges.length > qp.caps.maxRecvSge) {
    const found = request.sges.length;
    return verbError("EINVAL", `${found} elements, the queue pair takes ${qp.caps.maxRecvSge}`);
  }
  if (rq.requests >= rq.requestsMax || rq.used >= rq.depth - 1) {
    return verbError("ENOMEM", `${rq.requests} receives are outstanding, room is for no more`);
  }
  device.cpu.charge(device.state.timing.postPs);
  const at = (rq.write + 1) % rq.depth;
  device.cpu.store(rq.address + at * rq.stride, encodeRecvWqe(request.sges, rq.stride));
  rq.wrIds[at] = request.wrId ?? 0;
  rq.write = at;
  rq.used++;
  rq.requests++;
  if (device.cpu.noting) {
    const { qpn } = qp, wrId = rq.wrIds[at] ?? 0;
    device.cpu.note({ kind: "posted", queue: "recv", qpn, wqe: at, wrId, signaled: true });
  }
  return undefined;
}

/** Posts receives in order, with one doorbell; as {@link postSend}. */
export function postRecv(
  qp: Qp,
  requests: RecvRequest | readonly RecvRequest[],
): Steps<PostError | undefined> {
  const { device, rq } = qp;
  return postAll(requests, {
    device,
    ring: rq,
    enqueue: (request) => enqueueRecv(qp, request),
  });
}
