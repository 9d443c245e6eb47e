/**
 * The control path between a host's driver and its RNIC's firmware. All addresses are host
 * physical; `va` is the address that the peer uses on the wire.
 *
 * `rnic_command_shape.ts` checks another process's messages by a table of checks, from which the
 * types are derived.
 */
import { HINT_ENCODINGS } from "../roce/hint_eth.ts";
import {
  below,
  type Check,
  type Checked,
  conforms,
  count,
  flag,
  isCount,
  isCounters,
  isPlainBytes,
  isPlainObject,
  listOf,
  matchesRow,
  oneOf,
  type Rows,
  shaped,
  text,
  u24,
  u32,
  u8,
  type ValueOf,
} from "./rnic_command_shape.ts";

/** Libibverbs' numbers and vendor-specific ones. */
export const ACCESS = {
  localWrite: 1,
  remoteWrite: 2,
  remoteRead: 4,
  remoteAtomic: 8,
  mwBind: 16,
  /** For a window: its addresses begin at 0. */
  zeroBased: 32,
  /** Pages are not pinned: the card asks for each when it needs it (ibv_reg_mr). */
  onDemand: 64,
  flushGlobal: 256,
  flushPersistent: 512,
  /** §3.7: refused, see {@link refuseAccess}. */
  relaxedOrdering: 1 << 20,
  /** V-06: a queue pair's peer may send verified writes. A region grants them like any WRITE. */
  remoteWriteVerify: 1 << 29,
  /** P-22: plain WRITEs into this region are made persistent. Above libibverbs' optional bits. */
  remoteWritePersistence: 1 << 30,
} as const;

let known = 0;
for (const bit of Object.values(ACCESS)) known |= bit;

/**
 * Undefined where the flags are valid. Relaxed ordering is refused because the emulator never
 * reorders: a run would seem to prove that a program tolerates reordering.
 */
export function refuseAccess(access: number): string | undefined {
  if (!u32(access)) return `Access flags are a number of 32 bits: found ${access}`;
  const unknown = (access & ~known) >>> 0;
  if (unknown !== 0) {
    const found = `0x${access.toString(16)}, of which 0x${unknown.toString(16)} is no access flag`;
    return `Access flags are ${found}: expected IBV_ACCESS_…, combined by |`;
  }
  return (access & ACCESS.relaxedOrdering) === 0
    ? undefined
    : "IBV_ACCESS_RELAXED_ORDERING is not honoured: expected access flags without it";
}

export const QP_WEIGHT_MAX = 255;
const qpWeight: Check<number> = (value): value is number =>
  isCount(value) && value >= 1 && value <= QP_WEIGHT_MAX;

/**
 * H-08: a `carrier` carries the hints of all queue pairs between this card and its peer (figure 8);
 * a `group`, a UD queue pair, those for all peers (figure 9), by its multicast group.
 */
export type HintPart = "on" | "off" | "carrier" | "group";
const hintPart = oneOf<HintPart>("on", "off", "carrier", "group");

// Types that programs see are written out: editors and the API reference show these names.

/** ibv_qp_state without IBV_QPS_. */
export type QpState = "reset" | "init" | "rtr" | "rts" | "sqd" | "sqe" | "err";
const qpState = oneOf<QpState>("reset", "init", "rtr", "rts", "sqd", "sqe", "err");
/** ibv_qp_type without IBV_QPT_. */
export type QpType = "rc" | "uc" | "ud";
const qpType = oneOf<QpType>("rc", "uc", "ud");

/** Queue information in host memory: three access classes, K queues each. */
const spaces = shaped({ queues: count, space1: count, space2: count, space3: count });
export type QueueSpaces = Checked<typeof spaces>;

