/** Rings of queue pairs and shared receive queues. */
import { VENDOR_ERRORS, vendorErrorText } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { WQE_OPCODES, type WqeOpcode } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import { assert, fail } from "../../../fabric/base/assert.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { BLUE_FLAME_WQE_BYTES, encodeBlueFlame } from "../../../fabric/wire/host_bus/blue_flame.ts";
import {
  DOORBELL_MESSAGE_OFFSET,
  DOORBELL_OFFSET,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import type { Steps } from "../cpu/program.ts";
import { storePointer } from "./device.ts";
import { awaitRing } from "./resize_queue.ts";
import type { Device, PostedSend, PostError, Qp, Srq, VerbError, WrId } from "./objects.ts";

/** A bigint is shown as its decimal text in traces, records and JSON. */
export function shownWrId(wrId: WrId): number | string {
  return typeof wrId === "bigint" ? `${wrId}` : wrId;
}

export interface Retired {
  readonly wrId: WrId;
  readonly posted?: PostedSend;
}

/** Frees the WQE and all earlier ones, which completed unsignalled (`rocev2.md` §5.3). */
export function retireSend(qp: Qp, index: number): Retired {
  const { sq } = qp;
  for (;;) {
    if (sq.requests === 0) {
      fail(`QP ${qp.qpn}: completion of WQE ${index}, which is not outstanding`);
    }
    const at = sq.tail;
    const units = sq.units[at]!;
    sq.tail = (at + units) % sq.depth;
    sq.used -= units;
    sq.requests--;
    if (at === index) return { wrId: sq.wrIds[at]!, posted: sq.posted[at]! };
  }
}

export function retireRecv(qp: Qp, index: number): Retired {
  const { rq, srq } = qp;
  if (srq !== undefined) return { wrId: retireSlot(srq, index) };
  if (rq.requests === 0 || rq.tail !== index) fail(`QP ${qp.qpn}: RECV ${index} is not the oldest`);
  rq.tail = (index + 1) % rq.depth;
  rq.used--;
  rq.requests--;
  return { wrId: rq.wrIds[index]! };
}

/** @returns the receive's wr_id. */
export function retireSlot(srq: Srq, slot: number): WrId {
  const wrId = srq.ring.wrIds[slot];
  assert(wrId !== undefined, `SRQ ${srq.srqn}: slot ${slot} is not outstanding`);
  srq.ring.wrIds[slot] = undefined;
  srq.ring.free.push(slot);
  return wrId;
}

const LOCAL_PROTECTION = 0x50, REFUSED_BY_PEER = 0x88;

/**
 * A failure in words: a send's with its request, a peer's refusal with its NAK. The peer's card has
 * the reason in a note (`nodes/rnic/responder/refusal_text.ts`).
 */
export function failureText(qp: Qp, vendorErr: number, posted: PostedSend | undefined): string {
  const text = textOf(vendorErr, posted?.opcode);
  if (posted === undefined) return `a receive: ${text}`;
  const { opcode, remote, sges, bytes } = posted;
  const at = remote === undefined ? "" : ` at VA ${hex(remote.va)}, rkey ${hex(remote.rkey)}`;
  const request = `${opcode}${bytes > 0 ? ` of ${bytes} B` : ""}${at}`;
  if ((vendorErr & 0xf0) === LOCAL_PROTECTION) {
    const elements = sges.map((each) =>
      `${each.length} B at ${hex(each.address)}, lkey ${hex(each.lkey)}`
    );
    return `${request}: ${text}: ${elements.join("; ")}`;
  }
  const isRefused = vendorErr >= REFUSED_BY_PEER && vendorErr < REFUSED_BY_PEER + 4;
  const article = /^[aeiou]/.test(request) ? "an" : "a";
  return isRefused ? `${peerOf(qp)} refused ${article} ${request}: ${text}` : `${request}: ${text}`;
}

const RNR_RETRY = VENDOR_ERRORS["rnr-retry-exceeded"].code;

function textOf(vendorErr: number, opcode: WqeOpcode | undefined): string {
  if (
    vendorErr === RNR_RETRY && opcode !== undefined && WQE_OPCODES[opcode].takesRecv !== "always"
  ) {
    // The operation takes no receive, so none was missing.
    return "RNR NAKs came more often than rnr_retry permits: a page of the peer's memory was not there";
  }
  return vendorErrorText(vendorErr) ?? `vendor_err 0x${vendorErr.toString(16)}`;
}

function peerOf({ device, life: { attributes: { destAddress } } }: Qp): string {
  const { addresses } = device.cpu;
  return Object.keys(addresses).find((name) => addresses[name] === destAddress) ?? "the peer";
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

/** Stops at the first refused request; one doorbell is for those before it. */
export function* postAll<Request extends object>(
  requests: Request | readonly Request[],
  to: {
    readonly device: Device;
    readonly queue: Parameters<typeof awaitRing>[1];
    readonly enqueue: (request: Request) => VerbError | undefined;
    readonly ring: (posted: number) => Steps<void>;
  },
): Steps<PostError | undefined> {
  const { device, queue, ring, enqueue } = to;
  const list = Array.isArray(requests) ? requests as readonly Request[] : [requests as Request];
  let posted = 0;
  let error: PostError | undefined;
  yield* awaitRing(device, queue);
  for (const request of list) {
    const wrong = enqueue(request);
    if (wrong !== undefined) {
      error = { ...wrong, bad: posted };
      break;
    }
    posted++;
  }
  if (posted > 0) yield* ring(posted);
  return error;
}

/** Stores the pointer in space 3, then rings (`rocev2.md` §5.2: this order). */
export function* ringDoorbell(
  device: Device,
  queue: { readonly queue: number; readonly write: number; stamp: Time },
): Steps<void> {
  storePointer(device, queue, queue.write);
  yield* repeatDoorbell(device, queue);
  if (device.state.isWatched) device.cpu.signal(DOORBELL_RUNG);
}

export const DOORBELL_RUNG = "doorbell-rung";

/** Rings with the last stored pointer (Q-06, in either form). */
export function* repeatDoorbell(
  { cpu, state }: Device,
  { queue, write: pointer, stamp }: { readonly queue: number; readonly write: number; stamp: Time },
): Steps<void> {
  if (cpu.tracing) traceDoorbell(cpu, { queue, pointer, stamp, how: state.doorbell });
  const doorbell = state.doorbell === "pointer" ? { queue, write: { pointer, stamp } } : { queue };
  const offset = state.doorbellForm === "fifo" ? DOORBELL_OFFSET : DOORBELL_MESSAGE_OFFSET;
  yield* cpu.registerWrite(offset, encodeDoorbell(doorbell));
}

function traceDoorbell(
  cpu: Device["cpu"],
  rung: {
    readonly queue: number;
    readonly pointer: number;
    readonly stamp: Time;
    readonly how: string;
  },
): void {
  const { queue, pointer, stamp, how } = rung;
  const text = `doorbell of queue ${queue}, by ${how}: write pointer ${pointer}, ` +
    `stored at ${formatTime(stamp)}`;
  cpu.trace({ step: "doorbell", text, queue, stamp });
}

/** A WQE with only this segment is not worth the store (mlx5). */
const CONTROL_BYTES = 16;

/**
 * A WQE posted alone is sent to the RNIC with its doorbell where the queue pair's rule says so
 * (BlueFlame). The WQE is also in the ring and the write pointer is stored, so the RNIC may fetch
 * it instead. Condition: rdma-core, `providers/mlx5/qp.c`, `post_send_db`.
 */
export function* ringSends(qp: Qp, posted: number): Steps<void> {
  const { device, sq, caps: { blueFlame } } = qp;
  const { bytes, isInline } = sq.newest!;
  // The bytes share a slab with others, which must not live as long as the queue pair.
  sq.newest = undefined;
  const isCarried = posted === 1 && (blueFlame === "on" || (blueFlame === "inline" && isInline)) &&
    device.state.doorbell === "pointer" && bytes.length > CONTROL_BYTES &&
    bytes.length <= BLUE_FLAME_WQE_BYTES;
  if (!isCarried) return yield* ringDoorbell(device, sq);
  const write = { pointer: sq.write, stamp: storePointer(device, sq, sq.write) };
  if (device.cpu.tracing) traceDoorbell(device.cpu, { queue: sq.queue, ...write, how: "WQE" });
  const stores = encodeBlueFlame({ queue: sq.queue, write }, bytes, sq.buffer);
  sq.buffer = sq.buffer === 0 ? 1 : 0;
  yield* device.cpu.writeCombined(stores.offset, stores.bytes);
  if (device.state.isWatched) device.cpu.signal(DOORBELL_RUNG);
}
