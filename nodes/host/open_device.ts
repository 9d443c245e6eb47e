/**
 * The functions of a program, in one table: libibverbs' names, the connection manager's, and a few
 * small helpers. A program receives it as `context.device.verbs`, so that its file imports types
 * only.
 */
import { createAh, createAhFromWc, destroyAh } from "./verbs/address_handle.ts";
import { resetAgent } from "./cm/cm_agent.ts";
import { makeCmAgent } from "./cm/cm_state.ts";
import { connect } from "./cm/connect.ts";
import {
  CM_SIGNAL,
  disconnect,
  disconnecting,
  isDisconnected,
  noteActivity,
  refused,
  waitDisconnect,
} from "./cm/connection.ts";
import { accept, listen, listening, nextEvent, reject, unlisten, waitEvent } from "./cm/listen.ts";
import {
  rdmaAccept,
  rdmaConnect,
  rdmaDisconnect,
  rdmaEstablish,
  rdmaInitQpAttr,
  rdmaNotify,
  rdmaReject,
} from "./cm/rdma_connect.ts";
import { rdmaAckCmEvent, rdmaEventsOf, rdmaGetCmEvent } from "./cm/rdma_event.ts";
import {
  rdmaBindAddr,
  rdmaCreateEventChannel,
  rdmaCreateId,
  rdmaCreateQp,
  rdmaDestroyEventChannel,
  rdmaDestroyId,
  rdmaDestroyQp,
  rdmaListen,
  rdmaResolveAddr,
  rdmaResolveRoute,
} from "./cm/rdma_id.ts";
import { pollCq, reqNotifyCq, waitCompletion } from "./verbs/completion_queue.ts";
import { createCq, destroyCq } from "./verbs/create_cq.ts";
import {
  ackCqEvents,
  createCompChannel,
  destroyCompChannel,
  getChannelEvent,
  getCqEvent,
} from "./verbs/comp_channel.ts";
import {
  endPoll,
  nextPoll,
  startPoll,
  wcFlags,
  wcRead,
  wcReadCompletionTs,
  wcReadCompletionWallclockNs,
} from "./verbs/extended_cq.ts";
import { openEventQueue } from "./verbs/event_queue.ts";
import { allocMw, deallocMw, incRkey } from "./verbs/memory_window.ts";
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
  ackAsyncEvent,
  addContext,
  failed,
  getAsyncEvent,
  initDevice,
  must,
  newContext,
  ProgramError,
} from "./verbs/device.ts";
import { type CmDevice, type CmState, openGsi } from "./cm/gsi.ts";
import { attachMcast, detachMcast } from "./verbs/address_handle.ts";
import {
  adviseMr,
  allocNullMr,
  allocPd,
  deallocPd,
  deregMr,
  importMr,
  importPd,
  madvise,
  regMr,
  reregMr,
} from "./verbs/memory_region.ts";
import { bindMw, postRecv, postSend, sge } from "./verbs/post.ts";
import { persistRanges } from "./verbs/persist_ranges.ts";
import { type Cpu, signalOf, SIGNALS, type Steps } from "./cpu/program.ts";
import { queueFill, queueInformation } from "./verbs/queue_fill.ts";
import { storeSpace2, writeSpace2 } from "./verbs/space2.ts";
import {
  createQp,
  destroyQp,
  modifyQp,
  modifyQpUdpSport,
  postHint,
  queryQp,
  resizeQp,
} from "./verbs/queue_pair.ts";
import {
  devicesOf,
  getDeviceList,
  queryDevice,
  queryDeviceEx,
  queryRtValuesEx,
} from "./verbs/query/query_device.ts";
import {
  queryGid,
  queryGidEx,
  queryGidTable,
  queryPkey,
  queryPort,
  queryQpDataInOrder,
} from "./verbs/query/query_port.ts";
import { NEVER } from "../../fabric/base/time.ts";
import type { HostPlan } from "../../fabric/rack/plan/plan.ts";
import { verbError } from "./verbs/errors.ts";
import type { Device, DeviceOptions, HostDevices, VerbError } from "./verbs/objects.ts";

