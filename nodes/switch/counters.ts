/** Counters of a switch, for the run's report. */

export interface Counters {
  receivedFrames: number;
  receivedBytes: number;
  sentFrames: number;
  sentBytes: number;
  /** Frames to group addresses, whichever ports they went to. */
  floodedFrames: number;
  snoopedReports: number;
  queuedFrames: number;
  droppedQueueFull: number;
  droppedLinkDown: number;
  droppedUnknown: number;
  droppedReserved: number;
  /** Messages of neighbours about unreachable addresses. */
  routeUpdates: number;
  droppedReturn: number;
  droppedRunt: number;
  /** Lossless frames beyond the headroom: a sender ignores pauses. */
  droppedHeadroom: number;
  ecnMarked: number;
  pausesIn: number;
  pausesOut: number;
  resumesOut: number;
}

export function createCounters(): Counters {
  return {
    receivedFrames: 0,
    receivedBytes: 0,
    sentFrames: 0,
    sentBytes: 0,
    floodedFrames: 0,
    snoopedReports: 0,
    queuedFrames: 0,
    droppedQueueFull: 0,
    droppedLinkDown: 0,
    droppedUnknown: 0,
    droppedReserved: 0,
    routeUpdates: 0,
    droppedReturn: 0,
    droppedRunt: 0,
    droppedHeadroom: 0,
    ecnMarked: 0,
    pausesIn: 0,
    pausesOut: 0,
    resumesOut: 0,
  };
}
