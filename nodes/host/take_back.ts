/**
 * Takes back the RNIC objects of a program that has ended, as a kernel does: users before the
 * objects they use. An object that another program uses stays, as the kernel's references keep it.
 */
import { REJECT_REASON } from "../../fabric/wire/roce/cm.ts";
import { disconnect, emit, sendRej, wakeCm } from "./cm/connection.ts";
import { disconnectEndpoint } from "./cm/cm_agent.ts";
import type { CmOutput, CmSink } from "./cm/cm_state.ts";
import { cancelService } from "./cm/sidr.ts";
import { rejFor } from "./cm/cm_messages.ts";
import { endService } from "./cm/listen.ts";
import type { CmDevice } from "./cm/gsi.ts";
import type { Steps } from "./cpu/program.ts";
import { programOf } from "./serving.ts";
import { destroyCq } from "./verbs/create_cq.ts";
import { deregMr } from "./verbs/memory_region.ts";
import { deallocMw } from "./verbs/memory_window.ts";
import { detachMcast } from "./verbs/address_handle.ts";
import type { Device, Pd, Qp } from "./verbs/objects.ts";
import { destroyQp } from "./verbs/queue_pair.ts";
import { destroySrq } from "./verbs/shared_receive_queue.ts";

/**
 * @param device the driver's, whose core pays.
 * @param program its name with its number; the objects of its threads are its own.
 * @returns whether no object is left, so that none refers to the program's memory any more.
 */
export function* takeBack(device: CmDevice, program: string): Steps<boolean> {
  const { state, cm } = device;
  const isOwn = ({ device: { cpu } }: { readonly device: Device }) =>
    programOf(cpu.program) === program;
  const bound = ({ handle, epoch, uses }: Pd): Pd => ({ handle, epoch, uses, device });
  for (const listener of [...cm.agent.listeners.values()]) {
    if (programOf(listener.program) === program) yield* endService(device, listener);
  }
  yield* endIds(device, program);
  for (const qp of own(state.queuePairs, isOwn)) yield* endQueuePair(device, { ...qp, device });
  for (const mw of [...state.windows.values()].filter(({ pd }) => isOwn(pd))) {
    yield* deallocMw({ ...mw, pd: bound(mw.pd) });
  }
  for (const mr of [...state.regions.values()].filter(({ pd }) => isOwn(pd))) {
    yield* deregMr({ ...mr, pd: bound(mr.pd) });
  }
  for (const srq of own(state.sharedReceiveQueues, isOwn)) {
    yield* destroySrq({ ...srq, device, pd: bound(srq.pd) });
  }
  for (const cq of own(state.completionQueues, isOwn)) {
    // The program that would acknowledge them is gone.
    cq.place.unacknowledged = 0;
    yield* destroyCq({ ...cq, device });
  }
  for (const pd of own(state.pds, isOwn)) closeDomain(device, pd);
  for (const [context, name] of state.contexts) {
    if (programOf(name) === program) state.contexts.delete(context);
  }
  return isNothingLeft(device, isOwn);
}

function own<T>(objects: ReadonlyMap<number, T>, isOwn: (object: T) => boolean): T[] {
  return [...objects.values()].filter(isOwn);
}

function isNothingLeft(
  { state }: CmDevice,
  isOwn: (object: { readonly device: Device }) => boolean,
): boolean {
  const { queuePairs, regions, windows, sharedReceiveQueues, completionQueues } = state;
  const rings = [queuePairs, sharedReceiveQueues, completionQueues];
  return !rings.some((objects) => [...objects.values()].some(isOwn)) &&
    ![...regions.values(), ...windows.values()].some(({ pd }) => isOwn(pd));
}

function* endIds(device: CmDevice, program: string): Steps<void> {
  const { agent } = device.cm;
  const isOwn = (sink: CmSink | undefined) =>
    sink !== undefined && programOf(sink.program) === program;
  const output: CmOutput = { send: [], signals: new Set() };
  const context = { now: device.cpu.now, output };
  for (const endpoint of [...agent.endpoints.values()]) {
    const isQueuePairs = endpoint.qpn !== undefined && device.state.queuePairs.has(endpoint.qpn);
    if (!isOwn(endpoint.sink) || isQueuePairs) continue;
    disconnectEndpoint(agent, endpoint, context);
    endpoint.sink = undefined;
  }
  for (const request of [...agent.sidr.values()]) {
    if (request.phase === "sent" && isOwn(request.sink)) cancelService(agent, request);
  }
  for (const channel of [...agent.channels]) if (isOwn(channel)) agent.channels.delete(channel);
  agent.timers.splice(0, agent.timers.length, ...agent.timers.filter(({ sink }) => !isOwn(sink)));
  if (output.send.length > 0) wakeCm(device);
  yield* emit(device, output);
}

function* endQueuePair(device: CmDevice, qp: Qp): Steps<void> {
  for (const group of [...qp.groups]) yield* detachMcast(qp, group);
  const endpoint = [...device.cm.agent.endpoints.values()].find(({ qpn }) => qpn === qp.qpn);
  if (endpoint === undefined) return void (yield* destroyQp(qp));
  const { phase, rep, req } = endpoint;
  if (phase === "rep-received" || phase === "req-received") {
    const message = rejFor((rep ?? req)!, { reason: REJECT_REASON.noResources });
    yield* sendRej(device, endpoint, message);
  }
  yield* disconnect({ device, qp, endpoint });
}

/**
 * Address handles exist in the driver only and end with their domain, if no other object uses it.
 */
function closeDomain({ state }: CmDevice, { handle, uses }: Pd): void {
  const { queuePairs, regions, windows, sharedReceiveQueues } = state;
  const users = [queuePairs, regions, windows, sharedReceiveQueues].flatMap((objects) =>
    [...objects.values()].map(({ pd }) => pd.handle)
  );
  if (users.includes(handle)) return;
  uses.alive = false;
  state.pds.delete(handle);
}