export const verbs = {
  allocPd,
  deallocPd,
  openContext,
  openDevice,
  importPd,
  importMr,
  regMr,
  allocNullMr,
  reregMr,
  adviseMr,
  madvise,
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
  wcReadCompletionTs,
  wcReadCompletionWallclockNs,
  wcFlags,
  createCompChannel,
  destroyCompChannel,
  getChannelEvent,
  getCqEvent,
  ackCqEvents,
  getAsyncEvent,
  ackAsyncEvent,
  waitCompletion,
  createQp,
  modifyQp,
  queryQp,
  resizeQp,
  destroyQp,
  postSend,
  postRecv,
  postHint,
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
  queueFill,
  queueInformation,
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
  unlisten,
  noteActivity,
  waitDisconnect,
  disconnecting,
  isDisconnected,
  disconnect,
  rdmaCreateEventChannel,
  rdmaDestroyEventChannel,
  rdmaCreateId,
  rdmaDestroyId,
  rdmaBindAddr,
  rdmaListen,
  rdmaResolveAddr,
  rdmaResolveRoute,
  rdmaCreateQp,
  rdmaDestroyQp,
  rdmaInitQpAttr,
  rdmaConnect,
  rdmaEstablish,
  rdmaAccept,
  rdmaReject,
  rdmaNotify,
  rdmaDisconnect,
  rdmaGetCmEvent,
  rdmaAckCmEvent,
  rdmaEventsOf,
  queryDevice,
  queryDeviceEx,
  queryRtValuesEx,
  getDeviceList,
  queryPort,
  queryGid,
  queryGidEx,
  queryGidTable,
  queryPkey,
  queryQpDataInOrder,
  failed,
  refused,
  must,
} as const;

/** All functions of a program besides its core: `device.verbs`. */
export type Verbs = typeof verbs;

/** An opened device bound to one program, with all functions of the program. */
export interface OpenDevice extends CmDevice {
  /** The functions of libibverbs and librdmacm, and some more. */
  readonly verbs: Verbs;
  /** All of its host. @ignore */
  readonly devices?: HostDevices<OpenDevice>;
}

/** The same context, on another core. */
export function deviceOn(
  { state, context, cm, verbs, weight, privileged, devices }: OpenDevice,
  cpu: Cpu,
): OpenDevice {
  return {
    cpu,
    state,
    context,
    cm,
    verbs,
    ...(weight !== undefined && { weight }),
    ...(privileged && { privileged }),
    ...(devices && { devices }),
  };
}

/**
 * ibv_open_device again: another context on the device, over the same core. Each context gets the
 * asynchronous events of its own objects, of the port and of the device, and contexts differ in
 * their privileges. Objects belong to the RNIC, so keys are the same in all contexts. The
 * emulator's programs share one address space, so a handle suffices to import an object, without a
 * file descriptor.
 */
export function openContext(device: OpenDevice): OpenDevice {
  const context = newContext();
  addContext(device.state, context, device.cpu.program);
  return { ...device, context };
}

/**
 * ibv_open_device: a context on a card of this host, of which there may be several, over the same
 * core. Each card has its own objects, keys and numbers; memory is the host's, and may be
 * registered with each card.
 * @param name as `getDeviceList` gives it: `rackmesh1`, or the card's name in the rack: `a-rnic2`.
 * @returns ENODEV for an unknown card, or one that has had no power since the host's boot.
 *
 * @example The second card of a host with two
 * ```ts
 * import { must, type ProgramContext, type Steps } from "rackmesh";
 *
 * export default function* rails({ cpu, device }: ProgramContext): Steps<void> {
 *   const { getDeviceList, openDevice, queryPort } = device.verbs;
 *   for (const { name, rnic } of getDeviceList(device)) {
 *     const rail = must(openDevice(device, name));
 *     cpu.log(rnic, must(yield* queryPort(rail, 1)).state);
 *   }
 * }
 * ```
 */
