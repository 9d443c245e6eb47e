/**
 * Sending module: fetches payload, builds frames, gives them to the wire. ACKs go before data;
 * frames of one direction of a queue pair leave in the order begun, a responder's answers, ACKs and
 * data alike, in the order of their requests.
 */
import { PORTS } from "../../../fabric/node.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { ACK_SYNDROME } from "../../../fabric/wire/roce/aeth.ts";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { PacketFrame, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { allocate } from "../../../fabric/base/slab.ts";
import { countFrame } from "./congestion.ts";
import { creditSyndrome } from "../queues/credit.ts";
import { mayAnswer } from "../queues/context.ts";
import type { Device } from "../state/device.ts";
import { controlLeaves, controlQueued } from "../state/responder_changes.ts";
import { dmaRead } from "../dma/dma.ts";
import { flipped } from "../state/flips.ts";
import { flowWakeAt, holdPaused, priorityOf, takeHeld } from "./flow_control.ts";
import {
  type ControlFrame,
  type Gather,
  isStale,
  lineBytes,
  type TxFrame,
  type TxOrder,
} from "../state/tx_frame.ts";
import { COMMIT_AHEAD_PS } from "../state/limits.ts";
import { isOwn, loopFrame } from "./loopback.ts";
import { makePacket, ownBthAt, packetOfJob } from "./make_packet.ts";
import { traceNak } from "../trace/responder_trace.ts";
import { isLive, PieceWalker } from "../dma/translation.ts";
import type { MemorySegment } from "../state/memory.ts";
import type { Congestion, Notice } from "../state/congestion_state.ts";

export const NO_BYTES = new Uint8Array(0);

const walker = new PieceWalker();

/**
 * Fetches the payload of consecutive frames, from `offset` of the message. Frames without a payload
 * in memory are complete at once.
 */
export function fetchPayload(
  device: Device,
  jobs: readonly TxFrame[],
  source: { readonly segments: readonly MemorySegment[]; readonly offset: number },
): void {
  const { segments, offset } = source;
  const { line, read } = jobs[0]!;
  // Memory deregistered since its key was checked is not read.
  const failed = !isLive(segments);
  const bthAt = ownBthAt(device);
  let bytes = 0;
  for (const job of jobs) {
    line.jobs.push(job);
    job.failed = failed;
    bytes += job.payloadBytes;
    job.qp.surplus -= lineBytes(job, bthAt);
    if (device.congestion !== undefined) countFrame(device, device.congestion, job);
  }
  device.transmitter.bufferedBytes += bytes;
  if (failed || segments.length === 0 || bytes === 0) return passReady(device, line);
  for (const job of jobs) job.fetching = true;
  const gather: Gather = { jobs, bytes, missing: 0, data: NO_BYTES, failed };
  const { dmaReadBytes, gatherReadBytes } = device.timing;
  const most = read === undefined ? gatherReadBytes : dmaReadBytes;
  walker.start(segments, { offset, length: bytes, most });
  while (walker.next()) {
    // One piece is used without a copy; null regions read as zeros.
    if (walker.offset === 0 && (walker.bytes < bytes || walker.isNull)) {
      gather.data = allocate(bytes);
    }
    if (walker.isNull) continue;
    gather.missing++;
    dmaRead(device, {
      address: walker.address,
      length: walker.bytes,
      continuation: { kind: "payload", gather, offset: walker.offset },
    });
  }
  if (gather.missing === 0) handOut(device, gather, device.stageAt);
}

export function takePayload(
  device: Device,
  piece: { readonly gather: Gather; readonly offset: number },
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { gather, offset } = piece;
  gather.missing--;
  if (data === undefined) gather.failed = true;
  else if (data.length === gather.bytes) gather.data = data;
  else gather.data.set(data, offset);
  if (gather.missing === 0) handOut(device, gather, device.now);
}

function handOut(device: Device, { jobs, data, failed }: Gather, readyAt: Time): void {
  let at = 0;
  for (const job of jobs) {
    job.fetching = false;
    job.failed = failed;
    const payload = jobs.length === 1 ? data : data.subarray(at, at + job.payloadBytes);
    job.payload = isWritten(job) ? flipped(device, "fetch", payload) : payload;
    job.readyAt = readyAt;
    at += job.payloadBytes;
    if (isStale(job)) device.transmitter.bufferedBytes -= job.payloadBytes;
  }
  // They are of one epoch.
  if (!isStale(jobs[0]!)) passReady(device, jobs[0]!.line);
}

