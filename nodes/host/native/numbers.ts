/** The numbers of C's enumerations, by the names that this project has for them (rdma-core's verbs.h, v44). */
import type { CqeOpcode } from "../../../fabric/wire/host_bus/cqe.ts";
import type {
  QpAttributes,
  QpState,
  QpType,
  RnicEvent,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { QpCaps } from "../verbs/objects.ts";
import type { RdmaCmEventType } from "../cm/cm_state.ts";
import type { PortSpace } from "../cm/ip_header.ts";
import { WQE_OPCODES, type WqeOpcode } from "../../../fabric/wire/host_bus/wqe_opcode.ts";

/** Linux errno of x86-64. */
export const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  EBADF: 9,
  ECHILD: 10,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EFAULT: 14,
  EBUSY: 16,
  ENODEV: 19,
  EINVAL: 22,
  EPIPE: 32,
  ENOSYS: 38,
  EPROTONOSUPPORT: 93,
  EOPNOTSUPP: 95,
  EADDRINUSE: 98,
  EADDRNOTAVAIL: 99,
  ENETUNREACH: 101,
  ECONNABORTED: 103,
  ECONNRESET: 104,
  ENOBUFS: 105,
  EISCONN: 106,
  ENOTCONN: 107,
  ETIMEDOUT: 110,
  ECONNREFUSED: 111,
  EHOSTUNREACH: 113,
  EINPROGRESS: 115,
  ECANCELED: 125,
} as const;
export type ErrnoName = keyof typeof ERRNO;

export const QP_TYPES = { rc: 2, uc: 3, ud: 4 } as const satisfies Record<QpType, number>;
export const QP_STATES = {
  reset: 0,
  init: 1,
  rtr: 2,
  rts: 3,
  sqd: 4,
  sqe: 5,
  err: 6,
} as const satisfies Record<
  QpState,
  number
>;
/** ibv_mtu, by payload bytes. */
export const MTU_CODES = { 256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5 } as const;

/**
 * The numbers of an ibv_qp_attr, in the order of their words in requests: the bit of each in ibv_qp_attr_mask, and
 * what it is called here. `field`: the C structure's name where the word has another one.
 */
export const QP_FIELDS = {
  qp_state: { name: "state", bit: 1 << 0 },
  cur_qp_state: { name: "curState", bit: 1 << 1 },
  path_mtu: { name: "pathMtu", bit: 1 << 8 },
  qkey: { name: "qKey", bit: 1 << 6 },
  rq_psn: { name: "rqPsn", bit: 1 << 12 },
  sq_psn: { name: "sqPsn", bit: 1 << 16 },
  dest_qp_num: { name: "destQpn", bit: 1 << 20 },
  qp_access_flags: { name: "accessFlags", bit: 1 << 3 },
  pkey_index: { name: "pkeyIndex", bit: 1 << 4 },
  en_sqd_async_notify: { name: "enSqdAsyncNotify", bit: 1 << 2 },
  max_rd_atomic: { name: "maxRdAtomic", bit: 1 << 13 },
  max_dest_rd_atomic: { name: "maxDestRdAtomic", bit: 1 << 17 },
  min_rnr_timer: { name: "minRnrTimer", bit: 1 << 15 },
  attr_port_num: { name: "port", bit: 1 << 5, field: "port_num" },
  timeout: { name: "timeout", bit: 1 << 9 },
  retry_cnt: { name: "retryCnt", bit: 1 << 10 },
  rnr_retry: { name: "rnrRetry", bit: 1 << 11 },
} as const satisfies Record<string, QpField>;

export interface QpField {
  /** The card has one P_Key and one port: neither is an attribute of the host's. */
  readonly name: keyof QpAttributes | "pkeyIndex" | "port";
  readonly bit: number;
  readonly field?: string;
}
export type QpWord = keyof typeof QP_FIELDS;
export type QpFieldName = typeof QP_FIELDS[QpWord]["name"];
export const QP_WORDS = Object.keys(QP_FIELDS) as readonly QpWord[];

/** ibv_qp_cap: its words, and what they are called here. */
export const QP_CAPS = {
  max_send_wr: "maxSendWr",
  max_recv_wr: "maxRecvWr",
  max_send_sge: "maxSendSge",
  max_recv_sge: "maxRecvSge",
  max_inline_data: "maxInlineData",
} as const satisfies Record<string, keyof QpCaps>;
export type QpCapWord = keyof typeof QP_CAPS;
export type QpCapName = typeof QP_CAPS[QpCapWord];
export const QP_CAP_WORDS = Object.keys(QP_CAPS) as readonly QpCapWord[];

