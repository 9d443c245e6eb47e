/** Multicast groups of UD queue pairs: `ibv_attach_mcast`, `ibv_detach_mcast`. */
import { isGroupAddress } from "../../../fabric/wire/roce/neighbour.ts";
import { perform, refuseQp, verbError } from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Qp, VerbError } from "./objects.ts";

/**
 * The queue pair receives a copy of each datagram to the group (IPv4, 224/4), one copy however
 * often it is attached. EINVAL where it is not UD. The RNIC itself reports the membership to the
 * switches (IGMP).
 */
export function attachMcast(qp: Qp, group: number): Steps<VerbError | undefined> {
  return change(qp, "attach-mcast", group);
}

/** Detaches the queue pair. EINVAL where it is not attached. */
export function detachMcast(qp: Qp, group: number): Steps<VerbError | undefined> {
  return change(qp, "detach-mcast", group);
}

function* change(
  qp: Qp,
  op: "attach-mcast" | "detach-mcast",
  group: number,
): Steps<VerbError | undefined> {
  const { device, qpn, type } = qp;
  const gone = refuseQp(qp);
  if (gone !== undefined) return gone;
  if (type !== "ud") return verbError("EINVAL", `Only UD queue pairs have groups: this is ${type}`);
  if (!isGroupAddress(group)) return verbError("EINVAL", `No group address: ${group}`);
  const wrong = yield* perform(device.cpu, { op, qpn, group });
  if (wrong !== undefined) return wrong;
  if (op === "attach-mcast") qp.groups.add(group);
  else qp.groups.delete(group);
  return undefined;
}
