/** Incoming hint messages: passes each to the side of this card that it concerns. It trusts nothing in one (H-24). */
import { detachHint, hintOf } from "../../../fabric/wire/roce/hint.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { type Device, drop } from "../state/device.ts";
import type { Hints } from "./state/hint_state.ts";
import type { PacketIn } from "../state/responder_state.ts";
import { rights } from "../state/life_cycle.ts";
import { qKeyOf, type QueuePair } from "../state/queue_pair.ts";
import { endOf, isInScope, takeWanted } from "./agree.ts";
import { takeAnswer } from "./hold.ts";
import { workOnHint } from "./do_work.ts";
import { hintOfRange } from "./prepare.ts";

/**
 * Takes the hints of a packet for its queue pair, whether the packet is one or contains one.
 * @returns the packet without its hint; undefined where nothing is left to be done.
 */
export function takeHints(
  device: Device,
  hints: Hints,
  { qp, given }: { readonly qp: QueuePair; readonly given: PacketIn },
): PacketIn | undefined {
  const { packet: { bth }, row } = given;
  const packet = bth.reserved7 === 0
    ? given.packet
    : takeHintOff(device, hints, { qp, packet: given.packet });
  if (packet === undefined) return undefined;
  const isForGroup = qp.hints === "group" && row.direction === "request";
  if (isForGroup) receiveGroupHint(device, qp, packet);
  else if (row.operation === "hint") receiveHint(device, hints, { qp, packet });
  else return packet === given.packet ? given : { ...given, packet };
  return undefined;
}

/**
 * H-07: takes the hint off a packet of a queue pair that takes part; one that does not ignores the reserved bits.
 * @returns the packet without its hint; undefined where nothing is left to be done.
 */
function takeHintOff(
  device: Device,
  hints: Hints,
  { qp, packet }: { readonly qp: QueuePair; readonly packet: RocePacket },
): RocePacket | undefined {
  const end = endOf(hints, qp);
  if (end === undefined) return packet;
  const hinted = detachHint(packet);
  // The end of the data is unknown, so the packet counts as lost.
  if (hinted === undefined) {
    hints.counters.hintsMalformed++;
    return undefined;
  }
  const { message, range } = hinted;
  const sender = { hints, qp, end };
  if (range !== undefined) {
    const hint = hintOfRange(device, sender, { range, answer: packet.bth.ackReq });
    workOnHint(device, sender, { message: hint, requester: packet.sourceAddress });
    return undefined;
  }
  // Agreements and answers always have an operation code.
  if (message?.type === "announce") {
    workOnHint(device, sender, { message, requester: packet.sourceAddress });
  }
  return hinted.packet;
}

/**
 * H-08, figure 9: a datagram to a queue pair that has hints for all peers. Each queue pair of this card that it
 * concerns (of the same application where the card trusts no group) takes its part as its own hint and answers by
 * itself; other parts are for other cards, or late, and ignored.
 */
export function receiveGroupHint(
  device: Device,
  member: QueuePair,
  packet: RocePacket,
): void {
  const { hints } = device;
  if (hints === undefined) return drop(device, "vendor-operation");
  if (packet.deth!.qKey !== qKeyOf(member)) return drop(device, "q-key");
  const message = hintOf(packet);
  if (message === undefined) {
    hints.counters.hintsMalformed++;
    return;
  }
  if (message.type !== "announce") return;
  for (const group of message.groups) {
    const qp = device.queuePairs.get(group.destQpn);
    if (qp === undefined || !isInScope(hints.plan, member, qp)) continue;
    const isTheirs = qp.path.address === packet.sourceAddress &&
      qp.attributes.destQpn === group.sourceQpn && rights(qp.state).takesRequests;
    const end = isTheirs ? endOf(hints, qp) : undefined;
    if (end === undefined) continue;
    workOnHint(device, { hints, qp, end }, {
      message: { ...message, groups: [group] },
      requester: packet.sourceAddress,
    });
  }
}

/** A hint of the queue pair's peer, with the operation code, which a queue pair that takes no part does not know. */
function receiveHint(
  device: Device,
  hints: Hints,
  { qp, packet }: { readonly qp: QueuePair; readonly packet: RocePacket },
): void {
  const end = endOf(hints, qp);
  if (end === undefined) return drop(device, "vendor-operation");
  const message = hintOf(packet);
  if (message === undefined) {
    hints.counters.hintsMalformed++;
    return;
  }
  const sender = { hints, qp, end };
  switch (message.type) {
    case "announce":
      return workOnHint(device, sender, { message, requester: packet.sourceAddress });
    case "prepared":
    case "refused":
      return takeAnswer(device, sender, message);
    case "wanted":
      return takeWanted(device, sender, message);
  }
}
