/**
 * Responder: checks request packets of RC in the order of `rocev2.md` §3.4. A check answers "go on"
 * (undefined) or a verdict; only {@link takeRequest} acts on verdicts.
 */
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { payloadFits } from "../../../fabric/wire/roce/opcode.ts";
import { type Device, drop } from "../state/device.ts";
import { noteDropped, stall, takeExpected } from "../state/responder_changes.ts";
import { rights } from "../state/life_cycle.ts";
import { LIMITS } from "../state/limits.ts";
import { needOf } from "../state/operation.ts";
import { isFirst, isLast, MESSAGE_BYTES_MAX, psnDistance } from "../state/psn.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import { answer } from "../answers/answers.ts";
import { wantRecv } from "../queues/receive_queue.ts";
import type { OpenMessage, RecvWqe, RequestIn, Verdict } from "../state/responder_state.ts";
import { mayExecute } from "./memory_gate.ts";
import { rowOf } from "./operations.ts";
import { type Check, refusalText } from "./refusal_text.ts";

export function takeRequest(device: Device, qp: QueuePair, input: RequestIn): void {
  const { responder } = qp;
  if (responder.failing || !rights(qp.state).takesRequests) return;
  const { psn } = input.packet.bth;
  const ahead = psnDistance(responder.expectedPsn, psn);
  if (ahead > 0) return sequenceError(device, qp, psn);
  if (ahead < 0) return takeDuplicate(device, qp, input);
  takeExpected(qp);
  if (mustWait(qp, input)) return stall(qp, input, "atomic");
  if (needsRecv(input) && responder.granted === undefined) {
    // Cheap faults are found before a receive WQE is asked for.
    const found = checkSequence(qp, input) ?? checkPermission(qp, input);
    if (found !== undefined) return refuse(device, qp, input, found);
    stall(qp, input, "recv");
    wantRecv(device, qp, { kind: "packet" });
    return;
  }
  const fault = checkSequence(qp, input) ?? checkPermission(qp, input) ?? checkLength(qp, input);
  if (fault !== undefined) return refuse(device, qp, input, fault);
  if (!mayExecute(device, qp, input)) return;
  const { open, granted } = responder;
  const verdict = rowOf(input).execute(device, qp, input);
  if (verdict === undefined) return requestDropped(device, qp);
  refuse(device, qp, input, { check: "execution", verdict, open, granted });
}

/** Packets dropped behind one whose NAK was withdrawn, unless they have come again. */
function requestDropped(device: Device, qp: QueuePair): void {
  const { lastDropped, expectedPsn, pendingNak } = qp.responder;
  if (lastDropped === undefined || pendingNak !== undefined) return;
  qp.responder.lastDropped = undefined;
  if (psnDistance(expectedPsn, lastDropped) >= 0) requestGap(device, qp, lastDropped);
}

function mustWait({ responder }: QueuePair, { operation: { order }, packet }: RequestIn): boolean {
  // The order of answers holds it back anyway.
  if (order === "in-turn") return false;
  if (responder.atomics > 0) return true;
  // V-02: data to be checked first queues behind such data.
  const isChecked = order === "checked" && packet.verifyEth?.level !== 0;
  return responder.placing > 0 && !isChecked;
}

/** One NAK per gap, then silence (§3.4). */
function sequenceError(device: Device, qp: QueuePair, psn: number): void {
  const { responder } = qp;
  drop(device, "psn-ahead");
  if (!responder.gapNaked) requestGap(device, qp, psn);
  // A NAK that has left has asked for all that follows.
  else if (responder.pendingNak !== undefined) noteDropped(qp, psn);
}

/** Asks for all from the expected packet on; `psn` was dropped behind it. */
export function requestGap(device: Device, qp: QueuePair, psn: number): void {
  qp.responder.gapNaked = true;
  noteDropped(qp, psn);
  const syndrome = NAK_SYNDROMES["psn-sequence-error"];
  answer(device, qp, { psn: qp.responder.expectedPsn, syndrome, readyAt: device.stageAt });
}

