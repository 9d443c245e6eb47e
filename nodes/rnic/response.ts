/** Responses to this requester (`rocev2.md` §3.3): one small function per kind of packet. */
import { parseSyndrome } from "../../fabric/wire/aeth.ts";
import type { OpcodeRow } from "../../fabric/wire/opcode.ts";
import type { RocePacket } from "../../fabric/wire/packet.ts";
import {
  acknowledge,
  askAgain,
  completeWork,
  isOutstanding,
  progress,
  takeFatalNak,
  takePersistenceAck,
  takeRnrNak,
  takeSequenceNak,
} from "./completer.ts";
import type { Device } from "./device.ts";
import { placePayload } from "./execute.ts";
import { psnAdd, psnDistance } from "./psn.ts";
import type { QueuePair } from "./queue_pair.ts";
import { fail } from "./requester.ts";
import type { SendWork } from "./send_work.ts";

interface Response {
  readonly packet: RocePacket;
  readonly row: OpcodeRow;
}

export function receiveResponse(device: Device, qp: QueuePair, response: Response): void {
  const { packet, row } = response;
  const { psn } = packet.bth;
  switch (row.operation) {
    case "acknowledge":
      return takeAcknowledge(device, qp, packet);
    case "read-response":
      device.counters.readResponsesIn++;
      return takeReadResponse(device, qp, packet);
    case "persistence-acknowledge":
      device.counters.persistAcksIn++;
      if (!takePersistenceAck(device, qp, psn)) device.counters.ignoredResponsesIn++;
      return;
    default:
      // No atomic was asked for.
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
    counters.ignoredResponsesIn++;
    return;
  }
  if (syndrome.kind === "ack") return acknowledge(device, qp, psn);
  if (syndrome.kind === "rnr-nak") {
    return takeRnrNak(device, qp, { psn, timerCode: syndrome.timerCode });
  }
  const { code } = syndrome;
  if (code === "psn-sequence-error") return takeSequenceNak(device, qp, psn);
  takeFatalNak(device, qp, { psn, code });
}

/** A piece of a READ's data: it must be the next one, else what is missing is asked for again. */
function takeReadResponse(device: Device, qp: QueuePair, packet: RocePacket): void {
  const { requester } = qp;
  const { psn } = packet.bth;
  const work = readOf(qp, psn);
  if (work === undefined) {
    device.counters.ignoredResponsesIn++;
    return;
  }
  // Responses come in order, so everything before the READ has been received.
  if (psnDistance(requester.unacknowledged, work.firstPsn) > 0) {
    acknowledge(device, qp, psnAdd(work.firstPsn, -1));
    if (requester.work.at(requester.ackCursor) !== work) return;
  }
  const index = psnDistance(work.firstPsn, psn);
  if (index > work.responses) return askAgain(device, qp, work);
  if (index < work.responses) {
    device.counters.ignoredResponsesIn++;
    return;
  }
  placeResponse(device, qp, { work, packet });
}

/** The READ that a response PSN belongs to, among those without an answer. */
function readOf(qp: QueuePair, psn: number): SendWork | undefined {
  const { requester } = qp;
  if (!isOutstanding(qp, psn)) return undefined;
  for (let number = requester.ackCursor; number < requester.work.end; number++) {
    const work = requester.work.at(number);
    if (work === undefined || !work.started) return undefined;
    const index = psnDistance(work.firstPsn, psn);
    if (index < 0) return undefined;
    if (index < work.packets) return work.plan.wire === "read-request" ? work : undefined;
  }
  return undefined;
}

function placeResponse(
  device: Device,
  qp: QueuePair,
  response: { readonly work: SendWork; readonly packet: RocePacket },
): void {
  const { work, packet } = response;
  const { requester } = qp;
  const offset = work.responses * qp.attributes.pathMtu;
  const expected = Math.min(qp.attributes.pathMtu, work.length - offset);
  if (packet.payload.length !== expected) return fail(device, qp, { work, status: "BAD_RESP_ERR" });
  if (expected > 0) {
    placePayload(device, packet.payload, { stretches: work.stretches, offset, noSnoop: false });
  }
  work.responses++;
  work.rereadAsked = false;
  requester.unacknowledged = psnAdd(packet.bth.psn, 1);
  if (work.responses === work.packets) {
    work.acked = true;
    requester.reads--;
    requester.ackCursor++;
  }
  progress(device, qp);
  completeWork(device, qp);
}
