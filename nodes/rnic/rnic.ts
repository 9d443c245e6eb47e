/**
 * The RNIC as a node: each input goes to its module, then scheduling and sending modules do what
 * can be done.
 */
import { fail } from "../../fabric/base/assert.ts";
import { type Input, type Node, type Outputs, PORTS } from "../../fabric/node.ts";
import type { RnicPlan } from "../../fabric/rack/plan/plan.ts";
import { rnicProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { PcieMessage } from "../../fabric/wire/host_bus/pcie.ts";
import { takeAts } from "./firmware/ats.ts";
import { takeCommand } from "./firmware/command.ts";
import { requesterTimer } from "./requester/completer.ts";
import { rateTimer } from "./transmit/congestion.ts";
import { type Device, raiseEvent, schedule } from "./state/device.ts";
import { createCardMemory, loadFromHost } from "./dma/card_memory.ts";
import { createJournal, survivePowerFailure } from "./dma/journal.ts";
import { reportAll } from "./responder/multicast.ts";
import { forgetPauses, servePauses } from "./transmit/flow_control.ts";
import type { JournalWrite } from "./state/dma_state.ts";
import { takeLineAnswer, takeLineData, writeLines } from "./dma/coherent_port.ts";
import type { CoherentMessage } from "../../fabric/wire/host_bus/coherent.ts";
import type { CoherentPort } from "./state/coherent_port_state.ts";
import type { QueuePair } from "./state/queue_pair.ts";
import { endPauses, pausesWakeAt } from "./queues/paused_queue.ts";
import { receiveFrame, takeFrame } from "./receive.ts";
import { retryReceives } from "./queues/receive_queue.ts";
import { runSchedule, writeRegister } from "./schedule.ts";
import { hasTurns } from "./turns.ts";
import { loopbackWakeAt, takeLooped } from "./transmit/loopback.ts";
import { runTransmitter, transmitterWakeAt } from "./transmit/send.ts";
import { runReadBacks } from "./verify/read_back.ts";
import { runStaged, stagedWakeAt } from "./verify/staged_data.ts";
import { answerInvalidations } from "./paging/invalidation.ts";
import { pageFaultWakeAt, raisePageFaults } from "./paging/page_requests.ts";
import { heldAtRest } from "./firmware/at_rest.ts";
import { inspectDevice } from "./firmware/inspect.ts";
import { statisticsOf } from "./firmware/statistics.ts";
import { type Timer, timerOfSlot } from "./state/timers.ts";
import { createDevice, type DeviceOptions } from "./device.ts";
import { EXTENSION_MESSAGES, EXTENSIONS } from "./extensions.ts";
import {
  finishCardReads,
  finishDataReads,
  finishOnPort,
  hasFinished,
  takeLineEnd,
  takeRead,
} from "./completed_reads.ts";

/**
 * Ports: {@link PORTS.rnicBus} to its host, {@link PORTS.rnicNetwork} to the network. `seed` is the
 * run's: only random eviction from the queue-information cache draws from it.
 */
export function createRnic(name: string, plan: RnicPlan, options: DeviceOptions): Node {
  let device = createDevice(name, plan, options);
  /** The host has no power: the card is held off, and pristine when power comes back. */
  let isHeldOff = false;
  let isPortUp = true;
  const processingPs = rnicProcessingPs(plan.timing);
  const extensions = EXTENSIONS.filter(({ isOf }) => isOf(plan));
  const steps = extensions.flatMap(({ step }) => step ?? []);
  const wakes = extensions.flatMap(({ wakeAt }) => wakeAt ?? []);
  const journal = createJournal(plan, options.heldLog);
  device.journal = journal;
  const memory = createCardMemory(plan.queuePlan?.store);
  device.memory = memory;
  function step(now: Time, input: Input, out: Outputs): void {
    if (input.kind === "link" && input.port === PORTS.rnicBus) {
      device.now = now;
      for (const { reset } of extensions) reset?.(device, { up: input.up, out });
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
    // A driver that opens the card later asks for the state.
    if (portChanged && device.spaces !== undefined) {
      raiseEvent(device, { type: isPortUp ? "PORT_ACTIVE" : "PORT_ERR", portNum: 1 });
    }
    receiveLooped(device);
    if (device.pageEvents.length > 0) raisePageFaults(device);
    for (const serve of steps) serve(device);
    finishDataReads(device);
    runStaged(device);
    do {
      finishCardReads(device);
      if (device.port !== undefined) finishOnPort(device, device.port);
      runSchedule(device);
      runTransmitter(device);
      // A frame that has left makes room and lets the answer behind it leave, and no input need
      // follow.
    } while (hasTurns(device) || device.dma.onCard.length > 0 || hasFinished(device));
    runReadBacks(device);
    if (device.paging.invalidations.length > 0) answerInvalidations(device);
  }
  function wakeAt(): Time {
    if (isHeldOff) return NEVER;
    let next = Math.min(
      device.deadlines.earliest,
      device.dma.reading.peek()?.at ?? NEVER,
      transmitterWakeAt(device),
      loopbackWakeAt(device),
      stagedWakeAt(device),
      pageFaultWakeAt(device),
      pausesWakeAt(device),
    );
    for (const wake of wakes) next = Math.min(next, wake(device));
    return next;
  }
  return {
    name,
    kind: "rnic",
    processingPs,
    step,
    wakeAt,
    statistics: () => statisticsOf(device, "report"),
    inspect: () => inspectDevice(device),
    heldAtRest: () => isHeldOff ? [] : heldAtRest(device),
  };
}

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
      // Pauses end with the cable.
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
  device.stageAt = device.now + device.timing.schedulePs;
  switch (message.kind) {
    case "completion":
      return takeRead(device, message);
    case "register-write":
      return writeRegister(device, message);
    case "register-read":
      return loadFromHost(device, message);
    case "command":
      return takeCommand(device, message);
    case "ats":
      return takeAts(device, message);
    case "coherent":
      if (device.port !== undefined) takeCoherent(device, device.port, message);
      return;
    default:
      EXTENSION_MESSAGES[message.kind]?.(device, message as never);
  }
}

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
      EXTENSION_MESSAGES["snoop-invalidate"]?.(device, { kind: "snoop-invalidate", address });
      const answer = { kind: "coherent", op: "RspI", tag: 0, address, lines: 1 } as const;
      device.out.send(PORTS.rnicBus, answer, device.stageAt);
      return;
    }
    case "GntE":
    case "Cmp":
    case "FailedCmp":
      return takeLineEnd(device, takeLineAnswer(device, port, message));
    case "DataC":
      return takeLineEnd(device, takeLineData(device, port, message));
    case "RdCur":
    case "RdCode":
    case "InvItoE":
    case "WbMtoI":
    case "WbMtoE":
    case "RspI":
    case "DataNc":
    case "IntPhysical":
      return;
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
