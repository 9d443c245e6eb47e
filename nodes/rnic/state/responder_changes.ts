/**
 * The functions that write a responder's fields, one per event; `responder/` and `answers/` decide
 * which event happens.
 */
import { ACK_SYNDROME } from "../../../fabric/wire/roce/aeth.ts";
import { isLast, PSN_MASK, psnAdd, psnDistance } from "./psn.ts";
import type { QueuePair } from "./queue_pair.ts";
import type {
  AckService,
  OpenMessage,
  PacketIn,
  ReadService,
  RecvWqe,
  RequestIn,
  Resource,
  Responder,
  SingleService,
} from "./responder_state.ts";
import type { Writable } from "./writable.ts";

function own({ responder }: QueuePair): Writable<Responder> {
  return responder as Writable<Responder>;
}

/** @returns whether it is the first request. */
export function establish(qp: QueuePair): boolean {
  const responder = own(qp);
  if (responder.established) return false;
  responder.established = true;
  return true;
}

/** A NAK that asks for it and has not left never leaves. */
export function takeExpected(qp: QueuePair): void {
  const responder = own(qp);
  responder.gapNaked = false;
  if (responder.pendingNak === undefined) return;
  responder.pendingNak.withdrawn = true;
  responder.pendingNak = undefined;
}

export function noteDropped(qp: QueuePair, psn: number): void {
  const responder = own(qp);
  const { lastDropped } = responder;
  if (lastDropped === undefined || psnDistance(lastDropped, psn) > 0) responder.lastDropped = psn;
}

/** Accepts all PSNs before `nextPsn`. @returns its MSN. */
export function acceptRequest(qp: QueuePair, nextPsn: number): number {
  const responder = own(qp);
  responder.expectedPsn = nextPsn;
  responder.msn = (responder.msn + 1) & PSN_MASK;
  return responder.msn;
}

/** The packet's data is placed. @returns whether the message is complete. */
export function acceptPacket(
  qp: QueuePair,
  message: OpenMessage,
  { packet, row }: PacketIn,
): boolean {
  const responder = own(qp);
  message.received += packet.payload.length;
  responder.expectedPsn = psnAdd(responder.expectedPsn, 1);
  const ends = isLast(row);
  responder.open = ends ? undefined : message;
  if (ends) responder.msn = (responder.msn + 1) & PSN_MASK;
  return ends;
}

/** A UC message may begin with any PSN. */
export function beginAt(qp: QueuePair, psn: number): void {
  const responder = own(qp);
  abandonOpen(responder);
  responder.expectedPsn = psn;
  responder.droppingRest = false;
}

/** For UC. @returns whether the packet's message was dropped before. */
export function abandonMessage(qp: QueuePair, { row }: Pick<PacketIn, "row">): boolean {
  const responder = own(qp);
  const { droppingRest } = responder;
  abandonOpen(responder);
  responder.droppingRest = !isLast(row);
  return droppingRest;
}

/** The receive WQE stays for the next message. */
function abandonOpen(responder: Writable<Responder>): void {
  responder.granted ??= responder.open?.recv;
  responder.open = undefined;
}

/** The receive WQE fails, too. */
export function closeMessage(qp: QueuePair): void {
  own(qp).open = undefined;
}

export function stall(
  qp: QueuePair,
  input: RequestIn,
  waitsFor: Responder["stalledFor"] = "recv",
): void {
  const responder = own(qp);
  if (responder.stalled.length === 0) responder.stalledFor = waitsFor;
  responder.stalled.push(input);
}

export function takeStalled(qp: QueuePair): RequestIn | undefined {
  return own(qp).stalled.shift();
}

/** The packets come again behind the missing one. */
export function dropStalled(qp: QueuePair): void {
  for (let next = takeStalled(qp); next !== undefined; next = takeStalled(qp)) {
    noteDropped(qp, next.packet.bth.psn);
  }
}

export function grantReceive(qp: QueuePair, recv: RecvWqe): void {
  own(qp).granted = recv;
}

export function takeReceive(qp: QueuePair): RecvWqe {
  const responder = own(qp);
  const recv = responder.granted!;
  responder.granted = undefined;
  return recv;
}

export function releaseReceives(qp: QueuePair): void {
  const responder = own(qp);
  responder.open = undefined;
  responder.granted = undefined;
}

