/** Limits of the RNIC's on-chip resources, each with its reason. */
import { PS_PER_NS, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { QUEUES_MOST } from "../../../fabric/rack/plan/queue_plan.ts";

export const LIMITS = {
  /** The scenario's limit; a doorbell that brings its WQE has 24 bits for the queue's number. */
  queues: QUEUES_MOST,
  regions: 65_536,
  objects: 256,
  /** A ring, or a completion queue (mlx5: log_max_cq_sz 22). */
  ringUnits: 2 ** 22,
  /** WQEs on the chip: fetched and not completed. */
  workPerQueuePair: 256,
  /** Unacknowledged send and write packets; then the queue pair waits (rxe: 128). */
  windowPackets: 512,
  /** A packet within a longer message asks for an ACK after so many, so that the window moves. */
  ackEveryPackets: 64,
  persistWaiting: 256,
  /** More than a requester has outstanding (P-30). */
  persistRecords: 1024,
  /** Plain WRITEs that the CPU of flow 2 is to flush (P-31). */
  dirtySpans: 64,
  /** Lost persistence ACKs asked for at one time-out. */
  persistProbes: 16,
  stalledPackets: 128,
  /** Payload that is being fetched or has not left. */
  transmitBufferBytes: 64 * 1024,
  /** Data that waits for its CRC, or is being checked (V-02). */
  verifyStagingBytes: 8 * 1024 * 1024,
  /** A responder drops a further READ, which comes again. */
  waitingReads: 64,
  /** ConnectX: log_max_qp_mcg 8. */
  multicastGroups: 1024,
  multicastMembers: 248,
} as const;

// The headroom of lossless buffers counts on it.
export { COMMIT_AHEAD_PS } from "../../../fabric/rack/plan/processing.ts";
/** From this backlog on the receive buffer is full: received frames are dropped. */
export const BUS_BACKLOG_PS: Time = 20 * PS_PER_US;
export const BUS_RESUME_PS: Time = 15 * PS_PER_US;
/**
 * Checked data goes to the bus up to this backlog (V-02): the bus has no gap, and read-backs wait
 * little.
 */
export const STAGED_BACKLOG_PS: Time = 200 * PS_PER_NS;
export const STAGED_RESUME_PS: Time = 100 * PS_PER_NS;
/** Others may keep the bus full: after this wait one path MTU is sent nevertheless. */
export const STAGED_PATIENCE_PS: Time = 2 * PS_PER_US;
/**
 * The first wait before an empty receive queue is looked at again for a persistent message; it
 * doubles.
 */
export const RECV_RETRY_PS: Time = 5 * PS_PER_US;
/** After so many looks, only a doorbell or a duplicate asks again. */
export const RECV_RETRIES = 16;
/** Local ACK time-out: 4.096 µs · 2^value (0…31), 0 is never (`rocev2.md` §3.3). */
export const TIMEOUT_UNIT_PS: Time = 4_096 * PS_PER_NS;
