/**
 * A program's objects of the RNIC. Types only, so that no verb's file imports another verb's for
 * them; the file that creates an object documents its behaviour.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { QueuePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import type { BlueFlame, HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { CqeOpcode, WcStatus } from "../../../fabric/wire/host_bus/cqe.ts";
import type {
  PersistencePlan,
  QpAttributes,
  QpState,
  QpType,
  RnicEvent,
  WindowType,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { StoreLayout } from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { ObjectPart, SendWqe, Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import type { WqeOpcode } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { VerifyLevel, VerifyVerdict } from "../../../fabric/wire/roce/verify_eth.ts";
import type { Cpu } from "../cpu/program.ts";
import type { AccessFlags, FlushFlags, SendFlags, WcExFlags } from "./flags.ts";

/** errno names as libibverbs returns them, and for ports as librdmacm does. */
export type Errno =
  | "EINVAL"
  | "ENOMEM"
  | "EBUSY"
  | "EPERM"
  | "ENOENT"
  | "ENODEV"
  | "EFAULT"
  | "EOPNOTSUPP"
  | "EADDRINUSE"
  | "EADDRNOTAVAIL";

/** A refused verb has changed nothing. */
export interface VerbError {
  /** The error that libibverbs would return. */
  readonly errno: Errno;
  /** The found and the expected value, in words. */
  readonly reason: string;
}

/**
 * The rule by which data is inlined in the WQE instead of being fetched by DMA, besides
 * requests with IBV_SEND_INLINE. The rules `size` and `type`, by which the driver decides itself,
 * are this card's own and unknown to libibverbs.
 */
export type InlineRule =
  /** Every payload of at most `bytes`. */
  | { readonly by: "size"; readonly bytes: number }
  /** Payloads of these operations, of at most `bytes`. */
  | {
    readonly by: "type";
    readonly opcodes: readonly SendRequest["opcode"][];
    readonly bytes: number;
  }
  /** Only where the work request asks for it. */
  | { readonly by: "program" };

export interface DeviceOptions {
  /** a doorbell contains the queue number only, or the write pointer as well. */
  readonly doorbell?: "number" | "pointer";
  /** the default of queue pairs; `program` by default. */
  readonly inline?: InlineRule;
  /** WQEs that are sent with their doorbell: the default of queue pairs, instead of the host's. */
  readonly blueFlame?: BlueFlame;
}

/** State shared by all programs of one host. */
export interface DeviceState {
  readonly timing: HostTiming;
  readonly completion: "poll" | "interrupt";
  readonly doorbell: "number" | "pointer";
  readonly doorbellForm: "fifo" | "message";
  /** True if the driver repeats doorbells of queues that stand still. */
  readonly isWatched: boolean;
  readonly inline: InlineRule;
  readonly blueFlame: BlueFlame;
  /** Virtual addresses. */
  readonly space1: number;
  readonly space2: number;
  readonly space3: number;
  /** The places of the fields in the spaces. */
  readonly store: StoreLayout;
  /** */
  readonly readPointer: QueuePlan["readPointer"];
  /** How many completions an armed queue waits for. */
  readonly arm: QueuePlan["arm"];
  /**
   * One buffer for each queue takes the answers to requests for locks; undefined: they come by
   * message.
   */
  readonly lockAnswers: Pick<RingMemory, "address" | "physical"> | undefined;
  readonly queues: number;
  /** Queues of this host's earlier lives whose information the card had kept. */
  readonly kept: number;
  /** The opened card: see {@link Cpu.card}. */
  readonly card: number | undefined;
  readonly persistence: PersistencePlan;
  /** IPv4 address, MAC and largest path MTU of the port. */
  readonly address: number;
  readonly mac: number;
  readonly mtu: number;
  readonly queuePairs: Map<number, Qp>;
  readonly completionQueues: Map<number, Cq>;
  readonly sharedReceiveQueues: Map<number, Srq>;
  readonly windows: Map<object, Mw>;
  /** Other contexts find them by handle and by key (ibv_import_pd, ibv_import_mr). */
  readonly pds: Map<number, Pd>;
  readonly regions: Map<number, Mr>;
  /** The names of the programs. Events of the port and of the device go to all contexts. */
  readonly contexts: Map<Context, string>;
  /** The queue of the card's events, unless they come as messages. */
  eventQueue?: Cq;
  /**
   * First addresses of the RNIC's memory, by owner: a queue's ring, a space of queue information.
   * Freed once: when its queue is destroyed, or all when the RNIC is back after a failure.
   */
  readonly held: Map<object, number>;
  /** Openings of the device: objects of earlier ones are gone. */
  epoch: number;
  nextPd: number;
  /** Interrupt vectors are the host's. */
  readonly firstVector: number;
  nextVector: number;
}

