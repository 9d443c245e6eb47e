/**
 * Persistent memory module (P-23): has data persisted as the host's driver has chosen. `read`: a
 * DMA LSB read behind the data (P-24). `cpu`: consumes a receive WQE as though a SEND had come, and
 * the host's CPU flushes and posts a persistence ACK (P-26). `none`: data that the bus has taken is
 * persistent.
 */
import { allocate } from "../../../fabric/base/slab.ts";
import { encodeRecvWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { NotifiedRanges } from "../state/persist_records.ts";
import { PLAIN_CQE } from "../../../fabric/wire/host_bus/cqe.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { ACK_SYNDROME } from "../../../fabric/wire/roce/aeth.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { complete } from "../queues/completion_queue.ts";
import type { Device } from "../state/device.ts";
import { takeDirty } from "../state/dirty_ranges.ts";
import { dmaRead, dmaWrite, waitingLsbRead } from "../dma/dma.ts";
import { coversShared, takeDropped } from "../dma/region_lines.ts";
import { failFatally } from "../requester/qp_error.ts";
import { rights } from "../state/life_cycle.ts";
import { hostAddress } from "../dma/memory_window.ts";
import {
  findRecord,
  firstUnproven,
  passPersisted,
  rememberPersist,
} from "../state/persist_records.ts";
import { writeRanges } from "./pm_ranges.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { failReceive, refetchReceives, serveReceives, wantRecv } from "../queues/receive_queue.ts";
import { answerPersistent, passAnswers } from "../answers/answers.ts";
import { traceNotified } from "../trace/responder_trace.ts";
import type { PersistRecord, RecvWqe, SingleService } from "../state/responder_state.ts";
import { recvSegments } from "../dma/place_payload.ts";
import { awaitAccess } from "../paging/access.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { type Delivery, mayMiss } from "../state/paging_state.ts";
import { lastPsnOf, type OutstandingWqe } from "../state/outstanding_wqe.ts";
import { trace } from "../trace/trace.ts";
import { physicalAddress } from "../dma/translation.ts";
import { bytesOf, type Region } from "../state/memory.ts";
import type { LsbRead } from "../state/dma_state.ts";

/** The opcode (P-21) or the region (P-22) decides. */
export function wantsPersistence(row: OpcodeRow, region: Region | undefined): boolean {
  return row.persistence ||
    (region !== undefined && (region.access & ACCESS.remoteWritePersistence) !== 0);
}

export interface ArrivedMessage {
  readonly firstPsn: number;
  readonly lastPsn: number;
  readonly va: number;
  readonly length: number;
  readonly region: Region | undefined;
  /** A verified write's answer alone reports it (V-09). */
  readonly service?: SingleService;
}

interface RecordIn {
  readonly record: PersistRecord;
  readonly region: Region | undefined;
}

interface Persisted {
  readonly record: PersistRecord;
  readonly at: Time;
}

/** To be called when all DMA writes are on the bus. */
export function persistMessage(device: Device, qp: QueuePair, message: ArrivedMessage): void {
  const { firstPsn, lastPsn, length, region, service } = message;
  const va = hostAddress(region, message.va);
  // Its own range is in the CQE.
  takeDirty(qp.responder.dirty, { va, length });
  const spans = takeDirty(qp.responder.dirty);
  const record: PersistRecord = { firstPsn, lastPsn, va, length, spans, state: "pending", service };
  rememberPersist(qp, record);
  persistRecord(device, qp, { record, region });
}

function persistRecord(device: Device, qp: QueuePair, message: RecordIn): void {
  const { record, region } = message;
  if (device.port !== undefined && region !== undefined) record.region = region;
  switch (device.persistence.flush) {
    case "read":
      return flushByRead(device, qp, message);
    case "cpu":
      return wantRecv(device, qp, { kind: "persist", record });
    case "none":
      // Only the end of a write to a shared line proves that it was not dropped (decision 13).
      if (device.port !== undefined && coversShared(device.port, record)) {
        return flushByRead(device, qp, message);
      }
      // Card's and host's buffers survive alike, and the bus has the data by then.
      return markPersisted(device, qp, { record, at: device.dma.busFreeAt });
  }
}

/**
 * P-50: as a message without data. Persistent: by the means of a persistent WRITE; visible: by a
 * read behind the data. Only its range is flushed.
 */
export function flushMessage(
  device: Device,
  qp: QueuePair,
  flush: {
    readonly service: SingleService;
    readonly va: number;
    readonly length: number;
    readonly region: Region | undefined;
    readonly persistent: boolean;
    readonly visible: boolean;
  },
): void {
  const { service, length, region, persistent, visible } = flush;
  const va = hostAddress(region, flush.va);
  const { psn } = service;
  const record: PersistRecord = {
    firstPsn: psn,
    lastPsn: psn,
    va,
    length,
    spans: [],
    state: "pending",
    service,
  };
  if (device.port !== undefined && region !== undefined) record.region = region;
  rememberPersist(qp, record);
  if (!persistent || (visible && device.persistence.flush === "none")) {
    return flushByRead(device, qp, { record, region });
  }
  takeDirty(qp.responder.dirty, { va, length });
  persistRecord(device, qp, { record, region });
}

/** The LSB read of S905. */
function flushByRead(device: Device, qp: QueuePair, message: RecordIn): void {
  const { record } = message;
  if (device.out.tracing) {
    const how = device.port === undefined ? "LSB read queued" : "completion awaited";
    const text = `${how} behind ${record.length} B`;
    trace(device, qp, { step: "S905", text, psn: record.firstPsn, inbound: true });
  }
  const { region } = message;
  const waiting = waitingLsbRead(device.dma, qp);
  if (waiting !== undefined) {
    waiting.records.push(record);
    return;
  }
  // Any registered address will do, as the order on the bus counts (P-24). Queue information exists
  // even when the written regions are gone.
  const place = region === undefined ? -1 : physicalAddress(region, region.va);
  const address = place < 0 ? device.spaces!.space1 : place;
  dmaRead(device, {
    address,
    length: 1,
    noSnoop: device.persistence.noSnoop,
    continuation: { kind: "lsb", qp, life: qp.life, records: [record] },
  });
}

/**
 * All earlier writes of this link are persistent. A queue pair that has failed sends no
 * acknowledgement.
 */
export function lsbReadDone(device: Device, read: LsbRead, succeeded: boolean): void {
  if (!rights(read.qp.state).takesRequests) return;
  if (!succeeded) return refuseFlushes(device, read);
  for (const record of read.records) {
    if (device.port !== undefined && takeDropped(device.port, record)) {
      record.state = "refused";
      refuseFlushes(device, { qp: read.qp, records: [record] });
      continue;
    }
    device.counters.lsbPersisted++;
    markPersisted(device, read.qp, { record, at: device.stageAt });
  }
  // A FLUSH to visibility may stand before messages that the CPU has flushed.
  if (device.persistence.flush === "cpu") passFlushed(device, read.qp);
}

/**
 * A refused read proves nothing. A WRITE's requester retries and at last gives up (P-30), a FLUSH
 * is refused (§3.4: remote operational error), a verified write's answer says so.
 */
function refuseFlushes(device: Device, { qp, records }: Pick<LsbRead, "qp" | "records">): void {
  for (const { service } of records) {
    if (service?.operation.name === "write-verify") device.up.verifiedUnproven(device, qp, service);
    else if (service !== undefined) service.state = "failed";
  }
  passAnswers(device, qp);
}

function markPersisted(device: Device, qp: QueuePair, persisted: Persisted): void {
  const { record, at } = persisted;
  const { service } = record;
  record.state = "persisted";
  if (service === undefined) return sendPersistenceAck(device, qp, persisted);
  if (service.operation.name === "write-verify") {
    return device.up.verifiedPersisted(device, qp, { service, at });
  }
  if (device.out.tracing) {
    const text = `READ response of the FLUSH of ${record.length} B`;
    trace(device, qp, { step: "flush", text, psn: record.firstPsn, inbound: true });
  }
  service.state = "done";
  service.readyAt = at;
  passAnswers(device, qp);
}

/** S907, S1016. */
function sendPersistenceAck(device: Device, qp: QueuePair, { record, at }: Persisted): void {
  if (device.out.tracing) {
    const step = device.persistence.flush === "cpu" ? "S1016" : "S907";
    const text = `persistence ACK of ${record.length} B`;
    trace(device, qp, { step, text, psn: record.firstPsn, inbound: true });
  }
  answerPersistent(device, qp, {
    kind: "ack",
    psn: record.lastPsn,
    syndrome: ACK_SYNDROME,
    msn: qp.responder.lastMsnSent,
    readyAt: at,
  });
}

/**
 * The memory of the RECV, to which ranges are written, may be absent: deliveries wait, in order.
 */
function mustWait(device: Device, qp: QueuePair, delivery: Delivery): boolean {
  const { paging } = device;
  if (!mayMiss(paging)) return false;
  const { slot } = qp;
  const waiting = isWaiting(device, qp, "deliver");
  const segments = recvSegments(device, qp, delivery.recv);
  if (!waiting && segments === undefined) return false;
  const access = { segments: segments ?? [], offset: 0, length: bytesOf(segments ?? []) };
  if (!waiting && awaitAccess(device, { ...access, write: true }, { kind: "deliver", qp })) {
    return false;
  }
  const before = waiting ? paging.deliveries.get(slot) ?? [] : [];
  paging.deliveries.set(slot, [...before, delivery]);
  return true;
}

export function resumeDeliveries(device: Device, qp: QueuePair): void {
  const { deliveries } = device.paging;
  const waiting = deliveries.get(qp.slot) ?? [];
  deliveries.delete(qp.slot);
  if (!rights(qp.state).takesRequests) return;
  for (const delivery of waiting) deliverToHost(device, qp, delivery);
  serveReceives(device, qp);
}

/** S1006, S1007: fills the WQE, clears it, and notifies the CPU by its CQE. */
export function deliverToHost(
  device: Device,
  qp: QueuePair,
  delivery: Delivery,
): void {
  const { record, recv } = delivery;
  if (mustWait(device, qp, delivery)) return;
  const { spans } = record;
  const notified = writeRanges(device, qp, { own: record, spans, recv });
  if (notified === undefined) {
    failReceive(device, qp, { recv, fault: "receive-length" });
    return failFatally(device, qp);
  }
  record.state = "notified";
  device.counters.recvPersisted++;
  fillAndClear(device, qp, { recv, notified, psn: record.lastPsn });
  if (device.out.tracing) traceNotified(device, qp, { record, recv, notified });
  const { va, byteCount, more } = notified;
  completePersistence(device, qp, { recv, byteCount, psn: record.lastPsn, va: BigInt(va), more });
}

/**
 * The WQE in the host's ring says what the CQE will, then nothing: what a CPU reads there once it
 * has the CQE is a WQE that was consumed. A shared receive queue's place in its ring is the host's
 * again from the fetch on, and is left alone.
 */
function fillAndClear(
  device: Device,
  { rings: { rq }, rqStride }: QueuePair,
  wqe: { readonly recv: RecvWqe; readonly notified: NotifiedRanges; readonly psn: number },
): void {
  if (rq === undefined) return;
  const { recv: { position }, notified: { va, byteCount }, psn } = wqe;
  const address = rq.address + position * rqStride;
  const data = encodeRecvWqe([{ address: va, length: byteCount, lkey: psn }], rqStride);
  dmaWrite(device, { address, data });
  dmaWrite(device, { address, data: allocate(rqStride) });
}

/** S1014. @returns false where no message with this PSN waits. */
export function answerPersistenceAck(device: Device, qp: QueuePair, psn: number): boolean {
  const record = findRecord(qp, psn);
  if (record === undefined || record.state !== "notified") return false;
  if (device.port !== undefined && takeDropped(device.port, record)) {
    record.state = "refused";
    refuseFlushes(device, { qp, records: [record] });
    return true;
  }
  record.state = "flushed";
  // A FLUSH is about its range alone, and is answered in its turn anyway.
  const isFlush = record.service?.operation.name === "flush";
  if (isFlush) markPersisted(device, qp, { record, at: device.stageAt });
  passFlushed(device, qp);
  return true;
}

/**
 * ACKs leave in the order of the messages: an earlier one's ranges may cover plain writes before
 * this one (P-31).
 */
function passFlushed(device: Device, qp: QueuePair): void {
  for (let record = firstUnproven(qp); record !== undefined; record = firstUnproven(qp)) {
    if (record.state === "flushed") markPersisted(device, qp, { record, at: device.stageAt });
    if (record.state !== "persisted") return;
    passPersisted(qp);
  }
}

/**
 * A persistent message is answered again (P-30); one that waits for a receive WQE looks again. The
 * caller sends the reception ACK.
 */
export function duplicateOfPersistent(device: Device, qp: QueuePair, psn: number): void {
  const record = findRecord(qp, psn);
  if (record === undefined || record.service !== undefined) return;
  if (record.state === "persisted") {
    sendPersistenceAck(device, qp, { record, at: device.stageAt });
  } else if (record.state === "pending" && device.persistence.flush === "cpu") {
    refetchReceives(device, qp);
  }
}

/**
 * A FLUSH or verified write that waits for a receive WQE looks again. @returns its service;
 * undefined without a record of one.
 */
export function duplicateOfService(
  device: Device,
  qp: QueuePair,
  psn: number,
): SingleService | undefined {
  const record = findRecord(qp, psn);
  if (record?.service === undefined) return undefined;
  if (record.state === "pending" && device.persistence.flush === "cpu") refetchReceives(device, qp);
  return record.service;
}

/** P-27, S1018: the requester's next RECV completes. */
export function confirmOnRecv(
  device: Device,
  qp: QueuePair,
  confirmation: { readonly work: OutstandingWqe; readonly recv: RecvWqe },
): void {
  const { work, recv } = confirmation;
  if (device.out.tracing) {
    const keys = { psn: work.firstPsn, recvs: [recv.position] };
    trace(device, qp, { step: "S1013", text: `RECV WQE at ${recv.position} taken`, ...keys });
    trace(device, qp, { step: "S1018", text: "CQE of the RECV: persisted", ...keys });
  }
  completePersistence(device, qp, {
    recv,
    byteCount: work.length,
    psn: lastPsnOf(work),
    va: work.wqe!.remote!.va,
    more: 0,
  });
}

/** No SEND has taken the RECV: its CQE names the range (P-26, P-27). */
function completePersistence(
  device: Device,
  qp: QueuePair,
  done: {
    readonly recv: RecvWqe;
    readonly byteCount: number;
    readonly psn: number;
    readonly va: bigint;
    readonly more: number;
  },
): void {
  const { recv, byteCount, psn, va, more } = done;
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode: "recv-persistence",
    qpn: qp.qpn,
    wqeIndex: recv.position & 0xffff,
    byteCount,
    immediate: more,
    psn,
    va,
    solicited: true,
  });
}
