/**
 * QP 1, the general services interface: the connection managers' UD queue pair. Only the `cm`
 * service polls its completions.
 */
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "../verbs/flags.ts";
import {
  type CmMessage,
  decodeCm,
  encodeCm,
  isSidr,
  MAD_BYTES,
} from "../../../fabric/wire/roce/cm.ts";
import { GSI_QKEY } from "../../../fabric/wire/roce/deth.ts";
import { createAh, destroyAh, GRH_BYTES, sourceInGrh } from "../verbs/address_handle.ts";
import { createCq } from "../verbs/create_cq.ts";
import { failed, must } from "../verbs/device.ts";
import { allocPd, regMr } from "../verbs/memory_region.ts";
import { postRecv, postSend, sge } from "../verbs/post.ts";
import type { Steps } from "../cpu/program.ts";
import type { CmAgent } from "./cm_state.ts";
import { createQp, modifyQp } from "../verbs/queue_pair.ts";
import type { Cq, Device, Mr, Qp } from "../verbs/objects.ts";
import type { Buffer } from "../memory/address_map.ts";
import { MAX_INLINE_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";

const GSI_QPN = 1;
/** The number of datagrams in the send queue, and in the receive queue until the service polls. */
const SEND_SLOTS = 32;
const RECV_SLOTS = 128;
const RECV_SLOT_BYTES = 512;

export interface Gsi {
  readonly qp: Qp;
  readonly cq: Cq;
  readonly buffers: { readonly send: Buffer; readonly recv: Buffer };
  readonly sendMr: Mr;
  readonly recvMr: Mr;
  /** Slot of the next datagram: shared by the Gsi objects of all programs. */
  readonly sending: { nextSlot: number };
}

export interface CmState {
  readonly agent: CmAgent;
  gsi: Gsi;
}

export interface CmDevice extends Device {
  readonly cm: CmState;
}

/**
 * Creates QP 1 and posts its receives. @param earlier QP 1 before a failure, whose memory is
 * reused.
 */
export function* openGsi(program: Device, earlier?: Gsi): Steps<Gsi> {
  const device: Device = { ...program, privileged: true };
  const { cpu } = device;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: SEND_SLOTS + RECV_SLOTS }));
  const buffers = earlier?.buffers ?? {
    send: cpu.allocate(SEND_SLOTS * MAD_BYTES),
    recv: cpu.allocate(RECV_SLOTS * RECV_SLOT_BYTES),
  };
  const sendMr = must(yield* regMr(pd, buffers.send, { access: 0, pin: true }));
  const recvMr = must(
    yield* regMr(pd, buffers.recv, { access: IBV_ACCESS_LOCAL_WRITE, pin: true }),
  );
  const qp = must(
    yield* createQp(pd, {
      type: "ud",
      sendCq: cq,
      recvCq: cq,
      maxSendWr: SEND_SLOTS,
      maxRecvWr: RECV_SLOTS,
      // Sets only the ring's size (WQEs of five units each): a MAD is never inline.
      maxInlineData: MAX_INLINE_BYTES,
      qpn: GSI_QPN,
    }),
  );
  must(yield* modifyQp(qp, { state: "init", qKey: GSI_QKEY }));
  const gsi = { qp, cq, buffers, sendMr, recvMr, sending: { nextSlot: 0 } };
  must(
    yield* postRecv(qp, Array.from({ length: RECV_SLOTS }, (_, slot) => recvRequest(gsi, slot))),
  );
  must(yield* modifyQp(qp, { state: "rtr" }));
  must(yield* modifyQp(qp, { state: "rts", sqPsn: 0 }));
  return gsi;
}

function recvRequest(gsi: Gsi, slot: number) {
  return { wrId: slot, sges: [sge(gsi.recvMr, slot * RECV_SLOT_BYTES, GRH_BYTES + MAD_BYTES)] };
}

/** Without effect where the RNIC has failed. */
export function* recycleRecv(gsi: Gsi, slots: readonly number[]): Steps<void> {
  yield* postRecv(gsi.qp, slots.map((slot) => recvRequest(gsi, slot)));
}

/** @returns undefined for an invalid message. */
export function receivedMessage(
  gsi: Gsi,
  received: { readonly slot: number; readonly byteLen: number },
): { readonly message: CmMessage; readonly from: number } | undefined {
  if (received.byteLen !== GRH_BYTES + MAD_BYTES) return undefined;
  const { cpu } = gsi.qp.device;
  const bytes = cpu.load(gsi.recvMr.address + received.slot * RECV_SLOT_BYTES, received.byteLen);
  const message = decodeCm(bytes.slice(GRH_BYTES));
  if (message === undefined) return undefined;
  trace(gsi, "cm-receive", message);
  return { message, from: sourceInGrh(bytes) };
}

export function gsiOf(device: CmDevice): Gsi {
  const { gsi } = device.cm;
  return { ...gsi, qp: { ...gsi.qp, device }, cq: { ...gsi.cq, device } };
}

function trace(gsi: Gsi, step: string, message: CmMessage): void {
  const { cpu } = gsi.qp.device;
  if (!cpu.tracing) return;
  if (isSidr(message)) {
    const text = `${message.type} of request ${message.requestId}`;
    return cpu.trace({ step, text, qpn: GSI_QPN });
  }
  const ids = "remoteCommId" in message
    ? `${message.localCommId} → ${message.remoteCommId}`
    : `${message.localCommId}`;
  cpu.trace({ step, text: `${message.type} of connection ${ids}`, qpn: GSI_QPN });
}

/**
 * The message is dropped where the queue is full or the RNIC has failed: datagrams are unreliable,
 * and a request's sender repeats it.
 */
export function* sendMessage(
  gsi: Gsi,
  datagram: { readonly to: number; readonly message: CmMessage },
): Steps<void> {
  if (gsi.qp.sq.requests >= SEND_SLOTS) return;
  trace(gsi, "cm-send", datagram.message);
  const ah = createAh(gsi.qp.pd, { address: datagram.to });
  if (failed(ah)) return;
  const slot = gsi.sending.nextSlot;
  gsi.sending.nextSlot = (slot + 1) % SEND_SLOTS;
  const at = gsi.sendMr.address + slot * MAD_BYTES;
  gsi.qp.device.cpu.store(at, encodeCm(datagram.message));
  yield* postSend(gsi.qp, {
    opcode: "send",
    wrId: slot,
    sendFlags: IBV_SEND_SIGNALED,
    sges: [sge(gsi.sendMr, slot * MAD_BYTES, MAD_BYTES)],
    ud: { qKey: GSI_QKEY, qpn: GSI_QPN, ah },
  });
  destroyAh(ah);
}