/**
 * An ibv_context: the program, with all its threads, that an asynchronous event's object belongs
 * to.
 */
export interface Context {
  /** Oldest first, each with the ring of its object; the port has an object of its own. */
  readonly unread: { readonly event: RnicEvent; readonly ring: object }[];
  /** While an event is read but not acknowledged, its object cannot be destroyed. */
  readonly unacknowledged: Map<RnicEvent, object>;
}

/** The devices of a host, by the numbers of its cards. @ignore */
export interface HostDevices<Opened extends Device = Device> {
  /** The cards' names in the rack: `a-rnic`, `a-rnic2` … */
  readonly names: readonly string[];
  /** @returns undefined for a card without power since the host's boot. */
  at(index: number): Opened | undefined;
}

/** An opened device, bound to one program: `cpu` pays for its use. */
export interface Device {
  readonly cpu: Cpu;
  readonly state: DeviceState;
  readonly context: Context;
  /** The program's weight: the default of its queue pairs; absent: 1. */
  readonly weight?: number;
  /**
   * As CAP_NET_RAW: may assign controlled Q_Keys, those with bit 31 set, and get the hints of the
   * whole card (H-08). The driver is privileged, and programs that the scenario makes so.
   */
  readonly privileged?: true;
  /** All of its host. @ignore */
  readonly devices?: HostDevices;
}

/** ibv_pd: a protection domain. Requests of its queue pairs reach only its regions. */
export interface Pd {
  /** @ignore */
  readonly device: Device;
  /** ibv_pd's handle: `importPd` takes it. */
  readonly handle: number;
  /** @ignore */
  readonly epoch: number;
  /** Its regions and queue pairs. */
  readonly uses: { count: number; alive: boolean };
}

/** ibv_mr: memory that the card may reach. `reregMr` changes its fields, except for the keys. */
export interface Mr {
  /** Its protection domain. */
  pd: Pd;
  /** Address of the first byte, for the program and (as VA) for the peer. */
  address: number;
  /** In bytes. */
  length: number;
  /** The key for elements (`sge`) of requests of the own queue pairs. */
  readonly lkey: number;
  /** The key for the `remote` of peers' requests. */
  readonly rkey: number;
  /** Rights: IBV_ACCESS_… by `|`. */
  access: AccessFlags;
  /** @ignore The program's own address of the first byte: another one where the region has an `iova`. */
  memory: number;
  /** @ignore */
  readonly uses: { alive: boolean };
}

/** ibv_mw: a window, bound to a part of a region. */
export interface Mw {
  /** Its protection domain. */
  readonly pd: Pd;
  /** 1, bound by `bindMw`, or 2, bound by a posted `bind-mw`. */
  readonly type: WindowType;
  /** The key of the newest binding; changed when the bind is posted. */
  rkey: number;
  /** @ignore */
  readonly uses: { alive: boolean };
}

/** ibv_mw_bind_info: a part of a region, and a peer's rights there. */
export interface MwBindInfo {
  /** The region; it has IBV_ACCESS_MW_BIND. */
  readonly mr: Mr;
  /** Offset in the region; 0 by default. */
  readonly offset?: number;
  /** Length in bytes; up to the region's end by default. 0 unbinds a window of type 1. */
  readonly length?: number;
  /** Remote rights; IBV_ACCESS_ZERO_BASED: the window's addresses begin at 0 (type 2). */
  readonly access: AccessFlags;
}

/** Operands of a `bind-mw` request: window, key (its index with another variant), range. */
export interface MwBind extends MwBindInfo {
  /** The window, of type 2 where a program posts it. */
  readonly mw: Mw;
  /** The new key: `incRkey(mw.rkey)`. */
  readonly rkey: number;
}

/** ibv_ah: a destination of datagrams. */
export interface Ah {
  /** Its protection domain. */
  readonly pd: Pd;
  /** IPv4 address of the destination. */
  readonly address: number;
  /** DSCP in the upper six bits. */
  readonly trafficClass: number;
  /** Time to live. */
  readonly hopLimit: number;
  /** 0 where the QPNs determine it. */
  readonly udpSourcePort: number;
  /** @ignore */
  readonly uses: { alive: boolean };
}

