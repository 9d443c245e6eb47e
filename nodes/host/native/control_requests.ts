/** The control path of a native program: each request of libibverbs on the host's verb of the same name. */
// deno-lint-ignore-file require-yield -- handlers have one form
import { failed, verbError } from "../verbs/errors.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Buffer } from "../memory/address_map.ts";
import { PATH_MTUS } from "../cm/connect.ts";
import type { OpenDevice } from "../open_device.ts";
import type { AhOptions } from "../verbs/address_handle.ts";
import type {
  Ah,
  CompChannel,
  Cq,
  Mr,
  Mw,
  Pd,
  Qp,
  QpCaps,
  Srq,
  VerbError,
} from "../verbs/objects.ts";
import type { Steps } from "../cpu/program.ts";
import type { NativeError, NativeObjects } from "./native_objects.ts";
import {
  ATTR,
  EVENT_TYPES,
  MTU_CODES,
  nameOf,
  OPTIONAL_ACCESS,
  QP_CAP_WORDS,
  QP_CAPS,
  QP_FIELDS,
  QP_STATES,
  QP_TYPES,
  QP_WORDS,
  type QpCapName,
  type QpCapWord,
  type QpFieldName,
  type QpWord,
  REREG,
  SRQ_ATTR,
} from "./numbers.ts";
import type { RequestName } from "./requests.ts";
import type { Answered, Args, Request } from "./words.ts";

/** A request's handler: what it answers, or the refusal. */
export type Handler<Name extends RequestName> = (
  args: Args<Name>,
  objects: NativeObjects,
  request: Request,
) => Steps<Answered<Name> | NativeError>;
export type Handlers<Names extends RequestName> = { readonly [Name in Names]: Handler<Name> };

const DONE = {};
/**
 * The card has one GID, and programs find it at two places: at 0, and at 1, where rxe and ConnectX have
 * the first one of RoCEv2, so that commands that people use need no change.
 */
const GIDS = 2;
/** The OUI of the cards' MACs, which are locally administered. */
const VENDOR_ID = 0x02_0000;
/**
 * perftest knows a card by its part alone: of a ConnectX-5, which the model of the card follows, it sends small
 * messages of latency tests inline, and takes `-I`.
 */
const PART_ID = 4119;
/** The port of each card, as `query/query_port.ts` has it. */
export const PORT = 1;
function* atOnce<T>(answer: T | VerbError): Steps<T | VerbError> {
  return answer;
}

function done(answer: VerbError | undefined): Answered<never> | VerbError {
  return answer ?? DONE;
}

/** Where a card stands in its host's list of devices. */
function placeIn(device: OpenDevice): number {
  const guid = BigInt(device.state.mac);
  return device.verbs.getDeviceList(device).findIndex(({ nodeGuid }) => nodeGuid === guid);
}

function deviceAt(objects: NativeObjects, handle: number): OpenDevice | VerbError {
  return objects.opened.get(handle) ??
    verbError("ENODEV", `There is no open device of number ${handle}`);
}

/** ibv_ah_attr. EINVAL without a global route, or with a GID that is no IPv4 address. */
function ahOf(
  args: Pick<
    Args<"create_ah">,
    "is_global" | "dgid_high" | "dgid_low" | "flow_label" | "hop_limit" | "traffic_class"
  >,
): AhOptions | VerbError {
  const low = BigInt(args.dgid_low);
  if (args.is_global === 0) {
    return verbError("EINVAL", "A path on Ethernet has a global route: is_global is 0");
  }
  if (BigInt(args.dgid_high) !== 0n || low >> 32n !== 0xffffn) {
    const gid = BigInt(args.dgid_high).toString(16).padStart(16, "0") +
      low.toString(16).padStart(16, "0");
    // Multicast groups of RoCEv2 are ff0e::ffff:a.b.c.d.
    if (BigInt(args.dgid_high) !== 0xff0e_0000_0000_0000n || low >> 32n !== 0xffffn) {
      return verbError("EINVAL", `A GID is an IPv4-mapped address: found ${gid}`);
    }
  }
  return {
    address: Number(low & 0xffff_ffffn),
    trafficClass: args.traffic_class,
    // 0 stands for the kernel's default.
    ...(args.hop_limit > 0 && { hopLimit: args.hop_limit }),
    // Linux takes 20 bits of the 32 (rdma_flow_label_to_udp_sport); UCX gives all ones for its own.
    flowLabel: args.flow_label & 0xf_ffff,
  };
}

