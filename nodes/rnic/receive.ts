/**
 * Receiving module: checks frames in the order of `rocev2.md` §3.4. One that fails here is dropped
 * in silence and changes nothing.
 */
import type { Frame } from "../../fabric/node.ts";
import { isGroupAddress } from "../../fabric/wire/roce/neighbour.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import {
  decodePacket,
  headOf,
  isRefusal,
  lengthOf,
  type RocePacket,
} from "../../fabric/wire/roce/packet.ts";
import { checkQueuePair } from "./responder/check_queue_pair.ts";
import { noteMark, takeCnp } from "./transmit/congestion.ts";
import { isOverrun, obeyPause } from "./transmit/flow_control.ts";
import type { DropReason } from "./state/counters.ts";
import { type Device, drop } from "./state/device.ts";
import { receiveGroup } from "./responder/multicast.ts";
import { dropInSilence, dropOverrun } from "./responder/silent_loss.ts";
import { operationOf } from "./responder/operations.ts";
import { takeHints } from "./hints/receive_hint.ts";
import { receiveRequest } from "./responder/stalled_packets.ts";
import { receiveResponse } from "./requester/response.ts";
import { mayTake } from "./queues/context.ts";
import type { QueuePair } from "./state/queue_pair.ts";
import type { PacketIn } from "./state/responder_state.ts";

export function receiveFrame(device: Device, frame: Frame): void {
  const { counters } = device;
  counters.framesIn++;
  counters.bytesIn += lengthOf(frame);
  if (device.congestion !== undefined && obeyPause(device, frame)) return;
  takeFrame(device, frame);
}

/** No port counter has looped frames. */
export function takeFrame(device: Device, frame: Frame): void {
  if (isOverrun(device)) return dropOverrun(device, frame);
  const packet = frame.packet ?? decodePacket(frame.bytes);
  if (isRefusal(packet)) return drop(device, "undecodable");
  // C-01: each card has one RoCE version.
  if ((packet.grh === undefined) !== (device.plan.roce === undefined)) {
    return drop(device, "roce-version");
  }
  const row = opcodeRow(packet.bth.opcode)!;
  if (row.operation === "congestion-notification") return receiveNotice(device, packet);
  if (isGroupAddress(packet.destinationAddress)) {
    return receiveGroup(device, { packet, row, head: headOf(frame) });
  }
  const foreign = checkDestination(device, packet);
  if (foreign !== undefined) return drop(device, foreign);
  const qp = device.queuePairs.get(packet.bth.destQpn);
  if (qp === undefined) {
    // A greeting of another coherent card names no queue pair.
    if (device.coherence !== undefined && device.up.takeGreeting(device, packet)) return;
    return dropInSilence(device, { packet, row }, { reason: "unknown-qp", qp });
  }
  const reason = checkQueuePair(qp, { packet, row });
  if (reason !== undefined) return dropInSilence(device, { packet, row }, { reason, qp });
  const input = { packet, row, head: headOf(frame) };
  const when = mayTake(device, qp, input);
  if (when === "now") takePacket(device, qp, input);
  else if (when === "too many") dropInSilence(device, input, { reason: "context-too-many", qp });
}

function takePacket(device: Device, qp: QueuePair, given: PacketIn): void {
  noteMark(device, qp, given);
  const input = device.hints === undefined ? given : takeHints(device, device.hints, { qp, given });
  if (input === undefined) return;
  const { packet, row } = input;
  if (row.direction === "response") return receiveResponse(device, qp, { packet, row });
  const operation = operationOf(row);
  // A hint: no other packet that is no request has passed the checks above.
  if (operation === undefined || qp.hints === "group") drop(device, "vendor-operation");
  else receiveRequest(device, qp, { ...input, operation });
}

/** The packets have waited for the context. */
export function takePackets(device: Device, qp: QueuePair, inputs: readonly PacketIn[]): void {
  for (const input of inputs) {
    // The state may have changed meanwhile.
    const reason = checkQueuePair(qp, input);
    if (reason === undefined) takePacket(device, qp, input);
    else dropInSilence(device, input, { reason, qp });
  }
}

function receiveNotice(device: Device, packet: RocePacket): void {
  const reason = checkDestination(device, packet) ??
    (takeCnp(device, packet) ? undefined : "congestion-notification");
  if (reason !== undefined) drop(device, reason);
}

function checkDestination(device: Device, packet: RocePacket): DropReason | undefined {
  if (packet.destinationMac !== device.plan.mac) return "foreign-mac";
  if (packet.destinationAddress !== device.plan.address >>> 0) return "foreign-address";
  return undefined;
}
