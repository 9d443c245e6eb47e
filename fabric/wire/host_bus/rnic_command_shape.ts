/**
 * Validates a value from another process as a command, reply or event of `rnic_command.ts`. One
 * table per union, one row per member; the compiler requires a row for every member and a check for
 * every field.
 */
import type {
  CqesWritten,
  PersistencePlan,
  QpAttributes,
  QueueSpaces,
  RegionChange,
  RegionPlan,
  RingPlace,
  RnicCommand,
  RnicEvent,
  RnicReply,
} from "./rnic_command.ts";

type Check = (value: unknown) => boolean;
/** A check per field; `optional` fields may be absent. */
type Shape<T> = {
  readonly [K in keyof T]-?: undefined extends T[K] ? OptionalCheck : Check;
};
interface OptionalCheck {
  readonly optional: Check;
}

const count: Check = (value) => isCount(value);
const u8 = below(0x100), u24 = below(0x100_0000), u32 = below(0x1_0000_0000);
const mac = below(0x1_0000_0000_0000);
const text: Check = (value) => typeof value === "string";
const flag: Check = (value) => typeof value === "boolean";
const counts: Check = (value) => Array.isArray(value) && value.every(isCount);
const counters: Check = (value) =>
  isPlainObject(value) && Object.values(value).every((n) => Number.isFinite(n));

function below(bound: number): Check {
  return (value) => isCount(value) && value < bound;
}

function oneOf(...values: readonly unknown[]): Check {
  return (value) => values.includes(value);
}

function shaped<T>(shape: Shape<T>): Check {
  return (value) => conforms(value, shape);
}

const ring = shaped<RingPlace>({ address: count, units: count });
const spaces = shaped<QueueSpaces>({ queues: count, space1: count, space2: count, space3: count });
const persistence = shaped<PersistencePlan>({
  flow: oneOf(1, 2),
  flush: oneOf("read", "cpu", "none"),
  noSnoop: flag,
});
const qpState = oneOf("reset", "init", "rtr", "rts", "sqd", "sqe", "err");
const attributes = shaped<QpAttributes>({
  state: { optional: qpState },
  curState: { optional: qpState },
  enSqdAsyncNotify: { optional: flag },
  accessFlags: { optional: u32 },
  pathMtu: { optional: oneOf(256, 512, 1024, 2048, 4096) },
  destAddress: { optional: u32 },
  trafficClass: { optional: u8 },
  hopLimit: { optional: u8 },
  flowLabel: { optional: below(0x10_0000) },
  udpSourcePort: { optional: below(0x1_0000) },
  destQpn: { optional: u24 },
  rqPsn: { optional: u24 },
  sqPsn: { optional: u24 },
  maxDestRdAtomic: { optional: u8 },
  maxRdAtomic: { optional: u8 },
  minRnrTimer: { optional: below(32) },
  timeout: { optional: below(32) },
  retryCnt: { optional: below(8) },
  rnrRetry: { optional: below(8) },
  qKey: { optional: u32 },
});
const region = shaped<RegionPlan>({
  pd: count,
  va: count,
  length: count,
  access: u32,
  pageBytes: count,
  pages: counts,
  persistent: flag,
});

const regionChange = shaped<RegionChange>({
  pd: { optional: count },
  access: { optional: u32 },
  place: {
    optional: shaped<NonNullable<RegionChange["place"]>>({
      va: count,
      length: count,
      pageBytes: count,
      pages: counts,
      persistent: flag,
    }),
  },
});
const written = shaped<CqesWritten>({ send: count, recv: count });

const COMMANDS: {
  readonly [Op in RnicCommand["op"]]: Shape<Omit<Extract<RnicCommand, { op: Op }>, "op">>;
} = {
  "init": { spaces, persistence },
  "create-cq": { ring, vector: (value) => value === null || isCount(value) },
  "resize-cq": { cqn: count, ring, taken: count, stamp: count },
  "create-srq": { ring, stride: count, pd: count },
  "modify-srq": { srqn: count, limit: count },
  "query-srq": { srqn: count },
  "destroy-srq": { srqn: count },
  "create-qp": {
    type: oneOf("rc", "uc", "ud"),
    sq: ring,
    rq: { optional: ring },
    rqStride: { optional: count },
    srq: { optional: count },
    sendCq: count,
    recvCq: count,
    pd: count,
    qpn: { optional: u24 },
    persistCompletion: oneOf("persistence", "reception"),
  },
  "modify-qp": { qpn: u24, attributes },
  "destroy-qp": { qpn: u24 },
  "attach-mcast": { qpn: u24, group: u32 },
  "detach-mcast": { qpn: u24, group: u32 },
  "destroy-cq": { cqn: count },
  "register-mr": { region },
  "reregister-mr": { key: u32, change: regionChange },
  "deregister-mr": { key: u32 },
  "allocate-mw": { type: oneOf(1, 2), pd: count },
  "deallocate-mw": { rkey: u32 },
  "write-space2": { queue: count, offset: count, data: isPlainBytes },
  "lock-space2": { queue: count },
  "unlock-space2": { queue: count },
  "expand-queue": { queue: count, ring },
  "query-statistics": {},
};