/** The data flow of a DMA write on this host's CPU, and how to flush it (P-02). */
const persistence = shaped({
  /** 1: posted writes go to the iMC. 2: they stay in the LLC. */
  flow: oneOf(1, 2),
  /**
   * `read`: an LSB read behind the write, in flow 1 (P-24), and in flow 2 if the LLC is in the
   * persistence domain. `cpu`: the host's CPU, notified by a RECV (P-26). `none`: all buffers are
   * in the domain.
   */
  flush: oneOf("read", "cpu", "none"),
  /** The architecture evaluates the NS bit (`ddio+ns`). */
  noSnoop: flag,
});
export type PersistencePlan = Checked<typeof persistence>;

/** `units` of 64 B (SQ, CQ) or 16·sge B (RQ), a power of two. */
const ring = shaped({ address: count, units: count });
export type RingPlace = Checked<typeof ring>;

/**
 * ibv_qp_attr; the given fields are the attribute mask. ibv_modify_qp(3) lists those that a
 * transition needs; pkey_index and port_num do not exist here, as there is one of each.
 */
export interface QpAttributes {
  /** qp_state: the state to go to. */
  readonly state?: QpState;
  /** cur_qp_state: the state that the caller expects; in another state the change is refused. */
  readonly curState?: QpState;
  /** At SQD: raise SQ_DRAINED when all started requests have completed. */
  readonly enSqdAsyncNotify?: boolean;
  /** qp_access_flags: what the peer may do, IBV_ACCESS_… by `|`. */
  readonly accessFlags?: number;
  /** Payload bytes of a packet. */
  readonly pathMtu?: 256 | 512 | 1024 | 2048 | 4096;
  /** Address vector: the peer's IPv4 address (the GID is its IPv4-mapped form). */
  readonly destAddress?: number;
  /** Address vector: DSCP in the upper six bits; the RNIC sets the ECN bits. 0 by default. */
  readonly trafficClass?: number;
  /** Address vector: time to live of the packets. 64 by default. */
  readonly hopLimit?: number;
  /**
   * Address vector: 20 bits that determine the UDP source port; 0, the default: derived from the
   * two QPNs.
   */
  readonly flowLabel?: number;
  /** mlx5dv_modify_qp_udp_sport: UDP source port instead of the computed one; 0, the default: none. */
  readonly udpSourcePort?: number;
  /** dest_qp_num. */
  readonly destQpn?: number;
  /** The first PSN that is received, 24 bits. */
  readonly rqPsn?: number;
  /** The first PSN that is sent, 24 bits. */
  readonly sqPsn?: number;
  /** READs and atomics of the peer that are answered at a time. */
  readonly maxDestRdAtomic?: number;
  /** READs and atomics that are outstanding at a time. */
  readonly maxRdAtomic?: number;
  /** Code of the time that an RNR NAK asks the peer to wait: 0 to 31. */
  readonly minRnrTimer?: number;
  /** The ACK time-out is 4.096 µs · 2^timeout; 0: none. */
  readonly timeout?: number;
  /** Repetitions without an answer, 0 to 7. */
  readonly retryCnt?: number;
  /** Repetitions after an RNR NAK, 0 to 6; 7: unlimited. */
  readonly rnrRetry?: number;
  /** UD: the Q_Key that datagrams must have. */
  readonly qKey?: number;
}

const attributes: Check<QpAttributes> = shaped(
  {
    state: { optional: qpState },
    curState: { optional: qpState },
    enSqdAsyncNotify: { optional: flag },
    accessFlags: { optional: u32 },
    pathMtu: { optional: oneOf(256, 512, 1024, 2048, 4096) },
    destAddress: { optional: u32 },
    trafficClass: { optional: u8 },
    hopLimit: { optional: u8 },
    flowLabel: { optional: below(0x10_0000) },
    udpSourcePort: { optional: below(0x1_0000) },
    destQpn: { optional: u24 },
    rqPsn: { optional: u24 },
    sqPsn: { optional: u24 },
    maxDestRdAtomic: { optional: u8 },
    maxRdAtomic: { optional: u8 },
    minRnrTimer: { optional: below(32) },
    timeout: { optional: below(32) },
    retryCnt: { optional: below(8) },
    rnrRetry: { optional: below(8) },
    qKey: { optional: u32 },
  } satisfies Record<keyof QpAttributes, unknown>,
);

