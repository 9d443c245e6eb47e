/**
 * Flags of the verbs, one constant for each, with libibverbs' names and numbers: they are combined by
 * `|`, as in C. What is one of several values, and no flag (operations, states, types), is a text that
 * the compiler checks. Names that begin with RACKMESH_ are this card's own. Own programs are bundled
 * with this file, so it imports nothing.
 */

/**
 * Flags of one kind. The compiler refuses a constant of another kind; of a combination, which is a
 * plain number, the verbs check the bits at the call.
 */
type Flags<Kind extends string> = number & { readonly flags?: Kind };

/** ibv_access_flags: of a region, a window, or a queue pair (`accessFlags`). */
export type AccessFlags = Flags<"access">;
export const IBV_ACCESS_LOCAL_WRITE: AccessFlags = 1;
export const IBV_ACCESS_REMOTE_WRITE: AccessFlags = 2;
export const IBV_ACCESS_REMOTE_READ: AccessFlags = 4;
export const IBV_ACCESS_REMOTE_ATOMIC: AccessFlags = 8;
/** Memory windows may be bound to the region. */
export const IBV_ACCESS_MW_BIND: AccessFlags = 16;
/** For a window of type 2: its addresses begin at 0. */
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
/** Raises the peer's completion event where that was armed for solicited ones. */
export const IBV_SEND_SOLICITED: SendFlags = 4;
/** The payload goes in the WQE, when the request is posted: its buffer may be used again at once. */
export const IBV_SEND_INLINE: SendFlags = 8;

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
