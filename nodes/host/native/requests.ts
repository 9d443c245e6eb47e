/**
 * The requests of a native program's library to its host, one row for each: the one place from which
 * the C side (`header.ts` makes `requests.h`) and this side know numbers and places of their words.
 *
 * A thread of a native program runs from a reply until its next request; meanwhile no virtual time
 * passes. Two pipes carry the messages, all words little-endian of 64 bits:
 *
 * - **Request** (program to host): {@link HEAD}, then the row's `args`, then `rows` of equal length
 *   (each followed by the elements that it counts, see `sges`), then bytes to the end.
 * - **Message** (host to program): {@link MESSAGE}, then `length` bytes. Kind {@link MESSAGES}`.reply`
 *   ends the wait of the thread that `address` numbers: {@link REPLY}, then `answer`, rows, bytes. Before it, while the thread waits, it
 *   serves the card's accesses to its memory: `read` (`length` is that of the answer, no bytes come
 *   behind it) is answered in the request pipe by a word, 0 and the bytes or EFAULT and none; `write`
 *   is answered by nothing, and so is `ended`: another process of the program, whose number at the machine
 *   `address` is, ends, and its descriptors are released before what follows.
 */

import { QP_CAP_WORDS, QP_WORDS } from "./numbers.ts";

/** Of a request. `bytes` is its whole length with this head. */
export const HEAD = ["bytes", "request", "thread", "usedPs", "stdout", "stderr"] as const;
/** In front of everything that the host sends; `length` counts the bytes behind it. */
export const MESSAGE = ["kind", "length", "address"] as const;
export const MESSAGES = { reply: 0, read: 1, write: 2, kill: 3, ended: 4 } as const;
/**
 * The begin of a reply. `error` is an errno, 0 for none. `nowPs`: virtual time of the thread.
 * `leasePs`: until then nothing changes that the thread could see, so the library reads the clock
 * and polls empty queues itself; NEVER (2^63 - 1) where only the thread's own requests change it.
 * `unwrittenPs`: until then the card writes nothing that the thread could see, and may read its memory, which must
 * stay as it is; not before `leasePs`.
 * `alone`: no other thread is on its core, so none has a turn between its clock reads.
 * `ask`: bits of the completion queues (see `create_cq`) of which the host must be asked; the others are
 * empty until the lease ends, and a poll of them takes `pollPs`.
 */
export const REPLY = ["error", "nowPs", "leasePs", "unwrittenPs", "alone", "ask"] as const;

export interface RequestRow {
  readonly args: readonly string[];
  /** Words of each of the repeated rows behind the arguments. */
  readonly rows?: readonly string[];
  readonly answer?: readonly string[];
  readonly answerRows?: readonly string[];
}

/** Words of an element of a work request; `sges` in a row counts those that follow it. */
export const SGE = ["addr", "length", "lkey"] as const;

/** ibv_ah_attr, as far as this rack's ports have it. The GID's halves are as numbers, high first. */
const AH = [
  "is_global",
  "dgid_high",
  "dgid_low",
  "flow_label",
  "sgid_index",
  "hop_limit",
  "traffic_class",
  "sl",
  "port_num",
] as const;

/** ibv_qp_attr; `attr_mask` says which are given. */
const QP_ATTR = [...QP_WORDS, ...QP_CAP_WORDS, ...AH] as const;

/** rdma_conn_param; the bytes behind the arguments are its private data. */
const CONN = [
  "qp_num",
  "srq",
  "responder_resources",
  "initiator_depth",
  "flow_control",
  "retry_count",
  "rnr_retry_count",
] as const;

const SEND = [
  "wr_id",
  "opcode",
  "send_flags",
  "imm",
  "remote_addr",
  "rkey",
  "compare_add",
  "swap",
  "ah",
  "remote_qpn",
  "remote_qkey",
  "mw",
  "mw_rkey",
  "mw_mr",
  "mw_addr",
  "mw_length",
  "mw_access",
  "flush_placement",
  "flush_selectivity",
  "sges",
] as const;
const RECV = ["wr_id", "sges"] as const;
const WC = [
  "wr_id",
  "status",
  "opcode",
  "vendor_err",
  "byte_len",
  "imm",
  "qp_num",
  "src_qp",
  "wc_flags",
  "sl",
  "timestamp",
] as const;

