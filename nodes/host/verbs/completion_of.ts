/** Converts a completion from the ring's entry to the program's form (`rocev2.md` §4.1, §5.3). */
import type { Cqe, CqeOpcode } from "../../../fabric/wire/host_bus/cqe.ts";
import { decodeVerdict } from "../../../fabric/wire/roce/verify_eth.ts";
import type { Device, Qp, ReceiveOpcode, WorkCompletion } from "./objects.ts";
import { retireRecv, retireSend } from "./rings.ts";

/** Whether it belongs to a send queue. */
export function isOfSend(cqe: Cqe): boolean {
  return cqe.opcode === "requester" || cqe.opcode === "requester-error";
}

/** Records the queue pair's state after an error completion (`rocev2.md` §4.1). */
function noteError(qp: Qp, cqe: Cqe): void {
  const { life, type } = qp;
  if (type === "rc" || !isOfSend(cqe)) life.state = "err";
  else if (life.state === "rts" || life.state === "sqd") life.state = "sqe";
}

/**
 * The program's form of a ring entry; frees what it retires. Undefined where its queue pair was
 * destroyed meanwhile: such completions are discarded.
 */
export function completionOf(device: Device, cqe: Cqe): WorkCompletion | undefined {
  const qp = device.state.queuePairs.get(cqe.qpn);
  if (qp === undefined) return undefined;
  // A write that failed its verification was answered: its queue pair remains operational (V-01).
  if (cqe.status !== "SUCCESS" && cqe.status !== "VERIFY_ERR") noteError(qp, cqe);
  const retired = isOfSend(cqe) ? retireSend(qp, cqe.wqeIndex) : retireRecv(qp, cqe.wqeIndex);
  if (device.cpu.auditing) noteCompleted(qp, cqe, { device, wrId: retired.wrId });
  const verify = decodeVerdict(cqe.verify);
  return {
    wrId: retired.wrId,
    status: cqe.status,
    opcode: isOfReceive(cqe.opcode) ? cqe.opcode : retired.opcode,
    qpNum: cqe.qpn,
    byteLen: cqe.byteCount,
    immData: cqe.immediate,
    psn: cqe.psn,
    va: Number(cqe.va),
    srcQp: cqe.sourceQpn,
    ...(verify !== undefined && { verify }),
  };
}

/** The audit record of a completion (`Cpu.audit`). */
function noteCompleted(
  { qpn, srq }: Qp,
  cqe: Cqe,
  { device, wrId }: { readonly device: Device; readonly wrId: number },
): void {
  const { wqeIndex: wqe, status } = cqe;
  const of = { kind: "completed", qpn, wqe, wrId, status } as const;
  if (isOfSend(cqe)) device.cpu.audit({ ...of, queue: "send" });
  else if (srq === undefined) device.cpu.audit({ ...of, queue: "recv" });
  else device.cpu.audit({ ...of, queue: "shared", srqn: srq.srqn });
}

function isOfReceive(opcode: CqeOpcode): opcode is ReceiveOpcode {
  return opcode !== "requester" && opcode !== "requester-error" && opcode !== "resize";
}
