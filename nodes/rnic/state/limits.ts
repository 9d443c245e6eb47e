/** Limits of the RNIC's on-chip resources, each with its reason. */
import { PS_PER_NS, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { QUEUES_MOST } from "../../../fabric/rack/plan/queue_plan.ts";

export const LIMITS = {
  /** The scenario's limit; a doorbell that brings its WQE has 24 bits for a queue's number. */
  queues: QUEUES_MOST,
  regions: 65_536,
  objects: 256,
  /** Entries of one completion queue or units of a ring (mlx5: log_max_cq_sz 22). */
  ringUnits: 2 ** 22,
  /** WQEs of one queue pair on the chip: fetched and not yet completed. */
  workPerQueuePair: 256,
  /** Send and write packets that may be unacknowledged; then the queue pair waits (rxe: 128). */
  windowPackets: 512,
  /** A packet of a longer message asks for an ACK after so many, so that the window moves. */
  ackEveryPackets: 64,
  /** Persistent writes of one queue pair that wait for their persistence ACK. */
  persistWaiting: 256,
  /** Persistent messages that a responder remembers: more than a requester has outstanding (P-30). */
  persistRecords: 1024,
  /** Ranges of a queue pair's plain WRITEs that the CPU of flow 2 is to flush (P-31). */
  dirtySpans: 64,
  /** Messages whose lost persistence ACK is asked for again at one time-out. */
  persistProbes: 16,
  /** Request packets of one queue pair that wait for its receive WQE. */
  stalledPackets: 128,
  /** Payload bytes fetched or being fetched that have not left yet: the transmit buffer. */
  transmitBufferBytes: 64 * 1024,
  /** Data of verified writes that waits for the CRC behind it, or is being looked at (V-02). */
  verifyStagingBytes: 8 * 1024 * 1024,
  /** READ requests that wait at a responder; a further one is dropped and comes again. */
  waitingReads: 64,
  /** Multicast groups of a port, and queue pairs of one group (ConnectX: log_max_qp_mcg 8). */
  multicastGroups: 1024,
  multicastMembers: 248,
} as const;

// The headroom of lossless buffers counts on it.
export { COMMIT_AHEAD_PS } from "../../../fabric/rack/plan/processing.ts";
/** Backlog of the bus at which received frames are dropped: the receive buffer is full. */
export const BUS_BACKLOG_PS: Time = 20 * PS_PER_US;
/** Backlog at which a pause that was asked for is taken back. */
export const BUS_RESUME_PS: Time = 15 * PS_PER_US;
/**
 * Backlog of the bus up to which data that was checked in the card goes to it (V-02): just enough that the bus has
 * no gap, a wake-up's scheduling included, as read-backs wait behind it.
 */
export const STAGED_BACKLOG_PS: Time = 200 * PS_PER_NS;
export const STAGED_RESUME_PS: Time = 100 * PS_PER_NS;
/** How long it waits for that before one path MTU goes nevertheless: others may keep the bus full. */
export const STAGED_PATIENCE_PS: Time = 2 * PS_PER_US;
/** First wait before an empty receive queue is looked at again for a persistent message. */
export const RECV_RETRY_PS: Time = 5 * PS_PER_US;
/** The wait doubles so many times; then only a doorbell or a duplicate asks again. */
export const RECV_RETRIES = 16;
/** Local ACK time-out of attribute value 0…31: 4.096 µs · 2^value, 0 is never (`rocev2.md` §3.3). */
export const TIMEOUT_UNIT_PS: Time = 4_096 * PS_PER_NS;