export function openDevice(device: OpenDevice, name: string): OpenDevice | VerbError {
  const { devices, cpu } = device;
  const known = devicesOf(device);
  const index = known.findIndex((each) => each.name === name || each.rnic === name);
  const opened = known[index]?.device as OpenDevice | undefined;
  if (opened === undefined) {
    const names = known.filter((each) => each.device).map((each) => each.name);
    const expected = names.length === 0 ? "none has power" : `expected one of ${names.join(", ")}`;
    return verbError("ENODEV", `There is no device ${JSON.stringify(name)}: ${expected}`);
  }
  const own = devices === undefined ? cpu : cpu.at?.(index) ?? cpu;
  return openContext({ ...device, cpu: own, state: opened.state, cm: opened.cm });
}

/**
 * Opens the RNIC at boot: queue information, the persistence plan (P-02), QP 1 with its
 * posted receives. Waits for an absent card. @throws ProgramError where the firmware refuses.
 */
export function* bootDevice(
  cpu: Cpu,
  plan: HostPlan,
  options: DeviceOptions = {},
): Steps<OpenDevice> {
  const agent = makeCmAgent();
  // A peer may remember numbers of the earlier life.
  agent.nextCommId = (Math.floor(cpu.random() * 2 ** 32) ^ Math.floor(cpu.now / 1000)) >>> 0;
  for (;;) {
    const { card } = cpu;
    try {
      const state = yield* initDevice(cpu, plan, options);
      const device = { cpu, state, context: newContext() };
      yield* openEvents(device, plan);
      const cm: CmState = { agent, gsi: yield* openGsi(device) };
      return { ...device, cm, verbs };
    } catch (error) {
      if (isRefusal(error, cpu, card)) throw error;
    }
    const busUp = signalOf(SIGNALS.busUp, cpu.rnic ?? 0);
    while (cpu.card === undefined) yield* cpu.waitSignal(busUp, NEVER);
  }
}

function* openEvents(device: Device, plan: HostPlan): Steps<void> {
  if (plan.queuePlan?.events !== "queue") return;
  device.state.eventQueue = yield* openEventQueue(device);
}

/** @returns false where the card had no power, or has begun another life and so lost all state. */
function isRefusal(error: unknown, cpu: Cpu, card: number | undefined): boolean {
  return !(error instanceof ProgramError) || (card !== undefined && cpu.card === card);
}

/**
 * Opens the RNIC anew after a card failure in a running host. Earlier objects are gone; listeners
 * receive a reset event, connections are closed. Where the card fails again, nothing is opened and
 * `state.card` differs from the present power-on: the next call opens it.
 */
export function* reopenDevice(
  device: OpenDevice,
  plan: HostPlan,
  options: DeviceOptions = {},
): Steps<void> {
  const { cpu, state, cm } = device;
  const { card } = cpu;
  const signals = resetAgent(cm.agent);
  // Programs may wait for earlier vectors.
  const { nextVector, epoch } = state;
  for (const qp of state.queuePairs.values()) qp.life.state = "reset";
  try {
    const opened = yield* initDevice(cpu, plan, options);
    const before = state.held;
    Object.assign(state, opened, { nextVector, epoch: epoch + 1, contexts: state.contexts });
    // Only now the failed card's last writes have arrived.
    for (const address of before.values()) cpu.free({ address });
    yield* openEvents(device, plan);
    // Programs may use QP 1 meanwhile: the earlier one refuses posts, but exists.
    cm.gsi = yield* openGsi(device, cm.gsi);
  } catch (error) {
    if (isRefusal(error, cpu, card)) throw error;
    return;
  }
  for (const signal of [...signals, CM_SIGNAL]) cpu.signal(signal);
}
