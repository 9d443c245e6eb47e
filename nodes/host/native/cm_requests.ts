// deno-lint-ignore-file require-yield -- handlers have one form
/** The commands of /dev/infiniband/rdma_cm on the host's connection manager, each on its call. */
import { PS_PER_MS } from "../../../fabric/base/time.ts";
import type { QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { REQ_DEFAULTS } from "../../../fabric/wire/roce/cm.ts";
import { isGroupAddress } from "../../../fabric/wire/roce/neighbour.ts";
import type { ConnectionPath } from "../cm/connection.ts";
import type { RdmaCmEvent } from "../cm/rdma_event.ts";
import {
  rdmaAccept,
  rdmaConnect,
  rdmaDisconnect,
  rdmaEstablish,
  rdmaInitQpAttr,
  rdmaNotify,
  rdmaReject,
} from "../cm/rdma_connect.ts";
import {
  RDMA_UDP_QKEY,
  rdmaBindAddr,
  type RdmaConnParam,
  rdmaCreateId,
  rdmaListen,
  rdmaResolveAddr,
  rdmaResolveRoute,
} from "../cm/rdma_id.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { failed, verbError } from "../verbs/errors.ts";
import type { VerbError } from "../verbs/objects.ts";
import { getDeviceList } from "../verbs/query/query_device.ts";
import { attributeMask, attributeWords, type Handlers, PORT } from "./control_requests.ts";
import type { NativeObjects } from "./native_objects.ts";
import { ATTR, CM_EVENTS, MTU_CODES, nameOf, PORT_SPACES, QP_STATES, QP_TYPES } from "./numbers.ts";
import type { NativeCmEvent, NativeId } from "./rdma_cm.ts";
import type { Args } from "./words.ts";

const LOOPBACK_NET = 127;
/** rdma_user_cm.h. */
const OPTION = { id: 0, ib: 1 } as const;
const OPTION_ID = { tos: 0, reuseAddr: 1, afOnly: 2, ackTimeout: 3 } as const;
/** A queue pair of a group (Linux: `cma_iboe_join_multicast`). */
const MULTICAST_QPN = 0xff_ffff;
const MULTICAST_HOPS = 1;
/** Halves of an IPv4-mapped GID. */
const MAPPED = 0xffff_0000_0000n;
/** IBV_EVENT_COMM_EST, the only event that `rdma_notify` is for. */
const COMM_EST = 4;
/** CMA_IBOE_PACKET_LIFETIME of Linux, an SA's code. */
const PACKET_LIFE_TIME = 16;

function done(wrong: VerbError | undefined) {
  return wrong ?? {};
}

function idOf({ cm, cpu }: NativeObjects, number: number): NativeId | VerbError {
  return cm.get(number, cpu);
}

/** An address of the rack: the loopback's are the host's own. */
function addressOn({ device }: NativeObjects, address: number): number {
  return Math.floor(address / 2 ** 24) === LOOPBACK_NET ? device.state.address : address;
}

function bind(
  objects: NativeObjects,
  id: NativeId,
  { address, port }: { readonly address: number; readonly port: number },
): VerbError | undefined {
  const own = address === 0 ? {} : { address: addressOn(objects, address) };
  const wrong = rdmaBindAddr(id.rdma, { port, ...own });
  if (wrong === undefined) id.isWild = address === 0;
  return wrong;
}

/** An id without an address listens on the host's other cards, too. */
function listenOnOthers(objects: NativeObjects, id: NativeId, backlog: number) {
  const { cm, device } = objects, { devices } = device, { rdma } = id;
  for (const [card] of devices?.names.entries() ?? []) {
    const address = devices!.at(card)?.state.address;
    if (address === undefined || address === rdma.device.state.address) continue;
    const other = rdmaCreateId(id.channel, { ps: rdma.ps });
    if (failed(other)) return other;
    other.qpType = rdma.qpType;
    cm.join(id, other);
    const wrong = rdmaBindAddr(other, { port: rdma.port, address }) ??
      rdmaListen(other, { backlog });
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function paramOf(args: Omit<Args<"cm_connect">, "id">, privateData: Uint8Array): RdmaConnParam {
  return {
    privateData,
    qpNum: args.qp_num,
    srq: args.srq !== 0,
    responderResources: args.responder_resources,
    initiatorDepth: args.initiator_depth,
    // Of three bits each in a message; Linux takes the lower ones.
    retryCount: args.retry_count & 7,
    rnrRetryCount: args.rnr_retry_count & 7,
  };
}

/** The words of an ibv_ah_attr. */
function ahWords(address: number, { trafficClass, hopLimit }: ConnectionPath = {}) {
  return {
    is_global: 1,
    dgid_low: MAPPED | BigInt(address),
    hop_limit: hopLimit ?? REQ_DEFAULTS.primaryHopLimit,
    traffic_class: trafficClass ?? 0,
    port_num: PORT,
  };
}

/** The words of an ibv_qp_attr, with the mask of those that count. */
function attrWords(it: QpAttributes, { isDatagram }: { readonly isDatagram: boolean }) {
  const mask = (it.state === "init" ? ATTR.pkeyIndex | ATTR.port : 0) | attributeMask(it);
  return {
    attr_mask: isDatagram ? mask & ~ATTR.accessFlags : mask,
    qp_state: QP_STATES[it.state!],
    ...attributeWords(it),
    attr_port_num: PORT,
    ...(it.destAddress !== undefined && ahWords(it.destAddress, it)),
  };
}

function eventWords({ event, id, to, membership }: NativeCmEvent) {
  const { status, param: { conn, ud } } = event;
  const words = {
    uid: membership?.uid ?? to.uid,
    id: membership?.number ?? id.number,
    event: CM_EVENTS[event.event],
    status,
    datagram: Number(id.rdma.ps === "udp"),
  };
  if (membership !== undefined) {
    const path = { hopLimit: MULTICAST_HOPS, trafficClass: id.rdma.trafficClass ?? 0 };
    const ah = ahWords(membership.group, path);
    return { ...words, qp_num: MULTICAST_QPN, qkey: RDMA_UDP_QKEY, ...ah };
  }
  if (conn !== undefined) {
    return {
      ...words,
      qp_num: conn.qpNum ?? 0,
      srq: Number(conn.srq ?? false),
      responder_resources: conn.responderResources ?? 0,
      initiator_depth: conn.initiatorDepth ?? 0,
      retry_count: conn.retryCount ?? 0,
      rnr_retry_count: conn.rnrRetryCount ?? 0,
    };
  }
  if (ud?.qpNum === undefined) return words;
  return { ...words, qp_num: ud.qpNum, qkey: ud.qKey ?? 0, ...ahWords(ud.address!) };
}

function privateDataOf({ param: { conn, ud } }: RdmaCmEvent): Uint8Array {
  return (conn ?? ud)?.privateData ?? new Uint8Array(0);
}

/** The lower half of a multicast GID, or the IPv4 address itself. */
function groupOf(address: number): number | VerbError {
  if (isGroupAddress(address)) return address;
  return verbError("EINVAL", `The address 0x${address.toString(16)} is no group's`);
}

export const CM: Handlers<
  | "cm_create_channel"
  | "cm_destroy_channel"
  | "cm_create_id"
  | "cm_destroy_id"
  | "cm_bind_ip"
  | "cm_resolve_ip"
  | "cm_resolve_route"
  | "cm_query_route"
  | "cm_listen"
  | "cm_connect"
  | "cm_accept"
  | "cm_reject"
  | "cm_disconnect"
  | "cm_init_qp_attr"
  | "cm_get_event"
  | "cm_set_option"
  | "cm_notify"
  | "cm_join_mcast"
  | "cm_leave_mcast"
  | "cm_migrate_id"
> = {
  *cm_create_channel(_, { cm }) {
    return { words: { handle: cm.openFile() } };
  },

  *cm_destroy_channel({ channel }, { cm, cpu }) {
    yield* cm.closeFile(channel, cpu);
    return {};
  },

  *cm_create_id({ channel, uid, ps, qp_type: qpType }, { cm }) {
    if (!cm.isOpen(channel)) return verbError("EINVAL", `There is no channel ${channel}`);
    const space = nameOf(PORT_SPACES, ps), type = nameOf(QP_TYPES, qpType);
    if (space === undefined || type === undefined) {
      const found = `found 0x${ps.toString(16)}, queue pairs of type ${qpType}`;
      return {
        errno: "EPROTONOSUPPORT",
        reason: `Ids are of RDMA_PS_TCP or RDMA_PS_UDP: ${found}`,
      };
    }
    if ((space === "udp") !== (type === "ud")) {
      return verbError("EINVAL", `Port space ${space} has no queue pairs of type ${type}`);
    }
    const rdma = rdmaCreateId(cm.channel, { ps: space });
    if (failed(rdma)) return rdma;
    if (type !== "ud") rdma.qpType = type;
    return { words: { id: cm.add(rdma, { file: channel, uid }).number } };
  },

  *cm_destroy_id({ id: number }, objects) {
    const id = idOf(objects, number);
    return failed(id) ? id : { words: { events_reported: yield* objects.cm.destroy(id) } };
  },

  *cm_bind_ip({ id: number, family, address, port }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    id.family = family;
    return done(bind(objects, id, { address, port }));
  },

  *cm_resolve_ip(args, objects) {
    const id = idOf(objects, args.id);
    if (failed(id)) return id;
    const { dst_address: to, dst_port: port, src_address, src_port, timeout_ms: timeoutMs } = args;
    if (args.bound !== 0 && id.rdma.state === "idle") {
      const wrong = bind(objects, id, { address: src_address, port: src_port });
      if (wrong !== undefined) return wrong;
    }
    id.family = args.family;
    const wrong = rdmaResolveAddr(id.rdma, {
      to: addressOn(objects, to),
      port,
      timeoutPs: Math.max(1, timeoutMs) * PS_PER_MS,
    });
    if (wrong === undefined && id.rdma.state === "addr-resolved") id.isWild = false;
    return done(wrong);
  },

  *cm_resolve_route({ id: number }, objects) {
    const id = idOf(objects, number);
    return failed(id) ? id : done(rdmaResolveRoute(id.rdma));
  },

  *cm_query_route({ id: number }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    const { device, port, peer, state, ends, endpoint, trafficClass } = id.rdma;
    const addresses = {
      family: id.family,
      src_address: id.isWild ? 0 : ends?.destination ?? device.state.address,
      src_port: port,
      dst_address: peer.address,
      dst_port: peer.port,
    };
    if (id.isWild) return { words: addresses };
    const guid = BigInt(device.state.mac);
    const isRouted = state !== "addr-bound" && state !== "addr-resolved" && state !== "listen";
    return {
      words: {
        ...addresses,
        // The passive end's source is the address that the request was for.
        src_address: device.state.address,
        node_guid: guid,
        device: getDeviceList(objects.device).findIndex(({ nodeGuid }) => nodeGuid === guid),
        port_num: PORT,
        num_paths: Number(isRouted),
        mtu: MTU_CODES[device.state.mtu as keyof typeof MTU_CODES],
        traffic_class: endpoint?.req?.primaryTrafficClass ?? trafficClass ?? 0,
        hop_limit: endpoint?.req?.primaryHopLimit ?? REQ_DEFAULTS.primaryHopLimit,
        packet_life_time: PACKET_LIFE_TIME,
      },
    };
  },

  *cm_listen({ id: number, backlog: asked }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    // A backlog of 0 and of less is the host's largest (Linux: `ucma_listen`).
    const backlog = asked >= 2 ** 31 ? 0 : Math.min(asked, 1024);
    const wrong = rdmaListen(id.rdma, { backlog });
    if (wrong !== undefined || !id.isWild) return done(wrong);
    return done(listenOnOthers(objects, id, backlog));
  },

  *cm_connect({ id: number, ...param }, objects, request) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    const privateData = request.bytes("cm_connect");
    // Service ID resolution asks for a queue pair, and names none.
    const isDatagram = id.rdma.ps === "udp";
    return done(
      yield* rdmaConnect(id.rdma, isDatagram ? { privateData } : paramOf(param, privateData)),
    );
  },

  *cm_accept({ id: number, uid, valid, ...param }, objects, request) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    if (valid === 0) return done(yield* rdmaEstablish(id.rdma));
    const before = id.uid;
    // Its events are shown from now on: the answer may come before this call returns.
    id.uid = uid;
    const wrong = yield* rdmaAccept(id.rdma, paramOf(param, request.bytes("cm_accept")));
    if (wrong !== undefined) id.uid = before;
    return done(wrong);
  },

  *cm_reject({ id: number }, objects, request) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    return done(yield* rdmaReject(id.rdma, { privateData: request.bytes("cm_reject") }));
  },

  *cm_disconnect({ id: number }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    // Of a resolution there is nothing to end (Linux answers the same).
    if (id.rdma.ps === "udp") return {};
    return done(yield* rdmaDisconnect(id.rdma));
  },

  *cm_init_qp_attr({ id: number, qp_state: code }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    const state = nameOf(QP_STATES, code);
    const attributes = rdmaInitQpAttr(id.rdma, state as "init");
    if (failed(attributes)) return attributes;
    return { words: attrWords(attributes, { isDatagram: id.rdma.ps === "udp" }) };
  },

  *cm_get_event({ channel, wait }, { cm, cpu, device }) {
    for (;;) {
      if (!cm.isOpen(channel)) return { errno: "EBADF", reason: `There is no channel ${channel}` };
      const taken = cm.take(channel);
      if (taken !== undefined) {
        return { words: eventWords(taken), bytes: privateDataOf(taken.event) };
      }
      if (wait === 0) {
        // A loop of these ends in time.
        cpu.charge(device.state.timing.pollPs);
        return { errno: "EAGAIN", reason: "There is no event" };
      }
      yield* cpu.waitSignal(cm.signal, NEVER);
    }
  },

  *cm_set_option({ id: number, level, optname, value }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    if (level !== OPTION.id) {
      return verbError("EOPNOTSUPP", `Options of level ${level} are not modelled`);
    }
    switch (optname) {
      case OPTION_ID.tos:
        id.rdma.trafficClass = value;
        return {};
      case OPTION_ID.ackTimeout:
        if (value > 31) return verbError("EINVAL", `A time-out's code is 31 at most: ${value}`);
        id.rdma.ackTimeout = value;
        return {};
      case OPTION_ID.reuseAddr:
      case OPTION_ID.afOnly:
        return {};
      default:
        return verbError("EOPNOTSUPP", `There is no option ${optname}`);
    }
  },

  *cm_notify({ id: number, event }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    return event === COMM_EST ? done(rdmaNotify(id.rdma)) : {};
  },

  *cm_join_mcast({ id: number, uid, address }, objects) {
    const id = idOf(objects, number);
    if (failed(id)) return id;
    const group = groupOf(address), { ps, state } = id.rdma;
    if (failed(group)) return group;
    if (ps !== "udp" || id.isWild) {
      return verbError("EINVAL", `The id is of ${ps}, ${state}: expected udp, with an address`);
    }
    return { words: { id: objects.cm.enter(id, { uid, group }).number } };
  },

  *cm_leave_mcast({ id: number }, { cm }) {
    const membership = cm.membership(number);
    if (failed(membership)) return membership;
    cm.leave(membership);
    return { words: { events_reported: membership.reported } };
  },

  *cm_migrate_id({ channel, id: number }, objects) {
    const { cm, cpu } = objects, id = idOf(objects, number);
    if (failed(id)) return id;
    if (!cm.isOpen(channel)) return verbError("EINVAL", `There is no channel ${channel}`);
    id.file = channel;
    // Its events may be what a thread of the new channel waits for.
    cpu.signal(cm.signal);
    return { words: { events_reported: id.reported } };
  },
};
