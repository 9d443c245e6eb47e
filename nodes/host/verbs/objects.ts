/**
 * What a program holds of the RNIC: device, protection domain, region, window, address handle, queues,
 * and what is posted to them. Types only, so that each verb's file needs no other verb's for them; the
 * file that makes an object says how it behaves.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { CqeOpcode, WcStatus } from "../../../fabric/wire/host_bus/cqe.ts";
import type {
  ACCESS,
  PersistencePlan,
  QpAttributes,
  QpState,
  QpType,
  RnicEvent,
  WindowType,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Sge, WqeOpcode } from "../../../fabric/wire/host_bus/wqe.ts";
import type { VerifyLevel, VerifyVerdict } from "../../../fabric/wire/roce/verify_eth.ts";
import type { Cpu } from "../cpu/program.ts";

/** errno names as libibverbs returns them. */
export type Errno = "EINVAL" | "ENOMEM" | "EBUSY" | "EPERM" | "ENOENT" | "EFAULT";

/** "The verb said no": nothing has changed. `reason` says what was found and what was expected. */
export interface VerbError {
  readonly errno: Errno;
  readonly reason: string;
}

/** When data goes into the WQE itself instead of being fetched by DMA. */
export type InlineRule =
  /** Every payload of at most `bytes`. */
  | { readonly by: "size"; readonly bytes: number }
  /** Payloads of these operations, of at most `bytes`. */
  | { readonly by: "type"; readonly opcodes: readonly string[]; readonly bytes: number }
  /** Only where the work request says so. */
  | { readonly by: "program" };

export interface DeviceOptions {
  /** a doorbell names the queue only, or carries the write pointer as well. */
  readonly doorbell?: "number" | "pointer";
  /** what queue pairs do unless they say otherwise. Size threshold 220 B by default. */
  readonly inline?: InlineRule;
}

/** What all programs of one host share. */
export interface DeviceState {
  readonly timing: HostTiming;
  readonly completion: "poll" | "interrupt";
  readonly doorbell: "number" | "pointer";
  readonly inline: InlineRule;
  /** Virtual addresses of the three spaces of queue information. */
  readonly space1: number;
  readonly space2: number;
  readonly space3: number;
  readonly queues: number;
  readonly persistence: PersistencePlan;
  /** IPv4 address, MAC and largest path MTU of the port. */
  readonly address: number;
  readonly mac: number;
  readonly mtu: number;
  readonly queuePairs: Map<number, Qp>;
  /** By handle and by key, for other contexts (ibv_import_pd, ibv_import_mr). */
  readonly pds: Map<number, Pd>;
  readonly regions: Map<number, Mr>;
  /** Asynchronous events that no program has taken. */
  readonly asyncEvents: RnicEvent[];
  /**
   * First addresses of the memory that the RNIC uses, by whose it is: a queue's ring, a space of queue
   * information. Given back once: when its queue is destroyed, or all when the RNIC has failed and is back.
   */
  readonly held: Map<object, number>;
  /** Counts how often the device was opened: what an earlier one made is gone. */
  epoch: number;
  nextPd: number;
  nextVector: number;
}

/** An opened device, as one program sees it: what it does through it is paid by `cpu`. */
export interface Device {
  readonly cpu: Cpu;
  readonly state: DeviceState;
  /** May give queue pairs controlled Q_Keys, those with bit 31 set: the driver may, programs may not. */
  readonly privileged?: true;
}

/** ibv_access_flags by name. */
export type Access = keyof typeof ACCESS;

export interface Pd {
  readonly device: Device;
  readonly handle: number;
  readonly epoch: number;
  /** Regions and queue pairs that live in it. */
  readonly uses: { count: number; alive: boolean };
}

/** What it says changes with `reregMr`; keys stay. */
export interface Mr {
  pd: Pd;
  /** First byte, in the program's and (as VA) in the peer's view. */
  address: number;
  length: number;
  readonly lkey: number;
  readonly rkey: number;
  /** By {@link ACCESS}'s numbers. */
  access: number;
}

export interface Mw {
  readonly pd: Pd;
  readonly type: WindowType;
  /** Of the newest binding; what is posted to bind it has changed it at once. */
  rkey: number;
  readonly uses: { alive: boolean };
}

/** ibv_mw_bind_info: which part of a region, and what a peer may do there. */
export interface MwBindInfo {
  readonly mr: Mr;
  /** Within the region; its beginning by default. */
  readonly offset?: number;
  /** Bytes; up to the region's end by default. 0 unbinds a window of type 1. */
  readonly length?: number;
  /** Remote rights; `zeroBased`: the window's addresses count from 0 (type 2). */
  readonly access: readonly Access[];
}