const memory = {
  va: count,
  length: count,
  pageBytes: count,
  /** Physical address of each page, from `va`'s on; empty for an on-demand region. */
  pages: listOf(isCount),
  /** All of it is persistent memory (SCM): only the driver knows (P-05). */
  persistent: flag,
} as const;
/** H-01: a data transfer object: the programs' name for it, of 64 bits, and its place. */
const dto = shaped({ nameHigh: u32, nameLow: u32, va: count, length: count });
const region = shaped({ pd: count, access: u32, ...memory, objects: { optional: listOf(dto) } });
export type RegionPlan = Checked<typeof region>;

/** Replaced by a re-registration; the address range only as a whole. */
const change = shaped({
  pd: { optional: count },
  access: { optional: u32 },
  place: { optional: shaped(memory) },
});
export type RegionChange = Checked<typeof change>;

const windowType = oneOf<1 | 2>(1, 2);
/** ibv_mw_type. */
export type WindowType = 1 | 2;

const COMMANDS = {
  "init": { spaces, persistence },
  /** mlx5: QUERY_HCA_CAP. */
  "query-device": {},
  "query-port": {},
  "query-clock": {},
  "create-cq": {
    ring,
    timestamps: { optional: flag },
    vector: (value): value is number | null => value === null || isCount(value),
  },
  /**
   * ibv_resize_cq. `taken`: entries that the host has read since the queue was created; pointers
   * stored before `stamp` refer to the old ring.
   */
  "resize-cq": { cqn: count, ring, taken: count, stamp: count },
  "destroy-cq": { cqn: count },
  /** Events become entries of this completion queue instead of messages. */
  "set-event-queue": { cqn: count },
  "create-srq": { ring, stride: count, pd: count },
  /** Arms SRQ_LIMIT_REACHED for fewer than `limit` WQEs; 0 disarms it. */
  "modify-srq": { srqn: count, limit: count },
  "query-srq": { srqn: count },
  "destroy-srq": { srqn: count },
  "create-qp": {
    type: qpType,
    sq: ring,
    /** The receive queue and the bytes of its WQEs; both absent with a shared receive queue. */
    rq: { optional: ring },
    rqStride: { optional: count },
    srq: { optional: count },
    sendCq: count,
    recvCq: count,
    pd: count,
    /** QP 1 (GSI) is requested by number; others are assigned one. */
    qpn: { optional: u24 },
    /**
     * P-29: `persistence` completes once; `reception` completes at reception, and again on a RECV.
     */
    persistCompletion: oneOf("persistence", "reception"),
    /** Share of the line beside other queue pairs; 1 by default. */
    weight: { optional: qpWeight },
    /** H-09: the firmware's policy by default. */
    hints: { optional: hintPart },
    hintEncoding: { optional: oneOf(...HINT_ENCODINGS) },
    /**
     * The driver asserts that the program is privileged: only such a one makes a trusted group
     * (H-08).
     */
    privileged: { optional: flag },
  },
  "modify-qp": { qpn: u24, attributes },
  "destroy-qp": { qpn: u24 },
  /** `group` is an IPv4 address in 224/4. */
  "attach-mcast": { qpn: u24, group: u32 },
  "detach-mcast": { qpn: u24, group: u32 },
  "register-mr": { region },
  "allocate-null-mr": { pd: count },
  /** ibv_rereg_mr: the key does not change. */
  "reregister-mr": { key: u32, change },
  "deregister-mr": { key: u32 },
  "allocate-mw": { type: windowType, pd: count },
  "deallocate-mw": { rkey: u32 },
  /**
   * Pages of an on-demand region are there, from page number `first` on (mlx5: an UMR that writes
   * MTT entries, and PAGE_FAULT_RESUME).
   */
  "map-pages": { key: u32, first: count, pages: listOf(isCount), writable: flag },
  /**
   * The reply comes when no access to the pages is under way: reads have completed, writes are
   * ahead of it on the bus.
   */
  "invalidate-pages": { key: u32, first: count, count },
  /** Contiguous host memory for tables that the chip has no room for (mlx5: MANAGE_PAGES). */
  "give-memory": { address: count, length: count },
  /** the RNIC writes into space 2 by value, at `offset` within the queue's entry. */
  "write-space2": { queue: count, offset: count, data: isPlainBytes },
  /**
   * for a time the host itself writes space 2 of one queue. With `answerAt` the reply only
   * accepts the request, and the answer is written there (`lock_answer.ts`). `by`: the asking
   * process, where the card holds the rules (`store: device`).
   */
  "lock-space2": { queue: count, answerAt: { optional: count }, by: { optional: count } },
  /** Takes over the host's writes and releases the lock. */
  "unlock-space2": { queue: count },
  /**
   * the queue continues in another ring, or in the same memory with another depth: the RNIC
   * pauses it, moves the unread WQEs, resumes.
   */
  "expand-queue": { queue: count, ring },
  /**
   * H-09: a hint that the program made itself (`encodeHint`), sent unchecked to the queue pair's
   * peer: the receiver may not rely on it (H-24).
   */
  "send-hint": { qpn: u24, message: isPlainBytes },
  /** 001_ [0114]: a core has done the work that HINT_WORK announced. */
  "hint-work": { id: count },
  /**
   * C-03: number in the scenario's list. Home's card exposes the region to its far cards; a far
   * card registers it at home's and replies after that card's answer (decision 21).
   */
  "register-region": { region: count },
  /** Decision 21: the reply comes when all copies are back in home's memory. */
  "deregister-region": { region: count },
  /** C-04: home's card moves the region's copies to this place. */
  "move-region": { region: count, place: oneOf("local", "remote") },
  "query-statistics": {},
} as const satisfies Rows;

