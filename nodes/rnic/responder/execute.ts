/** Effects of request packets that have passed their checks: DMA writes, CQEs, answers. */
import { ACK_SYNDROME, NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import type { CqeOpcode, WcStatus } from "../../../fabric/wire/host_bus/cqe.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { complete, PLAIN_CQE } from "../queues/completion_queue.ts";
import type { Device } from "../state/device.ts";
import { dmaWrite } from "../dma/dma.ts";
import { flipped } from "../state/flips.ts";
import { failFatally } from "../requester/qp_error.ts";
import { findRegion, invalidateKey, lookUp } from "../dma/memory_region.ts";
import { persistMessage, wantsPersistence, writesNoSnoop } from "../persistence/pm_module.ts";
import { noteWritten } from "../persistence/pm_ranges.ts";
import { packetsOf, PSN_MASK, psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { answer, answerRead } from "../answers/read_service.ts";
import { serveReceives } from "../queues/receive_queue.ts";
import { remoteRegion, type Verdict } from "./responder.ts";
import { noteArrival, noteReadRequest, noteReceive } from "../trace/responder_trace.ts";
import type { OpenMessage, PacketIn, RecvWqe, Resource } from "../state/responder_state.ts";
import { isLive, PieceWalker } from "../dma/translation.ts";
import type { Stretch } from "../state/memory.ts";

const walker = new PieceWalker();

/** Writes payload to `offset` of the stretches. @returns when the bus has taken all of it. */
export function placePayload(
  device: Device,
  payload: Uint8Array<ArrayBuffer>,
  place: {
    readonly stretches: readonly Stretch[];
    readonly offset: number;
    /** A peer's WRITE, not a SEND: what V-08's faults of the bus concern. */
    readonly isWrite?: boolean;
  },
): Time {
  const { stretches, offset, isWrite = false } = place;
  const departAt = device.stageAt;
  let freeAt: Time = departAt;
  walker.start(stretches, { offset, length: payload.length, most: payload.length });
  while (walker.next()) {
    const { bytes } = walker;
    const whole = bytes === payload.length;
    const piece = whole ? payload : payload.subarray(walker.offset, walker.offset + bytes);
    const data = isWrite ? flipped(device, "bus", piece) : piece;
    const noSnoop = writesNoSnoop(device, walker);
    const { address, persistent } = walker;
    freeAt = dmaWrite(device, { address, data, noSnoop, persistent, departAt });
  }
  return freeAt;
}

function isFirst({ row }: PacketIn): boolean {
  return row.position === "first" || row.position === "only";
}

function isLast({ row }: PacketIn): boolean {
  return row.position === "last" || row.position === "only";
}

/** A WRITE packet: data to memory; at the end the ACK, and persistence where it is wanted. */
export function executeWrite(device: Device, qp: QueuePair, input: PacketIn): Verdict | undefined {
  const { packet } = input;
  const { responder } = qp;
  const opened = isFirst(input) ? openWrite(device, qp, input) : responder.open!;
  if (typeof opened !== "object") return opened;
  if (!isLive(opened.stretches)) return NAK_SYNDROMES["remote-access-error"];
  // Nothing is checked in between (V-08): the faults of a verified write's buffer are one place here.
  const data = flipped(device, "checked", flipped(device, "buffer", packet.payload));
  const { stretches, received: offset } = opened;
  const readyAt = placePayload(device, data, { stretches, offset, isWrite: true });
  if (!opened.persist) noteWritten(device, qp, { opened, length: packet.payload.length });
  qp.lastWrite = "in";
  const ends = takePlaced(qp, opened, input);
  acknowledgePacket(device, qp, { input, readyAt });
  if (!ends) return undefined;
  if (device.out.tracing) noteArrival(device, qp, opened);
  if (input.row.immediate) completeImmediate(device, qp, { input, length: opened.length });
  if (opened.persist) {
    const { firstPsn, va, length, region } = opened;
    persistMessage(device, qp, { firstPsn, lastPsn: packet.bth.psn, va, length, region });
  }
  return undefined;
}

/** The packet's data is placed: its PSN is taken. @returns whether the message is complete with it. */
export function takePlaced(
  { responder }: QueuePair,
  opened: OpenMessage,
  input: PacketIn,
): boolean {
  opened.received += input.packet.payload.length;
  responder.expectedPsn = psnAdd(responder.expectedPsn, 1);
  const ends = isLast(input);
  responder.open = ends ? undefined : opened;
  if (ends) responder.msn = (responder.msn + 1) & PSN_MASK;
  return ends;
}

function openWrite(device: Device, qp: QueuePair, input: PacketIn): OpenMessage | Verdict {
  const { packet, row } = input;
  const { va, rkey, length } = packet.reth!;
  // Without data key and address are not checked, but the region named still decides (P-22).
  let region = length > 0 ? undefined : findRegion(device.regions, rkey);
  if (length > 0) {
    const found = remoteRegion(device, qp, { key: rkey, va, length, need: ACCESS.remoteWrite });
    if (typeof found !== "object") return found;
    // P-21: the opcode asks what only persistent memory can give. P-22 refuses such a region when it is
    // registered; here it is known with the key, so what cannot be promised is refused as a right that
    // the region has not got.
    if (row.persistence && !found.persistent) return NAK_SYNDROMES["remote-access-error"];
    region = found;
  }
  const start = length > 0 ? Number(va) : 0;
  return {
    operation: "write",
    vendor: row.vendor,
    firstPsn: packet.bth.psn,
    va: start,
    region,
    stretches: region === undefined || length === 0 ? [] : [{ region, va: start, length }],
    length,
    recv: undefined,
    // UC has no way to say that it is done.
    persist: qp.type === "rc" && wantsPersistence(row, region),
    received: 0,
  };
}

/** The ACK that AckReq asks for; it waits until the DMA writes are with the bus. */
export function acknowledgePacket(
  device: Device,
  qp: QueuePair,
  owed: { readonly input: PacketIn; readonly readyAt: Time },
): void {
  const { bth } = owed.input.packet;
  if (!bth.ackReq || qp.type !== "rc") return;
  answer(device, qp, { psn: bth.psn, syndrome: ACK_SYNDROME, readyAt: owed.readyAt });
}

/** WRITE WITH IMM consumes a receive WQE, whose memory it ignores (§3.4). */
function completeImmediate(
  device: Device,
  qp: QueuePair,
  message: { readonly input: PacketIn; readonly length: number },
): void {
  const { input, length } = message;
  const recv = qp.responder.granted!;
  qp.responder.granted = undefined;
  completeReceive(device, qp, { recv, input, byteCount: length, opcode: "recv-write-immediate" });
}

/** A SEND packet: data to the receive WQE's memory; at the end its CQE and the ACK. */
export function executeSend(device: Device, qp: QueuePair, input: PacketIn): Verdict | undefined {
  const { packet, row } = input;
  const { responder } = qp;
  const opened = isFirst(input) ? openSend(device, qp, input) : responder.open!;
  if (typeof opened !== "object") return opened;
  if (opened.received + packet.payload.length > opened.length) {
    failReceive(device, qp, { recv: opened.recv!, status: "LOC_LEN_ERR" });
    return NAK_SYNDROMES["invalid-request"];
  }
  if (!isLive(opened.stretches)) {
    failReceive(device, qp, { recv: opened.recv!, status: "LOC_PROT_ERR" });
    return NAK_SYNDROMES["remote-operational-error"];
  }
  const readyAt = placePayload(device, packet.payload, {
    stretches: opened.stretches,
    offset: opened.received,
  });
  noteWritten(device, qp, { opened, length: packet.payload.length });
  if (!takePlaced(qp, opened, input)) {
    acknowledgePacket(device, qp, { input, readyAt });
    return undefined;
  }
  if (row.invalidate && !invalidateKey(device, qp, packet.ieth!.rkey)) {
    // Class J: no NAK, the requester finds out by its time-out.
    failReceive(device, qp, { recv: opened.recv!, status: "REM_INV_REQ_ERR" });
    failFatally(device, qp);
    return undefined;
  }
  if (device.out.tracing) noteReceive(device, qp, opened);
  completeReceive(device, qp, {
    recv: opened.recv!,
    input,
    byteCount: opened.received,
    opcode: row.immediate ? "recv-immediate" : row.invalidate ? "recv-invalidate" : "recv",
  });
  acknowledgePacket(device, qp, { input, readyAt });
  // Who had to wait for this receive to complete goes on.
  serveReceives(device, qp);
  return undefined;
}

function openSend(device: Device, qp: QueuePair, input: PacketIn): OpenMessage | Verdict {
  const recv = qp.responder.granted!;
  qp.responder.granted = undefined;
  const stretches = recvStretches(device, qp, recv);
  if (stretches === undefined) {
    failReceive(device, qp, { recv, status: "LOC_PROT_ERR" });
    return NAK_SYNDROMES["remote-operational-error"];
  }
  let length = 0;
  for (const stretch of stretches) length += stretch.length;
  return {
    operation: "send",
    vendor: false,
    firstPsn: input.packet.bth.psn,
    va: 0,
    region: undefined,
    stretches,
    length,
    recv,
    persist: false,
    received: 0,
  };
}

/** The memory of a receive WQE, undefined where a key does not grant it. */
export function recvStretches(device: Device, qp: QueuePair, recv: RecvWqe): Stretch[] | undefined {
  const stretches: Stretch[] = [];
  const pd = qp.srq?.pd ?? qp.pd;
  for (const { lkey, address, length } of recv.sges) {
    if (length === 0) continue;
    const need = ACCESS.localWrite;
    const region = lookUp(device.regions, { key: lkey, pd, va: address, length, need });
    if (typeof region === "string") return undefined;
    stretches.push({ region, va: address, length });
  }
  return stretches;
}

function completeReceive(
  device: Device,
  qp: QueuePair,
  done: {
    readonly recv: RecvWqe;
    readonly input: PacketIn;
    readonly byteCount: number;
    readonly opcode: CqeOpcode;
  },
): void {
  const { recv, input, byteCount, opcode } = done;
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode,
    qpn: qp.qpn,
    wqeIndex: recv.position & 0xffff,
    byteCount,
    immediate: input.packet.immdt?.immediate ?? input.packet.ieth?.rkey ?? 0,
    solicited: input.packet.bth.solicited,
  });
}

