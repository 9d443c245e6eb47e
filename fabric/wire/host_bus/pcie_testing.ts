/** For tests only: bus messages to try things on, given and arbitrary. */
import fc from "fast-check";
import type { PcieMessage } from "./pcie.ts";
import { anyRegionMessage } from "./region_testing.ts";
import type { RnicCommand, RnicEvent, RnicReply } from "./rnic_command.ts";

const ring = { address: 0x1000, units: 64 };
/** One of every command, and both ends of what is optional. */
export const COMMANDS: readonly RnicCommand[] = [
  {
    op: "init",
    spaces: { queues: 8, space1: 0, space2: 4096, space3: 8192 },
    persistence: { flow: 2, flush: "cpu", noSnoop: true },
  },
  { op: "create-cq", ring, vector: null },
  { op: "set-event-queue", cqn: 3 },
  { op: "create-cq", ring, vector: 3 },
  {
    op: "create-qp",
    type: "rc",
    sq: ring,
    rq: ring,
    rqStride: 64,
    sendCq: 1,
    recvCq: 1,
    pd: 1,
    persistCompletion: "reception",
    weight: 3,
  },
  {
    op: "create-qp",
    type: "ud",
    sq: ring,
    rq: ring,
    rqStride: 64,
    sendCq: 1,
    recvCq: 1,
    pd: 1,
    qpn: 1,
    persistCompletion: "persistence",
  },
  {
    op: "create-qp",
    type: "rc",
    sq: ring,
    srq: 4,
    sendCq: 1,
    recvCq: 1,
    pd: 1,
    persistCompletion: "persistence",
  },
  { op: "resize-cq", cqn: 2, ring, taken: 70, stamp: 12 },
  { op: "create-srq", ring, stride: 32, pd: 1 },
  { op: "modify-srq", srqn: 4, limit: 7 },
  { op: "query-srq", srqn: 4 },
  { op: "destroy-srq", srqn: 4 },
  { op: "modify-qp", qpn: 17, attributes: {} },
  {
    op: "modify-qp",
    qpn: 17,
    attributes: { state: "sqd", curState: "rts", enSqdAsyncNotify: true },
  },
  {
    op: "modify-qp",
    qpn: 17,
    attributes: {
      state: "rtr",
      accessFlags: 2 ** 30 + 7,
      pathMtu: 4096,
      destAddress: 0x0a00_0002,
      destQpn: 18,
      rqPsn: 0xff_ffff,
      sqPsn: 0,
      maxDestRdAtomic: 16,
      maxRdAtomic: 16,
      minRnrTimer: 12,
      timeout: 14,
      retryCnt: 7,
      rnrRetry: 7,
      qKey: 0x8001_0000,
    },
  },
  { op: "destroy-qp", qpn: 17 },
  { op: "destroy-cq", cqn: 2 },
  {
    op: "register-mr",
    region: {
      pd: 1,
      va: 2 ** 46,
      length: 8192,
      access: 7,
      pageBytes: 4096,
      pages: [0, 4096],
      persistent: true,
      objects: [{ nameHigh: 0xffff_ffff, nameLow: 7, va: 2 ** 46, length: 8 }],
    },
  },
  { op: "reregister-mr", key: 0x12a5c, change: {} },
  {
    op: "reregister-mr",
    key: 0x12a5c,
    change: {
      pd: 2,
      access: 1,
      place: { va: 0, length: 1, pageBytes: 4096, pages: [8192], persistent: false },
    },
  },
  { op: "deregister-mr", key: 0x12a5c },
  { op: "allocate-mw", type: 2, pd: 1 },
  { op: "deallocate-mw", rkey: 0x12a5c },
  { op: "write-space2", queue: 1, offset: 0, data: new Uint8Array([1, 2]) },
  { op: "lock-space2", queue: 1 },
  { op: "unlock-space2", queue: 1 },
  { op: "expand-queue", queue: 1, ring },
  { op: "send-hint", qpn: 17, message: new Uint8Array([104, 105]) },
  { op: "hint-work", id: 3 },
  { op: "register-region", region: 2 },
  { op: "deregister-region", region: 0 },
  { op: "move-region", region: 1, place: "local" },
  { op: "query-statistics" },
];
/** One of every reply. */
export const REPLIES: readonly RnicReply[] = [
  { status: "ok", op: "init", address: 0x0a00_0001, mac: 0x0200_0000_0001, mtu: 4096 },
  { status: "ok", op: "create-cq", cqn: 1 },
  { status: "ok", op: "create-qp", qpn: 17, sqQueue: 2, rqQueue: 3 },
  { status: "ok", op: "register-mr", lkey: 5, rkey: 0xffff_ffff },
  { status: "ok", op: "query-statistics", counters: { packets: 3, meanNs: 1.5 } },
  { status: "ok", op: "create-srq", srqn: 4 },
  { status: "ok", op: "query-srq", limit: 7 },
  { status: "ok", op: "allocate-mw", rkey: 0x101 },
  { status: "ok", op: "lock-space2", until: 2 ** 40 },
  { status: "ok", op: "queue-resumed", read: 3, written: 7, stamp: 2 ** 40 },
  { status: "ok", op: "done" },
  { status: "ok", op: "qp-emptied", written: { send: 3, recv: 4 } },
  { status: "error", errno: "EINVAL", reason: "length is 0" },
];
/** One of every event. */
export const EVENTS: readonly RnicEvent[] = [
  { type: "QP_FATAL", qpn: 17 },
  { type: "PORT_ERR", portNum: 1 },
  { type: "PORT_ACTIVE", portNum: 1 },
  { type: "DEVICE_FATAL" },
  { type: "QP_REQ_ERR", qpn: 17 },
  { type: "QP_ACCESS_ERR", qpn: 17 },
  { type: "COMM_EST", qpn: 17 },
  { type: "SQ_DRAINED", qpn: 17 },
  { type: "QP_LAST_WQE_REACHED", qpn: 17 },
  { type: "SRQ_ERR", srqn: 4 },
  { type: "SRQ_LIMIT_REACHED", srqn: 4 },
  { type: "CQ_ERR", cqn: 2 },
  { type: "HINT_WORK", id: 3, job: "announce", elements: 8 },
  { type: "REGION_LOST", region: 1, first: 3, count: 2 },
  { type: "REGION_FENCED", region: 1, agent: 2 },
  { type: "REGION_COUNTS", region: 1, agent: 2, loads: 70, stores: 3 },
];