/** ibv_comp_channel: events of several completion queues. */
export interface CompChannel {
  /** @ignore */
  readonly device: Device;
  /** MSI-X vector of its queues. */
  readonly vector: number;
  /** The queues whose events it has. */
  readonly cqs: Set<Cq>;
  /** @ignore */
  readonly uses: { alive: boolean };
}

/** ibv_cq: a completion queue. */
export interface Cq {
  /** @ignore */
  readonly device: Device;
  /** Its number on the card. */
  readonly cqn: number;
  /** @ignore */
  readonly epoch: number;
  /** Virtual address of the ring. */
  address: number;
  /** Entries of the ring, a power of two: more than the requested completions. */
  entries: number;
  /** MSI-X vector of its events; null without events. */
  readonly vector: number | null;
  /** The channel that gets its events; undefined: its own. */
  readonly channel: CompChannel | undefined;
  /** The requested fields. */
  readonly wcFlags: WcExFlags;
  /** @ignore */
  readonly place: CqPlace;
}

export interface CqPlace {
  readonly queue: number;
  /** Destruction signals it: programs wake that wait for completions or events. */
  readonly goneSignal: string;
  stamp: Time;
  /** Entries read since the creation, and the last count stored in space 3. */
  taken: number;
  stored: number;
  /** The number of queue pairs that use it. */
  users: number;
  /**
   * The armed notification of `reqNotifyCq`, until its event; `wait`: of `waitCompletion`, which
   * leaves no event for the program.
   */
  armed: "no" | "solicited" | "any" | "wait";
  /** See `QueuePlan.arm`. */
  armedFrom: number;
  armedAt: Time;
  /**
   * Events whose completion has been read, so that no unread entry tells of them, by when the queue
   * was armed: the interrupt comes after that.
   */
  readonly fired: Time[];
  /** The number of events that are read but not acknowledged. */
  unacknowledged: number;
  /** A session of `startPoll` is open, at its `current` completion. */
  polling: boolean;
  current: WorkCompletion | undefined;
  /** Polling returns no completion meanwhile. */
  resizing: boolean;
  /** The card is destroying the queue. */
  leaving: boolean;
  /** Earlier completions name units of the old ring. */
  readonly moved: MovedRing[];
  /** Reset or destroyed queue pairs, whose earlier completions are discarded. */
  readonly ended: Map<number, EndedLife>;
}

/** See `resize_queue.ts`. */
export interface MovedRing {
  readonly qpn: number;
  readonly queue: "send" | "recv";
  /** The first completion that names a unit of the new ring. */
  readonly before: number;
  /** Depths, and positions of the oldest outstanding WQE. */
  readonly from: { readonly depth: number; readonly tail: number };
  readonly to: { readonly depth: number; readonly tail: number };
}

export interface EndedLife {
  /** The first completion of a later life. */
  readonly before: number;
  /** Its receives return their slots to this queue. */
  readonly srq: Srq | undefined;
}

/** The kind of a receive's completion. */
export type ReceiveOpcode = Exclude<
  CqeOpcode,
  "requester" | "requester-error" | "resize" | "event"
>;

/**
 * wr_id, of 64 bits: a safe integer, or a bigint. The completion has it as it was posted; traces
 * and JSON have a bigint as its decimal text.
 */
export type WrId = number | bigint;

/**
 * ibv_wc. After an error only wrId, status, vendorErr, reason, opcode and qpNum are valid; for VERIFY_ERR, after which
 * the queue pair remains operational, `verify` too.
 */
export interface WorkCompletion<Id extends WrId = number> {
  /** The request's wr_id. A program that posts bigints declares it: `pollCq<bigint>(cq, 1)`. */
  readonly wrId: Id;
  /** `SUCCESS`, or the name of the error. */
  readonly status: WcStatus;
  /** vendor_err: a code of `fabric/wire/host_bus/vendor_error.ts`; 0 for a success. */
  readonly vendorErr: number;
  /** The failure and its cause in words, as far as this side knows it; absent for a success. */
  readonly reason?: string;
  /** The requested operation (a send's opcode), or the received one. */
  readonly opcode: WqeOpcode | ReceiveOpcode;
  /** The queue pair that the request was posted to. */
  readonly qpNum: number;
  /** Bytes, for receives, READs and persisted ranges. */
  readonly byteLen: number;
  /** Immediate data; for `recv-invalidate` the key that the peer has invalidated. */
  readonly immData: number;
  /** P-25, P-26: PSN of a persistent write, and of the RECV that it consumed. */
  readonly psn: number;
  /** P-25, P-26: the destination address of such a write. */
  readonly va: number;
  /** Source queue pair, for a UD receive. */
  readonly srcQp: number;
  /** V-01: the result of a verified write; absent for other operations, and without a response. */
  readonly verify?: VerifyVerdict;
  /**
   * The card's clock when it wrote the completion, in its ticks; only for a queue created with
   * timestamps.
   */
  readonly timestamp?: number;
}