/** The receive WQE's own CQE of what it could not take. */
export function failReceive(
  device: Device,
  qp: QueuePair,
  fault: { readonly recv: RecvWqe; readonly status: WcStatus },
): void {
  qp.responder.open = undefined;
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode: "responder-error",
    status: fault.status,
    qpn: qp.qpn,
    wqeIndex: fault.recv.position & 0xffff,
  });
}

/** Keeps what was asked for in the ring of max_dest_rd_atomic slots; the oldest goes (§3.5). */
export function remember(qp: QueuePair, resource: Resource): void {
  const { resources } = qp.responder;
  resources.push(resource);
  if (resources.length > qp.attributes.maxDestRdAtomic) resources.shift();
}

/** A READ request: takes as many PSNs as its response has packets, and is answered in its turn. */
export function executeRead(device: Device, qp: QueuePair, input: PacketIn): Verdict | undefined {
  const { responder, attributes } = qp;
  const { psn } = input.packet.bth;
  const { va, rkey, length } = input.packet.reth!;
  let stretches: Stretch[] = [];
  if (length > 0) {
    const region = remoteRegion(device, qp, { key: rkey, va, length, need: ACCESS.remoteRead });
    if (typeof region !== "object") return region;
    stretches = [{ region, va: Number(va), length }];
  }
  const packets = packetsOf(length, attributes.pathMtu);
  responder.expectedPsn = psnAdd(psn, packets);
  responder.msn = (responder.msn + 1) & PSN_MASK;
  remember(qp, { kind: "read-record", psn, packets, va, length, key: rkey });
  if (device.out.tracing) noteReadRequest(device, qp, { psn, length });
  const { msn } = responder;
  answerRead(device, qp, {
    kind: "read",
    psn,
    stretches,
    length,
    packets,
    msn,
    repeat: false,
    next: 0,
    done: false,
  });
  return undefined;
}