/** V-08 damages only data of writes. */
function isWritten(job: TxFrame): boolean {
  return job.work?.plan.writes === true && !job.failed && !isStale(job);
}

export function queueControl(device: Device, frame: ControlFrame): void {
  controlQueued(frame.qp);
  if (mayAnswer(device, frame)) device.transmitter.control.push(frame);
}

/**
 * Sends complete frames from the head. A READ response passes no control frame of its queue pair
 * (§3.6); it waits here, where it does not hold up other queue pairs.
 */
function passReady(device: Device, line: TxOrder): void {
  for (let job = line.jobs.peek(); job !== undefined && !job.fetching; job = line.jobs.peek()) {
    if (job.read !== undefined && job.qp.responder.unsentControl > 0) return;
    line.jobs.shift();
    if (!job.failed && job.read?.failedPsn === undefined) {
      device.transmitter.data.push(job);
      continue;
    }
    device.transmitter.bufferedBytes -= job.payloadBytes;
    device.up.frameFailed(device, job);
  }
}

export function cancelLine(device: Device, line: TxOrder): void {
  line.epoch++;
  for (let job = line.jobs.shift(); job !== undefined; job = line.jobs.shift()) {
    if (!job.fetching) device.transmitter.bufferedBytes -= job.payloadBytes;
  }
}

/** Called at the end of every step. */
export function runTransmitter(device: Device): void {
  const { transmitter, now } = device;
  const { control, data } = transmitter;
  while (transmitter.freeAt <= now + COMMIT_AHEAD_PS) {
    dropStale(device);
    if (device.congestion !== undefined && sendAhead(device, device.congestion)) continue;
    const ack = control.peek();
    const job = data.peek();
    // An ACK that is not ready must not hold up data.
    const ahead = job === undefined ? COMMIT_AHEAD_PS : 0;
    if (ack !== undefined && ack.ack.readyAt <= now + ahead) {
      control.shift();
      sendControl(device, ack);
    } else if (job !== undefined) {
      data.shift();
      sendData(device, job);
    } else {
      return;
    }
  }
}

/**
 * Sends congestion notifications first, then frames held back by a pause. @returns whether a frame
 * was sent.
 */
function sendAhead(device: Device, congestion: Congestion): boolean {
  const { transmitter, now } = device;
  const { flow, notices } = congestion;
  const notice = notices.peek();
  if (notice !== undefined && noticeAt(device, congestion) <= now) {
    notices.shift();
    if (notice.life === notice.qp.life) sendNotice(device, congestion, notice);
    return true;
  }
  if (flow === undefined) return false;
  holdPaused(device, flow);
  const held = takeHeld(flow, now);
  if (held === undefined) return false;
  if ("ack" in held) {
    sendControl(device, held.ack);
  } else {
    transmitter.bufferedBytes += held.job.payloadBytes;
    sendData(device, held.job);
  }
  return true;
}

function noticeAt(device: Device, { plan, flow, notices }: Congestion): Time {
  if (notices.length === 0) return NEVER;
  return flow === undefined ? 0 : flow.pauses.until[priorityOf(device, plan.cnpDscp)]!;
}

function dropStale(device: Device): void {
  const { control, data } = device.transmitter;
  for (
    let ack = control.peek();
    ack !== undefined && ack.life !== ack.qp.life;
    ack = control.peek()
  ) {
    control.shift();
  }
  for (let job = data.peek(); job !== undefined && isStale(job); job = data.peek()) {
    device.transmitter.bufferedBytes -= job.payloadBytes;
    data.shift();
  }
}

export function transmitterWakeAt(device: Device): Time {
  const { transmitter, now, congestion } = device;
  const wireAt = transmitter.freeAt - COMMIT_AHEAD_PS;
  if (congestion !== undefined) {
    const aheadAt = Math.max(now, wireAt, noticeAt(device, congestion));
    const { flow } = congestion;
    const flowAt = flow === undefined ? NEVER : flowWakeAt(device, flow);
    return Math.min(aheadAt, flowAt, queuedWakeAt(device, wireAt));
  }
  return queuedWakeAt(device, wireAt);
}

function queuedWakeAt({ transmitter, now }: Device, wireAt: Time): Time {
  const ack = transmitter.control.peek();
  if (transmitter.data.length === 0 && ack === undefined) return NEVER;
  const readyAt = transmitter.data.length > 0 ? now : ack!.ack.readyAt - COMMIT_AHEAD_PS;
  return Math.max(now, wireAt, readyAt);
}

