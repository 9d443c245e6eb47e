/**
 * Persistent memory module (P-23): decides from opcode or address whether data is to be persisted, and
 * sees to it. Flow 1: a DMA LSB read behind the data (P-24). Flow 2: a receive WQE is consumed as
 * though a SEND had come, so that the host's CPU flushes and posts a persistence ACK (P-26).
 */
import { ACCESS } from "../../fabric/wire/rnic_command.ts";
import { ACK_SYNDROME } from "../../fabric/wire/aeth.ts";
import type { OpcodeRow } from "../../fabric/wire/opcode.ts";
import { complete, PLAIN_CQE } from "./completion_queue.ts";
import type { Device } from "./device.ts";
import { dmaRead, type LsbRead, waitingLsbRead } from "./dma.ts";
import { LIMITS } from "./limits.ts";
import type { Region } from "./memory_region.ts";
import { hostAddress } from "./memory_window.ts";
import { psnDistance } from "./psn.ts";
import type { QueuePair } from "./queue_pair.ts";
import { urgeReceives, wantRecv } from "./receive_queue.ts";
import { passAnswers } from "./read_service.ts";
import { noteFlushed } from "./responder_trace.ts";
import type { RecvWqe, SingleService } from "./responder_state.ts";
import { lastPsnOf, type SendWork } from "./send_work.ts";
import { trace } from "./trace.ts";
import { physicalAddress } from "./translation.ts";

/** A message to be persisted, from its last packet on; kept for its duplicates (P-30). */
export interface PersistRecord {
  readonly firstPsn: number;
  /** The PSN of both of its ACKs (P-28). */
  readonly lastPsn: number;
  /** As the host's CPU knows the memory, whatever key was used. */
  readonly va: number;
  readonly length: number;
  /** `told`: the host's CPU knows and is to flush. */
  state: "pending" | "told" | "persisted";
  /** A FLUSH: answered in its turn, where a persistent WRITE gets a persistence ACK (P-50). */
  readonly service: SingleService | undefined;
}

/** Whether the message's data is to be persisted: by opcode (P-21) or by its region (P-22). */
export function wantsPersistence(row: OpcodeRow, region: Region | undefined): boolean {
  return row.persistence ||
    (region !== undefined && (region.access & ACCESS.remoteWritePersistence) !== 0);
}

/**
 * NS bit of what is written into a region. Where the processor looks at it, flow 1 is asked for (P-02)
 * for all that goes to persistent memory, by whichever operation: an LSB read behind it flushes what
 * waits in the IIO, never the LLC (P-03, P-04, P-24), and a FLUSH or a READ names memory, not writes
 * (P-10, P-50). What lies in DRAM nobody can make persistent: it stays where cores find it soonest.
 */
export function writesNoSnoop(device: Device, memory: Pick<Region, "persistent">): boolean {
  const { flow, noSnoop } = device.persistence;
  return noSnoop && flow === 1 && memory.persistent;
}

export interface ArrivedMessage {
  readonly firstPsn: number;
  readonly lastPsn: number;
  readonly va: number;
  readonly length: number;
  readonly region: Region | undefined;
}

/** A persistent message is complete and its DMA writes are on the bus. */
export function persistMessage(device: Device, qp: QueuePair, message: ArrivedMessage): void {
  const { firstPsn, lastPsn, length, region } = message;
  const va = hostAddress(region, message.va);
  const service = undefined;
  const record: PersistRecord = { firstPsn, lastPsn, va, length, state: "pending", service };
  remember(qp, record);
  if (device.persistence.flow === 1) flushByRead(device, qp, { record, region });
  else wantRecv(device, qp, { kind: "persist", record });
}

/**
 * A FLUSH has come (P-50): as a message without data of its own. To make its range persistent the
 * means are those of a persistent WRITE; to make it visible the read of flow 1 does in both flows.
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
  },
): void {
  const { service, length, region, persistent } = flush;
  const va = hostAddress(region, flush.va);
  const { psn } = service;
  const record: PersistRecord = {
    firstPsn: psn,
    lastPsn: psn,
    va,
    length,
    state: "pending",
    service,
  };
  remember(qp, record);
  if (persistent && device.persistence.flow === 2) {
    wantRecv(device, qp, { kind: "persist", record });
  } else flushByRead(device, qp, { record, region });
}

/** Keeps the record; those that nobody can ask for any more go, but none that is not persisted. */
function remember(qp: QueuePair, record: PersistRecord): void {
  const { persists } = qp.responder;
  persists.push(record);
  while (persists.length > LIMITS.persistRecords && persists.peek()!.state === "persisted") {
    persists.shift();
  }
}

/** S905: joins an LSB read that is still on the chip, or puts one behind the data. */
function flushByRead(
  device: Device,
  qp: QueuePair,
  message: { readonly record: PersistRecord; readonly region: Region | undefined },
): void {
  const { record } = message;
  if (device.out.tracing) {
    const text = `LSB read queued behind ${record.length} B`;
    trace(device, qp, { step: "S905", text, psn: record.firstPsn, inbound: true });
  }
  const waiting = waitingLsbRead(device.dma, qp);
  if (waiting !== undefined) {
    waiting.records.push(record);
    return;
  }
  const { region } = message;
  // Any registered address will do (P-24): where no data names one, queue information's, which there
  // is even when the regions that were written are no more.
  const address = region === undefined ? device.spaces!.space1 : physicalAddress(region, region.va);
  dmaRead(device, {
    address,
    length: 1,
    noSnoop: device.persistence.noSnoop,
    continuation: { kind: "lsb", qp, life: qp.life, records: [record] },
  });
}

