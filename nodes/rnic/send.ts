/**
 * Sending module: fetches payload, builds frames and gives them to the wire as it becomes free.
 * ACKs go before data; frames of one queue pair's direction leave in the order they were begun.
 */
import { PORTS } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/time/time.ts";
import { ACK_SYNDROME } from "../../fabric/wire/aeth.ts";
import { DEFAULT_PKEY } from "../../fabric/wire/bth.ts";
import { ECN } from "../../fabric/wire/ipv4.ts";
import { macOfAddress } from "../../fabric/wire/neighbour.ts";
import { OPCODE, type OpcodeName, type OpcodeRow, opcodeRow } from "../../fabric/wire/opcode.ts";
import { encodePacket, type RocePacket } from "../../fabric/wire/packet.ts";
import { PERSIST_ETH } from "../../fabric/wire/persist_eth.ts";
import { allocate } from "../../fabric/wire/slab.ts";
import { udpSourcePort } from "../../fabric/wire/udp.ts";
import { qKeyOf } from "./q_key.ts";
import type { Device } from "./device.ts";
import { dmaRead } from "./dma.ts";
import { Fifo } from "./fifo.ts";
import { type FrameJob, type FrameLine, isStale } from "./frame_job.ts";
import { COMMIT_AHEAD_PS } from "./limits.ts";
import type { QueuePair } from "./queue_pair.ts";
import { requestFailed, requestSent } from "./request_sent.ts";
import { readFrameFailed, readFrameSent } from "./read_service.ts";
import type { AckService } from "./responder_state.ts";
import { PieceWalker, type Stretch } from "./translation.ts";

export const NO_BYTES = new Uint8Array(0);

/** An ACK, a NAK or a persistence ACK on its way out. */
export interface ControlFrame {
  readonly qp: QueuePair;
  readonly life: number;
  readonly opcode: Extract<OpcodeName, "RC ACKNOWLEDGE" | "VENDOR PERSISTENCE ACKNOWLEDGE">;
  /** PSN, syndrome and MSN stand here, so that a waiting ACK can be merged into. */
  readonly ack: AckService;
}

export interface Transmitter {
  readonly control: Fifo<ControlFrame>;
  readonly data: Fifo<FrameJob>;
  /** Payload bytes of frames that were begun and have not left. */
  bufferedBytes: number;
  /** When the wire is free for the next frame. */
  freeAt: Time;
}

export function createTransmitter(): Transmitter {
  return { control: new Fifo(), data: new Fifo(), bufferedBytes: 0, freeAt: 0 };
}

const walker = new PieceWalker();

/**
 * Fetches a begun frame's payload: `payloadBytes` from `offset` of the message's memory. Without
 * memory (inline data, no payload) the frame is complete at once.
 */
export function fetchPayload(
  device: Device,
  job: FrameJob,
  source: { readonly stretches: readonly Stretch[]; readonly offset: number },
): void {
  const { stretches, offset } = source;
  job.line.jobs.push(job);
  device.transmitter.bufferedBytes += job.payloadBytes;
  if (stretches.length === 0 || job.payloadBytes === 0) return passReady(device, job.line);
  const most = device.timing.dmaReadBytes;
  walker.start(stretches, { offset, length: job.payloadBytes, most });
  while (walker.next()) {
    job.missing++;
    // A piece that is the whole payload is used as it comes; pieces are put together.
    const { address, bytes } = walker;
    if (job.missing === 1 && bytes < job.payloadBytes) {
      job.payload = allocate(job.payloadBytes);
    }
    dmaRead(device, {
      address,
      length: bytes,
      noSnoop: false,
      continuation: { kind: "payload", job, offset: walker.offset },
    });
  }
}

/** Takes a piece of payload; `data` is undefined where the read failed. */
export function takePayload(
  device: Device,
  piece: { readonly job: FrameJob; readonly offset: number },
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { job, offset } = piece;
  job.missing--;
  if (data === undefined) job.failed = true;
  else if (data.length === job.payloadBytes) job.payload = data;
  else job.payload.set(data, offset);
  if (job.missing > 0) return;
  job.readyAt = device.now;
  if (isStale(job)) device.transmitter.bufferedBytes -= job.payloadBytes;
  else passReady(device, job.line);
}

/** Hands complete frames from the head of a line to the transmitter. */
function passReady(device: Device, line: FrameLine): void {
  for (let job = line.jobs.peek(); job !== undefined && job.missing === 0; job = line.jobs.peek()) {
    line.jobs.shift();
    if (!job.failed) {
      device.transmitter.data.push(job);
      continue;
    }
    device.transmitter.bufferedBytes -= job.payloadBytes;
    if (job.work !== undefined) requestFailed(device, job.qp, job.work);
    else readFrameFailed(device, job.qp, job.read!);
  }
}

/** Gives up all frames of a line that have not left. */
export function cancelLine(device: Device, line: FrameLine): void {
  line.epoch++;
  for (let job = line.jobs.shift(); job !== undefined; job = line.jobs.shift()) {
    if (job.missing === 0) device.transmitter.bufferedBytes -= job.payloadBytes;
  }
}

