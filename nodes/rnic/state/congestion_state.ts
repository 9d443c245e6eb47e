/** `rocev2.md` §3.9. */
import type { Time } from "../../../fabric/base/time.ts";
import type { Fifo } from "../../../fabric/base/fifo.ts";
import type { ControlFrame, TxFrame } from "./tx_frame.ts";
import type { PauseRequests, Pauses } from "../../../fabric/link/pause.ts";
import type { QueuePair } from "./queue_pair.ts";
import type { RnicCongestionPlan } from "../../../fabric/rack/plan/plan.ts";

export interface RateLimiter {
  /** R_C and R_T, in bit/s. */
  currentBps: number;
  targetBps: number;
  alpha: number;
  notified: boolean;
  /** Events T and BC since the last cut. */
  timerEvents: number;
  byteEvents: number;
  bytes: number;
  cutAt: Time;
  alphaAt: Time;
  increaseAt: Time;
  mayBeginAt: Time;
}

interface HeldFrames {
  readonly control: Fifo<ControlFrame>;
  readonly data: Fifo<TxFrame>;
}

export interface FlowControl {
  readonly lossless: number;
  readonly headroomPs: Time;
  readonly pauses: Pauses;
  readonly requests: PauseRequests;
  readonly held: readonly HeldFrames[];
  readonly parked: Fifo<QueuePair>;
}

export function createCongestionCounters() {
  return {
    ecnMarkedIn: 0,
    cnpsOut: 0,
    cnpsIn: 0,
    rateCuts: 0,
    pausesIn: 0,
    pausesOut: 0,
    resumesOut: 0,
  };
}

export interface Notice {
  readonly qp: QueuePair;
  readonly life: number;
  readonly readyAt: Time;
}

export interface Reaction {
  readonly qp: QueuePair;
  readonly life: number;
  notifiedAt: Time;
  limiter: RateLimiter | undefined;
}

export interface Congestion {
  readonly plan: RnicCongestionPlan;
  readonly flow: FlowControl | undefined;
  readonly notices: Fifo<Notice>;
  readonly reactions: (Reaction | undefined)[];
  readonly counters: ReturnType<typeof createCongestionCounters>;
}
