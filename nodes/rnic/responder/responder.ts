/**
 * Responder: request packets of an RC queue pair, checked step by step in the order of `rocev2.md`
 * §3.4. A check is a small function that answers "go on" (undefined) or a verdict; only
 * {@link takeRequest} acts on verdicts.
 */
import { ACK_SYNDROME, NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { type OpcodeRow, payloadFits } from "../../../fabric/wire/roce/opcode.ts";
import { type Device, drop, raiseEvent } from "../state/device.ts";
import { executeAtomic, repeatAtomic } from "./atomic.ts";
import { executeRead, executeSend, executeWrite } from "./execute.ts";
import { executeFlush, isFlushable, repeatFlush } from "../persistence/flush_operation.ts";
import { rights } from "../state/life_cycle.ts";
import { remoteRegion } from "../dma/memory_region.ts";
import { LIMITS } from "../state/limits.ts";
import { duplicateOfPersistent } from "../persistence/pm_module.ts";
import { MESSAGE_BYTES_MAX, packetsOf, psnAdd, psnDistance } from "../state/psn.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import { executeWriteVerify, repeatVerified } from "../verify/write_verify.ts";
import { answer, answerRead } from "../answers/read_service.ts";
import { wantRecv } from "../queues/receive_queue.ts";
import type { PacketIn, Resource, Responder, Verdict } from "../state/responder_state.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";

/** A request packet for this queue pair; it waits behind one that waits for its receive WQE. */
export function receiveRequest(device: Device, qp: QueuePair, input: PacketIn): void {
  const { responder } = qp;
  device.counters.requestsIn++;
  if (!responder.established) {
    responder.established = true;
    if (qp.state === "rtr") raiseEvent(device, { type: "COMM_EST", qpn: qp.qpn });
  }
  if (responder.stalled.length === 0) takeRequest(device, qp, input);
  else if (responder.stalled.length < LIMITS.stalledPackets) responder.stalled.push(input);
  else drop(device, "stalled-too-many");
}

/** Takes the packet whose turn it is: PSN first, then the checks, then the effect. */
export function takeRequest(device: Device, qp: QueuePair, input: PacketIn): void {
  const { responder } = qp;
  if (responder.failing || !rights(qp.state).takesRequests) return;
  const { psn } = input.packet.bth;
  const ahead = psnDistance(responder.expectedPsn, psn);
  if (ahead > 0) return sequenceError(device, qp, psn);
  if (ahead < 0) return takeDuplicate(device, qp, input);
  responder.gapNaked = false;
  withdrawNak(responder);
  if (mustWait(qp, input)) return stall(qp, input, "atomic");
  if (needsRecv(input.row) && responder.granted === undefined) {
    // Cheap faults are found before a receive WQE is asked for; the rest when it is here.
    const verdict = checkSequence(qp, input) ?? checkPermission(qp, input);
    if (verdict !== undefined) return refuse(device, qp, { verdict, psn });
    stall(qp, input, "recv");
    wantRecv(device, qp, { kind: "packet" });
    return;
  }
  const verdict = checkSequence(qp, input) ?? checkPermission(qp, input) ??
    checkLength(qp, input) ?? execute(device, qp, input);
  if (verdict !== undefined) refuse(device, qp, { verdict, psn });
  else tellDropped(device, qp);
}

/** The packet that a NAK asks for has come before the NAK has left: it must not be asked for again. */
function withdrawNak(responder: Responder): void {
  if (responder.pendingNak === undefined) return;
  responder.pendingNak.withdrawn = true;
  responder.pendingNak = undefined;
}

/** What was dropped behind a packet whose NAK was withdrawn is asked for, where it has not come again. */
function tellDropped(device: Device, qp: QueuePair): void {
  const { responder } = qp;
  const { lastDropped, expectedPsn, pendingNak } = responder;
  if (lastDropped === undefined || pendingNak !== undefined) return;
  responder.lastDropped = undefined;
  if (psnDistance(expectedPsn, lastDropped) >= 0) requestGap(device, qp, lastDropped);
}

/**
 * An atomic takes effect at its place among all requests (§3.7), but only after a DMA read: what
 * takes effect at once has to wait for it. READs and atomics stand in line behind it anyway.
 */
function ordersBehindAtomics({ operation }: OpcodeRow): boolean {
  return operation === "send" || operation === "write" || operation === "flush" ||
    operation === "write-verify";
}

/** Whether something before it has to take effect first. */
function mustWait({ responder }: QueuePair, { row, packet }: PacketIn): boolean {
  if (responder.atomics > 0 && ordersBehindAtomics(row)) return true;
  if (responder.placing === 0 || !ordersBehindAtomics(row)) return false;
  // Data that has to be checked first gets its place behind what waits (V-02).
  return row.operation !== "write-verify" || packet.verifyEth?.level === 0;
}

function stall({ responder }: QueuePair, input: PacketIn, reason: "recv" | "atomic"): void {
  responder.stalled.push(input);
  responder.stalledFor = reason;
}

/** The packet's effect, with the checks of keys and receive memory that belong to it. */
function execute(device: Device, qp: QueuePair, input: PacketIn): Verdict | undefined {
  switch (input.row.operation) {
    case "send":
      return executeSend(device, qp, input);
    case "write":
      return executeWrite(device, qp, input);
    case "compare-swap":
    case "fetch-add":
    case "atomic-write":
      return executeAtomic(device, qp, input);
    case "flush":
      return executeFlush(device, qp, input);
    case "write-verify":
      return executeWriteVerify(device, qp, input);
    default:
      return executeRead(device, qp, input);
  }
}

/** The packet is dropped behind a missing one; what asks for that one asks for all that follows. */
export function noteDropped(responder: Responder, psn: number): void {
  const { lastDropped } = responder;
  if (lastDropped === undefined || psnDistance(lastDropped, psn) > 0) responder.lastDropped = psn;
}

/** One NAK per gap, then silence until the expected packet comes (§3.4). */
function sequenceError(device: Device, qp: QueuePair, psn: number): void {
  const { responder } = qp;
  drop(device, "psn-ahead");
  if (!responder.gapNaked) requestGap(device, qp, psn);
  // Where the NAK has left, it has asked for all that follows.
  else if (responder.pendingNak !== undefined) noteDropped(responder, psn);
}

/** Asks for all from the expected packet on; `psn` was dropped behind it. */
function requestGap(device: Device, qp: QueuePair, psn: number): void {
  const { responder } = qp;
  responder.gapNaked = true;
  noteDropped(responder, psn);
  const syndrome = NAK_SYNDROMES["psn-sequence-error"];
  answer(device, qp, { psn: responder.expectedPsn, syndrome, readyAt: device.stageAt });
}

function refuse(device: Device, qp: QueuePair, refusal: { verdict: Verdict; psn: number }): void {
  const { verdict, psn } = refusal;
  if (verdict === "drop") return drop(device, "stale-duplicate");
  qp.responder.failing = true;
  answer(device, qp, { psn, syndrome: verdict, readyAt: device.stageAt });
}

/** Whether the packet takes a receive WQE: a SEND's first, a WRITE WITH IMM's last (§3.4). */
export function needsRecv(row: OpcodeRow): boolean {
  if (row.operation === "send") return row.position === "first" || row.position === "only";
  return row.operation === "write" && row.immediate;
}

const INVALID = NAK_SYNDROMES["invalid-request"];

/** MIDDLE and LAST only inside a message of their kind, nothing else inside one. */
function checkSequence(qp: QueuePair, { row }: PacketIn): Verdict | undefined {
  const { open } = qp.responder;
  const continues = row.position === "middle" || row.position === "last";
  if (open === undefined) return continues ? INVALID : undefined;
  const fits = continues && row.operation === open.operation && row.vendor === open.vendor;
  return fits ? undefined : INVALID;
}

/** What the queue pair lets the peer do, and whether a slot is left for what needs one. */
function checkPermission(qp: QueuePair, { row, packet }: PacketIn): Verdict | undefined {
  switch (row.operation) {
    case "send":
      return undefined;
    case "write":
      return permits(qp, "remoteWrite") ? undefined : INVALID;
    case "read-request":
      return permits(qp, "remoteRead") && hasSlot(qp) ? undefined : INVALID;
    case "compare-swap":
    case "fetch-add":
      return permits(qp, "remoteAtomic") && hasSlot(qp) ? undefined : INVALID;
    case "atomic-write":
      return permits(qp, "remoteWrite") && hasSlot(qp) ? undefined : INVALID;
    case "write-verify": {
      // The message has its slot from its first packet on: nothing comes between.
      const begins = row.position === "first" || row.position === "only";
      return permits(qp, "remoteWrite") && (!begins || hasSlot(qp)) ? undefined : INVALID;
    }
    case "flush":
      return isFlushable(qp, packet.feth!) ? undefined : INVALID;
    default:
      return INVALID;
  }
}

/** A requester that has more outstanding than it was granted is refused (§3.4, hardware's way). */
function hasSlot({ responder, attributes }: QueuePair): boolean {
  const { responses } = responder;
  let taken = 0;
  for (let number = responses.first; number < responses.end; number++) {
    const response = responses.at(number)!;
    if (response.kind === "ack" || response.repeat) continue;
    if (response.kind === "read" || response.operation !== "flush") taken++;
  }
  return taken < attributes.maxDestRdAtomic;
}

/** Payload by opcode and path MTU, and a WRITE's bytes against what it announced. */
export function checkLength(qp: QueuePair, { row, packet }: PacketIn): Verdict | undefined {
  const bytes = packet.payload.length;
  if (!payloadFits(row, { bytes, pathMtu: qp.attributes.pathMtu })) return INVALID;
  if (packet.reth !== undefined && packet.reth.length > MESSAGE_BYTES_MAX) return INVALID;
  if (row.operation !== "write" && row.operation !== "write-verify") return undefined;
  const { open } = qp.responder;
  const length = packet.reth?.length ?? open!.length;
  const received = (open?.received ?? 0) + bytes;
  const isEnd = row.position === "last" || row.position === "only";
  if (isEnd ? received !== length : received >= length) return INVALID;
  return undefined;
}

/** A packet from the past (§3.5): acknowledged or answered again, never executed again. */
function takeDuplicate(device: Device, qp: QueuePair, input: PacketIn): void {
  device.counters.duplicatesIn++;
  const { operation } = input.row;
  if (operation !== "send" && operation !== "write") {
    if (!repeatAnswer(device, qp, input)) drop(device, "stale-duplicate");
    return;
  }
  const { psn } = input.packet.bth;
  const newest = newestToConfirm(qp, psn);
  answer(device, qp, { psn: newest, syndrome: ACK_SYNDROME, readyAt: device.stageAt });
  if (operation === "write") duplicateOfPersistent(device, qp, psn);
}

/**
 * Up to where the ACK of a duplicate confirms (§3.5): all that has come, but nothing from the first answer
 * on that is later than the duplicate and has left. The requester has gone back over that one, too, and
 * asks for it next; an ACK that passes it would make the requester go back once more.
 */
function newestToConfirm({ responder }: QueuePair, duplicate: number): number {
  const { expectedPsn, resources, persists } = responder;
  let first = expectedPsn;
  const take = (psn: number) => {
    if (psnDistance(duplicate, psn) > 0 && psnDistance(psn, first) > 0) first = psn;
  };
  for (const { psn } of resources) take(psn);
  // FLUSHes have no slot: the PM module's records remember them.
  for (let number = persists.end - 1; number >= persists.first; number--) {
    const { service, lastPsn } = persists.at(number)!;
    if (psnDistance(duplicate, lastPsn) <= 0) break;
    if (service !== undefined) take(service.psn);
  }
  return psnAdd(isOwed(responder, first) ? expectedPsn : first, -1);
}

/** Whether the first answer to the request with this PSN is still to leave. */
function isOwed({ responses }: Responder, psn: number): boolean {
  for (let number = responses.first; number < responses.end; number++) {
    const response = responses.at(number)!;
    if (response.kind !== "ack" && !response.repeat && response.psn === psn) return true;
  }
  return false;
}

/** Answers again what has an answer of its own. @returns false where it is to be dropped. */
function repeatAnswer(device: Device, qp: QueuePair, input: PacketIn): boolean {
  if (qp.responder.responses.length >= LIMITS.waitingReads) return false;
  switch (input.row.operation) {
    case "read-request":
      return repeatRead(device, qp, input);
    case "flush":
      return repeatFlush(device, qp, input.packet.bth.psn);
    case "write-verify":
      return repeatVerified(device, qp, input);
    default:
      return repeatAtomic(device, qp, input);
  }
}

/** A READ again, whole or from the middle on: served from the memory of now, within its range. */
function repeatRead(device: Device, qp: QueuePair, { packet }: PacketIn): boolean {
  const { psn } = packet.bth;
  const { va, rkey, length } = packet.reth!;
  const record = qp.responder.resources.find((resource) => isPartOf(resource, psn));
  const mtu = qp.attributes.pathMtu;
  if (record?.kind !== "read-record" || rkey !== record.key) return false;
  const skipped = psnDistance(record.psn, psn) * mtu;
  if (va !== record.va + BigInt(skipped) || length !== record.length - skipped) return false;
  const need = ACCESS.remoteRead;
  const region = length === 0
    ? undefined
    : remoteRegion(device, qp, { key: rkey, va, length, need });
  if (typeof region === "number" || region === "drop") return false;
  answerRead(device, qp, {
    kind: "read",
    psn,
    stretches: region === undefined ? [] : [{ region, va: Number(va), length }],
    length,
    packets: packetsOf(length, mtu),
    msn: qp.responder.msn,
    repeat: true,
    next: 0,
    done: false,
  });
  return true;
}

function isPartOf(resource: Resource, psn: number): boolean {
  if (resource.kind !== "read-record") return false;
  const index = psnDistance(resource.psn, psn);
  return index >= 0 && index < resource.packets;
}