/** Words that are not the attribute itself; undefined: there is no such value. */
const READ: Partial<Record<QpFieldName, (word: number) => unknown>> = {
  state: (word) => nameOf(QP_STATES, word),
  curState: (word) => nameOf(QP_STATES, word),
  pathMtu: (word) => PATH_MTUS.find((bytes) => MTU_CODES[bytes] === word),
  pkeyIndex: (word) => word === 0 ? word : undefined,
  port: (word) => word === PORT ? word : undefined,
  enSqdAsyncNotify: (word) => word !== 0,
  accessFlags: (word) => word & ~OPTIONAL_ACCESS,
  rqPsn: (word) => word & 0xff_ffff,
  sqPsn: (word) => word & 0xff_ffff,
};

function attributesOf(args: Args<"modify_qp">): QpAttributes | VerbError {
  const given: Partial<Record<QpFieldName, unknown>> = {};
  for (const word of QP_WORDS) {
    const { name, bit } = QP_FIELDS[word], found = args[word];
    if ((args.attr_mask & bit) === 0) continue;
    const read = READ[name], value = read === undefined ? found : read(found);
    if (value === undefined) return noSuch(word, found);
    given[name] = value;
  }
  const { pkeyIndex: _only, port: _one, ...attributes } = given;
  const path = (args.attr_mask & ATTR.av) !== 0 ? ahOf(args) : undefined;
  if (path === undefined) return attributes as QpAttributes;
  if (failed(path)) return path;
  const { address: destAddress, ...others } = path;
  return { ...attributes as QpAttributes, destAddress, ...others };
}

function noSuch(what: string, found: number): VerbError {
  return verbError("EINVAL", `There is no such ${what}: ${found}`);
}

/** Those whose words are their numbers; the caller knows the state, the P_Key and the port. */
const NUMBERS = QP_WORDS.filter((word) =>
  !["state", "curState", "enSqdAsyncNotify", "pkeyIndex", "port"].includes(QP_FIELDS[word].name)
);

/** The words of an ibv_qp_attr that are numbers of it, 0 where it has none. */
export function attributeWords(it: QpAttributes): Partial<Record<QpWord, number>> {
  const wordOf = (word: QpWord) => {
    const { name } = QP_FIELDS[word];
    if (name === "pathMtu") return it.pathMtu === undefined ? 0 : MTU_CODES[it.pathMtu];
    return it[name as keyof QpAttributes] ?? 0;
  };
  return Object.fromEntries(NUMBERS.map((word) => [word, wordOf(word)]));
}

/** The bits of the attributes that there are. */
export function attributeMask(it: QpAttributes): number {
  let mask = it.destAddress === undefined ? 0 : ATTR.av;
  for (const { name, bit } of Object.values(QP_FIELDS)) {
    if (it[name as keyof QpAttributes] !== undefined) mask |= bit;
  }
  return mask;
}

function capsOf(caps: QpCaps): Record<QpCapWord, number> {
  const words = QP_CAP_WORDS.map((word) => [word, caps[QP_CAPS[word]]] as const);
  return Object.fromEntries(words) as Record<QpCapWord, number>;
}

function givenCaps(args: Args<"create_qp">): Record<QpCapName, number> {
  const caps = QP_CAP_WORDS.map((word) => [QP_CAPS[word], args[word]] as const);
  return Object.fromEntries(caps) as Record<QpCapName, number>;
}