/** As an object from elsewhere is: with the ordinary prototype. */
function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>;
}
function bytes(maxLength: number): fc.Arbitrary<Uint8Array<ArrayBuffer>> {
  return fc.uint8Array({ maxLength }).map((from) => new Uint8Array(from));
}
const is = fc.constant, count = fc.maxSafeNat();
/** Of a message of ATS or PRI. */
const pages = {
  key: count,
  first: count,
  count: fc.integer({ min: 1 }),
  ahead: count,
  write: fc.boolean(),
};

/** Any message that a node may send. */
export const anyPcieMessage: fc.Arbitrary<PcieMessage> = fc.oneof(
  record<PcieMessage>({
    kind: is("memory-write"),
    address: count,
    data: bytes(100),
    noSnoop: fc.boolean(),
  }),
  record<PcieMessage>({
    kind: is("memory-read"),
    tag: count,
    address: count,
    length: count,
    noSnoop: fc.boolean(),
  }),
  record<PcieMessage>({
    kind: is("memory-read"),
    tag: count,
    address: count,
    length: count,
    noSnoop: fc.boolean(),
    medium: is(true),
  }),
  record<PcieMessage>({
    kind: is("memory-read"),
    tag: count,
    address: count,
    length: count,
    noSnoop: fc.boolean(),
    tracked: is(true),
  }),
  record<PcieMessage>({ kind: is("snoop-invalidate"), address: count }),
  record<PcieMessage>({
    kind: is("completion"),
    tag: count,
    status: is("success"),
    data: bytes(9),
  }),
  record<PcieMessage>({
    kind: is("completion"),
    tag: count,
    status: is("unsupported-request"),
    data: bytes(0),
  }),
  record<PcieMessage>({ kind: is("interrupt"), vector: count }),
  record<PcieMessage>({ kind: is("register-write"), offset: count, data: bytes(64) }),
  record<PcieMessage>({
    kind: is("register-write"),
    offset: count,
    data: bytes(64),
    stored: fc.record({ pointer: count, stamp: count }, { noNullPrototype: true }),
  }),
  record<PcieMessage>({
    kind: is("register-write"),
    offset: count,
    data: bytes(64),
    by: count,
  }),
  record<PcieMessage>({ kind: is("register-read"), tag: count, offset: count, length: count }),
  record<PcieMessage>({
    kind: is("access-error"),
    by: count,
    address: count,
    length: count,
    space: fc.constantFrom(1 as const, 2 as const),
    queue: count,
  }),
  record<PcieMessage>({
    kind: is("access-error"),
    by: count,
    address: count,
    length: count,
    space: is(2),
    queue: count,
    holder: count,
  }),
  record<PcieMessage>({
    kind: is("ats"),
    step: fc.constantFrom("page-request", "page-response", "translate"),
    ...pages,
    frames: is([]),
  }),
  record<PcieMessage>({
    kind: is("ats"),
    step: is("page-request"),
    ...pages,
    frames: is([]),
    hintsOf: count,
  }),
  fc.array(count, { minLength: 1, maxLength: 9 }).map((frames): PcieMessage => ({
    kind: "ats",
    step: "translated",
    key: 5,
    first: 2,
    count: frames.length,
    ahead: 0,
    write: true,
    frames,
  })),
  record<PcieMessage>({ kind: is("command"), id: count, command: fc.constantFrom(...COMMANDS) }),
  record<PcieMessage>({ kind: is("reply"), id: count, reply: fc.constantFrom(...REPLIES) }),
  anyRegionMessage,
  record<PcieMessage>({ kind: is("event"), event: fc.constantFrom(...EVENTS) }),
);
