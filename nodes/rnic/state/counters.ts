/** The RNIC's counters, for the run's report (P-40, Q-11). */

export function createCounters() {
  return {
    framesIn: 0,
    framesOut: 0,
    bytesIn: 0,
    bytesOut: 0,
    loopbackFrames: 0,
    loopbackBytes: 0,
    sendFramesOut: 0,
    writeFramesOut: 0,
    persistWriteFramesOut: 0,
    verifyWriteFramesOut: 0,
    readRequestsOut: 0,
    atomicRequestsOut: 0,
    flushRequestsOut: 0,
    readResponsesOut: 0,
    acksOut: 0,
    atomicAcksOut: 0,
    naksOut: 0,
    rnrNaksOut: 0,
    persistAcksOut: 0,
    requestsIn: 0,
    acksIn: 0,
    atomicAcksIn: 0,
    naksIn: 0,
    rnrNaksIn: 0,
    persistAcksIn: 0,
    readResponsesIn: 0,
    duplicatesIn: 0,
    multicastIn: 0,
    ignoredResponsesIn: 0,
    retransmissions: 0,
    timeouts: 0,
    persistProbes: 0,
    dmaReads: 0,
    dmaWrites: 0,
    dmaReadBytes: 0,
    dmaWriteBytes: 0,
    dmaErrors: 0,
    lsbReads: 0,
    /** It is more than `lsbReads` where messages shared reads. */
    lsbPersisted: 0,
    recvPersisted: 0,
    atomicsExecuted: 0,
    /** Atomics that waited for another at the same address. */
    atomicsHeld: 0,
    flushesExecuted: 0,
    /** Answered verified writes (V-01), and those of them that are not "written" (V-02, V-03). */
    verifyWritesIn: 0,
    verifyCrcFailures: 0,
    verifyReadBackFailures: 0,
    verifyReadErrors: 0,
    verifyRepeats: 0,
    /**
     * Read-backs, and answers for which a sender's history has saved one (V-05); ps for which
     * either waited once all data was with the bus: the difference of the means is the cost of a
     * read-back (V-10).
     */
    verifyReadBacks: 0,
    verifyReadBackPs: 0,
    verifySkipped: 0,
    verifySkippedPs: 0,
    /** Stores that Q-04 forbids. */
    storesRefused: 0,
    doorbells: 0,
    doorbellsRefused: 0,
    /** Doorbells lost on the way, overwritten by the queue's next one, or without room. */
    doorbellsLost: 0,
    doorbellsCoalesced: 0,
    doorbellsDropped: 0,
    /**
     * Doorbells handled with an older pointer than the host had stored when it rang.
     */
    stalePointers: 0,
    blueFlameTaken: 0,
    blueFlameFetched: 0,
    queueReads: 0,
    doorbellReads: 0,
    /** Writes at evictions are not counted. */
    pointerWrites: 0,
    wqeReads: 0,
    cacheHits: 0,
    cacheMisses: 0,
    /** Hits are not counted. */
    contextMisses: 0,
    cacheEvictions: 0,
    /** Locks granted, refused, taken back. */
    locksGranted: 0,
    locksDenied: 0,
    locksTakenBack: 0,
    cqes: 0,
    cqeErrors: 0,
    cqOverflows: 0,
    interrupts: 0,
    commands: 0,
  };
}

export type Counters = ReturnType<typeof createCounters>;

/** In the order of the checks (`rocev2.md` §3.4). */
export type DropReason =
  | "held-off"
  | "receive-overrun"
  | "undecodable"
  | "roce-version"
  | "foreign-mac"
  | "foreign-address"
  | "foreign-group"
  | "group-qpn"
  | "congestion-notification"
  | "unknown-qp"
  | "wrong-service"
  | "wrong-state"
  | "vendor-operation"
  | "wrong-peer"
  | "p-key"
  | "q-key"
  | "psn-ahead"
  | "stalled-too-many"
  | "context-too-many"
  | "stale-duplicate"
  | "no-recv"
  /** An RC packet comes again. */
  | "page-fault"
  | "recv-too-small"
  | "broken-message"
  | "bad-length"
  | "remote-access";
