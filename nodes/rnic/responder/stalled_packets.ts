/**
 * Turns of request packets: one that waits for its receive WQE, memory or an atomic stalls those
 * behind it.
 */
import { rnrSyndrome } from "../../../fabric/wire/roce/aeth.ts";
import { dropDatagram, refuseDatagram, takeDatagram } from "./datagram.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import {
  dropStalled,
  establish,
  grantReceive,
  stall,
  takeStalled,
} from "../state/responder_changes.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { answer } from "../answers/answers.ts";
import { requestGap, takeRequest } from "./responder.ts";
import { rights } from "../state/life_cycle.ts";
import { LIMITS } from "../state/limits.ts";
import type { RecvWqe, RequestIn } from "../state/responder_state.ts";
import { dropInSilence } from "./silent_loss.ts";
import { dropMessage, takeUnreliable } from "./unreliable.ts";

export function receiveRequest(device: Device, qp: QueuePair, input: RequestIn): void {
  const reason = qp.type === "ud" ? refuseDatagram(device, qp, input) : undefined;
  if (reason !== undefined) return dropDatagram(device, qp, { input, reason });
  device.counters.requestsIn++;
  if (qp.type !== "ud" && establish(qp) && qp.state === "rtr") {
    raiseEvent(device, { type: "COMM_EST", qpn: qp.qpn });
  }
  const { stalled } = qp.responder;
  if (stalled.length === 0) takeInTurn(device, qp, input);
  else if (stalled.length < LIMITS.stalledPackets) stall(qp, input);
  else dropInSilence(device, input, { reason: "stalled-too-many", qp });
}

function takeInTurn(device: Device, qp: QueuePair, input: RequestIn): void {
  if (qp.type === "ud") takeDatagram(device, qp, input);
  else if (qp.type === "uc") takeUnreliable(device, qp, input);
  else takeRequest(device, qp, input);
}

export function grantRecv(device: Device, qp: QueuePair, recv: RecvWqe): void {
  grantReceive(qp, recv);
  resumeStalled(device, qp);
}

export function resumeBehindAtomics(device: Device, qp: QueuePair): void {
  const { stalled, stalledFor, atomics, placing } = qp.responder;
  if (stalled.length === 0 || stalledFor !== "atomic") return;
  if (atomics === 0 && placing === 0) resumeStalled(device, qp);
}

export function resumeWithMemory(device: Device, qp: QueuePair): void {
  const { stalled, stalledFor } = qp.responder;
  if (stalled.length > 0 && stalledFor === "memory") resumeStalled(device, qp);
}

/** A packet was dropped for a page, which has come: the responder asks for it and all behind it. */
export function requestRefused(device: Device, qp: QueuePair): void {
  const { responder } = qp;
  if (responder.failing || !rights(qp.state).takesRequests) return;
  requestGap(device, qp, responder.expectedPsn);
}

function resumeStalled(device: Device, qp: QueuePair): void {
  const { stalled } = qp.responder;
  const waiting = stalled.length;
  const inputs = [];
  for (let i = 0; i < waiting; i++) inputs.push(takeStalled(qp)!);
  for (const input of inputs) {
    if (stalled.length > 0) stall(qp, input);
    else takeInTurn(device, qp, input);
  }
}

/** RNR NAK: the PSN is not consumed; later packets come again (§3.4). */
export function refuseRecv(device: Device, qp: QueuePair): void {
  const first = takeStalled(qp);
  if (first === undefined) return;
  if (qp.type !== "rc") {
    if (qp.type === "ud") dropInSilence(device, first, { reason: "no-recv", qp });
    else dropMessage(device, qp, { input: first, reason: "no-recv" });
    return resumeStalled(device, qp);
  }
  dropStalled(qp);
  // Followers are ahead of the expected PSN: no NAK names them (IBA, qib).
  qp.responder.gapNaked = true;
  answer(device, qp, {
    psn: first.packet.bth.psn,
    syndrome: rnrSyndrome(qp.attributes.minRnrTimer),
    readyAt: device.stageAt,
  });
}