interface Fault {
  readonly check: Check;
  readonly verdict: Verdict;
  /** Both are as they were before the effect. */
  readonly open?: OpenMessage | undefined;
  readonly granted?: RecvWqe | undefined;
}

function refuse(device: Device, qp: QueuePair, input: RequestIn, fault: Fault): void {
  const { check, verdict, open = qp.responder.open, granted } = fault;
  if (verdict === "drop") return drop(device, "stale-duplicate");
  qp.responder.failing = true;
  const reason = refusalText(device, qp, { check, syndrome: verdict, input, open, granted });
  const { psn } = input.packet.bth;
  answer(device, qp, { psn, syndrome: verdict, reason, readyAt: device.stageAt });
}

const INVALID = NAK_SYNDROMES["invalid-request"];
const OUT_OF_SEQUENCE: Fault = { check: "sequence", verdict: INVALID };
const NOT_PERMITTED: Fault = { check: "permission", verdict: INVALID };
const WRONG_LENGTH: Fault = { check: "length", verdict: INVALID };

function checkSequence(qp: QueuePair, { row, operation }: RequestIn): Fault | undefined {
  const { open } = qp.responder;
  const continues = !isFirst(row);
  if (open === undefined) return continues ? OUT_OF_SEQUENCE : undefined;
  const fits = continues && operation === open.operation && row.vendor === open.vendor;
  return fits ? undefined : OUT_OF_SEQUENCE;
}

function checkPermission(qp: QueuePair, input: RequestIn): Fault | undefined {
  const need = needOf(input);
  if (need === undefined || !permits(qp, need)) return NOT_PERMITTED;
  // A message has its slot from its first packet on.
  return input.operation.takesSlot && isFirst(input.row) && !hasSlot(qp)
    ? NOT_PERMITTED
    : undefined;
}

/** A requester that exceeds its grant is refused as by hardware (§3.4). */
function hasSlot({ responder, attributes }: QueuePair): boolean {
  const { responses } = responder;
  let taken = 0;
  for (let number = responses.first; number < responses.end; number++) {
    const response = responses.at(number)!;
    if (response.kind === "ack" || response.repeat) continue;
    if (response.kind === "read" || response.operation.takesSlot) taken++;
  }
  return taken < attributes.maxDestRdAtomic;
}

export function checkLength(
  qp: QueuePair,
  { row, packet, operation }: RequestIn,
): Fault | undefined {
  const bytes = packet.payload.length;
  if (!payloadFits(row, { bytes, pathMtu: qp.attributes.pathMtu })) return WRONG_LENGTH;
  const announced = packet.reth?.length;
  if (announced !== undefined && announced > MESSAGE_BYTES_MAX) return WRONG_LENGTH;
  switch (operation.length) {
    case "any":
      return undefined;
    case "word":
      return announced === ATOMIC_BYTES ? undefined : WRONG_LENGTH;
    case "announced": {
      const { open } = qp.responder;
      const length = announced ?? open!.length;
      const received = (open?.received ?? 0) + bytes;
      const fits = isLast(row) ? received === length : received < length;
      return fits ? undefined : WRONG_LENGTH;
    }
  }
}

/** §3.5: acknowledged or answered again; only a READ is executed again. */
function takeDuplicate(device: Device, qp: QueuePair, input: RequestIn): void {
  device.counters.duplicatesIn++;
  const { answer, repeat } = rowOf(input);
  const isFull = qp.responder.responses.length >= LIMITS.waitingReads;
  // An ACK takes no room, as it is merged.
  const isAnswered = (answer === "acknowledge" || !isFull) && repeat(device, qp, input);
  if (!isAnswered) drop(device, "stale-duplicate");
}

export function needsRecv({ row, operation }: RequestIn): boolean {
  const { takesRecv } = operation;
  return takesRecv === "first" ? isFirst(row) : takesRecv === "immediate" && row.immediate;
}
