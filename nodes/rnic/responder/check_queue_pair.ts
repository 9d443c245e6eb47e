/** Checks of a packet against the queue pair that it is for (`rocev2.md` §3.4, steps 2 to 5). */
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { DropReason } from "../state/counters.ts";
import { rights } from "../state/life_cycle.ts";
import { operationOf } from "./operations.ts";
import { permits, type QueuePair } from "../state/queue_pair.ts";

/** Service, state, capability, peer, partition: in this order. @returns why it is dropped, if it is. */
export function checkQueuePair(
  qp: QueuePair,
  { packet, row }: { readonly packet: RocePacket; readonly row: OpcodeRow },
): DropReason | undefined {
  if (row.service !== qp.type) return "wrong-service";
  const { takesRequests, takesResponses } = rights(qp.state);
  if (!(row.direction === "response" ? takesResponses : takesRequests)) return "wrong-state";
  // The manufacturer's operations are agreed on out of band, each for itself; a queue pair that has not agreed does
  // not know them (§2.3: a standard card drops them in silence). The firmware's queue pairs take the messages of
  // their class alone, and no other queue pair takes those.
  if (qp.card !== undefined) {
    if (row.direction === "request" && row.operation !== qp.card) return "vendor-operation";
  } else if (row.vendor && row.direction === "request" && row.operation !== "hint") {
    const right = operationOf(row)?.vendorRight;
    if (right === undefined || !permits(qp, ACCESS[right])) return "vendor-operation";
  }
  if (qp.type !== "ud" && packet.sourceAddress !== qp.path.address) return "wrong-peer";
  // The only partition is the default one, of which every port is a full member.
  return (packet.bth.pKey & 0x7fff) === 0x7fff ? undefined : "p-key";
}