type OkReply = Extract<RnicReply, { status: "ok" }>;
const OK_REPLIES: {
  readonly [Op in OkReply["op"]]: Shape<Omit<Extract<OkReply, { op: Op }>, "op" | "status">>;
} = {
  "init": { address: u32, mac, mtu: count },
  "create-cq": { cqn: count },
  "create-qp": { qpn: u24, sqQueue: count, rqQueue: count },
  "register-mr": { lkey: u32, rkey: u32 },
  "query-statistics": { counters },
  "create-srq": { srqn: count },
  "query-srq": { limit: count },
  "allocate-mw": { rkey: u32 },
  "qp-emptied": { written },
  "done": {},
};
const ERROR_REPLY: Shape<Omit<Extract<RnicReply, { status: "error" }>, "status">> = {
  errno: oneOf("EINVAL", "ENOMEM", "EBUSY", "EPERM", "ENOENT"),
  reason: text,
};

const QP_EVENT = { qpn: u24 };
const EVENTS: { readonly [Type in RnicEvent["type"]]: Readonly<Record<string, Check>> } = {
  QP_FATAL: QP_EVENT,
  QP_REQ_ERR: QP_EVENT,
  QP_ACCESS_ERR: QP_EVENT,
  COMM_EST: QP_EVENT,
  SQ_DRAINED: QP_EVENT,
  QP_LAST_WQE_REACHED: QP_EVENT,
  SRQ_ERR: { srqn: count },
  SRQ_LIMIT_REACHED: { srqn: count },
  CQ_ERR: { cqn: count },
};

export function isRnicCommand(value: unknown): value is RnicCommand {
  return matchesRow(value, { rows: COMMANDS, names: ["op"] });
}

export function isRnicReply(value: unknown): value is RnicReply {
  if (!isPlainObject(value)) return false;
  if (value.status === "error") return conforms(value, ERROR_REPLY, ["status"]);
  return value.status === "ok" && matchesRow(value, { rows: OK_REPLIES, names: ["op", "status"] });
}

export function isRnicEvent(value: unknown): value is RnicEvent {
  return matchesRow(value, { rows: EVENTS, names: ["type"] });
}

interface RowTable {
  readonly rows: object;
  /** Fields that select the row; the first one is the key. */
  readonly names: readonly [string, ...string[]];
}

function matchesRow(value: unknown, { rows, names }: RowTable): boolean {
  if (!isPlainObject(value)) return false;
  const name = value[names[0]];
  if (typeof name !== "string" || !Object.hasOwn(rows, name)) return false;
  return conforms(value, (rows as Readonly<Record<string, object>>)[name]!, names);
}

/** True where every field passes its check and no other field exists, except for `besides`. */
function conforms(value: unknown, shape: object, besides: readonly string[] = []): boolean {
  if (!isPlainObject(value)) return false;
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(shape, name) && !besides.includes(name)) return false;
  }
  for (const [name, check] of Object.entries(shape as Record<string, Check | OptionalCheck>)) {
    if (typeof check === "function") {
      if (!check(value[name])) return false;
    } else if (Object.hasOwn(value, name) && !check.optional(value[name])) {
      return false;
    }
  }
  return true;
}

/** An integer ≥ 0 that a number represents exactly. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Bytes without shared memory. */
export function isBytes(value: unknown): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.buffer instanceof ArrayBuffer;
}

/** A subclass's `slice` might not copy. */
function isPlainBytes(value: unknown): boolean {
  return isBytes(value) && Object.getPrototypeOf(value) === Uint8Array.prototype;
}

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