/** INIT needs these, too (IBTA 11.2.5.2); the card has one P_Key and one port. */
const INIT_NEEDS = ATTR.pkeyIndex | ATTR.port;

export const CONTROL: Handlers<
  | "open_device"
  | "query_device"
  | "query_port"
  | "query_gid"
  | "query_pkey"
  | "query_rt_values"
  | "alloc_pd"
  | "dealloc_pd"
  | "import_pd"
  | "unimport_pd"
  | "reg_mr"
  | "rereg_mr"
  | "dereg_mr"
  | "import_mr"
  | "unimport_mr"
  | "alloc_null_mr"
  | "advise_mr"
  | "alloc_mw"
  | "bind_mw"
  | "dealloc_mw"
  | "create_comp_channel"
  | "destroy_comp_channel"
  | "create_cq"
  | "resize_cq"
  | "destroy_cq"
  | "create_qp"
  | "modify_qp"
  | "query_qp"
  | "destroy_qp"
  | "create_srq"
  | "modify_srq"
  | "query_srq"
  | "destroy_srq"
  | "create_ah"
  | "destroy_ah"
  | "attach_mcast"
  | "detach_mcast"
  | "get_async_event"
  | "ack_async_event"
> = {
  *open_device({ place }, objects) {
    const { verbs } = objects.device;
    const listed = verbs.getDeviceList(objects.device)[place];
    if (listed === undefined) return verbError("ENODEV", `There is no device ${place}`);
    const opened = verbs.openDevice(objects.device, listed.name);
    if (failed(opened)) return opened;
    const attributes = yield* verbs.queryDevice(opened);
    if (failed(attributes)) return attributes;
    const handle = objects.handle(opened);
    objects.opened.set(handle, opened);
    return {
      words: { handle, guid: attributes.nodeGuid, vectors: attributes.numCompVectors },
    };
  },

  *query_device({ device: handle }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    const found = yield* device.verbs.queryDeviceEx(device);
    if (failed(found)) return found;
    const { origAttr: it, odpCaps } = found;
    return {
      words: {
        node_guid: it.nodeGuid,
        sys_image_guid: it.sysImageGuid,
        max_mr_size: it.maxMrSize,
        page_size_cap: 0xffff_f000,
        vendor_id: VENDOR_ID,
        vendor_part_id: PART_ID,
        max_qp: it.maxQp,
        max_qp_wr: it.maxQpWr,
        device_cap_flags: it.deviceCapFlags,
        max_sge: it.maxSge,
        max_sge_rd: it.maxSgeRd,
        max_cq: it.maxCq,
        max_cqe: it.maxCqe,
        max_mr: it.maxMr,
        max_pd: it.maxPd,
        max_qp_rd_atom: it.maxQpRdAtom,
        max_res_rd_atom: it.maxResRdAtom,
        max_qp_init_rd_atom: it.maxQpInitRdAtom,
        // IBV_ATOMIC_HCA
        atomic_cap: 1,
        max_mw: it.maxMw,
        max_mcast_grp: it.maxMcastGrp,
        max_mcast_qp_attach: it.maxMcastQpAttach,
        max_total_mcast_qp_attach: it.maxTotalMcastQpAttach,
        max_ah: it.maxAh,
        max_srq: it.maxSrq,
        max_srq_wr: it.maxSrqWr,
        max_srq_sge: it.maxSrqSge,
        max_pkeys: it.maxPkeys,
        phys_port_cnt: it.physPortCnt,
        device_cap_flags_ex: found.deviceCapFlagsEx,
        odp_general: odpCaps.generalCaps,
        odp_rc: odpCaps.rc,
        odp_uc: odpCaps.uc,
        odp_ud: odpCaps.ud,
        timestamp_mask: found.completionTimestampMask,
        core_clock_khz: found.hcaCoreClock,
      },
    };
  },

  *query_port({ device: handle, port }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    const it = yield* device.verbs.queryPort(device, port);
    if (failed(it)) return it;
    const codeOf = (bytes: number) => MTU_CODES[bytes as keyof typeof MTU_CODES];
    return {
      words: {
        state: it.state === "active" ? 4 : 1,
        max_mtu: codeOf(it.maxMtu),
        active_mtu: codeOf(it.activeMtu),
        gid_tbl_len: GIDS,
        max_msg_sz: it.maxMsgSz,
        pkey_tbl_len: it.pkeyTblLen,
        active_width: it.activeWidth,
        active_speed: it.activeSpeed,
        phys_state: it.physState === "link-up" ? 5 : 3,
        // IBV_LINK_LAYER_ETHERNET
        link_layer: 2,
      },
    };
  },

  *query_gid({ device: handle, port, index }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    const it = yield* device.verbs.queryGidEx(device, port, index < GIDS ? 0 : index);
    if (failed(it)) return it;
    objects.gidTypes.set(device.state, it.gidType);
    const view = new DataView(it.gid.buffer, it.gid.byteOffset);
    return {
      words: {
        gid_high: view.getBigUint64(0),
        gid_low: view.getBigUint64(8),
        type: it.gidType === "roce-v1" ? 1 : 2,
        // The loopback is 1 (`lib/names.c`).
        ndev_ifindex: 2 + placeIn(device),
      },
    };
  },

  *query_pkey({ device: handle, port, index }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    const pkey = yield* atOnce(device.verbs.queryPkey(device, port, index));
    return failed(pkey) ? pkey : { words: { pkey } };
  },

  *query_rt_values({ device: handle }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    const it = yield* device.verbs.queryRtValuesEx(device);
    return failed(it) ? it : { words: { raw_clock: it.rawClock } };
  },

  *alloc_pd({ device: handle }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    return { words: { handle: objects.handle(device.verbs.allocPd(device)) } };
  },

  *dealloc_pd({ pd: handle }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    const wrong = objects.device.verbs.deallocPd(pd);
    if (wrong === undefined) objects.forget(pd);
    return done(wrong);
  },

  *import_pd({ device: opened, pd: handle }, objects) {
    const device = deviceAt(objects, opened);
    if (failed(device)) return device;
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    // The number comes from the program, and may be that of anything.
    if (!("handle" in pd) || pd.device.state !== device.state) {
      return verbError("ENOENT", `The device has no protection domain of number ${handle}`);
    }
    const imported = device.verbs.importPd(device, pd.handle);
    // Always a new object: each import has a handle of its own, and ends with it alone.
    return failed(imported) ? imported : { words: { handle: objects.handle({ ...imported }) } };
  },

  *unimport_pd({ pd: handle }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    objects.forget(pd);
    return DONE;
  },

  *reg_mr({ pd: handle, addr, length, iova, access }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    if (!(length > 0)) return verbError("EINVAL", `A region has bytes: found ${length}`);
    const place = placeOf(objects, addr, length);
    if (failed(place)) return place;
    const { buffer, offset } = place;
    const options = { offset, length, iova, access: access & ~OPTIONAL_ACCESS };
    const mr = yield* objects.device.verbs.regMr(pd, buffer, options);
    if (failed(mr)) {
      place.discard();
      return mr;
    }
    place.keep(mr);
    return { words: { handle: objects.handle(mr), lkey: mr.lkey, rkey: mr.rkey } };
  },

  *rereg_mr({ mr: handle, flags, pd: pdHandle, addr, length, access }, objects) {
    const mr = objects.get<Mr>(handle, "region");
    if (failed(mr)) return mr;
    const pd = (flags & REREG.pd) === 0
      ? undefined
      : objects.get<Pd>(pdHandle, "protection domain");
    if (pd !== undefined && failed(pd)) return pd;
    const isMoved = (flags & REREG.translation) !== 0;
    const place = isMoved ? placeOf(objects, addr, length) : undefined;
    if (place !== undefined && failed(place)) return place;
    const wrong = yield* objects.device.verbs.reregMr(mr, {
      ...(place && { place: { buffer: place.buffer, offset: place.offset, length, iova: addr } }),
      ...(pd && { pd }),
      ...((flags & REREG.access) !== 0 && { access: access & ~OPTIONAL_ACCESS }),
    });
    if (wrong !== undefined) place?.discard();
    else place?.keep(mr);
    return done(wrong);
  },

  *dereg_mr({ mr: handle }, objects) {
    const mr = objects.get<Mr>(handle, "region");
    if (failed(mr)) return mr;
    const wrong = yield* objects.device.verbs.deregMr(mr);
    if (wrong !== undefined) return wrong;
    objects.unmap(mr);
    objects.forget(mr);
    return DONE;
  },

  *import_mr({ pd: domain, mr: handle }, objects) {
    const pd = objects.get<Pd>(domain, "protection domain");
    const mr = objects.get<Mr>(handle, "region");
    if (failed(pd)) return pd;
    if (failed(mr)) return mr;
    if (!("rkey" in mr) || !("length" in mr)) {
      return verbError("ENOENT", `There is no region of number ${handle}`);
    }
    const imported = objects.device.verbs.importMr(pd, mr.lkey);
    if (failed(imported)) return imported;
    const { length, lkey, rkey } = imported;
    return { words: { handle: objects.handle(imported), length, lkey, rkey } };
  },

  *unimport_mr({ mr: handle }, objects) {
    const mr = objects.get<Mr>(handle, "region");
    if (failed(mr)) return mr;
    objects.forget(mr);
    return DONE;
  },

  *alloc_null_mr({ pd: handle }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    const mr = yield* objects.device.verbs.allocNullMr(pd);
    return failed(mr) ? mr : { words: { handle: objects.handle(mr), lkey: mr.lkey } };
  },

  *advise_mr({ pd: handle, advice, flags }, objects, request) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    const known = (["prefetch", "prefetchWrite", "prefetchNoFault"] as const)[advice];
    if (known === undefined) return verbError("EOPNOTSUPP", `There is no advice ${advice}`);
    const sges = request.rows("advise_mr").map(({ addr, length, lkey }) => ({
      address: addr,
      length,
      lkey,
    }));
    return done(yield* objects.device.verbs.adviseMr({ pd, sges, advice: known, flags }));
  },

  *alloc_mw({ pd: handle, type }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    const mw = yield* objects.device.verbs.allocMw(pd, type as 1 | 2);
    return failed(mw) ? mw : { words: { handle: objects.handle(mw), rkey: mw.rkey } };
  },

  *bind_mw({ qp: qpHandle, mw: mwHandle, mr: mrHandle, ...args }, objects) {
    const qp = objects.get<Qp>(qpHandle, "queue pair");
    const mw = objects.get<Mw>(mwHandle, "window"), mr = objects.get<Mr>(mrHandle, "region");
    if (failed(qp)) return qp;
    if (failed(mw)) return mw;
    if (failed(mr)) return mr;
    const { wr_id: wrId, send_flags: sendFlags, addr, length, access } = args;
    const offset = addr - mr.address;
    const wrong = yield* objects.device.verbs.bindMw(qp, mw, {
      mr,
      offset,
      length,
      access,
      wrId,
      sendFlags,
    });
    return wrong ?? { words: { rkey: mw.rkey } };
  },

  *dealloc_mw({ mw: handle }, objects) {
    const mw = objects.get<Mw>(handle, "window");
    if (failed(mw)) return mw;
    const wrong = yield* objects.device.verbs.deallocMw(mw);
    if (wrong === undefined) objects.forget(mw);
    return done(wrong);
  },

  *create_comp_channel({ device: handle }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    return { words: { handle: objects.handle(device.verbs.createCompChannel(device)) } };
  },

  *destroy_comp_channel({ channel: handle }, objects) {
    const channel = objects.get<CompChannel>(handle, "completion channel");
    if (failed(channel)) return channel;
    const wrong = objects.device.verbs.destroyCompChannel(channel);
    if (wrong === undefined) objects.forget(channel);
    return done(wrong);
  },

  *create_cq({ device: opened, cqe, channel: handle, vector, wc_flags: wcFlags, flags }, objects) {
    const device = deviceAt(objects, opened);
    if (failed(device)) return device;
    const channel = handle === 0 ? undefined : objects.get<CompChannel>(handle, "channel");
    if (channel !== undefined && failed(channel)) return channel;
    const vectors = (yield* device.verbs.queryDevice(device)) as {
      readonly numCompVectors: number;
    };
    if (!(vector >= 0) || vector >= vectors.numCompVectors) return noSuch("vector", vector);
    const cq = yield* device.verbs.createCq(device, {
      entries: cqe,
      wcFlags,
      flags,
      ...(channel === undefined ? { interrupts: false } : { channel }),
    });
    if (failed(cq)) return cq;
    const words = { handle: objects.handle(cq), cqe: usable(cq, cqe), bit: objects.polls.add(cq) };
    return { words };
  },

  *resize_cq({ cq: handle, cqe }, objects) {
    const cq = objects.get<Cq>(handle, "completion queue");
    if (failed(cq)) return cq;
    const wrong = yield* objects.device.verbs.resizeCq(cq, cqe);
    return wrong ?? { words: { cqe: usable(cq, cqe) } };
  },

  *destroy_cq({ cq: handle }, objects) {
    const cq = objects.get<Cq>(handle, "completion queue");
    if (failed(cq)) return cq;
    const wrong = yield* objects.device.verbs.destroyCq(cq);
    if (wrong !== undefined) return wrong;
    objects.forget(cq);
    objects.polls.remove(cq);
    return {};
  },

  *create_qp(args, objects) {
    const pd = objects.get<Pd>(args.pd, "protection domain");
    const sendCq = objects.get<Cq>(args.send_cq, "completion queue");
    const recvCq = objects.get<Cq>(args.recv_cq, "completion queue");
    const srq = args.srq === 0 ? undefined : objects.get<Srq>(args.srq, "shared receive queue");
    if (failed(pd)) return pd;
    if (failed(sendCq)) return sendCq;
    if (failed(recvCq)) return recvCq;
    if (srq !== undefined && failed(srq)) return srq;
    const type = nameOf(QP_TYPES, args.qp_type);
    if (type === undefined) {
      return verbError(
        "EOPNOTSUPP",
        `The card has queue pairs of RC, UC and UD: found ${args.qp_type}`,
      );
    }
    const qp = yield* objects.device.verbs.createQp(pd, {
      type,
      sendCq,
      recvCq,
      ...(srq && { srq }),
      sqSigAll: args.sq_sig_all !== 0,
      ...givenCaps(args),
    });
    if (failed(qp)) return qp;
    return { words: { handle: objects.handle(qp), qp_num: qp.qpn, ...capsOf(qp.caps) } };
  },

  *modify_qp(args, objects) {
    const qp = objects.get<Qp>(args.qp, "queue pair");
    if (failed(qp)) return qp;
    const attributes = attributesOf(args);
    if (failed(attributes)) return attributes;
    const isInit = attributes.state === "init" && qp.life.state === "reset";
    if (isInit && (args.attr_mask & INIT_NEEDS) !== INIT_NEEDS) {
      return verbError("EINVAL", "INIT needs pkey_index and port_num");
    }
    const { verbs } = objects.device;
    if ((args.attr_mask & ATTR.cap) !== 0) {
      const size = { maxSendWr: args.max_send_wr, maxRecvWr: args.max_recv_wr };
      const wrong = yield* verbs.resizeQp(qp, size);
      if (wrong !== undefined) return wrong;
    }
    const hasOther = Object.keys(attributes).length > 0 || (args.attr_mask & ~ATTR.cap) !== 0;
    const wrong = hasOther ? yield* verbs.modifyQp(qp, attributes) : undefined;
    return wrong ?? { words: capsOf(qp.caps) };
  },

  *query_qp({ qp: handle }, objects) {
    const qp = objects.get<Qp>(handle, "queue pair");
    if (failed(qp)) return qp;
    const found = yield* objects.device.verbs.queryQp(qp);
    if (failed(found)) return found;
    const { state, caps, attributes: it } = found;
    const address = it.destAddress;
    return {
      words: {
        qp_state: QP_STATES[state],
        cur_qp_state: QP_STATES[state],
        ...attributeWords(it),
        attr_port_num: state === "reset" ? 0 : PORT,
        ...capsOf(caps),
        ...(address !== undefined && {
          is_global: 1,
          dgid_low: 0xffff_0000_0000n | BigInt(address),
          flow_label: it.flowLabel ?? 0,
          hop_limit: it.hopLimit ?? 64,
          traffic_class: it.trafficClass ?? 0,
          port_num: PORT,
        }),
      },
    };
  },

  *destroy_qp({ qp: handle }, objects) {
    const qp = objects.get<Qp>(handle, "queue pair");
    if (failed(qp)) return qp;
    const wrong = yield* objects.device.verbs.destroyQp(qp);
    if (wrong === undefined) objects.forget(qp);
    return done(wrong);
  },

  *create_srq({ pd: handle, max_wr: maxWr, max_sge: maxSge }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    const srq = yield* objects.device.verbs.createSrq(pd, { maxWr, maxSge });
    if (failed(srq)) return srq;
    const { caps } = srq;
    return {
      words: {
        handle: objects.handle(srq),
        srqn: srq.srqn,
        max_wr: caps.maxWr,
        max_sge: caps.maxSge,
      },
    };
  },

  *modify_srq({ srq: handle, attr_mask: mask, max_wr: maxWr, srq_limit: limit }, objects) {
    const srq = objects.get<Srq>(handle, "shared receive queue");
    if (failed(srq)) return srq;
    return done(
      yield* objects.device.verbs.modifySrq(srq, {
        ...((mask & SRQ_ATTR.maxWr) !== 0 && { maxWr }),
        ...((mask & SRQ_ATTR.limit) !== 0 && { limit }),
      }),
    );
  },

  *query_srq({ srq: handle }, objects) {
    const srq = objects.get<Srq>(handle, "shared receive queue");
    if (failed(srq)) return srq;
    const it = yield* objects.device.verbs.querySrq(srq);
    if (failed(it)) return it;
    return { words: { max_wr: it.maxWr, max_sge: it.maxSge, srq_limit: it.limit } };
  },

  *destroy_srq({ srq: handle }, objects) {
    const srq = objects.get<Srq>(handle, "shared receive queue");
    if (failed(srq)) return srq;
    const wrong = yield* objects.device.verbs.destroySrq(srq);
    if (wrong === undefined) objects.forget(srq);
    return done(wrong);
  },

  *create_ah({ pd: handle, ...args }, objects) {
    const pd = objects.get<Pd>(handle, "protection domain");
    if (failed(pd)) return pd;
    if (args.port_num !== PORT) return noSuch("port", args.port_num);
    const options = ahOf(args);
    const ah = failed(options) ? options : objects.device.verbs.createAh(pd, options);
    return failed(ah) ? ah : { words: { handle: objects.handle(ah) } };
  },

  *destroy_ah({ ah: handle }, objects) {
    const ah = objects.get<Ah>(handle, "address handle");
    if (failed(ah)) return ah;
    const wrong = objects.device.verbs.destroyAh(ah);
    if (wrong === undefined) objects.forget(ah);
    return done(wrong);
  },

  *attach_mcast({ qp: handle, gid_low: low }, objects) {
    const qp = objects.get<Qp>(handle, "queue pair");
    if (failed(qp)) return qp;
    const group = Number(BigInt(low) & 0xffff_ffffn);
    return done(yield* objects.device.verbs.attachMcast(qp, group));
  },

  *detach_mcast({ qp: handle, gid_low: low }, objects) {
    const qp = objects.get<Qp>(handle, "queue pair");
    if (failed(qp)) return qp;
    const group = Number(BigInt(low) & 0xffff_ffffn);
    return done(yield* objects.device.verbs.detachMcast(qp, group));
  },

  *get_async_event({ device: handle, wait }, objects) {
    const device = deviceAt(objects, handle);
    if (failed(device)) return device;
    const { verbs, cpu, state } = device;
    for (;;) {
      const event = wait === 0
        ? yield* verbs.getAsyncEvent(device, { deadline: cpu.now })
        : yield* verbs.getAsyncEvent(device);
      if (event === "timeout") return { errno: "EAGAIN", reason: "There is no event" };
      const type = EVENT_TYPES[event.type];
      if (type === undefined) continue;
      const about = queueOf(state, event);
      const object = about === undefined ? 0 : objects.handleOf(about);
      return { words: { event: objects.handle(event), type, object } };
    }
  },

  *ack_async_event({ device: opened, event: handle }, objects) {
    const device = deviceAt(objects, opened);
    if (failed(device)) return device;
    const event = objects.get<RnicEvent>(handle, "event");
    if (failed(event)) return event;
    objects.forget(event);
    return done(device.verbs.ackAsyncEvent(device, event));
  },
};

