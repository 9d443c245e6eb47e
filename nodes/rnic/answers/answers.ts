/**
 * The responder's answers in order (`rocev2.md` §3.6). Data of several READs may be on its way. Any
 * other answer behind a READ waits here until the READ's last frame has left; a READ's frames wait
 * in their line until the control frames before them have left (`send.ts`).
 */
import { ACK_SYNDROME, NAK_SYNDROMES, nakText } from "../../../fabric/wire/roce/aeth.ts";
import { opcodeFor, positionOf } from "../../../fabric/wire/roce/opcode.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { formatAddress } from "../../../fabric/trace/describe.ts";
import { encodeVerifyResult } from "../../../fabric/wire/roce/verify_eth.ts";
import { mayBegin } from "../queues/context.ts";
import { type Device, raiseEvent, schedule, warn } from "../state/device.ts";
import {
  failAnswers,
  failReads,
  followReception,
  mergeAck,
  oweAck,
  oweAnswer,
  passAnswer,
} from "../state/responder_changes.ts";
import { enterError } from "../requester/qp_error.ts";
import type { ControlOpcode, TxFrame } from "../state/tx_frame.ts";
import { packetsOf, psnAdd } from "../state/psn.ts";
import { setTimer } from "../state/timers.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { Region } from "../state/memory.ts";
import type { AckService, PacketIn, ReadService, SingleService } from "../state/responder_state.ts";
import { fetchPayload, NO_BYTES, queueControl } from "../transmit/send.ts";
import { trace } from "../trace/trace.ts";
import { awaitAccess } from "../paging/access.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { mayMiss } from "../state/paging_state.ts";

export interface Answer {
  readonly psn: number;
  readonly syndrome: number;
  readonly reason?: string;
  readonly readyAt: Time;
}

/** Owes an ACK or NAK. An ACK is merged into one that has not left. */
export function answer(device: Device, qp: QueuePair, given: Answer): void {
  const { psn, syndrome, reason, readyAt } = given;
  if (syndrome === ACK_SYNDROME && mergeAck(qp, { psn, readyAt })) return;
  oweAck(qp, { kind: "ack", psn, syndrome, reason, msn: qp.responder.msn, readyAt });
  passAnswers(device, qp);
}

export function answerRead(
  device: Device,
  qp: QueuePair,
  read: Pick<ReadService, "psn" | "length" | "msn" | "repeat"> & {
    readonly va: bigint;
    readonly region: Region | undefined;
  },
): void {
  const { va, region, ...request } = read;
  const { length } = request;
  const segments = region === undefined ? [] : [{ region, va: Number(va), length }];
  const packets = packetsOf(length, qp.attributes.pathMtu);
  oweAnswer(qp, {
    kind: "read",
    ...request,
    segments,
    packets,
    next: 0,
    done: false,
    failedPsn: undefined,
  });
  schedule(device, qp);
}

/** The answer is as before, but for the MSN, and comes in its turn. */
export function answerAgain(device: Device, qp: QueuePair, saved: SingleService): void {
  const { msn } = qp.responder;
  answerSingle(device, qp, { ...saved, msn, repeat: true, readyAt: device.stageAt });
}

export function answerSingle(device: Device, qp: QueuePair, service: SingleService): void {
  oweAnswer(qp, service);
  passAnswers(device, qp);
}

/** Stops at the next answer that is not done; resumes requests that waited for atomics. */
export function passAnswers(device: Device, qp: QueuePair): void {
  const { responder } = qp;
  while (passNext(device, qp));
  if (responder.stalled.length > 0) device.up.resumeBehindAtomics(device, qp);
}

function passNext(device: Device, qp: QueuePair): boolean {
  const first = qp.responder.responses.peek();
  if (first === undefined) return false;
  switch (first.kind) {
    case "read":
      if (!first.done) {
        schedule(device, qp);
        return false;
      }
      if (first.failedPsn !== undefined) {
        const syndrome = NAK_SYNDROMES["remote-operational-error"];
        failAnswer(device, qp, { psn: first.failedPsn, syndrome });
        return false;
      }
      passAnswer(qp);
      return true;
    case "single":
      if (first.state === "waiting") device.up.startAtomic(device, qp, first);
      if (first.state === "failed") {
        const syndrome = NAK_SYNDROMES["remote-operational-error"];
        failAnswer(device, qp, { psn: first.psn, syndrome });
      }
      if (first.state !== "done") return false;
      passAnswer(qp);
      sendSingle(device, qp, first);
      return true;
    case "ack":
      passAnswer(qp);
      queueControl(device, { qp, life: qp.life, opcode: "RC ACKNOWLEDGE", ack: first });
      for (const second of first.persisted ?? []) sendSecond(device, qp, second);
      if (!FATAL_SYNDROMES.has(first.syndrome)) return true;
      failAfterNak(device, qp, first);
      return false;
  }
}

/** P-28: the second ACK leaves behind the reception ACK with this PSN. */
export function answerPersistent(device: Device, qp: QueuePair, second: AckService): void {
  if (!followReception(qp, second)) sendSecond(device, qp, second);
}

function sendSecond(device: Device, qp: QueuePair, ack: AckService): void {
  queueControl(device, { qp, life: qp.life, opcode: "VENDOR PERSISTENCE ACKNOWLEDGE", ack });
}

const OPCODES: Readonly<Record<SingleService["operation"]["answer"], ControlOpcode>> = {
  "acknowledge": "RC ACKNOWLEDGE",
  "read-response": "RC RDMA READ RESPONSE ONLY",
  "atomic-acknowledge": "RC ATOMIC ACKNOWLEDGE",
};

