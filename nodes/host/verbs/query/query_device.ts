/**
 * The device's limits. Every limit by which a call refuses is here, from the same constant as in
 * the call, or from the card (`query-device`).
 */
import { rnicName } from "../../../../fabric/rack/plan/names.ts";
import { RD_ATOMIC_MAX } from "../../../../fabric/wire/host_bus/qp_life_cycle.ts";
import type { RnicReply } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import { WQE_UNIT_BYTES } from "../../../../fabric/wire/host_bus/wqe.ts";
import { VERIFY_BYTES_MAX } from "../../../../fabric/wire/roce/verify_eth.ts";
import type { Steps } from "../../cpu/program.ts";
import { failed, inTime, request } from "../device.ts";
import {
  type DeviceCapFlags,
  IBV_DEVICE_ATOMIC_WRITE,
  IBV_DEVICE_CURR_QP_STATE_MOD,
  IBV_DEVICE_FLUSH_GLOBAL,
  IBV_DEVICE_FLUSH_PERSISTENT,
  IBV_DEVICE_MEM_WINDOW,
  IBV_DEVICE_MEM_WINDOW_TYPE_2B,
  IBV_DEVICE_RC_RNR_NAK_GEN,
  IBV_DEVICE_RESIZE_MAX_WR,
  IBV_DEVICE_SRQ_RESIZE,
  IBV_ODP_SUPPORT,
  IBV_ODP_SUPPORT_ATOMIC,
  IBV_ODP_SUPPORT_READ,
  IBV_ODP_SUPPORT_RECV,
  IBV_ODP_SUPPORT_SEND,
  IBV_ODP_SUPPORT_SRQ_RECV,
  IBV_ODP_SUPPORT_WRITE,
  type OdpFlags,
  type OdpTransportFlags,
} from "../flags.ts";
import type { Device, VerbError } from "../objects.ts";
import { COMP_VECTORS, LIMITS, RING_UNITS_MAX } from "../limits.ts";

/**
 * ibv_device_attr. Numbers of objects are upper bounds: queues of all kinds share the numbers of
 * `maxQueues`, regions and windows share keys; {@link VendorAttributes} has the free ones. Fields
 * of unsupported features (RD, raw packets, FMRs) are left out.
 */
export interface DeviceAttributes {
  /** The card's 64-bit name: its MAC, as in the connection manager. */
  readonly nodeGuid: bigint;
  /** The same as `nodeGuid`. */
  readonly sysImageGuid: bigint;
  /** Bytes of one region. */
  readonly maxMrSize: number;
  /** IBV_DEVICE_… by `|`. */
  readonly deviceCapFlags: DeviceCapFlags;
  /** Queue pairs, if all share one completion queue and one shared receive queue. */
  readonly maxQp: number;
  /** Work requests of one queue, of one WQE unit each; see `ringUnits` of {@link VendorAttributes}. */
  readonly maxQpWr: number;
  /** Elements of one work request. */
  readonly maxSge: number;
  /** Elements of one READ. */
  readonly maxSgeRd: number;
  /** Completion queues. */
  readonly maxCq: number;
  /** Completions of one queue. */
  readonly maxCqe: number;
  /** Regions. */
  readonly maxMr: number;
  /** Windows. */
  readonly maxMw: number;
  /** No limit other than libibverbs' int. */
  readonly maxPd: number;
  /** Address handles: no limit. */
  readonly maxAh: number;
  /** READs and atomics of one queue pair that its peer may have outstanding (`maxDestRdAtomic`). */
  readonly maxQpRdAtom: number;
  /** READs and atomics that a queue pair may have outstanding itself (`maxRdAtomic`). */
  readonly maxQpInitRdAtom: number;
  /** READs and atomics of all queue pairs together that the card answers. */
  readonly maxResRdAtom: number;
  /** The card's atomics are atomic to each other, but not to the processor's. */
  readonly atomicCap: "hca";
  /** Shared receive queues. */
  readonly maxSrq: number;
  /** Receives of one of them. */
  readonly maxSrqWr: number;
  /** Elements of one of its receives. */
  readonly maxSrqSge: number;
  /** Multicast groups. */
  readonly maxMcastGrp: number;
  /** Queue pairs in one group. */
  readonly maxMcastQpAttach: number;
  /** Queue pairs in all groups together. */
  readonly maxTotalMcastQpAttach: number;
  /** Partition keys of a port. */
  readonly maxPkeys: number;
  /** Ports. */
  readonly physPortCnt: number;
  /** num_comp_vectors of ibv_context. */
  readonly numCompVectors: number;
}

