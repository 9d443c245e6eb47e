import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { isGroupAddress } from "../../../fabric/wire/roce/neighbour.ts";
import { report } from "../responder/multicast.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { DONE, noSuch, refusal } from "../state/reply.ts";

/** Attaching a second time changes nothing. */
export function attach(
  device: Device,
  { qpn, group }: CommandOf<"attach-mcast">,
): RnicReply {
  const { multicast, queuePairs } = device;
  const qp = queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  if (qp.type !== "ud") return refusal("EINVAL", `QP ${qpn} is ${qp.type}, not ud`);
  if (!isGroupAddress(group)) return refusal("EINVAL", "The address is no group's (224/4)");
  const members = multicast.get(group);
  if (members?.includes(qp)) return DONE;
  if (members === undefined && multicast.size >= LIMITS.multicastGroups) {
    return refusal("ENOMEM", `All ${LIMITS.multicastGroups} groups are taken`);
  }
  if (members !== undefined && members.length >= LIMITS.multicastMembers) {
    return refusal("ENOMEM", `The group has ${LIMITS.multicastMembers} queue pairs`);
  }
  multicast.set(group, [...(members ?? []), qp]);
  if (qp.hints === "group") device.hints?.groups.set(qp, { address: group, nextPsn: 0 });
  if (members === undefined) report(device, [{ group, member: true }]);
  return DONE;
}

/** EINVAL where the queue pair is not attached. */
export function detach(
  device: Device,
  { qpn, group }: CommandOf<"detach-mcast">,
): RnicReply {
  const { multicast, queuePairs } = device;
  const qp = queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  const members = multicast.get(group);
  if (!members?.includes(qp)) {
    return refusal("EINVAL", `QP ${qpn} is not attached to the group`);
  }
  if (device.hints?.groups.get(qp)?.address === group) device.hints.groups.delete(qp);
  const rest = members.filter((member) => member !== qp);
  if (rest.length > 0) {
    multicast.set(group, rest);
  } else {
    multicast.delete(group);
    report(device, [{ group, member: false }]);
  }
  return DONE;
}

export function groupsOf(device: Device, qp: QueuePair): number {
  let count = 0;
  for (const members of device.multicast.values()) if (members.includes(qp)) count++;
  return count;
}
