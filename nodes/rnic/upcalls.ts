/**
 * Each call to a higher floor, bound to its function; `Upcalls` in `state/device.ts` documents
 * them.
 */
import type { Device, Upcalls } from "./state/device.ts";
import type { QueuePair, RecvWaiter } from "./state/queue_pair.ts";
import type { RecvWqe } from "./state/responder_state.ts";
import {
  grantRecv,
  refuseRecv,
  requestRefused,
  resumeBehindAtomics,
  resumeWithMemory,
} from "./responder/stalled_packets.ts";
import {
  answerPersistenceAck,
  confirmOnRecv,
  deliverToHost,
  resumeDeliveries,
} from "./persistence/pm_module.ts";
import { passAnswers, readFrameFailed, readFrameSent } from "./answers/answers.ts";
import { schedule } from "./state/device.ts";
import type { MemoryWait } from "./state/paging_state.ts";
import { queueEvent } from "./queues/event_queue.ts";
import { resumeResponses } from "./requester/response.ts";
import { flushWork } from "./requester/completer.ts";
import { failFatally } from "./requester/qp_error.ts";
import { startAtomic } from "./responder/atomic.ts";
import { loopBack } from "./responder/multicast.ts";
import type { PacketFrame } from "../../fabric/wire/roce/packet.ts";
import { isGroupAddress } from "../../fabric/wire/roce/neighbour.ts";
import { EXTENSION_UPCALLS } from "./extensions.ts";
import { countHint } from "./hints/send_hint.ts";
import { resumeLooks } from "./verify/read_back.ts";
import type { TxFrame } from "./state/tx_frame.ts";
import { fail, requestSent } from "./requester/requester.ts";

export const UPCALLS: Upcalls = {
  queueEvent,
  giveReceive,
  refuseRecv,
  flushWork,
  failFatally,
  frameSent,
  frameFailed,
  answerPersistenceAck,
  startAtomic,
  memoryReady,
  resumeBehindAtomics,
  ...EXTENSION_UPCALLS,
};

function giveReceive(
  device: Device,
  qp: QueuePair,
  turn: { readonly waiter: RecvWaiter; readonly recv: RecvWqe },
): void {
  const { waiter, recv } = turn;
  switch (waiter.kind) {
    case "packet":
      return grantRecv(device, qp, recv);
    case "persist":
      return deliverToHost(device, qp, { record: waiter.record, recv });
    case "confirmed":
      return confirmOnRecv(device, qp, { work: waiter.work, recv });
  }
}

function memoryReady(device: Device, { kind, qp }: MemoryWait): void {
  switch (kind) {
    case "request":
      return resumeWithMemory(device, qp);
    case "gap":
      return requestRefused(device, qp);
    case "gather":
    case "read":
      return schedule(device, qp);
    case "atomic":
      return passAnswers(device, qp);
    case "staged":
      return;
    case "look":
      return resumeLooks(device, qp);
    case "deliver":
      return resumeDeliveries(device, qp);
    case "response":
      return resumeResponses(device, qp);
  }
}

function frameSent(device: Device, frame: TxFrame, sent: PacketFrame): void {
  const { qp, ud, row } = frame;
  if (device.hints !== undefined && countHint(device, device.hints, { frame, sent })) return;
  if (ud !== undefined && isGroupAddress(ud.address)) {
    const { packet, head } = sent;
    loopBack(device, qp, { packet, row, head });
  }
  if (frame.work !== undefined) requestSent(device, qp, frame);
  else readFrameSent(device, qp, frame);
}

function frameFailed(device: Device, frame: TxFrame): void {
  const { qp, work } = frame;
  if (work !== undefined) fail(device, qp, { work, fault: "dma-refused" });
  else readFrameFailed(device, qp, frame);
}
