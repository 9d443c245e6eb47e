/**
 * Receiving module: frames from the wire, checked in the order of `rocev2.md` §3.4. What fails a
 * check here is dropped in silence, counted by its reason, and has changed nothing.
 */
import type { Frame } from "../../fabric/node.ts";
import { type OpcodeRow, opcodeRow } from "../../fabric/wire/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/packet.ts";
import type { DropReason } from "./counters.ts";
import { receiveDatagram } from "./datagram.ts";
import { type Device, drop } from "./device.ts";
import { rights } from "./life_cycle.ts";
import { BUS_BACKLOG_PS } from "./limits.ts";
import type { QueuePair } from "./queue_pair.ts";
import { receiveRequest } from "./responder.ts";
import { receiveResponse } from "./response.ts";

/** A frame has arrived at the network port. */
export function receiveFrame(device: Device, frame: Frame): void {
  const { counters } = device;
  counters.framesIn++;
  counters.bytesIn += frame.bytes.length;
  // The receive buffer is full where the bus cannot take as much as the wire brings.
  if (device.dma.busFreeAt - device.now > BUS_BACKLOG_PS) return drop(device, "receive-overrun");
  const packet = decodePacket(frame.bytes);
  if (isRefusal(packet)) return drop(device, "undecodable");
  const row = opcodeRow(packet.bth.opcode)!;
  if (row.operation === "congestion-notification") return drop(device, "congestion-notification");
  const qp = device.queuePairs.get(packet.bth.destQpn);
  const reason = checkDestination(device, packet) ??
    (qp === undefined ? "unknown-qp" : checkQueuePair(qp, { packet, row }));
  if (reason !== undefined) return drop(device, reason);
  if (row.direction === "response") receiveResponse(device, qp!, { packet, row });
  else if (row.service === "ud") receiveDatagram(device, qp!, { packet, row, frame: frame.bytes });
  else receiveRequest(device, qp!, { packet, row, frame: frame.bytes });
}

/** Whether the frame is for this port at all. */
function checkDestination(device: Device, packet: RocePacket): DropReason | undefined {
  if (packet.destinationMac !== device.plan.mac) return "foreign-mac";
  if (packet.destinationAddress !== device.plan.address >>> 0) return "foreign-address";
  return undefined;
}

interface Decoded {
  readonly packet: RocePacket;
  readonly row: OpcodeRow;
}

/** Service, state, peer, partition: in this order. */
function checkQueuePair(qp: QueuePair, { packet, row }: Decoded): DropReason | undefined {
  if (row.service !== qp.type) return "wrong-service";
  const { takesRequests, takesResponses } = rights(qp.state);
  if (!(row.direction === "response" ? takesResponses : takesRequests)) return "wrong-state";
  if (qp.type === "rc" && packet.sourceAddress !== qp.attributes.destAddress >>> 0) {
    return "wrong-peer";
  }
  return partitionMatches(packet.bth.pKey) ? undefined : "p-key";
}

/** The only partition is the default one, of which every port is a full member. */
function partitionMatches(pKey: number): boolean {
  return (pKey & 0x7fff) === 0x7fff;
}
