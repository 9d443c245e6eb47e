/**
 * The control path between a host's driver and its RNIC's firmware: the content of the mailbox. The
 * data path does not use it: work requests and completions are rings in host memory, with
 * doorbells. All addresses are host physical; `va` is the address that the peer uses on the wire.
 */

/**
 * Access flags of a memory region or queue pair, with libibverbs' numbers, and vendor-specific
 * ones.
 */
export const ACCESS = {
  localWrite: 1,
  remoteWrite: 2,
  remoteRead: 4,
  remoteAtomic: 8,
  /** Memory windows may be bound to the region. */
  mwBind: 16,
  /** For a window: its addresses begin at 0. */
  zeroBased: 32,
  flushGlobal: 256,
  flushPersistent: 512,
  /** Writes into the region may be reordered (§3.7): refused, see {@link refuseAccess}. */
  relaxedOrdering: 1 << 20,
  /**
   * V-06: for a queue pair: its peer may send verified writes. A region grants them like any WRITE.
   */
  remoteWriteVerify: 1 << 29,
  /** P-22: plain WRITEs into this region are made persistent. Above libibverbs' optional bits. */
  remoteWritePersistence: 1 << 30,
} as const;

/**
 * Why access flags of a region, window or queue pair are refused; undefined where they are valid.
 * Relaxed ordering is refused because the emulator never reorders: a run would seem to prove that a
 * program tolerates reordering.
 */
export function refuseAccess(access: number): string | undefined {
  return (access & ACCESS.relaxedOrdering) === 0
    ? undefined
    : "relaxedOrdering is not honoured: expected access flags without it";
}

export type QpState = "reset" | "init" | "rtr" | "rts" | "sqd" | "sqe" | "err";
export type QpType = "rc" | "uc" | "ud";

/** The queue information in host memory: three access classes, K queues each. */
export interface QueueSpaces {
  readonly queues: number;
  readonly space1: number;
  readonly space2: number;
  readonly space3: number;
}

/** The data flow of a DMA write on this host's CPU, and hence how to flush (P-02). */
export interface PersistencePlan {
  /** 1: posted writes go to the iMC. 2: they stay in the LLC. */
  readonly flow: 1 | 2;
  /**
   * What makes a write persistent that has left the bus. `read`: an LSB read behind it, in flow 1
   * (P-24), and in flow 2 where the LLC is in the persistence domain. `cpu`: the host's CPU,
   * notified by a RECV (P-26). `none`: nothing more, as all buffers are in the domain.
   */
  readonly flush: "read" | "cpu" | "none";
  /** Whether the architecture evaluates the NS bit (`ddio+ns`). */
  readonly noSnoop: boolean;
}

/**
 * One ring as the driver has allocated it. `units` of 64 B (SQ, CQ) or 16·sge B (RQ), a power of
 * two.
 */
export interface RingPlace {
  readonly address: number;
  readonly units: number;
}

export type RnicCommand =
  | { readonly op: "init"; readonly spaces: QueueSpaces; readonly persistence: PersistencePlan }
  | { readonly op: "create-cq"; readonly ring: RingPlace; readonly vector: number | null }
  /**
   * ibv_resize_cq: completions continue in another ring, at the same positions. `taken` is the
   * number of entries that the host has read since the queue was created; pointers stored before
   * `stamp` refer to the old ring.
   */
  | {
    readonly op: "resize-cq";
    readonly cqn: number;
    readonly ring: RingPlace;
    readonly taken: number;
    readonly stamp: number;
  }
  /** A shared receive queue: its WQEs have `stride` bytes. */
  | {
    readonly op: "create-srq";
    readonly ring: RingPlace;
    readonly stride: number;
    readonly pd: number;
  }
  /** Arms SRQ_LIMIT_REACHED for fewer than `limit` WQEs; 0 disarms it. */
  | { readonly op: "modify-srq"; readonly srqn: number; readonly limit: number }
  | { readonly op: "query-srq"; readonly srqn: number }
  | { readonly op: "destroy-srq"; readonly srqn: number }
  | {
    readonly op: "create-qp";
    readonly type: QpType;
    readonly sq: RingPlace;
    /** The receive queue and the bytes of its WQEs; both absent with a shared receive queue. */
    readonly rq?: RingPlace;
    readonly rqStride?: number;
    readonly srq?: number;
    readonly sendCq: number;
    readonly recvCq: number;
    readonly pd: number;
    /** QP 1 (GSI) is requested by number; others are assigned one. */
    readonly qpn?: number;
    /**
     * P-29: `persistence` completes once; `reception` completes at reception, and again on a RECV.
     */
    readonly persistCompletion: "persistence" | "reception";
  }
  | { readonly op: "modify-qp"; readonly qpn: number; readonly attributes: QpAttributes }
  | { readonly op: "destroy-qp"; readonly qpn: number }
  /** ibv_attach_mcast, ibv_detach_mcast: `group` is an IPv4 address in 224/4. */
  | { readonly op: "attach-mcast"; readonly qpn: number; readonly group: number }
  | { readonly op: "detach-mcast"; readonly qpn: number; readonly group: number }
  | { readonly op: "destroy-cq"; readonly cqn: number }
  | { readonly op: "register-mr"; readonly region: RegionPlan }
  /** ibv_rereg_mr: the given attributes change, the key does not. */
  | { readonly op: "reregister-mr"; readonly key: number; readonly change: RegionChange }
  | { readonly op: "deregister-mr"; readonly key: number }
  | { readonly op: "allocate-mw"; readonly type: WindowType; readonly pd: number }
  | { readonly op: "deallocate-mw"; readonly rkey: number }
  /**
   * a write into space 2 by value, executed by the RNIC. `offset` is within the queue's
   * entry.
   */
  | {
    readonly op: "write-space2";
    readonly queue: number;
    readonly offset: number;
    readonly data: Uint8Array<ArrayBuffer>;
  }
  /** the lock that allows the host to write space 2 of one queue itself. */
  | { readonly op: "lock-space2"; readonly queue: number }
  | { readonly op: "unlock-space2"; readonly queue: number }
  /**
   * the SQ continues in a larger ring; the RNIC pauses the queue, copies the tail, resumes.
   */
  | { readonly op: "expand-queue"; readonly queue: number; readonly ring: RingPlace }
  | { readonly op: "query-statistics" };