/** ibv_srq_init_attr: options of `createSrq`. */
export interface SrqOptions {
  /** Maximum number of outstanding receives. */
  readonly maxWr: number;
  /** Maximum elements of one receive; 1 by default. */
  readonly maxSge?: number;
}

/** ibv_srq: receives that several queue pairs share. */
export interface Srq {
  /** @ignore */
  readonly device: Device;
  /** Protection domain of the receives' memory, independent of the queue pairs' domains. */
  readonly pd: Pd;
  /** Its number on the card. */
  readonly srqn: number;
  /** Replaced at a resize. */
  caps: Required<SrqOptions>;
  /** @ignore */
  readonly ring: SrqRing;
  /** Queue pairs that receive from it. */
  readonly uses: { count: number; alive: boolean };
}

export interface SrqRing extends RingMemory {
  readonly queue: number;
  stamp: Time;
  readonly stride: number;
  write: number;
  readonly free: number[];
  /** By slot; undefined: free. */
  readonly wrIds: (WrId | undefined)[];
}

/** Only `resize_queue.ts` changes it. */
export interface RingMemory {
  address: number;
  /** Units, a power of two; at most depth − 1 are filled. */
  depth: number;
  /** Physical address of the ring. */
  physical: number;
  /** Bytes of the ring, used or not: whole pages. */
  room: number;
  /** The RNIC is moving the ring: posts to the queue, and polls of its completion queue, wait. */
  resizing: boolean;
}

export interface Ring extends RingMemory {
  readonly queue: number;
  stamp: Time;
  /** Maximum number of outstanding work requests. */
  requestsMax: number;
  /** Last unit filled, oldest unit not retired. */
  write: number;
  tail: number;
  /** Filled units, outstanding requests. */
  used: number;
  requests: number;
  /** By position of a WQE's first unit. */
  wrIds: WrId[];
}

/** The driver's record of a send for its completion, by the position of its WQE. */
export interface PostedSend {
  readonly opcode: WqeOpcode;
  readonly remote: SendWqe["remote"] | undefined;
  /** Empty: inline. */
  readonly sges: readonly Sge[];
  /** Bytes of the payload, inline or not. */
  readonly bytes: number;
}

export interface SendRing extends Ring {
  units: Uint8Array;
  posted: PostedSend[];
  /** Sends posted since the last signaled one; they complete with it or with a later one. */
  unsignaled: number;
  /** The last WQE: its segments, and whether its payload is inline. */
  newest: { readonly bytes: Uint8Array; readonly isInline: boolean } | undefined;
  buffer: 0 | 1;
}

export interface RecvRing extends Ring {
  /** Bytes of one receive WQE. */
  readonly stride: number;
}

/** ibv_qp: a queue pair. */
export interface Qp {
  /** @ignore */
  readonly device: Device;
  /** Its protection domain. */
  readonly pd: Pd;
  /** Its number on the card: the `destQpn` of its peer. */
  readonly qpn: number;
  /** Its transport service. */
  readonly type: QpType;
  /** The completion queue of its sends. */
  readonly sendCq: Cq;
  /** The completion queue of its receives. */
  readonly recvCq: Cq;
  /** @ignore */
  readonly sq: SendRing;
  /**
   * Without units where receives come from `srq`.
   * @ignore
   */
  readonly rq: RecvRing;
  /** The source of its receives; undefined: its own queue. */
  readonly srq: Srq | undefined;
  /** Multicast groups that it is attached to. */
  readonly groups: Set<number>;
  /** The driver's last known state; `queryQp` reads the current one. */
  readonly life: { state: QpState; attributes: QpAttributes };
  /** Replaced when a ring is resized. */
  caps: QpCaps;
}

