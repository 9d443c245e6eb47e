/** Responses to this requester (`rocev2.md` §3.3). */
import { parseSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { ANSWERS, type RequestOperation } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { decodeVerifyResult } from "../../../fabric/wire/roce/verify_eth.ts";
import {
  acknowledge,
  askAgain,
  completeWork,
  isOutstanding,
  noteApart,
  progress,
  takeFatalNak,
  takePersistenceAck,
  takeRnrNak,
  takeSequenceNak,
  workOf,
} from "./completer.ts";
import { askForDropped, isHeldBack, mayPlace, type Response, takeKept } from "./cold_responses.ts";
import { takeCredits } from "../queues/credit.ts";
import type { Device } from "../state/device.ts";
import { takeAnswered } from "../state/requester_changes.ts";
import { psnAdd, psnDistance } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { fail } from "./requester.ts";
import { lastPsnOf, type OutstandingWqe } from "../state/outstanding_wqe.ts";
import { isLive } from "../dma/translation.ts";
import { placePayload } from "../dma/place_payload.ts";
import { wordOf } from "../state/memory.ts";

export function receiveResponse(device: Device, qp: QueuePair, response: Response): void {
  if (isHeldBack(device, qp, response)) return;
  const { packet, row } = response;
  const { psn } = packet.bth;
  switch (row.operation) {
    case "acknowledge":
      return takeAcknowledge(device, qp, packet);
    case "read-response":
      device.counters.readResponsesIn++;
      return takeAnswer(device, qp, response);
    case "atomic-acknowledge":
      device.counters.atomicAcksIn++;
      return takeAnswer(device, qp, response);
    case "persistence-acknowledge":
      device.counters.persistAcksIn++;
      if (!takePersistenceAck(device, qp, psn)) device.counters.ignoredResponsesIn++;
      return;
    default:
      device.counters.ignoredResponsesIn++;
  }
}

function takeAcknowledge(device: Device, qp: QueuePair, packet: RocePacket): void {
  const { counters } = device;
  const { psn } = packet.bth;
  const syndrome = parseSyndrome(packet.aeth!.syndrome);
  if (syndrome.kind === "ack") counters.acksIn++;
  else if (syndrome.kind === "rnr-nak") counters.rnrNaksIn++;
  else counters.naksIn++;
  if (syndrome.kind === "reserved" || !isOutstanding(qp, psn)) {
    // "Ghost ACK" (§3.3): may bring new credits.
    if (psn === psnAdd(qp.requester.unacknowledged, -1)) takeCredits(device, qp, packet.aeth!);
    findApart(device, qp, { psn, isAsking: syndrome.kind === "nak" });
    counters.ignoredResponsesIn++;
    return;
  }
  if (syndrome.kind === "ack") {
    takeCredits(device, qp, packet.aeth!);
    return acknowledge(device, qp, psn);
  }
  if (syndrome.kind === "rnr-nak") {
    return takeRnrNak(device, qp, { psn, timerCode: syndrome.timerCode });
  }
  const { code } = syndrome;
  if (code === "psn-sequence-error") return takeSequenceNak(device, qp, psn);
  takeFatalNak(device, qp, { psn, code });
}

/**
 * The peer confirms a PSN that was never sent, or asks for one before the first: its rq_psn may
 * differ from sq_psn here. A late answer to an earlier connection comes once, before anything is
 * sent again; once something was acknowledged, any such answer is late.
 */
function findApart(
  device: Device,
  qp: QueuePair,
  { psn, isAsking }: { readonly psn: number; readonly isAsking: boolean },
): void {
  const { requester, attributes: { sqPsn, retryCnt } } = qp;
  const { unacknowledged, issuedEnd, retriesLeft, apart } = requester;
  if (unacknowledged !== sqPsn || issuedEnd === sqPsn) return;
  const isBehind = psnDistance(issuedEnd, psn) >= 0;
  if (!isBehind && !(isAsking && psnDistance(psn, sqPsn) > 0)) return;
  const expected = isAsking ? psn : psnAdd(psn, 1);
  const isRepeated = apart?.expected === expected && apart.isAsking === isAsking;
  noteApart(device, qp, { expected, isAsking, isSure: isRepeated || retriesLeft < retryCnt });
}

/**
 * A READ's data, an atomic's value, an empty READ response, or a verified write's result. Unless it
 * is the next one, the requester asks for the missing one again.
 */
function takeAnswer(device: Device, qp: QueuePair, response: Response): void {
  const { packet, row } = response;
  const { requester } = qp;
  const { psn } = packet.bth;
  const work = answeredWork(qp, psn);
  if (work === undefined) {
    device.counters.ignoredResponsesIn++;
    return;
  }
  // All packets before it have been received, as responses come in order.
  if (psnDistance(requester.unacknowledged, work.firstPsn) > 0) {
    acknowledge(device, qp, psnAdd(work.firstPsn, -1));
    if (requester.work.at(requester.ackCursor) !== work) return;
  }
  if (work.plan.streams) return takeVerdict(device, qp, { work, packet, row });
  const index = psnDistance(work.firstPsn, psn);
  if (index > work.responses) return askAgain(device, qp, work);
  if (index < work.responses) {
    device.counters.ignoredResponsesIn++;
    return;
  }
  if (packet.aeth !== undefined) takeCredits(device, qp, packet.aeth);
  if (row.operation !== ANSWERS[work.plan.wire as RequestOperation]) {
    return fail(device, qp, { work, fault: "response-kind" });
  }
  placeResponse(device, qp, { work, packet, row });
}

export function resumeResponses(device: Device, qp: QueuePair): void {
  const [first, ...rest] = takeKept(device, qp);
  if (first === undefined) return askForDropped(device, qp);
  // The first response was counted when it came.
  takeAnswer(device, qp, first);
  for (const response of rest) receiveResponse(device, qp, response);
}

/** A verdict has the PSN of the write's last packet (V-01). */
function takeVerdict(
  device: Device,
  qp: QueuePair,
  { work, packet, row }: Response & { readonly work: OutstandingWqe },
): void {
  if (packet.bth.psn !== lastPsnOf(work)) {
    device.counters.ignoredResponsesIn++;
    return;
  }
  if (packet.aeth !== undefined) takeCredits(device, qp, packet.aeth);
  const isOnly = row.operation === "read-response" && row.position === "only";
  const verdict = isOnly ? decodeVerifyResult(packet.payload) : undefined;
  if (verdict === undefined) return fail(device, qp, { work, fault: "response-kind" });
  work.verdict = verdict;
  work.responses = work.packets;
  noteAnswered(device, qp, { work, psn: packet.bth.psn });
}

function answeredWork(qp: QueuePair, psn: number): OutstandingWqe | undefined {
  if (!isOutstanding(qp, psn)) return undefined;
  const work = workOf(qp, psn);
  return work?.plan.answered === true ? work : undefined;
}

function placeResponse(
  device: Device,
  qp: QueuePair,
  response: Response & { readonly work: OutstandingWqe },
): void {
  const { work, packet } = response;
  const isData = work.plan.psnsOf === "answer";
  const offset = isData ? work.responses * qp.attributes.pathMtu : 0;
  const expected = isData ? Math.min(qp.attributes.pathMtu, work.length - offset) : 0;
  if (packet.payload.length !== expected) {
    return fail(device, qp, { work, fault: "response-length" });
  }
  const { atomicAckEth, bth: { psn } } = packet;
  const data = atomicAckEth === undefined ? packet.payload : wordOf(atomicAckEth.original);
  if (data.length > 0) {
    if (!isLive(work.segments)) return fail(device, qp, { work, fault: "region-gone" });
    if (!mayPlace(device, qp, { ...response, offset, length: data.length })) return;
    const of = { qp, psn, inbound: false };
    placePayload(device, data, { segments: work.segments, offset, of });
  }
  work.responses++;
  noteAnswered(device, qp, { work, psn: packet.bth.psn });
}

function noteAnswered(
  device: Device,
  qp: QueuePair,
  answered: { readonly work: OutstandingWqe; readonly psn: number },
): void {
  takeAnswered(qp, answered);
  progress(device, qp);
  completeWork(device, qp);
}
