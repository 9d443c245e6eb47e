export function createCounters() {
  return {
    receivedFrames: 0,
    receivedBytes: 0,
    sentFrames: 0,
    sentBytes: 0,
    floodedFrames: 0,
    snoopedReports: 0,
    queuedFrames: 0,
    /** Lossy frames: their queue, alpha's share of the free buffer or the pool was full. */
    droppedQueueFull: 0,
    droppedLinkDown: 0,
    droppedUnknown: 0,
    droppedReserved: 0,
    /** Messages of neighbours about unreachable addresses. */
    routeUpdates: 0,
    droppedReturn: 0,
    droppedRunt: 0,
    /** Lossless frames beyond the headroom: a sender ignores pauses. */
    droppedHeadroom: 0,
    ecnMarked: 0,
    pausesIn: 0,
    pausesOut: 0,
    resumesOut: 0,
  };
}
