/** Continuations of completed reads. */
import type { Completion } from "../../fabric/wire/host_bus/pcie.ts";
import { takePreload, takeSharedWord, takeWord } from "./responder/atomic.ts";
import { resumeCompletion } from "./queues/completion_queue.ts";
import { type Device, schedule } from "./state/device.ts";
import { takeCardRead } from "./dma/card_memory.ts";
import { takeCompletion } from "./dma/dma.ts";
import { failFatally, failQueuePairsOf } from "./requester/qp_error.ts";
import { lsbReadDone } from "./persistence/pm_module.ts";
import type { Continuation } from "./state/dma_state.ts";
import { takeEnded, takeFinished } from "./dma/coherent_port.ts";
import type { CoherentPort } from "./state/coherent_port_state.ts";
import { takeReadBack } from "./verify/read_back.ts";
import type { QueueEntry } from "./state/queue_cache.ts";
import {
  failPause,
  resumePause,
  settlePauses,
  takeSpace2,
  takeUnits,
} from "./queues/paused_queue.ts";
import { takeWaiting } from "./queues/context.ts";
import { finishLoad, takeSpace } from "./queues/queue_information.ts";
import { takePackets } from "./receive.ts";
import { resumeReceiveQueue, takeReceives } from "./queues/receive_queue.ts";
import { resumeDoorbell } from "./schedule.ts";
import { takePayload } from "./transmit/send.ts";
import { resumeSendQueue, takeWork } from "./queues/send_queue.ts";
import { failShared, resumeShared, takeShared } from "./queues/shared_receive_queue.ts";
import { takeLine } from "./paging/translation_cache.ts";
import type { ContextWait, LookUpPart, QueueLoad, Waiter } from "./state/queues.ts";

export function hasFinished({ port }: Device): boolean {
  return port !== undefined && (port.finished.length > 0 || port.ended.length > 0);
}

/** Accesses of agent 0 (decision 6), then LSB reads that wait for no write (P-24). */
export function finishOnPort(device: Device, port: CoherentPort): void {
  for (let end = takeEnded(device, port); end !== undefined; end = takeEnded(device, port)) {
    takeLineEnd(device, end.completion);
    if (end.atomic?.kind === "atomic") takeSharedWord(device, end.atomic.turn, end.atomic.answer);
  }
  for (let read = takeFinished(device); read !== undefined; read = takeFinished(device)) {
    goOn(device, read);
  }
}

export function takeLineEnd(device: Device, completion: Completion | undefined): void {
  if (completion !== undefined) takeRead(device, completion);
}

/** The read may have been the last of a paused queue. */
export function takeRead(device: Device, completion: Completion): void {
  goOn(device, completion);
  if (device.pauses.size > 0) settlePauses(device);
}

function goOn(device: Device, completion: Completion): void {
  const request = takeCompletion(device, completion);
  if (request === undefined) return;
  const isGood = completion.status === "success" && completion.data.length === request.length;
  if (!isGood) device.counters.dmaErrors++;
  const data = isGood ? completion.data : undefined;
  const { continuation } = request;
  const { dma, now, timing } = device;
  const { kind } = continuation;
  const isDataRead = kind === "payload" || kind === "atomic" || kind === "preload";
  if (isDataRead && timing.dataReadPs > 0) {
    dma.reading.push({ at: now + timing.dataReadPs, continuation, data });
  } else {
    resumeRead(device, continuation, data);
  }
}

export function finishCardReads(device: Device): void {
  for (let read = takeCardRead(device); read !== undefined; read = takeCardRead(device)) {
    resumeRead(device, read.request.continuation, read.data);
    if (device.pauses.size > 0) settlePauses(device);
  }
}

/** All take equally long, so the first is the oldest. */
export function finishDataReads(device: Device): void {
  const { dma: { reading }, now } = device;
  for (let read = reading.peek(); read !== undefined && read.at <= now; read = reading.peek()) {
    reading.shift();
    resumeRead(device, read.continuation, read.data);
  }
}

function resumeRead(
  device: Device,
  continuation: Continuation,
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  switch (continuation.kind) {
    case "queue-space":
      return takeQueueSpace(device, continuation, data);
    case "translation":
      return takeLine(device, continuation, data);
    case "payload":
      return takePayload(device, continuation, data);
    case "atomic":
      return takeWord(device, continuation.turn, data);
    case "preload":
      return takePreload(device, continuation.word, data);
    case "read-back":
      return takeReadBack(device, continuation, data);
    case "lsb":
      if (continuation.life !== continuation.qp.life) return;
      return lsbReadDone(device, continuation, data !== undefined);
    case "space2":
      return takeSpace2(device, continuation.pause, data);
    case "ring-units":
      return takeUnits(device, continuation, data);
    case "srq-wqes":
      return takeShared(device, continuation, data);
    case "send-wqes":
    case "recv-wqes": {
      const { qp, life, entry } = continuation;
      entry.pins--;
      if (life !== qp.life) return;
      if (data === undefined) return failFatally(device, qp);
      if (continuation.kind === "send-wqes") takeWork(device, continuation, data);
      else takeReceives(device, continuation, data);
    }
  }
}

function takeQueueSpace(
  device: Device,
  read: { readonly load: QueueLoad; readonly part: LookUpPart },
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { load } = read;
  const entry = takeSpace(device, read, data);
  if (entry === undefined) return;
  if (entry === "no queue") {
    for (const waiter of [...load.waiters, ...load.late]) failWaiter(device, waiter);
    return;
  }
  for (const waiter of load.waiters) resume(device, entry, waiter);
  finishLoad(device, load, entry);
}

function resume(device: Device, entry: QueueEntry, waiter: Waiter): void {
  switch (waiter.kind) {
    case "doorbell":
      return resumeDoorbell(device, entry, waiter);
    case "send":
      if (waiter.life === waiter.qp.life) resumeSendQueue(device, entry, waiter.qp);
      return;
    case "recv":
      if (waiter.life === waiter.qp.life) resumeReceiveQueue(device, entry, waiter);
      return;
    case "srq":
      return resumeShared(device, entry, waiter);
    case "pause":
      return resumePause(device, entry, waiter);
    case "context":
      return resumeContext(device, entry, waiter.wait);
    case "cq":
      if (resumeCompletion(device, entry, waiter) === "overflow") {
        failQueuePairsOf(device, waiter.cq);
      }
  }
}

/** Frames resume in the order in which the card owes them. */
function resumeContext(device: Device, entry: QueueEntry, waiting: ContextWait): void {
  const wait = takeWaiting(device, waiting, entry);
  if (wait === undefined) return;
  const { qp, controls, packets, wantsTurn } = wait;
  for (const frame of controls) device.transmitter.control.push(frame);
  takePackets(device, qp, packets);
  if (wantsTurn) schedule(device, qp);
}

function failWaiter(device: Device, waiter: Waiter): void {
  switch (waiter.kind) {
    case "doorbell":
      device.counters.doorbellsRefused++;
      return;
    case "send":
    case "recv":
      if (waiter.life === waiter.qp.life) failFatally(device, waiter.qp);
      return;
    case "srq":
      return failShared(device, waiter.srq);
    case "pause":
      return failPause(device, waiter.pause);
    case "context":
      device.contextWaits.delete(waiter.wait.queue);
      if (waiter.wait.life === waiter.wait.qp.life) failFatally(device, waiter.wait.qp);
      return;
    case "cq":
      waiter.cq.overflowed = true;
      failQueuePairsOf(device, waiter.cq);
  }
}
