/**
 * Address handles, which exist in the driver only (mlx5), and multicast groups of UD queue pairs.
 */
import { GRH_BYTES, GRH_VERSION } from "../../../fabric/wire/roce/grh.ts";
import { isGroupAddress } from "../../../fabric/wire/roce/neighbour.ts";
import { sourcePortOfFlow } from "../../../fabric/wire/roce/udp.ts";
import { perform, refusePd, refuseQp, verbError } from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Ah, Pd, Qp, VerbError } from "./objects.ts";

/** The fields of ibv_ah_attr with a global route; the GID is an IPv4-mapped address. */
export interface AhOptions {
  /** IPv4 address of a port, or of a multicast group (224/4). */
  readonly address: number;
  /** DSCP in the upper six bits; the RNIC sets the ECN bits. 0 by default. */
  readonly trafficClass?: number;
  /** Time to live; 64 by default. */
  readonly hopLimit?: number;
  /**
   * 20 bits that determine the UDP source port, or RoCEv1's flow label, of which a WQE carries 16.
   * 0, the default: the two QPNs determine the port (`rocev2.md` §1.1); RoCEv1 has no label.
   */
  readonly flowLabel?: number;
}

function isWithin(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= most;
}

/** Creates an address handle. EINVAL for values outside the range of the header fields. */
export function createAh(pd: Pd, options: AhOptions): Ah | VerbError {
  const { address, trafficClass = 0, hopLimit = 64, flowLabel = 0 } = options;
  const gone = refusePd(pd);
  if (gone !== undefined) return gone;
  if (!isWithin(address, 0xffff_ffff)) return verbError("EINVAL", `No IPv4 address: ${address}`);
  if (!isWithin(trafficClass, 0xff) || !isWithin(hopLimit, 0xff)) {
    return verbError("EINVAL", "Traffic class and hop limit have eight bits");
  }
  if (!isWithin(flowLabel, 0xf_ffff)) return verbError("EINVAL", "A flow label has 20 bits");
  pd.uses.count++;
  const udpSourcePort = flowLabel === 0 ? 0 : sourcePortOfFlow(flowLabel);
  return { pd, address, trafficClass, hopLimit, udpSourcePort, uses: { alive: true } };
}

/**
 * A UD receive buffer begins with 40 B: RoCEv1's GRH, or zeros and the IPv4 header in the last 20
 * (`rocev2.md` §3.8). The first byte tells which (Linux: `ib_get_rdma_header_version`).
 */
export { GRH_BYTES };
const IPV4_AT = GRH_BYTES - 20;
const SOURCE_AT = 20;

function isGrh(area: Uint8Array): boolean {
  return area[0]! >> 4 === GRH_VERSION;
}

/** Source IPv4 address of a datagram, from the first {@link GRH_BYTES} bytes of its buffer. */
export function sourceInGrh(area: Uint8Array): number {
  const view = new DataView(area.buffer, area.byteOffset, area.length);
  return view.getUint32(isGrh(area) ? SOURCE_AT : IPV4_AT + 12);
}

function trafficClassOf(area: Uint8Array): number {
  return isGrh(area) ? ((area[0]! << 4) | (area[1]! >> 4)) & 0xff : area[IPV4_AT + 1]!;
}

/**
 * ibv_create_ah_from_wc: the handle for a reply to a received datagram, from its buffer's first
 * {@link GRH_BYTES} bytes. Its completion's `srcQp` is the destination queue pair.
 */
export function createAhFromWc(pd: Pd, area: Uint8Array): Ah | VerbError {
  if (area.length < GRH_BYTES || !(isGrh(area) || area[IPV4_AT] === 0x45)) {
    return verbError("EINVAL", "The buffer does not begin with the area of a received datagram");
  }
  // A switch may have set the ECN bits: they are not copied.
  return createAh(pd, { address: sourceInGrh(area), trafficClass: trafficClassOf(area) & 0xfc });
}

/** ibv_destroy_ah. EINVAL the second time. Posted sends are not affected: they contain a copy. */
export function destroyAh(ah: Ah): VerbError | undefined {
  if (!ah.uses.alive) return verbError("EINVAL", "The address handle is gone already");
  ah.uses.alive = false;
  ah.pd.uses.count--;
  return undefined;
}

/** Why a queue pair of `pd` cannot send with it; undefined where it can. */
export function refuseAh(pd: Pd, ah: Ah): string | undefined {
  if (!ah.uses.alive) return "The address handle is gone";
  const { device: { state }, handle, epoch } = ah.pd;
  if (state !== pd.device.state || handle !== pd.handle || epoch !== pd.epoch) {
    return "The address handle is of another protection domain";
  }
  return undefined;
}

/**
 * Attaches the queue pair to a group: it receives one copy of each datagram to the group (IPv4,
 * 224/4), however often it is attached. EINVAL where it is not UD. The RNIC itself reports the
 * membership to the switches (IGMP).
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
