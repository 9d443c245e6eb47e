/**
 * Scheduling module: serves doorbells in order, and gives queue pairs their turns
 * (`turns.ts`), as far as DMA reads and the transmit buffer allow.
 */
import {
  CARD_MEMORY_BASE,
  CQ_ARM_OFFSET,
  decodeCqArm,
  decodeDoorbell,
  DOORBELL_MESSAGE_OFFSET,
  DOORBELL_OFFSET,
} from "../../fabric/wire/host_bus/queue_information.ts";
import { type Device, type QueueOwner, schedule } from "./state/device.ts";
import { storeFromHost } from "./dma/card_memory.ts";
import { canRead } from "./dma/dma.ts";
import { unpark } from "./transmit/flow_control.ts";
import type { QueueEntry } from "./state/queue_cache.ts";
import { findQueue, needsPointer, rereadPointer, takePointer } from "./queues/queue_information.ts";
import { observeHandled } from "./queues/stale_pointers.ts";
import { forgetPieces, noticeDoorbell, pushDoorbell } from "./queues/doorbell_space.ts";
import { serveReceives } from "./queues/receive_queue.ts";
import { fetchWork } from "./queues/send_queue.ts";
import { serveWaiting } from "./queues/shared_receive_queue.ts";
import type { RegisterWrite } from "../../fabric/wire/host_bus/pcie.ts";
import { runTurns } from "./turns.ts";
import { arm } from "./queues/completion_queue.ts";
import { placeOfRegister } from "../../fabric/wire/host_bus/blue_flame.ts";
import { takeCarried, takePiece } from "./queues/blue_flame.ts";
import type { DoorbellContent, TakenDoorbell } from "./state/queues.ts";
import { traceCached, traceDoorbell, traceLostDoorbell } from "./trace/queue_trace.ts";

export function writeRegister(device: Device, write: RegisterWrite): void {
  const isMessage = write.offset === DOORBELL_MESSAGE_OFFSET;
  if (isMessage || write.offset === DOORBELL_OFFSET) {
    const doorbell = decodeDoorbell(write.data);
    if (doorbell !== undefined) {
      forgetPieces(device, doorbell.queue);
      const { stored } = write;
      const taken = stored === undefined ? doorbell : { ...doorbell, stored };
      if (!noticeDoorbell(device, taken)) return;
      if (isMessage) serveDoorbell(device, taken);
      else pushDoorbell(device, taken);
      return;
    }
  } else if (write.offset === CQ_ARM_OFFSET) {
    const request = decodeCqArm(write.data);
    if (request !== undefined) return arm(device, request);
  } else if (write.offset >= CARD_MEMORY_BASE) {
    if (storeFromHost(device, write)) return;
  } else {
    const place = placeOfRegister(write.offset);
    const doorbell = place === undefined ? "refused" : takePiece(device, place, write.data);
    if (doorbell === undefined) return;
    if (doorbell !== "refused") {
      if (!noticeDoorbell(device, doorbell)) return;
      if (device.doorbellPlan.form === "message") serveDoorbell(device, doorbell);
      else pushDoorbell(device, doorbell);
      return;
    }
  }
  device.counters.doorbellsRefused++;
}

/** Called at the end of every step, while {@link hasTurns}. */
export function runSchedule(device: Device): void {
  const { congestion, dma, doorbells } = device;
  if (congestion?.flow !== undefined) unpark(device, congestion.flow);
  while (doorbells.length > 0 && canRead(dma.gather)) serveDoorbell(device, doorbells.shift()!);
  runTurns(device);
}

/**
 * A doorbell for a queue that does not exist, or is in RESET (an earlier life's), is dropped and
 * counted. For a queue in error it is served (*own*: the document would drop it, too): work posted
 * in ERR has to complete with WR_FLUSH_ERR (IBTA, the state diagram of queue pairs), and the card
 * learns of it by the doorbell.
 */
function serveDoorbell(device: Device, doorbell: TakenDoorbell): void {
  const owner = device.owners[doorbell.queue];
  if (owner === undefined || ("qp" in owner && owner.qp.state === "reset")) {
    device.counters.doorbellsRefused++;
    traceLostDoorbell(device, doorbell, "there is no such queue, or it is in RESET");
    return;
  }
  const { tracing } = device.out;
  if (tracing) traceDoorbell(device, doorbell);
  const { write, wqe, stored } = doorbell;
  const waiter = { kind: "doorbell", write, wqe, stored } as const;
  const entry = findQueue(device, doorbell.queue, waiter);
  if (entry === undefined) return;
  if (tracing) traceCached(device, entry, doorbell);
  if (needsPointer(device, entry, waiter)) rereadPointer(device, entry, waiter);
  else resumeDoorbell(device, entry, waiter);
}

export function resumeDoorbell(
  device: Device,
  entry: QueueEntry,
  doorbell: DoorbellContent,
): void {
  if (doorbell.write !== undefined) takePointer(device, entry, doorbell.write, "doorbell");
  observeHandled(device, entry, doorbell);
  const owner: QueueOwner | undefined = device.owners[entry.queue];
  if (owner?.kind === "sq") {
    const { qp } = owner;
    if (!takeCarried(device, entry, { qp, ...doorbell })) {
      qp.sq.mayHaveMore = true;
      fetchWork(device, qp);
    }
    schedule(device, qp);
  } else if (owner?.kind === "rq") {
    serveReceives(device, owner.qp);
  } else if (owner?.kind === "srq") {
    serveWaiting(device, owner.srq);
  }
}