/** A subset of ibv_qp_attr; the life-cycle table has the required attributes of each transition. */
export interface QpAttributes {
  readonly state?: QpState;
  /** The state that the caller expects: in another state the change is refused. */
  readonly curState?: QpState;
  /** At SQD: raise SQ_DRAINED when all started requests have completed. */
  readonly enSqdAsyncNotify?: boolean;
  readonly accessFlags?: number;
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
  readonly destQpn?: number;
  readonly rqPsn?: number;
  readonly sqPsn?: number;
  readonly maxDestRdAtomic?: number;
  readonly maxRdAtomic?: number;
  readonly minRnrTimer?: number;
  readonly timeout?: number;
  readonly retryCnt?: number;
  readonly rnrRetry?: number;
  readonly qKey?: number;
}

/** P-22: memory registration, at processor and RNIC alike. */
export interface RegionPlan {
  readonly pd: number;
  readonly va: number;
  readonly length: number;
  readonly access: number;
  readonly pageBytes: number;
  /** Physical address of each page, from the page of `va` on. */
  readonly pages: readonly number[];
  /** Whether all of it is persistent memory (SCM): only the driver knows (P-05). */
  readonly persistent: boolean;
}

/**
 * Parts of a {@link RegionPlan} that a re-registration replaces; the address range is replaced as a
 * whole.
 */
export interface RegionChange {
  readonly pd?: number;
  readonly access?: number;
  readonly place?: Pick<RegionPlan, "va" | "length" | "pageBytes" | "pages" | "persistent">;
}

/**
 * 1: bound by the verb, for any queue pair of its domain. 2: bound by a WQE, for its queue pair.
 */
export type WindowType = 1 | 2;

/**
 * Number of CQEs in a queue pair's two completion queues since those were created, up to the last
 * that may belong to the ended life: that CQE may be written after the reply.
 */
export interface CqesWritten {
  readonly send: number;
  readonly recv: number;
}

export type RnicReply =
  | {
    readonly status: "ok";
    readonly op: "init";
    readonly address: number;
    readonly mac: number;
    readonly mtu: number;
  }
  /** A completion queue's number is also its queue number: its queue information is entry `cqn`. */
  | { readonly status: "ok"; readonly op: "create-cq"; readonly cqn: number }
  | {
    readonly status: "ok";
    readonly op: "create-qp";
    readonly qpn: number;
    /** Queue numbers of the two rings in doorbells and queue information. */
    readonly sqQueue: number;
    /** With a shared receive queue: its number. */
    readonly rqQueue: number;
  }
  | {
    readonly status: "ok";
    readonly op: "register-mr";
    readonly lkey: number;
    readonly rkey: number;
  }
  | {
    readonly status: "ok";
    readonly op: "query-statistics";
    readonly counters: Readonly<Record<string, number>>;
  }
  /** A shared receive queue's number is also its queue number. */
  | { readonly status: "ok"; readonly op: "create-srq"; readonly srqn: number }
  | { readonly status: "ok"; readonly op: "query-srq"; readonly limit: number }
  | { readonly status: "ok"; readonly op: "allocate-mw"; readonly rkey: number }
  /**
   * A queue pair was reset or destroyed: its CQEs up to these positions belong to an earlier life.
   */
  | { readonly status: "ok"; readonly op: "qp-emptied"; readonly written: CqesWritten }
  | { readonly status: "ok"; readonly op: "done" }
  /** errno names of libibverbs; `reason` has what was found and what was expected. */
  | {
    readonly status: "error";
    readonly errno: "EINVAL" | "ENOMEM" | "EBUSY" | "EPERM" | "ENOENT";
    readonly reason: string;
  };

/** The supported events of ibv_async_event. */
export type RnicEvent =
  | {
    readonly type:
      | "QP_FATAL"
      | "QP_REQ_ERR"
      | "QP_ACCESS_ERR"
      | "COMM_EST"
      | "SQ_DRAINED"
      | "QP_LAST_WQE_REACHED";
    readonly qpn: number;
  }
  | { readonly type: "SRQ_ERR" | "SRQ_LIMIT_REACHED"; readonly srqn: number }
  | { readonly type: "CQ_ERR"; readonly cqn: number };
