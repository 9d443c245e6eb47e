/**
 * Flags of the verbs, one constant for each, with libibverbs' names and numbers: they are combined
 * by `|`, as in C. Enumerations (operations, states, types) are texts, which the compiler checks.
 * Names that begin with RACKMESH_ are this card's own. Own programs are bundled with this file, so
 * it imports nothing.
 */

/**
 * Flags of one kind. The compiler refuses a constant of another kind. A combination is a plain
 * number, whose bits the verbs check at the call.
 */
type Flags<Kind extends string> = number & { readonly flags?: Kind };

/** ibv_access_flags: of a region, a window, or a queue pair (`accessFlags`). */
export type AccessFlags = Flags<"access">;
/** The card may write the region: for receives, READs, atomics, and writes of peers. */
export const IBV_ACCESS_LOCAL_WRITE: AccessFlags = 1;
/** A peer may WRITE; needs IBV_ACCESS_LOCAL_WRITE. */
export const IBV_ACCESS_REMOTE_WRITE: AccessFlags = 2;
/** A peer may READ. */
export const IBV_ACCESS_REMOTE_READ: AccessFlags = 4;
/** A peer may do atomics; needs IBV_ACCESS_LOCAL_WRITE. */
export const IBV_ACCESS_REMOTE_ATOMIC: AccessFlags = 8;
/** Memory windows may be bound to the region. */
export const IBV_ACCESS_MW_BIND: AccessFlags = 16;
/** For a window of type 2: its addresses begin at 0. EINVAL for a region, which has `iova`. */
export const IBV_ACCESS_ZERO_BASED: AccessFlags = 32;
/** The region's pages are not pinned: the card asks for each when it is needed. */
export const IBV_ACCESS_ON_DEMAND: AccessFlags = 64;
/** A peer may FLUSH the region with IBV_FLUSH_GLOBAL. */
export const IBV_ACCESS_FLUSH_GLOBAL: AccessFlags = 256;
/** A peer may FLUSH the region, which is SCM, with IBV_FLUSH_PERSISTENT. */
export const IBV_ACCESS_FLUSH_PERSISTENT: AccessFlags = 512;
/** Refused with EINVAL: the emulator never reorders, so a run would prove nothing. */
export const IBV_ACCESS_RELAXED_ORDERING: AccessFlags = 1 << 20;
/** V-06, of a queue pair: its peer may send verified writes. */
export const RACKMESH_ACCESS_REMOTE_WRITE_VERIFY: AccessFlags = 1 << 29;
/** P-22: plain WRITEs into the region, which is SCM, are made persistent. */
export const RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE: AccessFlags = 1 << 30;

/** ibv_send_flags: of a send request (`sendFlags`). */
export type SendFlags = Flags<"send">;
/** Waits for earlier READs and atomics of this queue pair. */
export const IBV_SEND_FENCE: SendFlags = 1;
/** Success generates a completion. Failure always does. */
export const IBV_SEND_SIGNALED: SendFlags = 2;
/** Raises the peer's completion event if it was armed for solicited ones. */
export const IBV_SEND_SOLICITED: SendFlags = 4;
/** The payload is copied into the WQE at the post: its buffer may be reused at once. */
export const IBV_SEND_INLINE: SendFlags = 8;

/** Bytes in front of a datagram's payload in its receive buffer: sizeof(struct ibv_grh). */
export const GRH_BYTES = 40;

/** ibv_placement_type: what a FLUSH guarantees (`flush.placement`). */
export type FlushFlags = Flags<"flush">;
/** Visible to every observer. */
export const IBV_FLUSH_GLOBAL: FlushFlags = 1;
/** Survives a power failure. */
export const IBV_FLUSH_PERSISTENT: FlushFlags = 2;

/** ibv_wc_flags: the optional fields of a completion that are valid (`wcFlags`). */
export type WcFlags = Flags<"wc">;
/** The receive buffer begins with the area of a global route header. */
export const IBV_WC_GRH: WcFlags = 1;
/** `immData` is the peer's immediate. */
export const IBV_WC_WITH_IMM: WcFlags = 2;
/** `immData` is the key that the peer has invalidated. */
export const IBV_WC_WITH_INV: WcFlags = 8;
/** V-01: `verify` has the result of a verified write. */
export const RACKMESH_WC_VERIFY: WcFlags = 1 << 30;

/** Flags of ibv_advise_mr. */
export type AdviseFlags = Flags<"advise">;
/** The verb returns when it is done; else at once. */
export const IBV_ADVISE_MR_FLAG_FLUSH: AdviseFlags = 1;

