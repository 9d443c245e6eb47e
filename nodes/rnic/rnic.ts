/**
 * The RNIC as a node: inputs go to the module that they concern, then the scheduling and the sending
 * module do what can be done now. Read `device.ts` for the state, README.md for the map.
 */
import { fail } from "../../fabric/base/assert.ts";
import { type Input, type Node, type Outputs, PORTS } from "../../fabric/node.ts";
import type { RnicPlan } from "../../fabric/rack/plan/plan.ts";
import { rnicProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { Completion, PcieMessage } from "../../fabric/wire/host_bus/pcie.ts";
import { takePreload, takeSharedWord, takeWord } from "./responder/atomic.ts";
import { takeAts } from "./firmware/ats.ts";
import { takeCommand } from "./firmware/command.ts";
import { requesterTimer } from "./requester/completer.ts";
import { resumeCompletion } from "./queues/completion_queue.ts";
import { rateTimer } from "./transmit/congestion.ts";
import { type Device, raiseEvent, schedule } from "./state/device.ts";
import { createCardMemory, loadFromHost, takeCardRead } from "./dma/card_memory.ts";
import { takeCompletion } from "./dma/dma.ts";
import { failFatally, failQueuePairsOf } from "./requester/qp_error.ts";
import { createJournal, survivePowerFailure } from "./dma/journal.ts";
import { reportAll } from "./responder/multicast.ts";
import { forgetPauses, servePauses } from "./transmit/flow_control.ts";
import { lsbReadDone } from "./persistence/pm_module.ts";
import type { Continuation, JournalWrite } from "./state/dma_state.ts";
import {
  takeEnded,
  takeFinished,
  takeLineAnswer,
  takeLineData,
  writeLines,
} from "./dma/coherent_port.ts";
import type { CoherentMessage } from "../../fabric/wire/host_bus/coherent.ts";
import type { CoherentPort } from "./state/coherence/port_state.ts";
import type { QueuePair } from "./state/queue_pair.ts";
import { runReadBacks, takeReadBack } from "./verify/read_back.ts";
import type { QueueEntry } from "./state/queue_cache.ts";
import {
  endPauses,
  failPause,
  pausesWakeAt,
  resumePause,
  settlePauses,
  takeSpace2,
  takeUnits,
} from "./queues/paused_queue.ts";
import { takeWaiting } from "./queues/context.ts";
import { finishLoad, takeSpace } from "./queues/queue_information.ts";
import { receiveFrame, takeFrame, takePackets } from "./receive.ts";
import { resumeReceiveQueue, retryReceives, takeReceives } from "./queues/receive_queue.ts";
import { resumeDoorbell, runSchedule, writeRegister } from "./schedule.ts";
import { hasTurns } from "./turns.ts";
import { loopbackWakeAt, takeLooped } from "./transmit/loopback.ts";
import { runTransmitter, takePayload, transmitterWakeAt } from "./transmit/send.ts";
import { resumeSendQueue, takeWork } from "./queues/send_queue.ts";
import { failShared, resumeShared, takeShared } from "./queues/shared_receive_queue.ts";
import { runStaged, stagedWakeAt } from "./verify/staged_data.ts";
import { answerInvalidations } from "./paging/invalidation.ts";
import { serveHints } from "./hints/serve_hints.ts";
import { commandDoneAt, workWakeAt } from "./state/hints/work.ts";
import { coherenceWakeAt, serveCoherence } from "./coherence/serve.ts";
import { takeFarAccess } from "./coherence/far.ts";
import { takeLineMessage } from "./coherence/home.ts";
import { snoopLine } from "./state/hints/words.ts";
import { hintsWakeAt } from "./hints/hold.ts";
import { pageFaultWakeAt, raisePageFaults } from "./paging/page_requests.ts";
import { auditReset } from "./coherence/audit.ts";
import { keepLocalCache } from "./coherence/kept_lines.ts";
import { takeLine } from "./paging/translation_cache.ts";
import { heldAtRest } from "./firmware/at_rest.ts";
import { inspectDevice } from "./firmware/inspect.ts";
import { statisticsOf } from "./firmware/statistics.ts";
import { leadStatistics } from "./state/hints/leads.ts";
import { type Timer, timerOfSlot } from "./state/timers.ts";
import type { ContextWait, LookUpPart, QueueLoad, Waiter } from "./state/queues.ts";
import { createDevice, type DeviceOptions } from "./device.ts";

/**
 * An RNIC. Ports: {@link PORTS.rnicBus} to its host, {@link PORTS.rnicNetwork} to the network.
 * `seed` is the run's: only random eviction from the queue-information cache draws from it.
 */
export function createRnic(name: string, plan: RnicPlan, options: DeviceOptions): Node {
  let device = createDevice(name, plan, options);
  /** A card whose host has no power is held off, and pristine when it comes back. */
  let isHeldOff = false;
  let isPortUp = true;
  const processingPs = rnicProcessingPs(plan.timing);
  const journal = createJournal(plan, options.heldLog);
  device.journal = journal;
  const memory = createCardMemory(plan.queuePlan?.store);
  device.memory = memory;
  function step(now: Time, input: Input, out: Outputs): void {
    if (input.kind === "link" && input.port === PORTS.rnicBus) {
      auditReset(device, out);
      device.now = now;
      if (!input.up) keepLocalCache(device);
      device.heldLog?.cached(now, []);
      device = createDevice(name, plan, options);
      device.startedAt = now;
      device.journal = journal;
      device.memory = memory;
      isHeldOff = !input.up;
      if (journal !== undefined) {
        const send = resendTo(device, { now, out, departAt: now + processingPs });
        survivePowerFailure(journal, { up: input.up, now, send, out });
      }
    }
    if (input.kind === "link" && input.port === PORTS.rnicNetwork) isPortUp = input.up;
    if (isHeldOff) return;
    const portChanged = device.isPortUp !== isPortUp;
    device.isPortUp = isPortUp;
    if (input.kind === "power") device.startedAt = now;
    device.now = now;
    device.out = out;
    takeInput(device, input);
    // A driver that opens the card later asks for the port's state.
    if (portChanged && device.spaces !== undefined) {
      raiseEvent(device, { type: isPortUp ? "PORT_ACTIVE" : "PORT_ERR", portNum: 1 });
    }
    receiveLooped(device);
    if (device.pageEvents.length > 0) raisePageFaults(device);
    if (device.hints !== undefined) serveHints(device, device.hints);
    if (device.coherence !== undefined) serveCoherence(device, device.coherence);
    finishDataReads(device);
    runStaged(device);
    do {
      finishCardReads(device);
      if (device.port !== undefined) {
        finishLines(device, device.port);
        finishLsbReads(device);
      }
      runSchedule(device);
      runTransmitter(device);
      // A frame that has left makes room, and lets the answer behind it go: no input may follow.
    } while (hasTurns(device) || device.dma.onCard.length > 0 || hasFinished(device));
    runReadBacks(device);
    if (device.paging.invalidations.length > 0) answerInvalidations(device);
  }
  return {
    name,
    kind: "rnic",
    processingPs,
    step,
    wakeAt: () =>
      isHeldOff ? NEVER : Math.min(
        device.deadlines.earliest,
        device.dma.reading.peek()?.at ?? NEVER,
        transmitterWakeAt(device),
        loopbackWakeAt(device),
        stagedWakeAt(device),
        pageFaultWakeAt(device),
        pausesWakeAt(device),
        device.coherence === undefined ? NEVER : coherenceWakeAt(device.coherence),
        device.hints === undefined ? NEVER : hintsWakeAt(device, device.hints),
        device.hints === undefined ? NEVER : workWakeAt(device.hints),
      ),
    statistics: () => ({
      ...statisticsOf(device),
      // Programs are not told of it: what they ask for stays as it was.
      ...(device.hints && leadStatistics(device.hints.leads)),
    }),
    inspect: () => inspectDevice(device),
    heldAtRest: () => isHeldOff ? [] : heldAtRest(device),
  };
}

/** What a journal has kept goes to the host again. */
function resendTo(
  device: Device,
  { now, out, departAt }: { readonly now: Time; readonly out: Outputs; readonly departAt: Time },
): (entry: JournalWrite) => Time {
  const { port } = device;
  if (port === undefined) return ({ message }) => out.send(PORTS.rnicBus, message, departAt);
  device.now = now;
  device.out = out;
  device.stageAt = departAt;
  return (entry) => {
    const { address, data, noSnoop } = entry.message;
    writeLines(device, port, { address, data, toMemory: noSnoop, entry });
    return NEVER;
  };
}

function takeInput(device: Device, input: Input): void {
  const { now, timing } = device;
  const flow = device.congestion?.flow;
  switch (input.kind) {
    case "message":
      if (input.message.kind !== "frame") return takeBusMessage(device, input.message);
      device.stageAt = now + timing.receivePs;
      if (input.port === PORTS.rnicNetwork) return receiveFrame(device, input.message);
      return;
    case "wake":
      device.stageAt = now + timing.schedulePs;
      return fireTimers(device);
    case "link":
      device.stageAt = now + timing.schedulePs;
      if (input.port === PORTS.rnicNetwork && input.up) reportAll(device);
      // The network cable has lost its other end: pauses end with it.
      if (!input.up && flow !== undefined) forgetPauses(device, flow);
      return;
    case "power":
      return;
  }
}

function receiveLooped(device: Device): void {
  for (let frame = takeLooped(device); frame !== undefined; frame = takeLooped(device)) {
    device.stageAt = device.now + device.timing.receivePs;
    takeFrame(device, frame);
  }
}

function takeBusMessage(device: Device, message: PcieMessage): void {
  const { now, timing } = device;
  device.stageAt = message.kind === "command" ? commandDoneAt(device) : now + timing.schedulePs;
  switch (message.kind) {
    case "completion":
      takeRead(device, message);
      if (device.pauses.size > 0) settlePauses(device);
      return;
    case "register-write":
      return writeRegister(device, message);
    case "register-read":
      return loadFromHost(device, message);
    case "command":
      return takeCommand(device, message);
    case "snoop-invalidate":
      if (device.hints !== undefined) snoopLine(device.hints, message.address);
      return;
    case "ats":
      return takeAts(device, message);
    case "coherent":
      if (device.port !== undefined) takeCoherent(device, device.port, message);
      return;
    case "far-access":
      if (device.coherence !== undefined) takeFarAccess(device, device.coherence, message);
      return;
    case "line":
      if (device.coherence !== undefined) takeLineMessage(device, device.coherence, message);
      return;
    case "far-answer":
    case "far-invalidate":
    case "memory-read":
    case "memory-write":
    case "interrupt":
    case "reply":
    case "event":
    case "access-error":
      // Only hosts receive these.
      return;
  }
}

/** A message of the coherent bus: what PCIe's is, in another form, or an answer to the card's port. */
function takeCoherent(device: Device, port: CoherentPort, message: CoherentMessage): void {
  switch (message.op) {
    case "NcWr": {
      const { kind: _, op: __, ...store } = message;
      return writeRegister(device, { kind: "register-write", ...store });
    }
    case "NcRd": {
      const { tag, offset, length } = message;
      return loadFromHost(device, { kind: "register-read", tag, offset, length });
    }
    case "SnpInv": {
      const { address } = message;
      port.counters.busSnoops++;
      if (device.hints !== undefined) snoopLine(device.hints, address);
      const answer = { kind: "coherent", op: "RspI", tag: 0, address, lines: 1 } as const;
      device.out.send(PORTS.rnicBus, answer, device.stageAt);
      return;
    }
    case "GntE":
    case "Cmp":
    case "FailedCmp":
      return endRead(device, takeLineAnswer(device, port, message));
    case "DataC":
      return endRead(device, takeLineData(device, port, message));
    case "RdCur":
    case "RdCode":
    case "InvItoE":
    case "WbMtoI":
    case "WbMtoE":
    case "RspI":
    case "DataNc":
    case "IntPhysical":
      // Only hosts receive these.
      return;
  }
}

function endRead(device: Device, completion: Completion | undefined): void {
  if (completion === undefined) return;
  takeRead(device, completion);
  if (device.pauses.size > 0) settlePauses(device);
}

/** LSB reads for which all earlier writes are complete (P-24). */
function finishLsbReads(device: Device): void {
  for (let read = takeFinished(device); read !== undefined; read = takeFinished(device)) {
    takeRead(device, read);
  }
}

function hasFinished({ port }: Device): boolean {
  return port !== undefined && (port.finished.length > 0 || port.ended.length > 0);
}

/** Accesses of agent 0 to shared regions that are over (decision 6). */
function finishLines(device: Device, port: CoherentPort): void {
  for (let end = takeEnded(device, port); end !== undefined; end = takeEnded(device, port)) {
    endRead(device, end.completion);
    if (end.atomic?.kind === "atomic") takeSharedWord(device, end.atomic.turn, end.atomic.answer);
  }
}

/** A DMA read has completed. Where the RNIC is done with it, too, what it was for goes on. */
function takeRead(device: Device, completion: Completion): void {
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

/** Reads of the card's own memory: what they are for may read again. */
function finishCardReads(device: Device): void {
  for (let read = takeCardRead(device); read !== undefined; read = takeCardRead(device)) {
    resumeRead(device, read.request.continuation, read.data);
    if (device.pauses.size > 0) settlePauses(device);
  }
}

/** Data reads whose time has come: they take equally long, so the first is the oldest. */
function finishDataReads(device: Device): void {
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

/** What waited for a queue pair's context goes on: what it owes first, as that was owed first. */
function resumeContext(device: Device, entry: QueueEntry, waiting: ContextWait): void {
  const wait = takeWaiting(device, waiting, entry);
  if (wait === undefined) return;
  const { qp, controls, packets, wantsTurn } = wait;
  for (const frame of controls) device.transmitter.control.push(frame);
  takePackets(device, qp, packets);
  if (wantsTurn) schedule(device, qp);
}

/** The queue's information cannot be had: a doorbell is refused, a queue pair fails. */
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

function fireTimer(device: Device, qp: QueuePair, timer: Timer): void {
  switch (timer) {
    case "requester":
      return requesterTimer(device, qp);
    case "receive":
      return retryReceives(device, qp);
    case "pace":
    case "read":
      return schedule(device, qp);
    case "rate":
      return rateTimer(device, qp);
  }
}

function fireTimers(device: Device): void {
  const flow = device.congestion?.flow;
  if (flow !== undefined) servePauses(device, flow);
  if (device.pauses.size > 0) endPauses(device);
  const { deadlines, now } = device;
  while (deadlines.earliest <= now) {
    const { slot } = deadlines;
    deadlines.set(slot, NEVER);
    const { qpSlot, timer } = timerOfSlot(slot);
    const qp = device.slots[qpSlot];
    if (qp === undefined) fail(`A timer of queue pair slot ${qpSlot} fires, which is empty`);
    fireTimer(device, qp, timer);
  }
}