function sendData(device: Device, job: TxFrame): void {
  const { qp, work, read } = job;
  const { counters, transmitter } = device;
  transmitter.bufferedBytes -= job.payloadBytes;
  const counter = work?.plan.counter;
  if (counter !== undefined) counters[counter]++;
  else if (read !== undefined) counters.readResponsesOut++;
  if (read !== undefined) qp.responder.lastMsnSent = read.msn;
  const packet = packetOfJob(device, job);
  const frame = sendPacket(device, packet, job.readyAt);
  // It is a greeting between cards.
  if (qp.card !== undefined && work === undefined) return;
  device.up.frameSent(device, job, frame);
}

const ACK_ROWS = {
  "RC ACKNOWLEDGE": opcodeRow(OPCODE["RC ACKNOWLEDGE"])!,
  "RC ATOMIC ACKNOWLEDGE": opcodeRow(OPCODE["RC ATOMIC ACKNOWLEDGE"])!,
  "RC RDMA READ RESPONSE ONLY": opcodeRow(OPCODE["RC RDMA READ RESPONSE ONLY"])!,
  "VENDOR PERSISTENCE ACKNOWLEDGE": opcodeRow(OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"])!,
} as const;

function sendControl(device: Device, frame: ControlFrame): void {
  const { ack, qp } = frame;
  controlLeaves(qp, ack);
  if (ack.withdrawn !== true) emitControl(device, frame);
  passReady(device, qp.responder.line);
}

function emitControl(device: Device, { qp, ack, opcode }: ControlFrame): void {
  const { counters } = device;
  if (opcode === "VENDOR PERSISTENCE ACKNOWLEDGE") counters.persistAcksOut++;
  else if (opcode === "RC ATOMIC ACKNOWLEDGE") counters.atomicAcksOut++;
  else if (opcode === "RC RDMA READ RESPONSE ONLY") counters.readResponsesOut++;
  else if (ack.syndrome < 0x20) counters.acksOut++;
  else if (ack.syndrome < 0x40) counters.rnrNaksOut++;
  else counters.naksOut++;
  const packet = makePacket(device, {
    path: qp.path,
    row: ACK_ROWS[opcode],
    psn: ack.psn,
    ackReq: false,
    solicited: false,
    payload: ack.payload ?? NO_BYTES,
  });
  // An ACK has the credits of the moment, a persistence ACK none (P-28).
  const credits = ack.syndrome === ACK_SYNDROME && opcode !== "VENDOR PERSISTENCE ACKNOWLEDGE";
  const syndrome = credits ? creditSyndrome(device, qp) : ack.syndrome;
  // A persistence ACK may overtake answers, whose MSN must not run back.
  if (opcode !== "VENDOR PERSISTENCE ACKNOWLEDGE") qp.responder.lastMsnSent = ack.msn;
  packet.aeth = { syndrome, msn: qp.responder.lastMsnSent };
  if (ack.original !== undefined) packet.atomicAckEth = { original: ack.original };
  if (device.out.tracing) traceNak(device, qp, ack);
  sendPacket(device, packet, ack.readyAt);
}

const CNP_ROW = opcodeRow(OPCODE.CNP)!;
const CNP_PAYLOAD = new Uint8Array(16);

/** A CNP (`rocev2.md` §3.9): BECN, no PSN, 16 reserved bytes, a priority of its own. */
function sendNotice(device: Device, congestion: Congestion, notice: Notice): void {
  congestion.counters.cnpsOut++;
  const packet = makePacket(device, {
    path: { ...notice.qp.path, dscp: congestion.plan.cnpDscp },
    row: CNP_ROW,
    psn: 0,
    ackReq: false,
    solicited: false,
    payload: CNP_PAYLOAD,
  });
  packet.bth = { ...packet.bth, becn: true };
  sendPacket(device, packet, notice.readyAt);
}

function sendPacket(
  device: Device,
  packet: RocePacket,
  readyAt: Time,
): PacketFrame {
  const { counters, transmitter, timing } = device;
  const frame = new PacketFrame(packet);
  const departAt = Math.max(device.now, readyAt) + timing.sendPs;
  if (isOwn(device, packet)) {
    transmitter.freeAt = loopFrame(device, frame, departAt);
    return frame;
  }
  counters.framesOut++;
  counters.bytesOut += frame.length;
  const from = Math.max(departAt, transmitter.loopedUntil);
  transmitter.freeAt = device.out.send(PORTS.rnicNetwork, frame, from);
  return frame;
}