/** The card's own limits, for which libibverbs has no field (as mlx5dv_query_device). */
export interface VendorAttributes {
  /**
   * Numbers of queues: a queue pair takes one for sends and one for receives of its own, other
   * queues take one.
   */
  readonly maxQueues: number;
  /** Free numbers of queues: beyond, a call is ENOMEM. */
  readonly freeQueues: number;
  /** Free keys of regions and windows: beyond, a call is ENOMEM. */
  readonly freeKeys: number;
  /** Units of one ring; a work request takes one or more of `wqeUnitBytes`, a receive one. */
  readonly ringUnits: number;
  /** Bytes of one unit of a send queue. */
  readonly wqeUnitBytes: number;
  /** Bytes that go inline in a WQE. */
  readonly maxInlineData: number;
  /** Data transfer objects of one request (H-01). */
  readonly maxObjects: number;
  /** Data transfer objects of one region (H-01). */
  readonly maxRegionObjects: number;
  /** Weight of a queue pair. */
  readonly maxWeight: number;
  /** Bytes of a verified write (V-02). */
  readonly maxVerifyBytes: number;
}

/** ibv_device_attr_ex; fields of unsupported features are left out. */
export interface DeviceAttributesEx {
  /** The result of `queryDevice`. */
  readonly origAttr: DeviceAttributes;
  /** Memory on demand: which operations of which service may page. */
  readonly odpCaps: {
    readonly generalCaps: OdpFlags;
    readonly rc: OdpTransportFlags;
    readonly uc: OdpTransportFlags;
    readonly ud: OdpTransportFlags;
  };
  /** The valid bits of the card's clock. */
  readonly completionTimestampMask: bigint;
  /** Frequency of the card's clock, in kHz. */
  readonly hcaCoreClock: number;
  /** IBV_DEVICE_… as 64 bits. */
  readonly deviceCapFlagsEx: bigint;
  /** There is no device memory: 0 bytes. */
  readonly maxDmSize: 0;
  /** The card's own limits. */
  readonly vendor: VendorAttributes;
}

const INT_MAX = 2 ** 31 - 1;

const CAPABILITIES = IBV_DEVICE_RESIZE_MAX_WR | IBV_DEVICE_CURR_QP_STATE_MOD |
  IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
  IBV_DEVICE_MEM_WINDOW_TYPE_2B;

/** A receiver of UC or UD loses data for an absent page. */
const SENDERS = IBV_ODP_SUPPORT_SEND;
const RC = SENDERS | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
  IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;

type Answer = Extract<RnicReply, { readonly op: "query-device" }>;

function* ask(device: Device): Steps<Answer | VerbError> {
  const { epoch } = device.state;
  const command = { op: "query-device" } as const;
  return inTime(yield* request(device.cpu, "query-device", command), device, epoch);
}

function attributesOf({ state }: Device, card: Answer): DeviceAttributes {
  // QP 1 takes two queues, a completion queue and two regions.
  const queues = card.queues - 3, keys = card.keys - 2;
  const guid = BigInt(state.mac);
  const maxQp = Math.max(0, queues - 2);
  return {
    nodeGuid: guid,
    sysImageGuid: guid,
    maxMrSize: Number.MAX_SAFE_INTEGER,
    deviceCapFlags: CAPABILITIES,
    maxQp,
    maxQpWr: LIMITS.requests.most,
    maxSge: LIMITS.elements.most,
    maxSgeRd: LIMITS.elements.most,
    maxCq: queues,
    maxCqe: LIMITS.completions.most,
    maxMr: keys,
    maxMw: keys,
    maxPd: INT_MAX,
    maxAh: INT_MAX,
    maxQpRdAtom: RD_ATOMIC_MAX,
    maxQpInitRdAtom: RD_ATOMIC_MAX,
    maxResRdAtom: maxQp * RD_ATOMIC_MAX,
    atomicCap: "hca",
    maxSrq: queues,
    maxSrqWr: LIMITS.receives.most,
    maxSrqSge: LIMITS.sharedElements.most,
    maxMcastGrp: card.multicastGroups,
    maxMcastQpAttach: card.multicastMembers,
    maxTotalMcastQpAttach: card.multicastGroups * card.multicastMembers,
    maxPkeys: 1,
    physPortCnt: 1,
    numCompVectors: COMP_VECTORS,
  };
}