type CommandOp = keyof typeof COMMANDS;
export type RnicCommand = {
  [Op in CommandOp]: { readonly op: Op } & ValueOf<typeof COMMANDS[Op]>;
}[CommandOp];
export type CommandOf<Op extends CommandOp> = Extract<RnicCommand, { op: Op }>;

/**
 * Since a queue pair's two completion queues were created, up to the last CQE that may belong to
 * the ended life: that one may be written after the reply.
 */
const written = shaped({ send: count, recv: count });
export type CqesWritten = Checked<typeof written>;

const OK_REPLIES = {
  /**
   * `kept`: queues of an earlier life of the host whose information the card's memory still has
   * (Q-04).
   */
  "init": {
    address: u32,
    mac: below(0x1_0000_0000_0000),
    mtu: count,
    kept: { optional: count },
  },
  "query-device": {
    /** A queue pair takes two, with a shared receive queue one; other queues one. */
    queues: count,
    keys: count,
    freeQueues: count,
    freeKeys: count,
    /** Of one region (H-01). */
    regionObjects: count,
    multicastGroups: count,
    multicastMembers: count,
    /** In kHz. */
    clockKhz: count,
  },
  /** `up`: the cable's other end has power, as far as the card knows. */
  "query-port": { up: flag, bitsPerSecond: count, roce: oneOf("v1", "v2") },
  "query-clock": { clock: count },
  /** Also its queue number, which is its entry of the queue information. */
  "create-cq": { cqn: count },
  "create-qp": {
    qpn: u24,
    sqQueue: count,
    /** With a shared receive queue: its number. */
    rqQueue: count,
  },
  "register-mr": { lkey: u32, rkey: u32 },
  "memory-needed": { bytes: count },
  "query-statistics": { counters: isCounters },
  /** Also its queue number. */
  "create-srq": { srqn: count },
  "query-srq": { limit: count },
  "allocate-mw": { rkey: u32 },
  /**
   * A queue pair was reset or destroyed: its CQEs up to these positions belong to an earlier life.
   */
  "qp-emptied": { written },
  "lock-space2": { until: count },
  /**
   * `read`: the RNIC's read pointer in the old ring. CQEs up to `written` name units of the
   * old ring, and pointers stored up to `stamp` are about it.
   */
  "queue-resumed": { read: count, written: count, stamp: count },
  "done": {},
} as const satisfies Rows;
/** `reason` has what was found and what was expected. */
const ERROR_REPLY = {
  errno: oneOf("EINVAL", "ENOMEM", "EBUSY", "EPERM", "ENOENT"),
  reason: text,
} as const;

