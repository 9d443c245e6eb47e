/**
 * RoCEv1's headers between Ethernet and the base transport header (InfiniBand architecture, annex
 * A16): the global route header, behind EtherType 0x8915, and before it an IEEE 802.1Q priority tag
 * where the fabric has priorities, as no switch looks for a DSCP in a frame that is not IP.
 *
 *   Ethernet 14 | [tag 4] | GRH 40 | BTH 12 | extension headers, payload, pad | ICRC 4
 *
 * GIDs are those of IPv4 interfaces, ::ffff:a.b.c.d, which `rdma_cm` picks for an IPv4 address: a
 * rack's address names the same port in both versions. A group's is ff0e::ffff:a.b.c.d (Linux:
 * `cma_iboe_set_mgid`).
 */
import { sizeOf } from "../../base/fields.ts";
import { ETHERNET_BYTES } from "./ethernet.ts";
import { isGroupAddress } from "./neighbour.ts";

export const ETHERTYPE_ROCE_V1 = 0x8915;
export const ETHERTYPE_VLAN = 0x8100;

/** IEEE 802.1Q: the tag's EtherType takes the place of the frame's own. */
export const VLAN_FIELDS = [
  ["priority", 3],
  ["dropEligible", 1],
  /** 0: for its priority alone. */
  ["vlan", 12],
  ["etherType", 16],
] as const;
export const VLAN_BYTES = sizeOf(VLAN_FIELDS);

/** InfiniBand architecture, volume 1, §8.3. */
export const GRH_FIELDS = [
  ["version", 4],
  ["trafficClass", 8],
  ["flowLabel", 20],
  /** From the BTH to the ICRC, both included. */
  ["payloadLength", 16],
  ["nextHeader", 8],
  ["hopLimit", 8],
  ["sourceGid", 128],
  ["destinationGid", 128],
] as const;
export const GRH_BYTES = sizeOf(GRH_FIELDS);

/** §8.3.1, §8.3.5. */
export const GRH_VERSION = 6, NEXT_HEADER_IBA = 0x1b;

export interface Grh {
  /** 20 bits. */
  readonly flowLabel: number;
  /** PCP of the tag, 0 to 7; undefined: no tag. */
  readonly priority: number | undefined;
}

export function grhAt({ priority }: Grh): number {
  return priority === undefined ? ETHERNET_BYTES : ETHERNET_BYTES + VLAN_BYTES;
}

/** Undefined if the frame is not RoCEv1, or too short for a GRH. */
export function findGrh(view: DataView): number | undefined {
  const length = view.byteLength;
  if (length < ETHERNET_BYTES + GRH_BYTES) return undefined;
  const etherType = view.getUint16(12);
  if (etherType === ETHERTYPE_ROCE_V1) return ETHERNET_BYTES;
  const tagged = ETHERNET_BYTES + VLAN_BYTES;
  const isRoce = etherType === ETHERTYPE_VLAN && view.getUint16(16) === ETHERTYPE_ROCE_V1;
  return isRoce && length >= tagged + GRH_BYTES ? tagged : undefined;
}

const PORT_PREFIX = [0, 0, 0xffff] as const, GROUP_PREFIX = [0xff0e_0000, 0, 0xffff] as const;

export interface GrhValues extends Grh {
  readonly sourceAddress: number;
  readonly destinationAddress: number;
  readonly trafficClass: number;
  readonly hopLimit: number;
  readonly payloadLength: number;
}

export function writeGrh(view: DataView, base: number, values: GrhValues): void {
  const { priority, trafficClass, flowLabel, payloadLength, hopLimit } = values;
  const at = base + grhAt(values);
  if (priority !== undefined) {
    view.setUint16(base + 12, ETHERTYPE_VLAN);
    view.setUint16(base + 14, priority << 13);
  }
  view.setUint16(at - 2, ETHERTYPE_ROCE_V1);
  view.setUint32(at, (GRH_VERSION << 28) | (trafficClass << 20) | flowLabel);
  view.setUint16(at + 4, payloadLength);
  view.setUint8(at + 6, NEXT_HEADER_IBA);
  view.setUint8(at + 7, hopLimit);
  writeGid(view, at + 8, { prefix: PORT_PREFIX, address: values.sourceAddress });
  const { destinationAddress: address } = values;
  const prefix = isGroupAddress(address) ? GROUP_PREFIX : PORT_PREFIX;
  writeGid(view, at + 24, { prefix, address });
}

function writeGid(
  view: DataView,
  at: number,
  { prefix, address }: { readonly prefix: readonly number[]; readonly address: number },
): void {
  prefix.forEach((word, i) => view.setUint32(at + 4 * i, word));
  view.setUint32(at + 12, address);
}

export function readGrh(view: DataView, at: number): GrhValues {
  const word = view.getUint32(at);
  return {
    priority: at === ETHERNET_BYTES ? undefined : view.getUint8(ETHERNET_BYTES) >> 5,
    trafficClass: (word >>> 20) & 0xff,
    flowLabel: word & 0xf_ffff,
    payloadLength: view.getUint16(at + 4),
    hopLimit: view.getUint8(at + 7),
    sourceAddress: view.getUint32(at + 20),
    destinationAddress: view.getUint32(at + 36),
  };
}

/**
 * Validates tag and GRH at `at` against each other and the frame's length; undefined where they are
 * valid. The ICRC covers neither the tag nor traffic class, flow label and hop limit.
 */
export function checkGrh(
  view: DataView,
  at: number,
): "bad-tag" | "bad-grh" | "bad-gid" | "bad-length" | undefined {
  // A card is on no VLAN, and its tags do not mark frames as drop eligible.
  if (at !== ETHERNET_BYTES && (view.getUint16(ETHERNET_BYTES) & 0x1fff) !== 0) return "bad-tag";
  if (view.getUint8(at) >> 4 !== GRH_VERSION) return "bad-grh";
  if (view.getUint8(at + 6) !== NEXT_HEADER_IBA) return "bad-grh";
  if (!hasPrefix(view, at + 8, PORT_PREFIX)) return "bad-gid";
  const isGroup = isGroupAddress(view.getUint32(at + 36));
  if (!hasPrefix(view, at + 24, isGroup ? GROUP_PREFIX : PORT_PREFIX)) return "bad-gid";
  const payloadLength = view.getUint16(at + 4);
  if ((payloadLength & 3) !== 0) return "bad-length";
  // No frame of RoCEv1 is so short that Ethernet pads it.
  return view.byteLength === at + GRH_BYTES + payloadLength ? undefined : "bad-length";
}

function hasPrefix(view: DataView, at: number, prefix: readonly number[]): boolean {
  return prefix.every((word, i) => view.getUint32(at + 4 * i) === word);
}