/** ibv_query_device: asks the firmware. EINVAL without a card, ENOENT where it fails meanwhile. */
export function* queryDevice(device: Device): Steps<DeviceAttributes | VerbError> {
  const card = yield* ask(device);
  return failed(card) ? card : attributesOf(device, card);
}

/** ibv_query_device_ex, with the card's own limits as `vendor`. */
export function* queryDeviceEx(device: Device): Steps<DeviceAttributesEx | VerbError> {
  const card = yield* ask(device);
  if (failed(card)) return card;
  return {
    origAttr: attributesOf(device, card),
    odpCaps: { generalCaps: IBV_ODP_SUPPORT, rc: RC, uc: SENDERS, ud: SENDERS },
    completionTimestampMask: (1n << 64n) - 1n,
    hcaCoreClock: card.clockKhz,
    deviceCapFlagsEx: BigInt(CAPABILITIES) | IBV_DEVICE_FLUSH_GLOBAL |
      IBV_DEVICE_FLUSH_PERSISTENT | IBV_DEVICE_ATOMIC_WRITE,
    maxDmSize: 0,
    vendor: {
      maxQueues: card.queues,
      freeQueues: card.freeQueues,
      freeKeys: card.freeKeys,
      ringUnits: RING_UNITS_MAX,
      wqeUnitBytes: WQE_UNIT_BYTES,
      maxInlineData: LIMITS.inlineBytes.most,
      maxObjects: LIMITS.objects.most,
      maxRegionObjects: card.regionObjects,
      maxWeight: LIMITS.weight.most,
      maxVerifyBytes: VERIFY_BYTES_MAX,
    },
  };
}

/** ibv_values_ex of ibv_query_rt_values_ex: the card's clock now, in ticks of `hcaCoreClock` kHz. */
export function* queryRtValuesEx(
  device: Device,
): Steps<{ readonly rawClock: number } | VerbError> {
  const { epoch } = device.state;
  const command = { op: "query-clock" } as const;
  const reply = inTime(yield* request(device.cpu, "query-clock", command), device, epoch);
  return failed(reply) ? reply : { rawClock: reply.clock };
}

/**
 * An entry of `getDeviceList`: ibv_device, with the results of ibv_get_device_name and
 * ibv_get_device_guid.
 */
export interface DeviceEntry {
  /** `rackmesh0`. */
  readonly name: string;
  /** The card's name in the rack: `a-rnic`. */
  readonly rnic: string;
  /** As in `queryDevice`. */
  readonly nodeGuid: bigint;
  /** A channel adapter. */
  readonly nodeType: "ca";
  /** InfiniBand's verbs, as for RoCE. */
  readonly transportType: "ib";
}

/**
 * ibv_get_device_list: the host's cards with power. One is open already, as `context.device`;
 * `openContext` makes another context on it, `openDevice` one on another card.
 */
export function getDeviceList(device: Device): readonly DeviceEntry[] {
  return devicesOf(device).flatMap(({ name, rnic, device: opened }) => {
    if (opened === undefined || opened.cpu.card === undefined) return [];
    const nodeGuid = BigInt(opened.state.mac);
    return [{ name, rnic, nodeGuid, nodeType: "ca" as const, transportType: "ib" as const }];
  });
}

export function devicesOf(
  device: Device,
): { readonly name: string; readonly rnic: string; readonly device: Device | undefined }[] {
  const { devices, cpu } = device;
  const names = devices?.names ?? [rnicName(cpu.host)];
  return names.map((rnic, index) => ({
    name: `rackmesh${index}`,
    rnic,
    device: devices === undefined ? device : devices.at(index),
  }));
}