type OkOp = keyof typeof OK_REPLIES;
export type RnicReply =
  | {
    [Op in OkOp]: { readonly status: "ok"; readonly op: Op } & ValueOf<typeof OK_REPLIES[Op]>;
  }[OkOp]
  | { readonly status: "error" } & ValueOf<typeof ERROR_REPLY>;

/** 001_ [0114]: a core's work for hints. */
export const HINT_JOBS = ["prepare", "answer", "announce"] as const;

const QP_EVENT = { qpn: u24 } as const;
const PORT_EVENT = { portNum: count } as const;
/** A peer's; 0 stands for none in an entry of the event queue. */
const address = (value: unknown): value is number => u32(value) && value > 0;
const EVENTS = {
  QP_FATAL: QP_EVENT,
  QP_REQ_ERR: QP_EVENT,
  QP_ACCESS_ERR: QP_EVENT,
  COMM_EST: QP_EVENT,
  SQ_DRAINED: QP_EVENT,
  QP_LAST_WQE_REACHED: QP_EVENT,
  SRQ_ERR: { srqn: count },
  SRQ_LIMIT_REACHED: { srqn: count },
  CQ_ERR: { cqn: count },
  /** The port's cable, or the device at its other end, is gone (ERR) or there again. */
  PORT_ERR: PORT_EVENT,
  PORT_ACTIVE: PORT_EVENT,
  /** The card has failed: the driver itself raises it. */
  DEVICE_FATAL: {},
  /**
   * `ahead` more pages of the same message are optional. `write`: for a write. `hintsOf`: hints of
   * the requester with this address named them, no request yet (H-24).
   */
  PAGE_FAULT: {
    key: u32,
    first: count,
    count,
    ahead: count,
    write: flag,
    hintsOf: { optional: address },
  },
  /** 001_ [0114]: a core's part, which answers by `hint-work`. */
  HINT_WORK: { id: count, job: oneOf(...HINT_JOBS), elements: count },
  /** C-10: `count` lines of a region, from index `first` on, whose last value is lost. */
  REGION_LOST: { region: count, first: count, count },
  /**
   * Decision 13: a far card's lease is over; its copies are dropped. `agent`: home's number for it.
   */
  REGION_FENCED: { region: count, agent: count },
  /** Decision 17: a far card's accesses of the region since its last report, to home's host. */
  REGION_COUNTS: { region: count, agent: count, loads: count, stores: count },
} as const satisfies Rows;

type EventType = keyof typeof EVENTS;
/** ibv_async_event: its type, and the number of the queue pair, queue or port that it is about. */
export type RnicEvent = {
  [Type in EventType]: { readonly type: Type } & ValueOf<typeof EVENTS[Type]>;
}[EventType];

export function isOfQueue(event: RnicEvent): boolean {
  return "qpn" in event || "cqn" in event || "srqn" in event;
}

export function isRnicCommand(value: unknown): value is RnicCommand {
  return matchesRow(value, { rows: COMMANDS, names: ["op"] });
}

export function isRnicReply(value: unknown): value is RnicReply {
  if (!isPlainObject(value)) return false;
  if (value.status === "error") return conforms(value, ERROR_REPLY, ["status"]);
  return value.status === "ok" && matchesRow(value, { rows: OK_REPLIES, names: ["op", "status"] });
}

export function isRnicEvent(value: unknown): value is RnicEvent {
  return matchesRow(value, { rows: EVENTS, names: ["type"] });
}