/** Memory for a region: of SCM where the process has mapped it there, else its own. */
interface RegionPlace {
  readonly buffer: Buffer;
  readonly offset: number;
  /** It is the region's, until the region has another one or none. */
  keep(mr: Mr): void;
  /** No region has become of it. */
  discard(): void;
}

function placeOf(
  objects: NativeObjects,
  address: number,
  length: number,
): RegionPlace | VerbError {
  const inScm = objects.inScm(address, length);
  if (failed(inScm)) return inScm;
  if (inScm !== undefined) {
    return {
      buffer: objects.cpu.scm,
      offset: inScm,
      keep: (mr) => objects.unmap(mr),
      discard: () => {},
    };
  }
  const mapped = mappedAt(objects, address, length);
  if (failed(mapped)) return mapped;
  const { buffer, offset } = mapped;
  return {
    buffer,
    offset,
    keep: (mr) => objects.keep(mr, buffer),
    discard: () => objects.discard(buffer),
  };
}

function mappedAt(
  objects: NativeObjects,
  address: number,
  length: number,
): ReturnType<NativeObjects["map"]> | VerbError {
  if (
    objects.read(address, 1) === undefined || objects.read(address + length - 1, 1) === undefined
  ) {
    const range = `${length} B from 0x${address.toString(16)} on`;
    return verbError("EFAULT", `The program has no memory of ${range}`);
  }
  try {
    return objects.map(address, length);
  } catch (error) {
    if ((error as Error).name !== "OutOfMemory") throw error;
    return verbError("ENOMEM", (error as Error).message);
  }
}

/** The completions that fit: a program may count on what it has asked for. */
function usable({ entries }: Cq, wanted: number): number {
  return Math.max(wanted, Math.floor(entries * 3 / 4) - 1);
}

function queueOf(
  { queuePairs, completionQueues, sharedReceiveQueues }: OpenDevice["state"],
  event: RnicEvent,
) {
  if ("qpn" in event) return queuePairs.get(event.qpn);
  if ("cqn" in event) return completionQueues.get(event.cqn);
  if ("srqn" in event) return sharedReceiveQueues.get(event.srqn);
  return undefined;
}