/** The waiting ACK then stands for both. @returns whether one waits. */
export function mergeAck(
  qp: QueuePair,
  { psn, readyAt }: Pick<AckService, "psn" | "readyAt">,
): boolean {
  const responder = own(qp);
  const { pendingAck, msn, responses } = responder;
  if (pendingAck === undefined) return false;
  if (psnDistance(pendingAck.psn, psn) > 0) pendingAck.psn = psn;
  if (responses.length === 0) noteReception(responder, pendingAck.psn);
  pendingAck.msn = msn;
  pendingAck.readyAt = Math.max(pendingAck.readyAt, readyAt);
  return true;
}

/** A packet behind a NAK must not be acknowledged before it. */
export function oweAck(qp: QueuePair, ack: AckService): void {
  const responder = own(qp);
  const isAck = ack.syndrome === ACK_SYNDROME;
  responder.pendingAck = isAck ? ack : undefined;
  if (!isAck) responder.pendingNak = ack;
  responder.responses.push(ack);
}

/**
 * P-28: the persistence ACK follows a reception ACK that is still owed. @returns whether it does.
 */
export function followReception(qp: QueuePair, second: AckService): boolean {
  const { responses, receptionPsn } = own(qp);
  if (psnDistance(second.psn, receptionPsn) >= 0) return false;
  for (let at = responses.first; at < responses.end; at++) {
    const answer = responses.at(at)!;
    if (answer.kind !== "ack" || answer.syndrome !== ACK_SYNDROME) continue;
    if (psnDistance(second.psn, answer.psn) < 0) continue;
    (answer.persisted ??= []).push(second);
    return true;
  }
  return false;
}

/** A packet behind the answer must not be acknowledged before it. */
export function oweAnswer(qp: QueuePair, service: ReadService | SingleService): void {
  const responder = own(qp);
  responder.pendingAck = undefined;
  responder.responses.push(service);
}

export function passAnswer(qp: QueuePair): void {
  const responder = own(qp);
  const passed = responder.responses.shift();
  // A NAK may still be withdrawn.
  if (passed === undefined || passed.kind === "ack" && passed.syndrome !== ACK_SYNDROME) return;
  noteReception(responder, passed.psn);
}

function noteReception(responder: Writable<Responder>, psn: number): void {
  if (psnDistance(responder.receptionPsn, psn) > 0) responder.receptionPsn = psn;
}

/** Neither the failed READ nor any request behind it is answered. */
export function failReads(qp: QueuePair, failed: ReadService, psn: number): void {
  const responder = own(qp);
  const { responses } = responder;
  responder.failing = true;
  let isBehind = false;
  for (let at = responses.first; at < responses.end; at++) {
    const answer = responses.at(at)!;
    isBehind ||= answer === failed;
    if (!isBehind || answer.kind !== "read") continue;
    answer.done = true;
    answer.next = answer.packets;
    answer.failedPsn = psn;
  }
}

/** The NAK takes the first answer's place; none follows. */
export function failAnswers(qp: QueuePair, nak: AckService): void {
  const responder = own(qp);
  const { responses } = responder;
  responder.failing = true;
  responses.clear();
  responses.push(nak);
}

export function abandonAnswers(qp: QueuePair): void {
  const responder = own(qp);
  responder.stalled.clear();
  responder.responses.clear();
  responder.pendingAck = undefined;
}

export function controlQueued(qp: QueuePair): void {
  own(qp).unsentControl++;
}

export function controlLeaves(qp: QueuePair, ack: AckService): void {
  const responder = own(qp);
  responder.unsentControl--;
  if (responder.pendingAck === ack) responder.pendingAck = undefined;
  if (responder.pendingNak !== ack) return;
  // The NAK asks for all dropped packets.
  responder.pendingNak = undefined;
  responder.lastDropped = undefined;
}

/** The oldest resource makes room (§3.5). */
export function rememberResource(qp: QueuePair, resource: Resource): void {
  const { resources } = own(qp);
  resources.push(resource);
  if (resources.length > qp.attributes.maxDestRdAtomic) resources.shift();
}

/**
 * Counts atomics that are not executed, and verified writes whose data is not all with the bus
 * (V-02).
 */
export function countPending(
  qp: QueuePair,
  effect: "atomics" | "placing",
  change: 1 | -1,
): void {
  own(qp)[effect] += change;
}