/** What a `bind-mw` request binds: window, key (its index with another variant), range. */
export interface MwBind extends MwBindInfo {
  readonly mw: Mw;
  readonly rkey: number;
}

/** ibv_ah. */
export interface Ah {
  readonly pd: Pd;
  readonly address: number;
  readonly trafficClass: number;
  readonly hopLimit: number;
  /** 0 where the QPNs choose it. */
  readonly udpSourcePort: number;
  readonly uses: { alive: boolean };
}

export interface CompChannel {
  readonly device: Device;
  /** MSI-X vector of its queues. */
  readonly vector: number;
  readonly cqs: Set<Cq>;
}

export interface Cq {
  readonly device: Device;
  readonly cqn: number;
  readonly epoch: number;
  /** Virtual address of the ring and its entries, a power of two. */
  address: number;
  entries: number;
  /** MSI-X vector of its events, null where it has none. */
  readonly vector: number | null;
  /** Other queues raise the same vector. */
  readonly sharesVector: boolean;
  readonly channel: CompChannel | undefined;
  readonly place: CqPlace;
}

/** How far the host is. */
export interface CqPlace {
  readonly queue: number;
  stamp: Time;
  /** Entries taken since the queue was made, and the part of them that space 3 tells. */
  taken: number;
  told: number;
  /** Queue pairs that complete here. */
  users: number;
  /** What `reqNotifyCq` has asked for and no event has answered. */
  armed: "no" | "solicited" | "any";
  /** Events that were got and not acknowledged. */
  unacknowledged: number;
  /** Extended polling: whether a session is open, and its completion. */
  polling: boolean;
  current: WorkCompletion | undefined;
  /** The ring is being replaced: no completion is taken meanwhile. */
  resizing: boolean;
  /** Queue pairs that were reset or destroyed, whose completions of before are to be passed over. */
  readonly ended: Map<number, EndedLife>;
}

/** A life of a queue pair that has ended. */
export interface EndedLife {
  /** Position from which on completions are of a later one. */
  readonly before: number;
  /** Where the slots of its receives go back to. */
  readonly srq: Srq | undefined;
}

/** What a receive has completed with. */
export type ReceiveOpcode = Exclude<CqeOpcode, "requester" | "requester-error" | "resize">;

/**
 * ibv_wc. After an error only wrId, status, opcode and qpNum mean anything; of VERIFY_ERR, after which
 * the queue pair goes on, `verify` too.
 */
export interface WorkCompletion {
  readonly wrId: number;
  readonly status: WcStatus;
  /** What was asked for (a send's opcode), or what arrived. */
  readonly opcode: WqeOpcode | ReceiveOpcode;
  readonly qpNum: number;
  /** Of receives, READs and persisted ranges. */
  readonly byteLen: number;
  /** Immediate data; of `recv-invalidate` the key that the peer has invalidated. */
  readonly immData: number;
  /** P-25, P-26: PSN and destination VA of a persistent write, and of the RECV it consumed. */
  readonly psn: number;
  readonly va: number;
  /** Source queue pair of a UD receive. */
  readonly srcQp: number;
  /** V-01: what became of a verified write; absent of all else, and where no answer has come. */
  readonly verify?: VerifyVerdict;
}

export interface SrqOptions {
  /** Receives that may be posted and not completed. */
  readonly maxWr: number;
  /** Elements of one receive; 1 by default. */
  readonly maxSge?: number;
}

export interface Srq {
  readonly device: Device;
  /** Memory of the receives is looked up here, whatever the queue pairs' domains are. */
  readonly pd: Pd;
  readonly srqn: number;
  readonly caps: Required<SrqOptions>;
  readonly ring: SrqRing;
  /** Queue pairs that take from it. */
  readonly uses: { count: number; alive: boolean };
}

export interface SrqRing {
  readonly queue: number;
  stamp: Time;
  readonly address: number;
  readonly depth: number;
  readonly stride: number;
  /** Last unit filled. */
  write: number;
  /** Slots that no posted receive has. */
  readonly free: number[];
  /** By slot; undefined where the slot is free. */
  readonly wrIds: (number | undefined)[];
}

