/**
 * Priority-based flow control at the network port (`rocev2.md` §3.9): the sending module holds back
 * paused priorities, the receiving module asks for a pause where the wire is faster than the bus.
 */
import {
  askPause,
  askResume,
  createPauseRequests,
  createPauses,
  endPauses,
  forgetRequests,
  isPaused,
  takePfc,
} from "../../../fabric/link/pause.ts";
import { type Frame, PORTS } from "../../../fabric/node.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  decodePfc,
  isMacControl,
  PRIORITIES,
  priorityOfDscp,
} from "../../../fabric/wire/roce/pfc.ts";
import { headOf } from "../../../fabric/wire/roce/packet.ts";
import type { Device } from "../state/device.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { type ControlFrame, isStale, type TxFrame } from "../state/tx_frame.ts";
import { BUS_BACKLOG_PS, BUS_RESUME_PS, COMMIT_AHEAD_PS } from "../state/limits.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { FlowControl } from "../state/congestion_state.ts";

export function createFlowControl({ congestion, mac }: RnicPlan): FlowControl | undefined {
  if (congestion === undefined || congestion.pfc === null) return undefined;
  const { bitsPerSecond, pfc } = congestion;
  return {
    lossless: pfc.lossless,
    headroomPs: pfc.headroomPs,
    pauses: createPauses(bitsPerSecond),
    requests: createPauseRequests(mac, bitsPerSecond),
    held: Array.from({ length: PRIORITIES }, () => ({ control: new Fifo(), data: new Fifo() })),
    parked: new Fifo(),
  };
}

/** 0 stands for the fabric's default. */
export function priorityOf(device: Device, dscp: number): number {
  return priorityOfDscp(dscp === 0 ? device.congestion?.plan.dscp ?? 0 : dscp);
}

function priorityOfJob(device: Device, { ud, qp }: TxFrame): number {
  return priorityOf(device, ud === undefined ? qp.path.dscp : ud.trafficClass >> 2);
}

/** @returns false where the frame is no pause, or PFC is off. */
export function obeyPause(device: Device, frame: Frame): boolean {
  const { congestion, now } = device;
  if (congestion?.flow === undefined || !isMacControl(headOf(frame))) return false;
  const pfc = decodePfc(frame.bytes);
  if (pfc === undefined) return false;
  if (pfc.quanta.some((quanta) => quanta !== undefined && quanta > 0)) {
    congestion.counters.pausesIn++;
  }
  takePfc(congestion.flow.pauses, now, pfc);
  return true;
}

export function holdPaused(device: Device, flow: FlowControl): void {
  const { transmitter, now } = device;
  const { control, data } = transmitter;
  for (let ack = control.peek(); ack !== undefined; ack = control.peek()) {
    const priority = priorityOf(device, ack.qp.path.dscp);
    if (mayPass(flow, priority, now)) break;
    flow.held[priority]!.control.push(control.shift()!);
  }
  for (let job = data.peek(); job !== undefined; job = data.peek()) {
    const priority = priorityOfJob(device, job);
    if (mayPass(flow, priority, now)) break;
    transmitter.bufferedBytes -= job.payloadBytes;
    flow.held[priority]!.data.push(data.shift()!);
  }
}

function mayPass({ pauses, held }: FlowControl, priority: number, now: Time): boolean {
  if (isPaused(pauses, priority, now)) return false;
  const { control, data } = held[priority]!;
  return control.length === 0 && data.length === 0;
}

/** Takes a frame that may leave now, of the highest priority; ACKs before data. */
export function takeHeld(
  flow: FlowControl,
  now: Time,
): { readonly ack: ControlFrame } | { readonly job: TxFrame } | undefined {
  for (let priority = PRIORITIES - 1; priority >= 0; priority--) {
    if (isPaused(flow.pauses, priority, now)) continue;
    const { control, data } = flow.held[priority]!;
    for (let ack = control.shift(); ack !== undefined; ack = control.shift()) {
      if (ack.life === ack.qp.life) return { ack };
    }
    for (let job = data.shift(); job !== undefined; job = data.shift()) {
      if (!isStale(job)) return { job };
    }
  }
  return undefined;
}

/** The queue pair keeps its place in the round robin. */
export function parkWherePaused(device: Device, flow: FlowControl, qp: QueuePair): boolean {
  if (!isPaused(flow.pauses, priorityOf(device, qp.path.dscp), device.now)) return false;
  qp.scheduled = true;
  flow.parked.push(qp);
  return true;
}

export function unpark(device: Device, { pauses, parked }: FlowControl): void {
  for (let count = parked.length; count > 0; count--) {
    const qp = parked.shift()!;
    const waits = isPaused(pauses, priorityOf(device, qp.path.dscp), device.now);
    if (waits) parked.push(qp);
    else device.roundRobin.push(qp);
  }
}

/** When a pause ends for which something waits, or one has to be renewed or taken back. */
export function flowWakeAt(device: Device, flow: FlowControl): Time {
  const { pauses, held, parked, requests } = flow;
  const wireAt = device.transmitter.freeAt - COMMIT_AHEAD_PS;
  let wakeAt = NEVER;
  for (let priority = 0; priority < PRIORITIES; priority++) {
    const { control, data } = held[priority]!;
    if (control.length === 0 && data.length === 0) continue;
    wakeAt = Math.min(wakeAt, Math.max(pauses.until[priority]!, wireAt));
  }
  for (let at = parked.first; at < parked.end; at++) {
    const priority = priorityOf(device, parked.at(at)!.path.dscp);
    wakeAt = Math.min(wakeAt, pauses.until[priority]!);
  }
  if (requests.asked !== 0) {
    wakeAt = Math.min(wakeAt, requests.refreshAt, device.dma.busFreeAt - BUS_RESUME_PS);
  }
  return Math.max(wakeAt, device.now);
}

/**
 * The receive buffer is full: the wire has been faster than the bus. With PFC a pause was asked
 * for, and the headroom takes the rest.
 */
export function isOverrun(device: Device): boolean {
  const backlogPs = device.dma.busFreeAt - device.now;
  const flow = device.congestion?.flow;
  if (flow === undefined) return backlogPs > BUS_BACKLOG_PS;
  if (backlogPs > BUS_BACKLOG_PS && flow.requests.asked === 0) {
    device.congestion!.counters.pausesOut++;
    sendControlFrame(device, askPause(flow.requests, device.now, flow.lossless));
  }
  return backlogPs > BUS_BACKLOG_PS + flow.headroomPs;
}

/** Pauses are taken back when the buffer has drained, and renewed before they expire. */
export function servePauses(device: Device, flow: FlowControl): void {
  const { requests } = flow;
  if (requests.asked === 0) return;
  const { congestion, dma, now } = device;
  if (dma.busFreeAt - now <= BUS_RESUME_PS) {
    congestion!.counters.resumesOut++;
    sendControlFrame(device, askResume(requests, requests.asked));
  } else if (requests.refreshAt <= now) {
    congestion!.counters.pausesOut++;
    sendControlFrame(device, askPause(requests, now, requests.asked));
  }
}

export function forgetPauses(device: Device, flow: FlowControl): void {
  endPauses(flow.pauses, device.now);
  forgetRequests(flow.requests);
}

function sendControlFrame(device: Device, bytes: Uint8Array<ArrayBuffer>): void {
  const departAt = device.now + device.timing.receivePs;
  const frame: Frame = { kind: "frame", bytes };
  device.transmitter.freeAt = device.out.send(PORTS.rnicNetwork, frame, departAt);
}