/** Sends what the wire can take now. Called at the end of every step. */
export function runTransmitter(device: Device): void {
  const { transmitter, now } = device;
  const { control, data } = transmitter;
  while (transmitter.freeAt <= now + COMMIT_AHEAD_PS) {
    dropStale(device);
    const ack = control.peek();
    const job = data.peek();
    // Where data waits, an ACK that is not ready yet must not hold it up.
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

/** When {@link runTransmitter} has something to do that it could not do at the end of this step. */
export function transmitterWakeAt(device: Device): Time {
  const { transmitter, now } = device;
  const ack = transmitter.control.peek();
  if (transmitter.data.length === 0 && ack === undefined) return NEVER;
  const wireAt = transmitter.freeAt - COMMIT_AHEAD_PS;
  const readyAt = transmitter.data.length > 0 ? now : ack!.ack.readyAt - COMMIT_AHEAD_PS;
  return Math.max(now, wireAt, readyAt);
}

function sendData(device: Device, job: FrameJob): void {
  const { qp, row, ud } = job;
  const { counters, transmitter } = device;
  transmitter.bufferedBytes -= job.payloadBytes;
  const { operation } = row;
  if (operation === "send") counters.sendFramesOut++;
  else if (operation === "read-request") counters.readRequestsOut++;
  else if (operation === "read-response") counters.readResponsesOut++;
  else if (row.persistence) counters.persistWriteFramesOut++;
  else counters.writeFramesOut++;
  const packet = packetOf(device, {
    address: ud?.address ?? qp.attributes.destAddress,
    localQpn: qp.qpn,
    destQpn: ud?.qpn ?? qp.attributes.destQpn,
    row,
    psn: job.psn,
    ackReq: job.ackReq,
    solicited: job.solicited,
    payload: job.payload,
  });
  extend(packet, job);
  sendPacket(device, packet, job.readyAt);
  if (job.work !== undefined) requestSent(device, qp, job);
  else readFrameSent(device, qp, job);
}

/** The extension headers that the frame's opcode has (`rocev2.md` §1.3). */
function extend(packet: Packet, { qp, row, reth, immediate, read, ud }: FrameJob): void {
  if (reth !== undefined) packet.reth = reth;
  if (row.headers.includes("persistEth")) packet.persistEth = PERSIST_ETH;
  if (immediate !== undefined) packet.immdt = { immediate };
  if (read !== undefined && row.headers.includes("aeth")) {
    packet.aeth = { syndrome: ACK_SYNDROME, msn: read.msn };
  }
  if (ud !== undefined) {
    // A Q_Key with the top bit set stands for the queue pair's own.
    const qKey = ud.qKey >= 0x8000_0000 ? qKeyOf(qp) : ud.qKey;
    packet.deth = { qKey, reserved: 0, sourceQpn: qp.qpn };
  }
}

const ACK_ROWS = {
  "RC ACKNOWLEDGE": opcodeRow(OPCODE["RC ACKNOWLEDGE"])!,
  "VENDOR PERSISTENCE ACKNOWLEDGE": opcodeRow(OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"])!,
} as const;

function sendControl(device: Device, frame: ControlFrame): void {
  const { qp, ack, opcode } = frame;
  const { counters } = device;
  if (qp.responder.pendingAck === ack) qp.responder.pendingAck = undefined;
  if (opcode === "VENDOR PERSISTENCE ACKNOWLEDGE") counters.persistAcksOut++;
  else if (ack.syndrome < 0x20) counters.acksOut++;
  else if (ack.syndrome < 0x40) counters.rnrNaksOut++;
  else counters.naksOut++;
  const packet = packetOf(device, {
    address: qp.attributes.destAddress,
    localQpn: qp.qpn,
    destQpn: qp.attributes.destQpn,
    row: ACK_ROWS[opcode],
    psn: ack.psn,
    ackReq: false,
    solicited: false,
    payload: NO_BYTES,
  });
  packet.aeth = { syndrome: ack.syndrome, msn: ack.msn };
  sendPacket(device, packet, ack.readyAt);
}

interface Outgoing {
  readonly address: number;
  readonly localQpn: number;
  readonly destQpn: number;
  readonly row: OpcodeRow;
  readonly psn: number;
  readonly ackReq: boolean;
  readonly solicited: boolean;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** A packet that is not finished yet. */
type Packet = { -readonly [Field in keyof RocePacket]: RocePacket[Field] };

/** Default hop limit of an address vector. */
const TTL = 64;

function packetOf(device: Device, frame: Outgoing): Packet {
  const { plan } = device;
  device.identification = (device.identification + 1) & 0xffff;
  return {
    destinationMac: macOfAddress(frame.address),
    sourceMac: plan.mac,
    sourceAddress: plan.address,
    destinationAddress: frame.address,
    dscp: 0,
    ecn: ECN.capable0,
    ttl: TTL,
    identification: device.identification,
    udpSourcePort: udpSourcePort(frame.localQpn, frame.destQpn),
    bth: {
      opcode: frame.row.code,
      solicited: frame.solicited,
      migReq: true,
      padCount: 0,
      tver: 0,
      pKey: DEFAULT_PKEY,
      fecn: false,
      becn: false,
      reserved6: 0,
      destQpn: frame.destQpn,
      ackReq: frame.ackReq,
      reserved7: 0,
      psn: frame.psn,
    },
    payload: frame.payload,
  };
}

function sendPacket(device: Device, packet: RocePacket, readyAt: Time): void {
  const { counters, transmitter, timing } = device;
  const bytes = encodePacket(packet);
  counters.framesOut++;
  counters.bytesOut += bytes.length;
  const departAt = Math.max(device.now, readyAt) + timing.sendPs;
  transmitter.freeAt = device.out.send(PORTS.rnicNetwork, { kind: "frame", bytes }, departAt);
}