/** What the driver knows of one ring. Positions are units from its start. */
export interface Ring {
  readonly queue: number;
  stamp: Time;
  readonly address: number;
  /** Units, a power of two; at most depth − 1 are filled. */
  readonly depth: number;
  /** Most work requests outstanding. */
  readonly requestsMax: number;
  /** Last unit filled, oldest unit not yet retired. */
  write: number;
  tail: number;
  /** Units filled and work requests outstanding. */
  used: number;
  requests: number;
  /** By position of a WQE's first unit. */
  readonly wrIds: number[];
}

export interface SendRing extends Ring {
  readonly units: Uint8Array;
  readonly opcodes: WqeOpcode[];
}

export interface RecvRing extends Ring {
  /** Bytes of one receive WQE. */
  readonly stride: number;
}

export interface Qp {
  readonly device: Device;
  readonly pd: Pd;
  readonly qpn: number;
  readonly type: QpType;
  readonly sendCq: Cq;
  readonly recvCq: Cq;
  readonly sq: SendRing;
  /** Without a unit to fill where receives come from `srq`. */
  readonly rq: RecvRing;
  readonly srq: Srq | undefined;
  /** As far as the driver has seen; `queryQp` looks. */
  readonly life: { state: QpState; attributes: QpAttributes };
  readonly caps: QpCaps;
}

export interface QpCaps {
  readonly maxSendWr: number;
  readonly maxRecvWr: number;
  readonly maxSendSge: number;
  readonly maxRecvSge: number;
  readonly maxInline: number;
  readonly inline: InlineRule;
  readonly persistCompletion: "persistence" | "reception";
}

/** ibv_send_wr. */
export interface SendRequest {
  readonly opcode: Exclude<WqeOpcode, "nop">;
  /** Comes back in the completion; 0 by default. */
  readonly wrId?: number;
  /** Where the payload is, or where a READ or an atomic puts its answer. */
  readonly sges?: readonly Sge[];
  /** data goes into the WQE (true), or is fetched by DMA (false), whatever the rule says. */
  readonly inline?: boolean;
  /** Whether success makes a completion; true by default. Failure always does. */
  readonly signaled?: boolean;
  readonly solicited?: boolean;
  /** Waits for earlier READs and atomics of this queue pair. */
  readonly fence?: boolean;
  /** Immediate, key to invalidate, or, for `persistence-ack`, the PSN that is persistent (P-26). */
  readonly immediate?: number;
  readonly remote?: { readonly va: number; readonly rkey: number };
  readonly atomic?: { readonly swapAdd: bigint; readonly compare: bigint };
  /** Of `flush` (ibv_wr_flush): what of the remote memory, and how far it is to come. */
  readonly flush?: FlushRequest;
  /** Of `write-verify`: how far its data is to be checked. */
  readonly verify?: VerifyRequest;
  /** Of `bind-mw`: which part of which region gets which key. */
  readonly bind?: MwBind;
  readonly ud?: UdDestination;
}

/** Where a UD send goes: `wr.ud` of ibv_send_wr. */
export interface UdDestination {
  readonly ah: Ah;
  /** 0xFFFFFF where the handle names a multicast group. */
  readonly qpn: number;
  /** The receiver's; with bit 31 set the sending queue pair's own Q_Key stands in for it. */
  readonly qKey: number;
}

/** Arguments of ibv_wr_flush beside the remote address and its key. */
export interface FlushRequest {
  /** IBV_FLUSH_GLOBAL: visible to every observer there. IBV_FLUSH_PERSISTENT: survives power loss. */
  readonly placement: readonly ("global" | "persistent")[];
  /** IBV_FLUSH_RANGE: `length` bytes from the remote address. IBV_FLUSH_MR: all of its region. */
  readonly selectivity: "range" | "mr";
  /** Bytes of the range; 0 by default. */
  readonly length?: number;
}

/** How a `write-verify` is to be checked; the peer must let it (`remoteWriteVerify`). */
export interface VerifyRequest {
  /**
   * V-04: `none` answers when the data has been written; `check` writes nothing whose CRC is wrong;
   * `verify` also reads back and compares; `verify-crc` compares by the CRC of what it has read.
   */
  readonly level: VerifyLevel;
  /** V-09: the answer also says that the data survives a power failure; false by default. */
  readonly persist?: boolean;
  /** CRC-32 of the data as the program has it; the RNIC computes one unless given. */
  readonly crc?: number;
}

/** ibv_recv_wr. */
export interface RecvRequest {
  readonly wrId?: number;
  readonly sges: readonly Sge[];
}

/** The post stopped at request number `bad`; the earlier ones are posted (`rocev2.md` §4.3). */
export interface PostError extends VerbError {
  readonly bad: number;
}