export const REQUESTS = {
  /** The first of a process: `version` is that of this table, `pid` the kernel's number. */
  hello: {
    args: ["version", "pid"],
    // Bytes: the host's name, a newline, and the names of its devices, each with a newline.
    answer: [
      "pid",
      "clockPs",
      "tscPs",
      "ticksPerUs",
      "pollPs",
      "spinUs",
      "stuckUs",
      "devices",
      "address",
    ],
  },
  /**
   * Lets the used time pass, in which this read's own cost (of a clock or of the counter) already is:
   * the host charges nothing more. The reply has the time and a new lease.
   */
  clock: { args: [] },
  sleep: { args: ["ps"] },
  /**
   * The thread loads the same memory in a loop: waits until the card has written to its process, or
   * for `timeoutPs` (NEVER: for ever), which an alarm of the program sets.
   */
  spin: { args: ["instruction", "timeoutPs"] },
  /** The thread has run for `stuckUs` of real time: `function` is at its program counter (bytes: names). */
  stuck: { args: ["instruction"] },
  /** The program ends with this code; the reply is the last one. */
  exit: { args: ["code"] },

  // Threads (`threads.ts`). One runs at a time; a reply's `address` is the thread's number.
  thread_create: { args: ["number"] },
  /** Of the caller, and a wake of all that wait for `key`. The last thread of a process gets an answer. */
  thread_exit: { args: ["key"] },
  /** Ends a wait of thread `of` with ECANCELED. */
  thread_cancel: { args: ["of"] },
  /**
   * Waits for a wake of the key: ETIMEDOUT. `object` 0: an address of the process; else the key is an
   * offset in memory that processes share, or that of descriptors: {@link OBJECTS}.
   */
  futex_wait: { args: ["object", "key", "timeoutPs", "cancellable"] },
  futex_wake: { args: ["object", "key", "count"] },

  // Processes (`family.ts`). A child has pipes of its own in its program's folder, `requests.PID` and
  // `replies.PID`, and its first message is a reply to `forked`.
  /** ENOSYS: the child runs without the rack, as one that another program takes the place of. */
  fork: { args: [], answer: ["pid"] },
  /** The child is there. Its pipes are the host's from now on, and not its parent's any more. */
  open_child: { args: ["pid"] },
  /**
   * It runs, with these sockets of its parent's: kind and handle as `poll` has them. `real`: its number at
   * the machine.
   */
  forked: { args: ["pid", "real"], rows: ["kind", "handle"] },
  /**
   * Waits for a child that has ended, `pid` 0 for any; with `keep` it can be waited for again.
   * ECHILD where there is none, ETIMEDOUT.
   */
  wait_child: { args: ["pid", "timeoutPs", "keep"], answer: ["pid"] },
  /** Another program takes the child's place, which ends for the rack; another request: it could not. */
  exec: { args: [] },
  /** A signal has ended the child. */
  child_killed: { args: ["pid"] },

  /**
   * Opens the device of this place in the list; the rows below name what is open by the `handle`.
   * Each has its own asynchronous events, also where a device is open twice.
   */
  open_device: { args: ["place"], answer: ["handle", "guid", "vectors"] },
  query_device: {
    args: ["device"],
    answer: [
      "fw_ver",
      "node_guid",
      "sys_image_guid",
      "max_mr_size",
      "page_size_cap",
      "vendor_id",
      "vendor_part_id",
      "hw_ver",
      "max_qp",
      "max_qp_wr",
      "device_cap_flags",
      "max_sge",
      "max_sge_rd",
      "max_cq",
      "max_cqe",
      "max_mr",
      "max_pd",
      "max_qp_rd_atom",
      "max_res_rd_atom",
      "max_qp_init_rd_atom",
      "atomic_cap",
      "max_mw",
      "max_mcast_grp",
      "max_mcast_qp_attach",
      "max_total_mcast_qp_attach",
      "max_ah",
      "max_srq",
      "max_srq_wr",
      "max_srq_sge",
      "max_pkeys",
      "phys_port_cnt",
      "device_cap_flags_ex",
      "odp_general",
      "odp_rc",
      "odp_uc",
      "odp_ud",
      "timestamp_mask",
      "core_clock_khz",
    ],
  },
  query_port: {
    args: ["device", "port"],
    answer: [
      "state",
      "max_mtu",
      "active_mtu",
      "gid_tbl_len",
      "port_cap_flags",
      "max_msg_sz",
      "pkey_tbl_len",
      "lid",
      "active_width",
      "active_speed",
      "phys_state",
      "link_layer",
    ],
  },
  query_gid: {
    args: ["device", "port", "index"],
    answer: ["gid_high", "gid_low", "type", "ndev_ifindex"],
  },
  query_pkey: { args: ["device", "port", "index"], answer: ["pkey"] },
  query_rt_values: { args: ["device"], answer: ["raw_clock"] },

  alloc_pd: { args: ["device"], answer: ["handle"] },
  dealloc_pd: { args: ["pd"] },
  /** Another handle of a domain or of its region, for what another open device makes of them. */
  import_pd: { args: ["device", "pd"], answer: ["handle"] },
  unimport_pd: { args: ["pd"] },
  reg_mr: { args: ["pd", "addr", "length", "iova", "access"], answer: ["handle", "lkey", "rkey"] },
  rereg_mr: { args: ["mr", "flags", "pd", "addr", "length", "access"] },
  dereg_mr: { args: ["mr"] },
  import_mr: { args: ["pd", "mr"], answer: ["handle", "length", "lkey", "rkey"] },
  unimport_mr: { args: ["mr"] },
  alloc_null_mr: { args: ["pd"], answer: ["handle", "lkey"] },
  advise_mr: { args: ["pd", "advice", "flags"], rows: SGE },
  alloc_mw: { args: ["pd", "type"], answer: ["handle", "rkey"] },
  bind_mw: {
    args: ["qp", "mw", "wr_id", "send_flags", "mr", "addr", "length", "access"],
    answer: ["rkey"],
  },
  dealloc_mw: { args: ["mw"] },

  create_comp_channel: { args: ["device"], answer: ["handle"] },
  destroy_comp_channel: { args: ["channel"] },
  /** `wait` 0: EAGAIN where there is none. */
  get_cq_event: { args: ["channel", "wait"], answer: ["cq"] },
  ack_cq_events: { args: ["cq", "count"] },
  /** `bit`: of the queue in replies. */
  create_cq: {
    args: ["device", "cqe", "channel", "vector", "wc_flags", "flags"],
    answer: ["handle", "cqe", "bit"],
  },
  resize_cq: { args: ["cq", "cqe"], answer: ["cqe"] },
  req_notify_cq: { args: ["cq", "solicited_only"] },
  poll_cq: { args: ["cq", "most"], answerRows: WC },
  destroy_cq: { args: ["cq"] },

  create_qp: {
    args: ["pd", "send_cq", "recv_cq", "srq", "qp_type", "sq_sig_all", ...QP_CAP_WORDS],
    answer: ["handle", "qp_num", ...QP_CAP_WORDS],
  },
  modify_qp: { args: ["qp", "attr_mask", ...QP_ATTR], answer: [...QP_CAP_WORDS] },
  query_qp: { args: ["qp"], answer: [...QP_ATTR] },
  destroy_qp: { args: ["qp"] },
  /** `bad`: the number of the refused request, those before it are posted. */
  post_send: { args: ["qp"], rows: SEND, answer: ["bad"] },
  post_recv: { args: ["qp"], rows: RECV, answer: ["bad"] },
  create_srq: {
    args: ["pd", "max_wr", "max_sge"],
    answer: ["handle", "srqn", "max_wr", "max_sge"],
  },
  modify_srq: { args: ["srq", "attr_mask", "max_wr", "srq_limit"] },
  query_srq: { args: ["srq"], answer: ["max_wr", "max_sge", "srq_limit"] },
  destroy_srq: { args: ["srq"] },
  post_srq_recv: { args: ["srq"], rows: RECV, answer: ["bad"] },
  create_ah: { args: ["pd", ...AH], answer: ["handle"] },
  destroy_ah: { args: ["ah"] },
  attach_mcast: { args: ["qp", "gid_high", "gid_low"] },
  detach_mcast: { args: ["qp", "gid_high", "gid_low"] },
  /** `object`: the handle of the queue that the event is about, 0 for the port's and the card's. */
  get_async_event: { args: ["device", "wait"], answer: ["event", "type", "object"] },
  ack_async_event: { args: ["device", "event"] },

  // Persistent memory (`scm_requests.ts`). Offsets are SCM's, in bytes; a file's name follows as bytes.
  scm_open: { args: [], answer: ["offset", "length"] },
  /** The answer is the bytes. */
  scm_load: { args: ["offset", "length"] },
  /** From now on the card's writes there go to the process, at `addr`. */
  scm_map: { args: ["offset", "length", "addr"] },
  scm_unmap: { args: ["addr"] },
  /** Spans that the program has stored: words of offset and length, and then the bytes of all. */
  scm_store: { args: ["spans"] },
  /** Non-temporal stores of the bytes that follow. */
  scm_stream: { args: ["offset"] },
  scm_flush: { args: ["offset", "length", "drain"] },
  scm_drain: { args: [] },

  // Sockets of TCP between native programs (`sockets.ts`). Handles are the host's.
  /** One that a program asks for before it listens there: bind(2) has given it. */
  socket_port: { args: [], answer: ["port"] },
  socket_listen: { args: ["port", "backlog"], answer: ["handle", "port"] },
  socket_accept: { args: ["listener", "wait"], answer: ["handle", "address", "port"] },
  /** `wait` 0: the answer may be a socket that is still connecting. `local_port` 0: any. */
  socket_connect: {
    args: ["address", "port", "local_port", "wait"],
    answer: ["handle", "port", "connected"],
  },
  /** Bytes follow. A part of them may be sent, also with `wait`: an error follows at the next call. */
  socket_send: { args: ["socket", "wait"], answer: ["sent"] },
  /** The answer is bytes: none at the end of the stream. `peek` keeps them. */
  socket_receive: { args: ["socket", "most", "wait", "peek"] },
  socket_shutdown: { args: ["socket", "how"] },
  /** Of a stream or a listener. */
  socket_close: { args: ["socket"] },
  /** `error`: SO_ERROR as an errno, which `take` clears. */
  socket_status: { args: ["socket", "take"], answer: ["error", "connected", "unread", "unsent"] },
  /** An IPv4 address by a host's name (bytes). */
  resolve: { args: [], answer: ["address"] },
  /**
   * Waits for the first of several things that could be read or written, or for `timeoutPs` (NEVER:
   * for ever; 0: not at all). `kind`: see `POLLED`; `events` and `ready` are poll(2)'s bits.
   */
  poll: { args: ["timeoutPs"], rows: ["kind", "handle", "events"], answerRows: ["ready"] },

  // The device /dev/infiniband/rdma_cm: commands of rdma_user_cm.h (`cm_requests.ts`). `channel` is a
  // descriptor of it, `id` a number of the process, `uid` the library's word for it. `family` is
  // AF_INET or AF_INET6, in which an id shows its IPv4 addresses.
  cm_create_channel: { args: [], answer: ["handle"] },
  cm_destroy_channel: { args: ["channel"] },
  cm_create_id: { args: ["channel", "uid", "ps", "qp_type"], answer: ["id"] },
  cm_destroy_id: { args: ["id"], answer: ["events_reported"] },
  cm_bind_ip: { args: ["id", "family", "address", "port"] },
  /** `bound`: the source address is given. */
  cm_resolve_ip: {
    args: [
      "id",
      "family",
      "bound",
      "src_address",
      "src_port",
      "dst_address",
      "dst_port",
      "timeout_ms",
    ],
  },
  cm_resolve_route: { args: ["id", "timeout_ms"] },
  /** `node_guid` 0: the id has no device yet. Rate and packet life time are an SA's codes. */
  cm_query_route: {
    args: ["id"],
    answer: [
      "node_guid",
      "device",
      "port_num",
      "num_paths",
      "family",
      "src_address",
      "src_port",
      "dst_address",
      "dst_port",
      "mtu",
      "traffic_class",
      "hop_limit",
      "packet_life_time",
    ],
  },
  cm_listen: { args: ["id", "backlog"] },
  cm_connect: { args: ["id", ...CONN] },
  /** `valid` 0: of the active end, which has brought its queue pair up. */
  cm_accept: { args: ["id", "uid", "valid", ...CONN] },
  /** Bytes: private data. */
  cm_reject: { args: ["id", "reason"] },
  cm_disconnect: { args: ["id"] },
  cm_init_qp_attr: { args: ["id", "qp_state"], answer: ["attr_mask", ...QP_ATTR] },
  /**
   * `wait` 0: EAGAIN where there is none. `uid`, of a request the listening id's; `datagram`: what
   * follows it, and `qp_num`, are an rdma_ud_param, else CONN. Bytes: private data.
   */
  cm_get_event: {
    args: ["channel", "wait"],
    answer: ["uid", "id", "event", "status", "datagram", "qkey", ...CONN, ...AH],
  },
  cm_set_option: { args: ["id", "level", "optname", "value"] },
  cm_notify: { args: ["id", "event"] },
  cm_join_mcast: { args: ["id", "uid", "address"], answer: ["id"] },
  cm_leave_mcast: { args: ["id"], answer: ["events_reported"] },
  /** To this channel. */
  cm_migrate_id: { args: ["channel", "id"], answer: ["events_reported"] },
} as const satisfies Readonly<Record<string, RequestRow>>;

export type RequestName = keyof typeof REQUESTS;

/** What `poll` waits for. */
export const POLLED = { socket: 0, listener: 1, channel: 2, async: 3, cm: 4, futex: 5 } as const;

/** Of `futex_wait`: what all descriptors that processes of a program share are, with key 0. */
export const OBJECTS = { descriptors: 1 } as const;

/** Names in their order: a request's number is its place. */
export const REQUEST_NAMES = Object.keys(REQUESTS) as readonly RequestName[];