/** The LSB read is complete, so all earlier writes of this link are in the persistent domain. */
export function lsbReadDone(device: Device, read: LsbRead, succeeded: boolean): void {
  if (!succeeded) return refuseFlushes(device, read);
  for (const record of read.records) {
    device.counters.lsbPersisted++;
    markPersisted(device, read.qp, record);
  }
}

/**
 * A refused read proves nothing. Who wrote will ask again and at last give up (P-30), a FLUSH is
 * refused (§3.4: remote operational error).
 */
function refuseFlushes(device: Device, { qp, records }: LsbRead): void {
  for (const { service } of records) {
    if (service !== undefined) service.state = "failed";
  }
  passAnswers(device, qp);
}

function markPersisted(device: Device, qp: QueuePair, record: PersistRecord): void {
  const { service } = record;
  record.state = "persisted";
  if (service === undefined) return sendPersistenceAck(device, qp, record);
  if (device.out.tracing) noteFlushed(device, qp, record);
  service.state = "done";
  service.readyAt = device.stageAt;
  passAnswers(device, qp);
}

/** S907, S1016: the second ACK with this PSN. */
function sendPersistenceAck(device: Device, qp: QueuePair, record: PersistRecord): void {
  if (device.out.tracing) {
    const step = device.persistence.flow === 1 ? "S907" : "S1016";
    const text = `persistence ACK of ${record.length} B`;
    trace(device, qp, { step, text, psn: record.firstPsn, inbound: true });
  }
  device.transmitter.control.push({
    qp,
    life: qp.life,
    opcode: "VENDOR PERSISTENCE ACKNOWLEDGE",
    ack: {
      kind: "ack",
      psn: record.lastPsn,
      syndrome: ACK_SYNDROME,
      msn: qp.responder.msn,
      readyAt: device.stageAt,
      queued: true,
    },
  });
}

/** S1006, S1007: the WQE gets its content from the data, is cleared, and its CQE tells the CPU. */
export function deliverToHost(
  device: Device,
  qp: QueuePair,
  delivery: { readonly record: PersistRecord; readonly recv: RecvWqe },
): void {
  const { record, recv } = delivery;
  record.state = "told";
  device.counters.recvPersisted++;
  if (device.out.tracing) {
    const keys = { psn: record.firstPsn, inbound: true, recvs: [recv.position] } as const;
    const text = `RECV WQE at ${recv.position} names VA 0x${
      record.va.toString(16)
    }, ${record.length} B`;
    trace(device, qp, { step: "S1006", text, ...keys });
    trace(device, qp, { step: "S1007", text: "RECV WQE cleared, its CQE written", ...keys });
  }
  const { length: byteCount, lastPsn: psn, va } = record;
  completePersistence(device, qp, { recv, byteCount, psn, va: BigInt(va) });
}

/**
 * The CPU says "flushed" (S1014). @returns false where no message with this PSN waits for it: what was
 * not asked for must not be reported.
 */
export function answerPersistenceAck(device: Device, qp: QueuePair, psn: number): boolean {
  const record = findRecord(qp, psn);
  if (record === undefined || record.state !== "told") return false;
  markPersisted(device, qp, record);
  return true;
}

/**
 * A duplicate packet of a persistent message: answered again where it is persistent (P-30), looked
 * after where it still waits for a receive WQE. The reception ACK is the caller's.
 */
export function duplicateOfPersistent(device: Device, qp: QueuePair, psn: number): void {
  const record = findRecord(qp, psn);
  if (record === undefined || record.service !== undefined) return;
  if (record.state === "persisted") sendPersistenceAck(device, qp, record);
  else if (record.state === "pending" && device.persistence.flow === 2) urgeReceives(device, qp);
}

/** A FLUSH again: looked after where it still waits for a receive WQE. @returns what it is. */
export function duplicateOfFlush(
  device: Device,
  qp: QueuePair,
  psn: number,
): SingleService | undefined {
  const record = findRecord(qp, psn);
  if (record?.service === undefined) return undefined;
  if (record.state === "pending" && device.persistence.flow === 2) urgeReceives(device, qp);
  return record.service;
}

/** First PSN of the message that the CPU's persistence ACK with `psn` is about, for traces. */
export function firstPsnOfMessage(qp: QueuePair, psn: number): number {
  return findRecord(qp, psn)?.firstPsn ?? psn;
}

/** The message whose last packet has this PSN; newest first, as those are asked for. */
function findRecord(qp: QueuePair, psn: number): PersistRecord | undefined {
  const { persists } = qp.responder;
  for (let number = persists.end - 1; number >= persists.first; number--) {
    const record = persists.at(number)!;
    if (record.lastPsn === psn) return record;
    // Records are in PSN order: all others are older still.
    if (psnDistance(record.lastPsn, psn) > 0) return undefined;
  }
  return undefined;
}

/** P-27: the persistence ACK completes the requester's next RECV (S1018). */
export function confirmOnRecv(
  device: Device,
  qp: QueuePair,
  confirmation: { readonly work: SendWork; readonly recv: RecvWqe },
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
  });
}

/** The CQE of a RECV that no SEND has taken: it names the range (P-26, P-27). */
function completePersistence(
  device: Device,
  qp: QueuePair,
  done: {
    readonly recv: RecvWqe;
    readonly byteCount: number;
    readonly psn: number;
    readonly va: bigint;
  },
): void {
  const { recv, byteCount, psn, va } = done;
  complete(device, qp.recvCq, {
    ...PLAIN_CQE,
    opcode: "recv-persistence",
    qpn: qp.qpn,
    wqeIndex: recv.position & 0xffff,
    byteCount,
    psn,
    va,
    solicited: true,
  });
}
