/**
 * UC responder (`rocev2.md` §3.8): nothing is ever answered. What does not fit the sequence is
 * dropped with the rest of its message; the next FIRST or ONLY is where the responder goes on,
 * whatever its PSN. A receive WQE that a broken SEND had taken is the next SEND's.
 */
import { type Device, drop } from "../state/device.ts";
import { abandonMessage, beginAt, stall } from "../state/responder_changes.ts";
import type { DropReason } from "../state/counters.ts";
import { OPERATIONS } from "./operations.ts";
import { enterError } from "../requester/qp_error.ts";
import { rights } from "../state/life_cycle.ts";
import { isFirst } from "../state/psn.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";
import { wantRecv } from "../queues/receive_queue.ts";
import { findMemory } from "./memory_gate.ts";
import { checkLength, needsRecv } from "./responder.ts";
import { bytesOf } from "../state/memory.ts";
import type { RequestIn } from "../state/responder_state.ts";
import { needOf } from "../state/operation.ts";
import { recvSegments } from "../dma/place_payload.ts";

/** Takes the packet whose turn it is, or drops it and its message. */
export function takeUnreliable(device: Device, qp: QueuePair, input: RequestIn): void {
  const { responder } = qp;
  if (!rights(qp.state).takesRequests) return;
  const reason = checkSequence(qp, input) ??
    (permits(qp, needOf(input)!) ? undefined : "remote-access");
  if (reason !== undefined) return dropMessage(device, qp, reason);
  if (needsRecv(input) && responder.granted === undefined) {
    stall(qp, input);
    return wantRecv(device, qp, { kind: "packet" });
  }
  const fault = checkLength(qp, input) !== undefined || !hasRoom(device, qp, input);
  if (fault) return dropMessage(device, qp, "bad-length");
  const memory = findMemory(device, qp, input);
  if (memory === "fault") return dropMessage(device, qp, "page-fault");
  if (memory === "miss") return;
  if (OPERATIONS[input.operation.name].execute(device, qp, input) === undefined) return;
  // Receive memory that is not the queue pair's is its own fault (class A); all else is the peer's.
  if (fillsReceive(input)) enterError(device, qp);
  else dropMessage(device, qp, "remote-access");
}

/** Drops what is coming in; its other packets find nothing open. The receive WQE stays. */
export function dropMessage(device: Device, qp: QueuePair, reason: DropReason): void {
  abandonMessage(qp);
  drop(device, reason);
}

/** FIRST and ONLY start anew from any PSN, MIDDLE and LAST only go on where they fit exactly. */
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

/** Whether the data goes to the receive WQE's memory. */
function fillsReceive({ operation }: RequestIn): boolean {
  return operation.takesRecv === "first";
}

/** Whether the receive WQE's memory takes a SEND's packet (§3.8: too long is dropped). */
function hasRoom(device: Device, qp: QueuePair, input: RequestIn): boolean {
  if (!fillsReceive(input)) return true;
  const { packet } = input;
  const { open, granted } = qp.responder;
  if (open !== undefined) return open.received + packet.payload.length <= open.length;
  const segments = recvSegments(device, qp, granted!);
  // Memory that no key grants is found when the data is placed.
  return segments === undefined || packet.payload.length <= bytesOf(segments);
}