/** Flags of ibv_create_cq_ex's `wc_flags`: fields that the queue's completions must have. */
export type WcExFlags = Flags<"wcEx">;
/** `byteLen`. */
export const IBV_WC_EX_WITH_BYTE_LEN: WcExFlags = 1;
/** `immData`. */
export const IBV_WC_EX_WITH_IMM: WcExFlags = 2;
/** `qpNum`. */
export const IBV_WC_EX_WITH_QP_NUM: WcExFlags = 4;
/** `srcQp`. */
export const IBV_WC_EX_WITH_SRC_QP: WcExFlags = 8;
/** 0, as on every Ethernet port: so are the next two. */
export const IBV_WC_EX_WITH_SLID: WcExFlags = 16;
/** 0, as on every Ethernet port. */
export const IBV_WC_EX_WITH_SL: WcExFlags = 32;
/** 0, as on every Ethernet port. */
export const IBV_WC_EX_WITH_DLID_PATH_BITS: WcExFlags = 64;
/** `wcReadCompletionTs`: the card's clock when it wrote the completion. */
export const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP: WcExFlags = 128;
/** Refused with EOPNOTSUPP: frames have no VLAN. */
export const IBV_WC_EX_WITH_CVLAN: WcExFlags = 256;
/** Refused with EOPNOTSUPP: there are no flow tags. */
export const IBV_WC_EX_WITH_FLOW_TAG: WcExFlags = 512;
/** Refused with EOPNOTSUPP: there is no tag matching. */
export const IBV_WC_EX_WITH_TM_INFO: WcExFlags = 1024;
/** `wcReadCompletionWallclockNs`: the same in ns of the host's clock, which is virtual time. */
export const IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK: WcExFlags = 2048;
/** The fields that every completion has here, requested or not. */
export const IBV_WC_STANDARD_FLAGS: WcExFlags = 127;

/** Flags of ibv_create_cq_ex. */
export type CqFlags = Flags<"cq">;
/** One thread polls: no effect, as a poll needs no lock here. */
export const IBV_CREATE_CQ_ATTR_SINGLE_THREADED: CqFlags = 1;
/** Refused with EOPNOTSUPP: an overrun would lose completions in silence. */
export const IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: CqFlags = 2;

/** Flags of `deviceCapFlags` of a queried device. */
export type DeviceCapFlags = Flags<"deviceCap">;
/** Queues are resized in use (`resizeQp`). */
export const IBV_DEVICE_RESIZE_MAX_WR: DeviceCapFlags = 1;
/** `modifyQp` takes `curState`. */
export const IBV_DEVICE_CURR_QP_STATE_MOD: DeviceCapFlags = 1 << 7;
/** A SEND without a receive is answered by an RNR NAK. */
export const IBV_DEVICE_RC_RNR_NAK_GEN: DeviceCapFlags = 1 << 12;
/** `modifySrq` takes `maxWr`. */
export const IBV_DEVICE_SRQ_RESIZE: DeviceCapFlags = 1 << 13;
/** Memory windows of type 1. */
export const IBV_DEVICE_MEM_WINDOW: DeviceCapFlags = 1 << 17;
/** Windows of type 2 are checked by queue pair and domain. */
export const IBV_DEVICE_MEM_WINDOW_TYPE_2B: DeviceCapFlags = 1 << 24;

// Further capabilities (`deviceCapFlagsEx`): bits above the 32 that numbers combine, so they are bigints.
/** FLUSH with IBV_FLUSH_GLOBAL. */
export const IBV_DEVICE_FLUSH_GLOBAL = 1n << 38n;
/** FLUSH with IBV_FLUSH_PERSISTENT. */
export const IBV_DEVICE_FLUSH_PERSISTENT = 1n << 39n;
/** ATOMIC WRITE. */
export const IBV_DEVICE_ATOMIC_WRITE = 1n << 40n;

/** Abilities of on-demand regions (`odpCaps.generalCaps`). */
export type OdpFlags = Flags<"odp">;
/** Regions may be on demand. */
export const IBV_ODP_SUPPORT: OdpFlags = 1;
/** Not supported: a region has a range. */
export const IBV_ODP_SUPPORT_IMPLICIT: OdpFlags = 2;
/** Of `odpCaps.rc`, `uc`, `ud`: operations that may meet an absent page without losing data. */
export type OdpTransportFlags = Flags<"odpTransport">;
/** SENDs. */
export const IBV_ODP_SUPPORT_SEND: OdpTransportFlags = 1;
/** Receives. */
export const IBV_ODP_SUPPORT_RECV: OdpTransportFlags = 2;
/** RDMA WRITEs. */
export const IBV_ODP_SUPPORT_WRITE: OdpTransportFlags = 4;
/** RDMA READs. */
export const IBV_ODP_SUPPORT_READ: OdpTransportFlags = 8;
/** Atomics. */
export const IBV_ODP_SUPPORT_ATOMIC: OdpTransportFlags = 16;
/** Receives from a shared queue. */
export const IBV_ODP_SUPPORT_SRQ_RECV: OdpTransportFlags = 32;

/** Of `queryQpDataInOrder`: answer with the two below, instead of 0 or 1. */
export type DataInOrderFlags = Flags<"dataInOrder">;
/** Asks for the two below. */
export const IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS: DataInOrderFlags = 1;
/** All of a message is written in order. */
export const IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG: DataInOrderFlags = 1;
/** Aligned pieces of 128 B are. */
export const IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES: DataInOrderFlags = 2;