/**
 * An atomic's original value, the empty READ response of FLUSH and ATOMIC WRITE (§2.2), or a
 * verified write's result (V-01).
 */
function sendSingle(device: Device, qp: QueuePair, service: SingleService): void {
  const { operation, psn, msn, original, readyAt, result } = service;
  queueControl(device, {
    qp,
    life: qp.life,
    opcode: OPCODES[operation.answer],
    ack: {
      kind: "ack",
      psn,
      syndrome: ACK_SYNDROME,
      msn,
      readyAt,
      ...(operation.answer === "atomic-acknowledge" && { original }),
      ...(result !== undefined && { payload: encodeVerifyResult(result) }),
    },
  });
}

const FATAL_SYNDROMES: ReadonlySet<number> = new Set([
  NAK_SYNDROMES["invalid-request"],
  NAK_SYNDROMES["remote-access-error"],
  NAK_SYNDROMES["remote-operational-error"],
]);

/** The NAK ends the queue pair (§3.4). */
function failAfterNak(device: Device, qp: QueuePair, nak: AckService): void {
  const { syndrome } = nak;
  const type = syndrome === NAK_SYNDROMES["remote-access-error"] ? "QP_ACCESS_ERR" : "QP_REQ_ERR";
  // The driver does not know the firmware's own queue pairs.
  if (qp.card === undefined) {
    raiseEvent(device, { type, qpn: qp.qpn });
    reportNak(device, qp, nak);
  }
  enterError(device, qp);
}

/** Notes the reason, as the wire carries the syndrome alone. */
function reportNak(device: Device, qp: QueuePair, { psn, syndrome, reason }: AckService): void {
  const { destAddress, destQpn } = qp.attributes;
  const peer = `${formatAddress(destAddress)}, queue pair ${destQpn} to ${qp.qpn}, PSN ${psn}`;
  warn(device, `${nakText(syndrome)} to ${peer}: ${reason}`);
}

function nextRead({ responder: { responses } }: QueuePair): ReadService | undefined {
  for (let at = responses.first; at < responses.end; at++) {
    const answer = responses.at(at)!;
    if (answer.kind !== "read") return undefined;
    if (answer.next < answer.packets) return answer;
  }
  return undefined;
}

export function nextReadFrame(device: Device, qp: QueuePair): boolean {
  const read = nextRead(qp);
  if (read === undefined) return false;
  const { line, nextReadAt } = qp.responder;
  if (read.next === 0 && nextReadAt > device.now) {
    setTimer(device, qp, { timer: "read", time: nextReadAt });
    return false;
  }
  if (!mayBegin(device, qp, "responder")) return false;
  const mtu = qp.attributes.pathMtu;
  const offset = read.next * mtu;
  if (!hasMemory(device, qp, { read, offset })) return false;
  if (read.next === 0) qp.responder.nextReadAt = device.now + device.timing.dataReadPs;
  const index = read.next++;
  const position = positionOf(index, read.packets);
  const job: TxFrame = {
    qp,
    line,
    life: qp.life,
    epoch: line.epoch,
    row: opcodeFor({ service: "rc", operation: "read-response" }, position),
    psn: psnAdd(read.psn, index),
    ackReq: false,
    solicited: false,
    reth: undefined,
    immediate: undefined,
    rare: undefined,
    hint: undefined,
    ud: undefined,
    work: undefined,
    read,
    last: index === read.packets - 1,
    payloadBytes: Math.min(mtu, read.length - offset),
    payload: NO_BYTES,
    readyAt: device.stageAt,
    fetching: false,
    failed: false,
  };
  fetchPayload(device, [job], { segments: read.segments, offset });
  return true;
}

function hasMemory(
  device: Device,
  qp: QueuePair,
  { read, offset }: { readonly read: ReadService; readonly offset: number },
): boolean {
  if (!mayMiss(device.paging)) return true;
  if (isWaiting(device, qp, "read")) return false;
  const { segments, length } = read;
  const bytes = Math.min(qp.attributes.pathMtu, length - offset);
  const access = { segments, offset, length: bytes, ahead: true, write: false };
  return awaitAccess(device, access, { kind: "read", qp, psn: read.psn });
}

export function readFrameSent(device: Device, qp: QueuePair, job: TxFrame): void {
  const read = job.read!;
  if (!job.last) return;
  if (device.out.tracing) {
    trace(device, qp, {
      step: "S212",
      text: `READ response of ${read.length} B`,
      psn: read.psn,
      inbound: true,
    });
  }
  read.done = true;
  passAnswers(device, qp);
}

/**
 * The host refused the read: NAK "remote operational error" from this frame on, behind earlier
 * READs; nothing follows.
 */
export function readFrameFailed(device: Device, qp: QueuePair, job: TxFrame): void {
  const read = job.read!;
  if (read.done) return;
  failReads(qp, read, job.psn);
  passAnswers(device, qp);
}

function failAnswer(
  device: Device,
  qp: QueuePair,
  nak: { readonly psn: number; readonly syndrome: number },
): void {
  const { msn } = qp.responder;
  const reason = "the data of the answer cannot be read: its region was deregistered meanwhile, " +
    "or the host refused the card's DMA read";
  failAnswers(qp, { kind: "ack", ...nak, reason, msn, readyAt: device.stageAt });
  passAnswers(device, qp);
}

/** The ACK waits until the DMA writes are with the bus. */
export function acknowledgePacket(
  device: Device,
  qp: QueuePair,
  owed: { readonly input: PacketIn; readonly readyAt: Time },
): void {
  const { bth } = owed.input.packet;
  if (!bth.ackReq || qp.type !== "rc") return;
  answer(device, qp, { psn: bth.psn, syndrome: ACK_SYNDROME, readyAt: owed.readyAt });
}
