/**
 * Calls of rdma-core's headers and what they are here, constants and fields with other names: for
 * the page `scripts/scenarios/FROM_LIBIBVERBS.md`, whose tables `deno task tables` makes of them, and
 * for what the check of types and refused calls say to those who write rdma-core's names.
 */

import type { QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { RdmaUdParam } from "../cm/rdma_event.ts";
import type { Verbs } from "../open_device.ts";
import type { AhOptions } from "../verbs/address_handle.ts";
import type {
  Cq,
  Mr,
  MwBindInfo,
  Qp,
  RecvRequest,
  SendRequest,
  UdDestination,
} from "../verbs/objects.ts";
import type { QpOptions } from "../verbs/queue_pair.ts";
import { ABSENT, absentText } from "./absent.ts";

/** Calls that stand together on the page. */
export interface CallsThere {
  /** Names of rdma-core, with blanks between. */
  readonly there: string;
  /** Functions of `device.verbs`; else each call has its own name in camel case, without `ibv_`. */
  readonly here?: readonly (keyof Verbs)[];
  /** Markdown. Of a call that differs or is left out: the reason. */
  readonly note?: string;
}

type BySubject = Readonly<Record<string, readonly CallsThere[]>>;

/** Calls that do what rdma-core's do. */
export const CALLS_AS_THERE: BySubject = {
  Devices: [
    {
      there: "ibv_get_device_list ibv_get_device_name ibv_get_device_guid",
      here: ["getDeviceList"],
      note: "the cards of the host that have power: `rackmesh0`, `rackmesh1` …",
    },
    {
      there: "ibv_query_device ibv_query_device_ex",
      note: "`vendor` has the card's own limits, as `mlx5dv_query_device`",
    },
    { there: "ibv_query_rt_values_ex" },
    { there: "ibv_query_port", note: "with the exact rate beside width and speed" },
    { there: "ibv_query_gid ibv_query_gid_ex ibv_query_gid_table" },
    { there: "ibv_query_pkey" },
    {
      there: "ibv_get_async_event ibv_ack_async_event",
      note: "with a `deadline`. PORT_ERR, PORT_ACTIVE (of the cable and of what is behind it) " +
        "and DEVICE_FATAL go to each context",
    },
  ],
  Memory: [
    { there: "ibv_alloc_pd ibv_dealloc_pd" },
    { there: "ibv_import_pd ibv_import_mr", note: "the object itself, in another context" },
    {
      there: "ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2 ibv_reg_mr_ex",
      here: ["regMr"],
      note: "`iova` is an option, and a part of the buffer is `offset` and `length`. " +
        "IBV_ACCESS_RELAXED_ORDERING is EINVAL: nothing is reordered here; so is " +
        "IBV_ACCESS_ZERO_BASED: `iova` says where addresses begin. No DMA handle, no " +
        "dmabuf",
    },
    { there: "ibv_rereg_mr ibv_dereg_mr", note: "an on-demand region keeps its memory (EINVAL)" },
    { there: "ibv_alloc_null_mr" },
    { there: "ibv_advise_mr", note: "`madvise` is madvise(2)" },
    { there: "ibv_alloc_mw ibv_dealloc_mw ibv_bind_mw ibv_inc_rkey", note: "types are 1 and 2" },
  ],
  Completions: [
    { there: "ibv_create_comp_channel ibv_destroy_comp_channel" },
    {
      there: "ibv_create_cq ibv_create_cq_ex",
      here: ["createCq"],
      note: "with `wcFlags` and `flags`. VLANs, flow tags, tag matching and " +
        "IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN are EOPNOTSUPP",
    },
    { there: "ibv_resize_cq ibv_destroy_cq", note: "EBUSY where it would block" },
    {
      there: "ibv_get_cq_event ibv_ack_cq_events",
      here: ["getChannelEvent", "getCqEvent", "ackCqEvents"],
      note: "of a channel (`getChannelEvent`), or of a queue by itself",
    },
    {
      there: "ibv_req_notify_cq",
      note: "raises an event also for completions that are there and not polled, as mlx5 " +
        "does; with `queues: { arm: next }` of the host for later ones alone: poll again " +
        "after arming",
    },
    { there: "ibv_start_poll ibv_next_poll ibv_end_poll" },
    { there: "ibv_wc_read_wc_flags", here: ["wcFlags"] },
    {
      there: "ibv_wc_read_completion_ts ibv_wc_read_completion_wallclock_ns",
      note: "the wall clock is virtual time",
    },
  ],
  "Queue pairs": [
    {
      there: "ibv_create_qp ibv_create_qp_ex",
      here: ["createQp"],
      note: "for RC, UC and UD; `maxInlineData` and `sqSigAll` are max_inline_data and " +
        "sq_sig_all, and `caps` has what is granted; no create flags",
    },
    {
      there: "ibv_modify_qp",
      note: "but IBV_QP_CAP (`resizeQp`) and alternate paths (left out). UC takes to `rtr` " +
        "destAddress, pathMtu, destQpn, rqPsn, to `rts` sqPsn; what is about " +
        "acknowledgements or READs is EINVAL",
    },
    { there: "mlx5dv_modify_qp_udp_sport", here: ["modifyQpUdpSport"] },
    {
      there: "ibv_query_qp",
      note: "without `sq_draining`: `enSqdAsyncNotify` has SQ_DRAINED told",
    },
    { there: "ibv_query_qp_data_in_order", note: "always in order" },
    { there: "ibv_destroy_qp", note: "EBUSY where it would block" },
    { there: "ibv_attach_mcast ibv_detach_mcast", note: "the group is an IPv4 address" },
    {
      there: "ibv_create_ah ibv_create_ah_from_wc ibv_init_ah_from_wc ibv_destroy_ah",
      here: ["createAh", "createAhFromWc", "destroyAh"],
    },
  ],
  Work: [
    {
      there: "ibv_post_send ibv_post_recv",
      note: "inline with `IBV_SEND_INLINE`, signaled with `IBV_SEND_SIGNALED`; a list is an " +
        "array, and `bad` of the error is its index. `sge(mr, offset, length)` makes an " +
        "element of a part of the region, and throws for what is not in it. Operands that " +
        "the operation does not have are EINVAL",
    },
    { there: "ibv_wr_start ibv_wr_complete ibv_wr_abort" },
    {
      there: `ibv_create_srq ibv_create_srq_ex ibv_modify_srq ibv_query_srq ibv_destroy_srq`,
      here: ["createSrq", "modifySrq", "querySrq", "destroySrq"],
      note: "no tag matching",
    },
    { there: "ibv_post_srq_recv" },
  ],
  librdmacm: [
    {
      there: "rdma_create_event_channel rdma_destroy_event_channel",
      note: "EBUSY where it would block, or leave a queue pair behind",
    },
    {
      there: "rdma_get_cm_event rdma_ack_cm_event",
      note: "`rdmaEventsOf` lets `waitCompletion` return for events, as `poll` on the fd does",
    },
    { there: "rdma_create_id rdma_destroy_id", note: '`ps: "tcp"` and `"udp"`' },
    {
      there: "rdma_bind_addr rdma_listen",
      note: "`address` of a card of the host: the id uses that one; without, the channel's, " +
        "also to listen",
    },
    { there: "rdma_resolve_addr rdma_resolve_route", note: "hosts by name or IPv4 address" },
    {
      there: "rdma_create_qp rdma_create_qp_ex rdma_destroy_qp",
      here: ["rdmaCreateQp", "rdmaDestroyQp"],
      note: "`rdmaCreateQp(id, pd, { sendCq, recvCq, … })`, with a protection domain of the " +
        "program",
    },
    {
      there: `rdma_connect rdma_accept rdma_reject rdma_establish rdma_notify rdma_disconnect`,
      note: "`qpNum` for a queue pair that the id does not have",
    },
  ],
};

/** Calls that another function does, or that do it otherwise. */
export const CALLS_THAT_DIFFER: BySubject = {
  libibverbs: [
    {
      there: "ibv_open_device",
      here: ["openDevice", "openContext"],
      note: "the program's `device` is a context already, shared by its threads; " +
        "`openContext` makes another, `openDevice` one on a card that it names",
    },
    {
      there: "ibv_poll_cq",
      note: "it returns the completions, at most as many as asked for; [polling](#polling)",
    },
    {
      there: `ibv_wc_read_opcode ibv_wc_read_byte_len ibv_wc_read_vendor_err
      ibv_wc_read_imm_data ibv_wc_read_invalidated_rkey ibv_wc_read_qp_num
      ibv_wc_read_src_qp ibv_wc_read_slid ibv_wc_read_sl ibv_wc_read_dlid_path_bits`,
      here: ["wcRead"],
      note: "it returns the completion with all fields; those of a LID are 0 on Ethernet",
    },
    {
      there: `ibv_wr_send ibv_wr_send_imm ibv_wr_send_inv ibv_wr_rdma_write
      ibv_wr_rdma_write_imm ibv_wr_rdma_read ibv_wr_atomic_cmp_swp
      ibv_wr_atomic_fetch_add ibv_wr_atomic_write ibv_wr_flush ibv_wr_local_inv
      ibv_wr_bind_mw ibv_wr_set_sge ibv_wr_set_sge_list ibv_wr_set_inline_data
      ibv_wr_set_inline_data_list ibv_wr_set_ud_addr`,
      here: ["wrAdd"],
      note: "a builder needs no setters here: one call takes the whole request, as `postSend` " +
        "does. A FLUSH with IBV_FLUSH_PERSISTENT to a host with DDIO on needs [a program " +
        "there](OWN_PROTOCOL.md)",
    },
  ],
  librdmacm: [
    {
      there: "rdma_init_qp_attr",
      note: "it returns what `modifyQp` takes; the mask is the fields",
    },
    {
      there: "rdma_reg_msgs rdma_reg_read rdma_reg_write rdma_dereg_mr",
      here: ["regMr", "deregMr"],
      note: "an id has no protection domain of its own, so the access flags are said: " +
        "`IBV_ACCESS_LOCAL_WRITE`, with `IBV_ACCESS_REMOTE_READ` or " +
        "`IBV_ACCESS_REMOTE_WRITE`",
    },
    {
      there: `rdma_post_send rdma_post_sendv rdma_post_write rdma_post_writev rdma_post_read
      rdma_post_readv rdma_post_ud_send`,
      here: ["postSend"],
      note: "on `id.qp`: a wrapper would only rename the request's fields",
    },
    {
      there: "rdma_post_recv rdma_post_recvv",
      here: ["postRecv"],
      note: "on `id.qp`, for the same reason",
    },
    {
      there: "rdma_get_send_comp rdma_get_recv_comp",
      here: ["waitCompletion"],
      note: "on the queue that the queue pair was made with: an id has none",
    },
    {
      there: "rdma_create_srq rdma_create_srq_ex rdma_destroy_srq",
      here: ["createSrq", "destroySrq"],
      note: "`srq` of `rdmaCreateQp` names it: an id has none",
    },
    {
      there: "rdma_join_multicast rdma_join_multicast_ex rdma_leave_multicast",
      here: ["attachMcast", "detachMcast"],
      note: "there is no subnet manager to ask: the card reports the group itself (IGMP), and " +
        "`createAh` of its address is the handle",
    },
  ],
};

/** Calls that are not here. */
export const CALLS_LEFT_OUT: BySubject = {
  "Devices and contexts": [
    {
      there: "ibv_close_device ibv_free_device_list rdma_get_devices rdma_free_devices",
      note: "a context ends with its program, and a list is an array",
    },
    {
      there: "ibv_get_device_index ibv_get_pkey_index",
      note: "`getDeviceList` has a host's cards in order, and a card's one partition has index 0",
    },
    {
      there: `ibv_query_port_speed ibv_rate_to_mult mult_to_ibv_rate ibv_rate_to_mbps
      mbps_to_ibv_rate`,
      note: "`queryPort` has the exact rate, and an address has no static rate",
    },
    {
      there: "ibv_import_device ibv_fork_init ibv_is_fork_initialized",
      note: "the programs of a host share one address space",
    },
    {
      there: "ibv_unimport_pd ibv_unimport_mr ibv_unimport_dm",
      note: "an import is a name for the object, and keeps nothing",
    },
    { there: "ibv_static_providers", note: "there is one driver" },
    {
      there: `ibv_wc_status_str ibv_event_type_str ibv_port_state_str ibv_node_type_str
      ibv_wr_opcode_str rdma_event_str`,
      note: "these stand in the objects as text",
    },
  ],
  Memory: [
    {
      there: "ibv_alloc_td ibv_dealloc_td ibv_alloc_parent_domain",
      note: "they save locks, and a core here takes none",
    },
    {
      there: "ibv_alloc_buf ibv_free_buf ibv_reg_buf_mr ibv_export_buf_dmabuf_fd",
      note: "no guest is confidential: every card reaches what `cpu.allocate` returns",
    },
    {
      there: "ibv_alloc_dmah ibv_dealloc_dmah",
      note: "where the bytes of a DMA write go is the host's `ddio`, for all regions",
    },
    { there: "ibv_reg_dmabuf_mr", note: absentText(ABSENT.dmabuf) },
    {
      there: `ibv_alloc_dm ibv_free_dm ibv_reg_dm_mr ibv_memcpy_to_dm ibv_memcpy_from_dm
      ibv_import_dm ibv_dm_export_dmabuf_fd`,
      note: absentText(ABSENT.cardMemory),
    },
  ],
  Completions: [
    { there: "ibv_cq_ex_to_cq ibv_qp_to_qp_ex", note: "an extended queue is the same object" },
    { there: "ibv_modify_cq", note: "moderation of interrupts is not modelled" },
    {
      there: "ibv_wc_read_cvlan ibv_wc_read_flow_tag ibv_wc_read_tm_info",
      note: `frames have no VLAN; ${absentText(ABSENT.tags)}`,
    },
    {
      there: `ibv_create_comp_cntr ibv_destroy_comp_cntr ibv_set_comp_cntr
      ibv_set_err_comp_cntr ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_read_comp_cntr
      ibv_read_err_comp_cntr ibv_qp_attach_comp_cntr ibv_query_comp_cntr_caps`,
      note: "no timing of counters in place of completion queues is published",
    },
  ],
  "Queue pairs and work": [
    {
      there: `ibv_open_qp ibv_open_xrcd ibv_close_xrcd ibv_get_srq_num ibv_wr_set_xrc_srqn`,
      note: absentText(ABSENT.xrc),
    },
    { there: "ibv_modify_qp_rate_limit", note: "a queue pair has a `weight` instead" },
    {
      there: `ibv_query_ece ibv_set_ece rdma_get_remote_ece rdma_set_local_ece rdma_reject_ece`,
      note: "both ends have the same features",
    },
    {
      there: "ibv_flow_label_to_udp_sport",
      note: "`createAh` and `modifyQp` make the port of a `flowLabel` so; `udpSourcePort` " +
        "gives another",
    },
    {
      there: "ibv_resolve_eth_l2_from_gid",
      note: "the card has the Ethernet address of each IPv4 address of the rack",
    },
    { there: "ibv_post_srq_ops", note: absentText(ABSENT.tags) },
    {
      there: `ibv_create_wq ibv_destroy_wq ibv_modify_wq ibv_post_wq_recv
      ibv_create_rwq_ind_table ibv_destroy_rwq_ind_table ibv_create_flow
      ibv_destroy_flow ibv_create_flow_action_esp ibv_modify_flow_action_esp
      ibv_destroy_flow_action ibv_create_counters ibv_destroy_counters
      ibv_attach_counters_point_flow ibv_read_counters ibv_wr_send_tso
      ibv_is_qpt_supported`,
      note: absentText(ABSENT.rawPackets),
    },
  ],
  librdmacm: [
    {
      there: "rdma_create_ep rdma_destroy_ep rdma_get_request",
      note: "synchronous ids: a call that waits is `rdmaGetCmEvent`",
    },
    {
      there: `rdma_getaddrinfo rdma_freeaddrinfo rdma_resolve_addrinfo rdma_query_addrinfo`,
      note: "`rdmaResolveAddr` takes the name of a host",
    },
    {
      there: "rdma_get_src_port rdma_get_dst_port rdma_get_local_addr rdma_get_peer_addr",
      note: "fields of an id: `port`, and `peer` with address, port and host",
    },
    { there: "rdma_migrate_id", note: "an id belongs to the thread that made it" },
    {
      there: "rdma_set_option",
      note: "`retry` of `rdmaCreateId` has the time-outs; type of service and reuse of " +
        "addresses are not there",
    },
    { there: "rdma_write_cm_event", note: "a program wakes another by `cpu.signal`" },
  ],
};

/** Functions of `device.verbs` that rdma-core has not. */
export const CALLS_OF_OWN: readonly Required<Omit<CallsThere, "there">>[] = [
  { here: ["must", "failed", "refused"], note: "whether a call was refused" },
  { here: ["sge"], note: "an element of a part of a region" },
  { here: ["waitCompletion"], note: "polls, or sleeps until there is an event" },
  { here: ["resizeQp"], note: "`ibv_modify_qp` with IBV_QP_CAP" },
  { here: ["madvise"], note: "madvise(2)" },
  { here: ["rdmaEventsOf"], note: "for `waitCompletion`: the fd of an event channel" },
  {
    here: [
      "connect",
      "listen",
      "unlisten",
      "nextEvent",
      "waitEvent",
      "listening",
      "accept",
      "reject",
      "noteActivity",
      "waitDisconnect",
      "disconnecting",
      "isDisconnected",
      "disconnect",
    ],
    note: "the connection manager by names of services, without ids",
  },
  {
    here: ["queueFill", "queueInformation", "writeSpace2", "storeSpace2"],
    note: "queue information (Q-03 to Q-05)",
  },
  { here: ["persistRanges"], note: "what a program of flow 2 flushes (P-26)" },
  { here: ["postHint"], note: "hints (H-09)" },
];

/** `regMr` for `ibv_reg_mr` and `ibvRegMr`. */
export function nameHere(there: string): string {
  const camel = there.replace(/_+([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase());
  return camel.replace(/^ibv([A-Z])/, (_, letter: string) => letter.toLowerCase());
}

export const namesOf = ({ there }: CallsThere): string[] => there.split(/\s+/);

/** Functions of `device.verbs` that stand for these calls. */
export const functionsOf = (calls: CallsThere): readonly string[] =>
  calls.here ?? namesOf(calls).map(nameHere);

/** An enumeration: a type's field here, and the text or number for each constant of rdma-core. */
interface ConstantsThere {
  readonly of: string;
  readonly values: Readonly<Record<string, string | number>>;
}

export const ENUMERATIONS_THERE: readonly ConstantsThere[] = [
  {
    of: "`opcode` of a send request",
    values: Object.fromEntries(
      Object.entries(WQE_OPCODES).flatMap(([name, { there }]) => there ? [[there, name]] : []),
    ),
  },
  {
    of: "`selectivity` of a FLUSH",
    values: { IBV_FLUSH_RANGE: "range", IBV_FLUSH_MR: "mr" },
  },
  { of: "`type` of `createQp`", values: { IBV_QPT_RC: "rc", IBV_QPT_UC: "uc", IBV_QPT_UD: "ud" } },
  {
    of: "`state` of a queue pair",
    values: {
      IBV_QPS_RESET: "reset",
      IBV_QPS_INIT: "init",
      IBV_QPS_RTR: "rtr",
      IBV_QPS_RTS: "rts",
      IBV_QPS_SQD: "sqd",
      IBV_QPS_SQE: "sqe",
      IBV_QPS_ERR: "err",
    },
  },
  {
    of: "`pathMtu`",
    values: {
      IBV_MTU_256: 256,
      IBV_MTU_512: 512,
      IBV_MTU_1024: 1024,
      IBV_MTU_2048: 2048,
      IBV_MTU_4096: 4096,
    },
  },
  { of: "`type` of `allocMw`", values: { IBV_MW_TYPE_1: 1, IBV_MW_TYPE_2: 2 } },
  {
    of: "`advice` of `adviseMr`",
    values: {
      IBV_ADVISE_MR_ADVICE_PREFETCH: "prefetch",
      IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: "prefetchWrite",
      IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: "prefetchNoFault",
    },
  },
  {
    of: "`advice` of `madvise`",
    values: { MADV_DONTNEED: "dontneed", MADV_PAGEOUT: "pageout" },
  },
  { of: "`ps` of `rdmaCreateId`", values: { RDMA_PS_TCP: "tcp", RDMA_PS_UDP: "udp" } },
];

/** The text or number that replaces a constant of rdma-core's enumerations. */
export const VALUES_THERE: Readonly<Record<string, string | number>> = Object.assign(
  {},
  ...ENUMERATIONS_THERE.map(({ values }) => values),
);

/** Types with fields that have another name than in rdma-core. */
interface Types {
  readonly AhOptions: AhOptions;
  readonly Cq: Cq;
  readonly Mr: Mr;
  readonly MwBindInfo: MwBindInfo;
  readonly Qp: Qp;
  readonly QpAttributes: QpAttributes;
  readonly QpOptions: QpOptions;
  readonly RdmaUdParam: RdmaUdParam;
  readonly RecvRequest: RecvRequest;
  readonly SendRequest: SendRequest;
  readonly Sge: Sge;
  readonly UdDestination: UdDestination;
}

interface FieldThere<Type extends keyof Types> {
  readonly type: Type;
  readonly field: keyof Types[Type];
  /** With the structure: `ibv_sge.addr`. */
  readonly there: readonly string[];
  /** Markdown. */
  readonly note?: string;
}

/** Fields here, and those of rdma-core that they stand for. */
export const FIELDS_THERE: readonly { [Type in keyof Types]: FieldThere<Type> }[keyof Types][] = [
  { type: "Sge", field: "address", there: ["ibv_sge.addr"] },
  { type: "Mr", field: "address", there: ["ibv_mr.addr"] },
  {
    type: "SendRequest",
    field: "sges",
    there: ["ibv_send_wr.sg_list", "ibv_send_wr.num_sge"],
    note: "an array",
  },
  { type: "RecvRequest", field: "sges", there: ["ibv_recv_wr.sg_list", "ibv_recv_wr.num_sge"] },
  {
    type: "SendRequest",
    field: "immediate",
    there: ["ibv_send_wr.imm_data", "ibv_send_wr.invalidate_rkey"],
    note: "a number, without `htobe32`; of a completion `immData`",
  },
  {
    type: "SendRequest",
    field: "remote",
    there: ["ibv_send_wr.wr.rdma.remote_addr", "ibv_send_wr.wr.rdma.rkey"],
    note: "`{ va, rkey }`, of atomics too",
  },
  {
    type: "SendRequest",
    field: "atomic",
    there: ["ibv_send_wr.wr.atomic.compare_add", "ibv_send_wr.wr.atomic.swap"],
    note: "`{ compare, swapAdd }`, as on the wire: fetch-add adds `swapAdd`",
  },
  { type: "UdDestination", field: "qpn", there: ["ibv_send_wr.wr.ud.remote_qpn"] },
  { type: "UdDestination", field: "qKey", there: ["ibv_send_wr.wr.ud.remote_qkey"] },
  { type: "SendRequest", field: "bind", there: ["ibv_send_wr.bind_mw"] },
  {
    type: "MwBindInfo",
    field: "offset",
    there: ["ibv_mw_bind_info.addr"],
    note: "from the region's first byte",
  },
  { type: "MwBindInfo", field: "access", there: ["ibv_mw_bind_info.mw_access_flags"] },
  { type: "Qp", field: "qpn", there: ["ibv_qp.qp_num"] },
  { type: "Cq", field: "entries", there: ["ibv_cq.cqe"] },
  {
    type: "QpOptions",
    field: "type",
    there: ["ibv_qp_init_attr.qp_type"],
    note: "`maxRecvWr: 0` beside `srq`",
  },
  { type: "QpAttributes", field: "state", there: ["ibv_qp_attr.qp_state"] },
  { type: "QpAttributes", field: "curState", there: ["ibv_qp_attr.cur_qp_state"] },
  { type: "QpAttributes", field: "destQpn", there: ["ibv_qp_attr.dest_qp_num"] },
  { type: "QpAttributes", field: "accessFlags", there: ["ibv_qp_attr.qp_access_flags"] },
  { type: "QpAttributes", field: "qKey", there: ["ibv_qp_attr.qkey"] },
  {
    type: "QpAttributes",
    field: "destAddress",
    there: ["ibv_qp_attr.ah_attr"],
    note: "with `trafficClass`, `hopLimit`, `flowLabel` beside it",
  },
  { type: "AhOptions", field: "address", there: ["ibv_ah_attr.grh", "ibv_ah_attr.dgid"] },
  {
    type: "RdmaUdParam",
    field: "address",
    there: ["rdma_ud_param.ah_attr"],
    note: "`createAh(pd, { address })`",
  },
  { type: "RdmaUdParam", field: "qKey", there: ["rdma_ud_param.qkey"] },
];
