/**
 * UD receive: Q_Key, a receive WQE, the 40-byte GRH area (IPv4 header in its last 20 bytes, or
 * RoCEv1's GRH), the payload (`rocev2.md` §3.8). A datagram is never answered.
 */
import { ETHERNET_BYTES } from "../../../fabric/wire/roce/ethernet.ts";
import { GRH_BYTES, grhAt } from "../../../fabric/wire/roce/grh.ts";
import { IPV4_BYTES } from "../../../fabric/wire/roce/ipv4.ts";
import { payloadFits } from "../../../fabric/wire/roce/opcode.ts";
import type { Device } from "../state/device.ts";
import { stall, takeReceive } from "../state/responder_changes.ts";
import { enterError } from "../requester/qp_error.ts";
import { rights } from "../state/life_cycle.ts";
import type { DropReason } from "../state/counters.ts";
import { qKeyOf, type QueuePair } from "../state/queue_pair.ts";
import { completeReceive, failReceive, wantRecv } from "../queues/receive_queue.ts";
import { bytesOf } from "../state/memory.ts";
import type { RequestIn } from "../state/responder_state.ts";
import { dropInSilence } from "./silent_loss.ts";
import { findMemory } from "./memory_gate.ts";
import { placePayload, receiveFault, recvSegments } from "../dma/place_payload.ts";

/** @returns undefined where the datagram is taken. */
export function refuseDatagram(
  device: Device,
  qp: QueuePair,
  { packet, row }: RequestIn,
): DropReason | undefined {
  if (packet.deth!.qKey !== qKeyOf(qp)) return "q-key";
  // The sender is not of this rack, whose ports have one MTU and send no longer datagrams (§3.8).
  const fits = payloadFits(row, { bytes: packet.payload.length, pathMtu: device.plan.mtu });
  return fits ? undefined : "bad-length";
}

function qKeyText(qp: QueuePair, { packet }: RequestIn): string {
  const [found, expected] = [packet.deth!.qKey, qKeyOf(qp)].map((key) => `0x${key.toString(16)}`);
  return `its Q_Key is ${found}, that of the queue pair ${expected}`;
}

export function dropDatagram(
  device: Device,
  qp: QueuePair,
  { input, reason }: { readonly input: RequestIn; readonly reason: DropReason },
): void {
  const why = () =>
    reason === "q-key"
      ? qKeyText(qp, input)
      : `it has ${input.packet.payload.length} B, and the path MTU is ${device.plan.mtu} B`;
  dropInSilence(device, input, { reason, qp, why });
}

function dropTooLong(
  device: Device,
  qp: QueuePair,
  { input, room }: { readonly input: RequestIn; readonly room: number },
): void {
  const { length } = input.packet.payload;
  const why = () =>
    `the receive has ${room} B, ${GRH_BYTES} B in front of the payload and ` +
    `${length} B of payload need ${GRH_BYTES + length} B`;
  dropInSilence(device, input, { reason: "recv-too-small", qp, why });
}

export function takeDatagram(device: Device, qp: QueuePair, input: RequestIn): void {
  const { responder } = qp;
  if (!rights(qp.state).takesRequests) return;
  const recv = responder.granted;
  if (recv === undefined) {
    stall(qp, input);
    return wantRecv(device, qp, { kind: "packet" });
  }
  const { packet, head } = input;
  const segments = recvSegments(device, qp, recv);
  if (segments === undefined) {
    // Class A: memory that a key does not grant is the queue pair's own fault.
    takeReceive(qp);
    failReceive(device, qp, { recv, fault: receiveFault(device, qp, recv) });
    return enterError(device, qp);
  }
  // The receive WQE stays for the next one (`rocev2.md` §7.5, test 79).
  const byteCount = GRH_BYTES + packet.payload.length;
  const room = bytesOf(segments);
  if (room < byteCount) return dropTooLong(device, qp, { input, room });
  const memory = findMemory(device, qp, input);
  // A later datagram may find the page.
  if (memory === "fault") return dropInSilence(device, input, { reason: "page-fault", qp });
  if (memory === "miss") return;
  takeReceive(qp);
  const grh = new Uint8Array(GRH_BYTES);
  if (packet.grh === undefined) {
    grh.set(head.subarray(ETHERNET_BYTES, ETHERNET_BYTES + IPV4_BYTES), GRH_BYTES - IPV4_BYTES);
  } else {
    const from = grhAt(packet.grh);
    grh.set(head.subarray(from, from + GRH_BYTES));
  }
  placePayload(device, grh, { segments, offset: 0 });
  if (packet.payload.length > 0) {
    placePayload(device, packet.payload, { segments, offset: GRH_BYTES });
  }
  completeReceive(device, qp, {
    recv,
    input,
    byteCount,
    opcode: input.row.immediate ? "recv-immediate" : "recv",
  });
}