/** ibv_qp_cap, and the other options of a queue pair's creation. */
export interface QpCaps {
  /** Sends that may be outstanding. */
  readonly maxSendWr: number;
  /** Receives that may be outstanding. */
  readonly maxRecvWr: number;
  /** Elements of one send. */
  readonly maxSendSge: number;
  /** Elements of one receive. */
  readonly maxRecvSge: number;
  /**
   * max_inline_data as granted: the room in the WQEs of such a queue pair, at least what was
   * requested.
   */
  readonly maxInlineData: number;
  /** The option of `createQp`, or the device's default. */
  readonly inline: InlineRule;
  /** sq_sig_all: every send is signaled. */
  readonly sqSigAll: boolean;
  /** WQEs that, posted alone, are sent to the RNIC with their doorbell. */
  readonly blueFlame: BlueFlame;
  /** Weight of its share of the line beside the port's other queue pairs. */
  readonly weight: number;
  /** P-29: when a persistent write completes. */
  readonly persistCompletion: "persistence" | "reception";
  /** no request takes a receive of the peer. */
  readonly oneSided: boolean;
  /** H-01: objects that one request may cover. */
  readonly maxObjects: number;
}

/** ibv_send_wr: a work request of the send queue. */
export interface SendRequest {
  /** The operation: `send`, `write`, `read`, `compare-swap` … */
  readonly opcode: Exclude<WqeOpcode, "nop">;
  /** The completion returns it; 0 by default. */
  readonly wrId?: WrId;
  /** The payload, or the buffer for the response of a READ or an atomic. */
  readonly sges?: readonly Sge[];
  /** IBV_SEND_… by `|`; none by default. */
  readonly sendFlags?: SendFlags;
  /** Immediate, key to invalidate, or, for `persistence-ack`, the persistent PSN (P-26). */
  readonly immediate?: number;
  /** The place in the peer's memory: an address and the key of its region or window. */
  readonly remote?: { readonly va: number; readonly rkey: number };
  /** `compare-swap` stores `swapAdd` where it finds `compare`; `fetch-add` adds `swapAdd`. */
  readonly atomic?: { readonly swapAdd: bigint; readonly compare: bigint };
  /** For `flush` (ibv_wr_flush): the range of remote memory, and the guarantee. */
  readonly flush?: FlushRequest;
  /** For `write-verify`: the verification level. */
  readonly verify?: VerifyRequest;
  /** For `bind-mw`: the part of a region and its key. */
  readonly bind?: MwBind;
  /** Of a UD queue pair: the destination. */
  readonly ud?: UdDestination;
  /**
   * H-01: data transfer objects that the operation covers, by the identities that programs give
   * them: one call instead of one for each. Hints name them, and the peer prepares those that the
   * region of the operation's key has ({@link RegionObject}); so SENDs cover none.
   */
  readonly objects?: readonly bigint[];
  /**
   * H-03 [0086]: the part of each of the `objects` that the operation works on; the whole object by
   * default. The peer prepares only that part, where the card's hints carry it (`operands: on`).
   */
  readonly parts?: readonly ObjectPart[];
}

/** The destination of a UD send: `wr.ud` of ibv_send_wr. */
export interface UdDestination {
  /** From `createAh`. */
  readonly ah: Ah;
  /** 0xFFFFFF where the handle is a multicast group's. */
  readonly qpn: number;
  /** The receiver's Q_Key; with bit 31 set the sending queue pair's own Q_Key is used. */
  readonly qKey: number;
}

/** Arguments of ibv_wr_flush besides the remote address and its key. */
export interface FlushRequest {
  /** {@link IBV_FLUSH_GLOBAL}, {@link IBV_FLUSH_PERSISTENT} or both. */
  readonly placement: FlushFlags;
  /** IBV_FLUSH_RANGE: `length` bytes from the remote address. IBV_FLUSH_MR: the whole region. */
  readonly selectivity: "range" | "mr";
  /** Bytes of the range; 0 by default. */
  readonly length?: number;
}

/** The check of a `write-verify`, which the peer must permit (`remoteWriteVerify`). */
export interface VerifyRequest {
  /**
   * V-04: `none`: the response follows the data's write; `check`: data with a wrong CRC is not
   * written; `verify`: also reads back and compares; `verify-crc`: compares the CRC of the data
   * read back; `read-back`: compares without any CRC; `crc-after`: compares the CRC of the data
   * read back, and checks none before.
   */
  readonly level: VerifyLevel;
  /** V-09: the response also means that the data survives a power failure; false by default. */
  readonly persist?: boolean;
  /** CRC-32 of the data, computed by the program; absent: the RNIC computes it. */
  readonly crc?: number;
}

/** ibv_recv_wr: a buffer for one message. */
export interface RecvRequest {
  /** The completion returns it; 0 by default. */
  readonly wrId?: WrId;
  /** The buffers for the message, in their order. */
  readonly sges: readonly Sge[];
}

/** The post stopped at request number `bad`; the earlier ones are posted (`rocev2.md` §4.3). */
export interface PostError extends VerbError {
  /** Index of the request that was refused. */
  readonly bad: number;
}
