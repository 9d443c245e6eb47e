/**
 * UC responder (`rocev2.md` §3.8). A packet out of sequence is dropped with the rest of its
 * message; the responder goes on at the next FIRST or ONLY, whatever its PSN. The next SEND takes
 * the receive WQE that a broken one had taken.
 */
import { type Device, drop } from "../state/device.ts";
import { abandonMessage, beginAt, stall } from "../state/responder_changes.ts";
import type { DropReason } from "../state/counters.ts";
import { rowOf } from "./operations.ts";
import { enterError } from "../requester/qp_error.ts";
import { rights } from "../state/life_cycle.ts";
import { isFirst } from "../state/psn.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import { wantRecv } from "../queues/receive_queue.ts";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { type Refusal, refusalText } from "./refusal_text.ts";
import { dropInSilence } from "./silent_loss.ts";
import { findMemory } from "./memory_gate.ts";
import { checkLength, needsRecv } from "./responder.ts";
import { bytesOf } from "../state/memory.ts";
import type { RequestIn } from "../state/responder_state.ts";
import { needOf } from "../state/operation.ts";
import { recvSegments } from "../dma/place_payload.ts";

export function takeUnreliable(device: Device, qp: QueuePair, input: RequestIn): void {
  const { responder } = qp;
  if (!rights(qp.state).takesRequests) return;
  const reason = checkSequence(qp, input);
  if (reason !== undefined) return dropMessage(device, qp, { input, reason });
  if (!permits(qp, needOf(input)!)) return refuse(device, qp, { input, check: "permission" });
  if (needsRecv(input) && responder.granted === undefined) {
    stall(qp, input);
    return wantRecv(device, qp, { kind: "packet" });
  }
  if (checkLength(qp, input) !== undefined) {
    return refuse(device, qp, { input, check: "length", reason: "bad-length" });
  }
  if (!hasRoom(device, qp, input)) {
    const syndrome = NAK_SYNDROMES["invalid-request"];
    return refuse(device, qp, { input, check: "execution", syndrome, reason: "bad-length" });
  }
  const memory = findMemory(device, qp, input);
  if (memory === "fault") return dropMessage(device, qp, { input, reason: "page-fault" });
  if (memory === "miss") return;
  const { open, granted } = responder;
  const verdict = rowOf(input).execute(device, qp, input);
  if (verdict === undefined) return;
  // Class A: receive memory that the key does not grant is the queue pair's own fault; others are
  // the peer's.
  if (fillsReceive(input)) return enterError(device, qp);
  const syndrome = verdict === "drop" ? undefined : verdict;
  refuse(device, qp, { input, check: "execution", syndrome, open, granted });
}

function refuse(
  device: Device,
  qp: QueuePair,
  fault: Pick<Refusal, "input" | "check"> & Partial<Pick<Refusal, "open" | "granted">> & {
    readonly syndrome?: number | undefined;
    readonly reason?: DropReason;
  },
): void {
  const { input, reason = "remote-access", syndrome = NAK_SYNDROMES["remote-access-error"] } =
    fault;
  const { open, granted } = qp.responder;
  const why = () => refusalText(device, qp, { open, granted, ...fault, syndrome });
  dropMessage(device, qp, { input, reason, why });
}

/** The message's other packets make no notes. The receive WQE stays. */
export function dropMessage(
  device: Device,
  qp: QueuePair,
  { input, ...lost }: {
    readonly input: RequestIn;
    readonly reason: DropReason;
    readonly why?: () => string;
  },
): void {
  if (abandonMessage(qp, input)) return drop(device, lost.reason);
  dropInSilence(device, input, { qp, ...lost });
}

/** FIRST and ONLY begin at any PSN, MIDDLE and LAST must fit exactly. */
function checkSequence(
  qp: QueuePair,
  { row, packet, operation }: RequestIn,
): DropReason | undefined {
  const { responder } = qp;
  const { psn } = packet.bth;
  if (isFirst(row)) {
    beginAt(qp, psn);
    return undefined;
  }
  const fits = psn === responder.expectedPsn && responder.open?.operation === operation;
  return fits ? undefined : "broken-message";
}

function fillsReceive({ operation }: RequestIn): boolean {
  return operation.takesRecv === "first";
}

/** A message that the receive memory cannot hold is dropped (§3.8). */
function hasRoom(device: Device, qp: QueuePair, input: RequestIn): boolean {
  if (!fillsReceive(input)) return true;
  const { packet } = input;
  const { open, granted } = qp.responder;
  if (open !== undefined) return open.received + packet.payload.length <= open.length;
  const segments = recvSegments(device, qp, granted!);
  // Keys are checked when data is placed.
  return segments === undefined || packet.payload.length <= bytesOf(segments);
}
