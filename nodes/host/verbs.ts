/**
 * What a program can call, in one table: libibverbs' names, the connection manager's, and a few small
 * helpers. A program is given it as `context.device.verbs`, so that its file imports types only.
 */
import { createAh, createAhFromWc, destroyAh, modifyQpUdpSport } from "./verbs/address_handle.ts";
import { makeCmAgent, resetAgent } from "./cm/cm_agent.ts";
import { connect } from "./cm/connect.ts";
import { CM_SIGNAL, disconnect, noteActivity, refused } from "./cm/connection.ts";
import { accept, listen, listening, nextEvent, reject, waitEvent } from "./cm/listen.ts";
import {
  createCq,
  destroyCq,
  pollCq,
  reqNotifyCq,
  waitCompletion,
} from "./verbs/completion_queue.ts";
import { getAsyncEvent } from "./verbs/async_event.ts";
import {
  ackCqEvents,
  createCompChannel,
  destroyCompChannel,
  getChannelEvent,
  getCqEvent,
} from "./verbs/comp_channel.ts";
import { importMr, importPd, openContext } from "./verbs/context.ts";
import { endPoll, nextPoll, startPoll, wcFlags, wcRead } from "./verbs/extended_cq.ts";
import { allocMw, bindMw, deallocMw, incRkey } from "./verbs/memory_window.ts";
import { resizeCq } from "./verbs/resize_cq.ts";
import {
  createSrq,
  destroySrq,
  modifySrq,
  postSrqRecv,
  querySrq,
} from "./verbs/shared_receive_queue.ts";
import { wrAbort, wrAdd, wrComplete, wrStart } from "./verbs/work_batch.ts";
import {
  type Device,
  type DeviceOptions,
  failed,
  initDevice,
  must,
  ProgramError,
} from "./verbs/device.ts";
import { openGsi } from "./cm/gsi.ts";
import { attachMcast, detachMcast } from "./verbs/multicast.ts";
import { adviseMr, allocPd, deallocPd, deregMr, regMr, reregMr } from "./verbs/memory_region.ts";
import { postRecv, postSend, sge } from "./verbs/post.ts";
import { persistRanges } from "./verbs/persist_ranges.ts";
import type { Cpu, Steps } from "./cpu/program.ts";
import { storeSpace2, writeSpace2 } from "./verbs/space2.ts";
import { createQp, destroyQp, modifyQp, queryQp } from "./verbs/queue_pair.ts";
import { NEVER } from "../../fabric/base/time.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import type { RnicEvent } from "../../fabric/wire/host_bus/rnic_command.ts";

export type { Device, DeviceOptions } from "./verbs/device.ts";

export const verbs = {
  allocPd,
  deallocPd,
  openContext,
  importPd,
  importMr,
  regMr,
  reregMr,
  adviseMr,
  deregMr,
  allocMw,
  bindMw,
  incRkey,
  deallocMw,
  createCq,
  destroyCq,
  pollCq,
  reqNotifyCq,
  resizeCq,
  startPoll,
  nextPoll,
  endPoll,
  wcRead,
  wcFlags,
  createCompChannel,
  destroyCompChannel,
  getChannelEvent,
  getCqEvent,
  ackCqEvents,
  getAsyncEvent,
  waitCompletion,
  createQp,
  modifyQp,
  queryQp,
  destroyQp,
  postSend,
  postRecv,
  wrStart,
  wrAdd,
  wrComplete,
  wrAbort,
  createSrq,
  modifySrq,
  querySrq,
  postSrqRecv,
  destroySrq,
  sge,
  createAh,
  createAhFromWc,
  destroyAh,
  attachMcast,
  detachMcast,
  modifyQpUdpSport,
  writeSpace2,
  storeSpace2,
  persistRanges,
  connect,
  listen,
  nextEvent,
  waitEvent,
  listening,
  accept,
  reject,
  noteActivity,
  disconnect,
  failed,
  refused,
  must,
} as const;

export type Verbs = typeof verbs;

/**
 * Opens the RNIC at boot: queue information, the persistence plan (P-02), QP 1 with its receives
 * posted. Waits for a card that is not there. Throws ProgramError where the firmware refuses.
 */
export function* openDevice(
  cpu: Cpu,
  plan: HostPlan,
  options: DeviceOptions = {},
): Steps<Device> {
  const cm = makeCmAgent();
  // Not from 1 again after a reboot: a peer may remember a number of the life before.
  cm.nextCommId = (Math.floor(cpu.random() * 2 ** 32) ^ Math.floor(cpu.now / 1000)) >>> 0;
  for (;;) {
    try {
      const state = yield* initDevice(cpu, plan, { ...options, cm });
      const opening: Device = { cpu, state, verbs };
      state.gsi = yield* openGsi(opening);
      return opening;
    } catch (error) {
      if (!(error instanceof ProgramError)) throw error;
      if (yield* isReachable(cpu)) throw error;
      yield* cpu.waitSignal(BUS_UP, NEVER);
    }
  }
}

/** The signal by which the host says that the bus to its RNIC is up again. */
const BUS_UP = "bus-up";

/** Whether the firmware answers now. Where it does not, no time has passed since the bus was looked at. */
function* isReachable(cpu: Cpu): Steps<boolean> {
  return (yield* cpu.command({ op: "query-statistics" })).status === "ok";
}

/**
 * Opens the RNIC again after it failed under the living host. What was made before is gone; listeners
 * are told so, connections are ended. Where it fails again meanwhile, nothing is opened: the next call
 * does it.
 */
export function* reopenDevice(
  device: Device,
  plan: HostPlan,
  options: DeviceOptions = {},
): Steps<void> {
  const { cpu, state } = device;
  const signals = resetAgent(state.cm);
  // Vectors of before may still be waited for.
  const { nextVector, epoch } = state;
  for (const qp of state.queuePairs.values()) qp.life.state = "reset";
  try {
    const opened = yield* initDevice(cpu, plan, { ...options, cm: state.cm });
    const before = state.held;
    // Others look at QP 1 meanwhile: the one of before takes nothing, but it is there.
    Object.assign(state, opened, { nextVector, epoch: epoch + 1, gsi: state.gsi });
    // Only now, as what the card had written when it failed has arrived.
    for (const address of before.values()) cpu.free({ address });
    state.gsi = yield* openGsi(device, state.gsi);
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error;
    if (yield* isReachable(cpu)) throw error;
    return;
  }
  for (const signal of [...signals, CM_SIGNAL]) cpu.signal(signal);
}

/** Events that tell that their queue pair is in ERR. */
const ENDS_QUEUE_PAIR: ReadonlySet<RnicEvent["type"]> = new Set([
  "QP_FATAL",
  "QP_REQ_ERR",
  "QP_ACCESS_ERR",
  "QP_LAST_WQE_REACHED",
]);

/** Takes note of an asynchronous event of the firmware. */
export function handleEvent(device: Device, event: RnicEvent): void {
  device.state.asyncEvents.push(event);
  if (!ENDS_QUEUE_PAIR.has(event.type) || !("qpn" in event)) return;
  const qp = device.state.queuePairs.get(event.qpn);
  if (qp !== undefined) qp.life.state = "err";
}
