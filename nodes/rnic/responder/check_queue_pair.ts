/** Checks of a packet against its queue pair (`rocev2.md` §3.4, steps 2 to 5). */
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { DropReason } from "../state/counters.ts";
import { rights } from "../state/life_cycle.ts";
import { operationOf } from "./operations.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";

/**
 * Checks service, state, capability, peer, partition, in this order. @returns why the packet is
 * dropped.
 */
export function checkQueuePair(
  qp: QueuePair,
  { packet, row }: { readonly packet: RocePacket; readonly row: OpcodeRow },
): DropReason | undefined {
  if (row.service !== qp.type) return "wrong-service";
  const { takesRequests, takesResponses } = rights(qp.state);
  if (!(row.direction === "response" ? takesResponses : takesRequests)) return "wrong-state";
  // The manufacturer's operations are agreed on out of band, each for itself; other queue pairs
  // drop them in silence (§2.3). Messages of a class are for the firmware's queue pairs of that
  // class alone.
  if (qp.card !== undefined) {
    if (row.direction === "request" && row.operation !== qp.card) return "vendor-operation";
  } else if (row.vendor && row.direction === "request" && row.operation !== "hint") {
    const right = operationOf(row)?.vendorRight;
    if (right === undefined || !permits(qp, ACCESS[right])) return "vendor-operation";
  }
  if (qp.type !== "ud" && packet.sourceAddress !== qp.path.address) return "wrong-peer";
  // Every port is a full member of the one, default, partition.
  return (packet.bth.pKey & 0x7fff) === 0x7fff ? undefined : "p-key";
}
