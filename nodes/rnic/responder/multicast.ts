/**
 * Multicast groups (`rocev2.md` §3.8): a copy of each datagram per attached UD queue pair, and IGMP
 * reports for the switches.
 */
import { PORTS } from "../../../fabric/node.ts";
import { MULTICAST_QPN } from "../../../fabric/wire/roce/bth.ts";
import {
  encodeReport,
  type MembershipChange,
  REPORT_RECORDS_MAX,
  ROBUSTNESS,
} from "../../../fabric/wire/roce/igmp.ts";
import { macOfAddress, macOfGid } from "../../../fabric/wire/roce/neighbour.ts";
import { receiveGroupHint } from "../hints/receive_hint.ts";
import { checkQueuePair } from "./check_queue_pair.ts";
import { receiveRequest } from "./stalled_packets.ts";
import { dropInSilence } from "./silent_loss.ts";
import { operationOf } from "./operations.ts";
import { mayTake } from "../queues/context.ts";
import { type Device, drop } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { PacketIn } from "../state/responder_state.ts";

export function receiveGroup(device: Device, input: PacketIn): void {
  const { packet } = input;
  const group = packet.destinationAddress;
  const mac = packet.grh === undefined ? macOfAddress(group) : macOfGid(group);
  if (packet.destinationMac !== mac) return drop(device, "foreign-mac");
  const members = device.multicast.get(group);
  if (members === undefined) return drop(device, "foreign-group");
  if (packet.bth.destQpn !== MULTICAST_QPN) return drop(device, "group-qpn");
  deliver(device, members, input);
}

function deliver(device: Device, members: readonly QueuePair[], input: PacketIn): void {
  device.counters.multicastIn++;
  for (const qp of members) {
    const reason = checkQueuePair(qp, input);
    const when = reason === undefined ? mayTake(device, qp, input) : undefined;
    if (reason !== undefined) dropInSilence(device, input, { reason, qp });
    else if (when === "too many") dropInSilence(device, input, { reason: "context-too-many", qp });
    else if (when === "now" && qp.hints === "group") receiveGroupHint(device, qp, input.packet);
    else if (when === "now") {
      receiveRequest(device, qp, { ...input, operation: operationOf(input.row)! });
    }
  }
}

/**
 * All attached queue pairs of this port get the datagram, its sender included
 * (github.com/linux-rdma/rdma-core/pull/1102; IBV_QP_CREATE_BLOCK_SELF_MCAST_LB is not modelled).
 * The network never brings it back. Hints are for other cards.
 */
export function loopBack(device: Device, sender: QueuePair, input: PacketIn): void {
  const members = device.multicast.get(input.packet.destinationAddress) ?? [];
  const here = sender.hints === "group" ? members.filter((member) => member !== sender) : members;
  if (here.length === 0) return;
  if (input.packet.bth.destQpn !== MULTICAST_QPN) return drop(device, "group-qpn");
  const { stageAt } = device;
  device.stageAt = Math.max(stageAt, device.now + device.timing.receivePs);
  deliver(device, here, input);
  device.stageAt = stageAt;
}

/** The cable is up again; the switch behind it may have forgotten the groups. */
export function reportAll(device: Device): void {
  report(device, Array.from(device.multicast.keys(), (group) => ({ group, member: true })));
}

/**
 * Reports leave as often as each must be sent, between waiting frames. RoCEv1 has none (Linux:
 * `cma_iboe_join_multicast`) and no subnet manager: switches flood its groups, each port filters.
 */
export function report(device: Device, changes: readonly MembershipChange[]): void {
  const { plan, transmitter, counters, timing } = device;
  if (plan.roce !== undefined) return;
  for (let from = 0; from < changes.length; from += REPORT_RECORDS_MAX) {
    const part = changes.slice(from, from + REPORT_RECORDS_MAX);
    for (let i = 0; i < ROBUSTNESS; i++) {
      const bytes = encodeReport(plan, part);
      counters.framesOut++;
      counters.bytesOut += bytes.length;
      const departAt = Math.max(device.stageAt, device.now) + timing.sendPs;
      transmitter.freeAt = device.out.send(PORTS.rnicNetwork, { kind: "frame", bytes }, departAt);
    }
  }
}