/** ibv_qp_attr_mask. */
export const ATTR = {
  ...Object.fromEntries(QP_WORDS.map((word) => [QP_FIELDS[word].name, QP_FIELDS[word].bit])),
  av: 1 << 7,
  cap: 1 << 19,
} as Readonly<Record<QpFieldName | "av" | "cap", number>>;
/** rdma_cm_event_type. */
export const CM_EVENTS = {
  ADDR_RESOLVED: 0,
  ADDR_ERROR: 1,
  ROUTE_RESOLVED: 2,
  ROUTE_ERROR: 3,
  CONNECT_REQUEST: 4,
  CONNECT_RESPONSE: 5,
  CONNECT_ERROR: 6,
  UNREACHABLE: 7,
  REJECTED: 8,
  ESTABLISHED: 9,
  DISCONNECTED: 10,
  DEVICE_REMOVAL: 11,
  MULTICAST_JOIN: 12,
  TIMEWAIT_EXIT: 15,
} as const satisfies Record<RdmaCmEventType, number>;
/** rdma_ucm_port_space, of those that this rack has. */
export const PORT_SPACES = { tcp: 0x0106, udp: 0x0111 } as const satisfies Record<
  PortSpace,
  number
>;

/** ibv_srq_attr_mask, ibv_rereg_mr_flags. */
export const SRQ_ATTR = { maxWr: 1, limit: 2 } as const;
export const REREG = { translation: 1, pd: 2, access: 4 } as const;
/** IBV_ACCESS_OPTIONAL_RANGE: flags that a device ignores where it does not have them. */
export const OPTIONAL_ACCESS = 0x3ff0_0000;

/** ibv_wr_opcode, and the ibv_wc_opcode of its completion. */
const WR: Readonly<Record<string, readonly [wr: number, wc: number]>> = {
  IBV_WR_RDMA_WRITE: [0, 1],
  IBV_WR_RDMA_WRITE_WITH_IMM: [1, 1],
  IBV_WR_SEND: [2, 0],
  IBV_WR_SEND_WITH_IMM: [3, 0],
  IBV_WR_RDMA_READ: [4, 2],
  IBV_WR_ATOMIC_CMP_AND_SWP: [5, 3],
  IBV_WR_ATOMIC_FETCH_AND_ADD: [6, 4],
  IBV_WR_LOCAL_INV: [7, 6],
  IBV_WR_BIND_MW: [8, 5],
  IBV_WR_SEND_WITH_INV: [9, 0],
  IBV_WR_FLUSH: [14, 8],
  IBV_WR_ATOMIC_WRITE: [15, 9],
};

const NAMED = (Object.keys(WQE_OPCODES) as WqeOpcode[]).flatMap((name) => {
  const { there } = WQE_OPCODES[name];
  const numbers = there === undefined ? undefined : WR[there];
  return numbers === undefined ? [] : [{ name, wr: numbers[0], wc: numbers[1] }];
});

/** A posted opcode by its number; undefined where the card has none. */
export const POSTED: ReadonlyMap<number, WqeOpcode> = new Map(
  NAMED.map(({ name, wr }) => [wr, name]),
);

const RECEIVED: Partial<Record<CqeOpcode, number>> = {
  "recv": 128,
  "recv-immediate": 128,
  "recv-invalidate": 128,
  "recv-persistence": 128,
  "recv-write-immediate": 129,
};

/** ibv_wc_opcode of a completion. */
export const COMPLETED: Readonly<Record<string, number>> = {
  ...RECEIVED,
  ...Object.fromEntries(NAMED.map(({ name, wc }) => [name, wc])),
};

/** ibv_event_type; events without one are the kernel's. */
export const EVENT_TYPES: Partial<Record<RnicEvent["type"], number>> = {
  CQ_ERR: 0,
  QP_FATAL: 1,
  QP_REQ_ERR: 2,
  QP_ACCESS_ERR: 3,
  COMM_EST: 4,
  SQ_DRAINED: 5,
  DEVICE_FATAL: 8,
  PORT_ACTIVE: 9,
  PORT_ERR: 10,
  SRQ_ERR: 14,
  SRQ_LIMIT_REACHED: 15,
  QP_LAST_WQE_REACHED: 16,
};

/** The key of a table by its number; undefined where there is none. */
export function nameOf<Name extends string>(
  table: Readonly<Record<Name, number>>,
  number: number,
): Name | undefined {
  return (Object.keys(table) as Name[]).find((name) => table[name] === number);
}
