/** The end of a message at the responder: its PSN is taken, its receive WQE completes. */
import type { PacketIn, RecvWqe } from "../state/responder_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { Device } from "../state/device.ts";
import type { CqeOpcode, WcStatus } from "../../../fabric/wire/host_bus/cqe.ts";
import { closeMessage } from "../state/responder_changes.ts";
import { complete, PLAIN_CQE } from "../queues/completion_queue.ts";

export function completeReceive(
  device: Device,
  qp: QueuePair,
  done: {
    readonly recv: RecvWqe;
    readonly input: PacketIn;
    readonly byteCount: number;
    readonly opcode: CqeOpcode;
  },
): void {
  const { recv, input, byteCount, opcode } = done;
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode,
    qpn: qp.qpn,
    wqeIndex: recv.position & 0xffff,
    byteCount,
    immediate: input.packet.immdt?.immediate ?? input.packet.ieth?.rkey ?? 0,
    solicited: input.packet.bth.solicited,
  });
}

/** The receive WQE's own CQE of what it could not take. */
export function failReceive(
  device: Device,
  qp: QueuePair,
  fault: { readonly recv: RecvWqe; readonly status: WcStatus },
): void {
  closeMessage(qp);
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode: "responder-error",
    status: fault.status,
    qpn: qp.qpn,
    wqeIndex: fault.recv.position & 0xffff,
  });
}
