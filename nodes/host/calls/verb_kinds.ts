/**
 * The kinds of the verbs' arguments: objects, options and requests. `verb_calls.ts` has a row for
 * each verb.
 */
import { isWhole, wholeText } from "../../../fabric/base/whole_number.ts";
import { BLUE_FLAME } from "../../../fabric/rack/plan/plan.ts";
import type { QpAttributes, RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import type { ObjectPart, Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { WQE_OPCODES } from "../../../fabric/wire/host_bus/wqe_opcode.ts";
import type { HintEntry, HintGroup, HintMessage } from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ENCODINGS,
  HINT_OPERATIONS,
  HINT_REASONS,
  HINT_TYPES,
  type HintOperands,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { VERIFY_LEVELS } from "../../../fabric/wire/roce/verify_eth.ts";
import { type ConnectOptions, PATH_MTUS } from "../cm/connect.ts";
import type { CmRetry } from "../cm/cm_state.ts";
import type { Connection, ConnectionPath, ConnectionQp, Transport } from "../cm/connection.ts";
import type { RdmaCmEvent } from "../cm/rdma_event.ts";
import type { AcceptOptions, ConnectRequest, Listener } from "../cm/listen.ts";
import type {
  BindAddrOptions,
  RdmaConnParam,
  RdmaEventChannel,
  RdmaId,
  RdmaIdOptions,
  RdmaQpOptions,
  ResolveAddrOptions,
} from "../cm/rdma_id.ts";
import type { AhOptions } from "../verbs/address_handle.ts";
import type { WaitOptions } from "../verbs/completion_queue.ts";
import type { CqOptions } from "../verbs/create_cq.ts";
import * as constants from "../verbs/flags.ts";
import type {
  AccessFlags,
  AdviseFlags,
  CqFlags,
  DataInOrderFlags,
  FlushFlags,
  SendFlags,
  WcExFlags,
} from "../verbs/flags.ts";
import { LIMITS } from "../verbs/limits.ts";
import type {
  Advice,
  MemoryAdvice,
  RegionObject,
  RegionOptions,
  Reregistration,
} from "../verbs/memory_region.ts";
import type {
  Ah,
  CompChannel,
  Cq,
  FlushRequest,
  InlineRule,
  Mr,
  Mw,
  MwBind,
  Pd,
  Qp,
  RecvRequest,
  SendRequest,
  Srq,
  SrqOptions,
  UdDestination,
  VerifyRequest,
  WorkCompletion,
  WrId,
} from "../verbs/objects.ts";
import type { QpOptions, QpSize } from "../verbs/queue_pair.ts";
import type { Space2Change } from "../verbs/space2.ts";
import type { WorkBatch } from "../verbs/work_batch.ts";
import type { OpenDevice } from "../open_device.ts";
import type { Cpu } from "../cpu/program.ts";
import type { Buffer } from "../memory/address_map.ts";
import {
  address,
  atLeastOne,
  bytes,
  callback,
  count,
  deadline,
  flag,
  flags,
  ipv4,
  key,
  type Kind,
  kind,
  length,
  listOf,
  made,
  madeOr,
  name,
  offset,
  oneOf,
  only,
  optional,
  ownBytes,
  shape,
  size,
  tagged,
  u16,
  u24,
  u32,
  u64,
  u8,
  whole,
  within,
} from "./values.ts";

function constantsOf(prefix: RegExp): Readonly<Record<string, number>> {
  const all: [string, unknown][] = Object.entries(constants);
  return Object.fromEntries(
    all.filter((each): each is [string, number] =>
      prefix.test(each[0]) && typeof each[1] === "number"
    ),
  );
}

const accessFlags = flags<AccessFlags>("access flags", constantsOf(/_ACCESS_/));
export const sendFlags = flags<SendFlags>("send flags", constantsOf(/^IBV_SEND_/));
const flushFlags = flags<FlushFlags>("placement flags", constantsOf(/^IBV_FLUSH_/));
const wcExFlags = flags<WcExFlags>("fields of completions", constantsOf(/^IBV_WC_EX_/));
const cqFlags = flags<CqFlags>("flags of a completion queue", constantsOf(/^IBV_CREATE_CQ_ATTR_/));
export const dataInOrderFlags = flags<DataInOrderFlags>(
  "flags of a query",
  constantsOf(/^IBV_QUERY_QP_DATA_IN_ORDER_/),
);
const adviseFlags = flags<AdviseFlags>("flags of advice", constantsOf(/^IBV_ADVISE_/));

export const device = made<OpenDevice>("a device", "openContext or the program's context", [
  "state",
  "cpu",
  "context",
]);
export const pd = made<Pd>("a protection domain", "allocPd", ["handle", "uses", "device"]);
export const mr = made<Mr>("a region", "regMr", ["lkey", "rkey", "pd"]);
export const mw = made<Mw>("a window", "allocMw", ["type", "rkey", "uses"]);
export const cq = made<Cq>("a completion queue", "createCq", ["cqn", "place"]);
export const channel = made<CompChannel>("a completion channel", "createCompChannel", [
  "vector",
  "cqs",
]);
export const qp = made<Qp>("a queue pair", "createQp or a connection's qp", ["qpn", "sq", "rq"]);
export const srq = made<Srq>("a shared receive queue", "createSrq", ["srqn", "ring"]);
export const ah = made<Ah>("an address handle", "createAh", ["udpSourcePort", "hopLimit", "uses"]);
export const batch = made<WorkBatch>("a batch", "wrStart", ["requests", "open", "qp"]);
export const listener = made<Listener>("a listener", "listen", ["queue", "device"]);
export const request = made<ConnectRequest>("a connection request", "an event of the listener", [
  "endpoint",
  "from",
]);
/** An id has an `endpoint` and a `qp`, too. */
export const connection = made<Connection>("a connection", "connect or accept", [
  "endpoint",
  "qp",
  "label",
]);
export const completion = made<WorkCompletion<WrId>>("a completion", "pollCq", [
  "wrId",
  "status",
  "opcode",
]);
export const event = made<RnicEvent>("an asynchronous event", "getAsyncEvent", ["type"]);
export const eventChannel = made<RdmaEventChannel>("an event channel", "rdmaCreateEventChannel", [
  "ids",
  "byEndpoint",
]);
export const id = made<RdmaId>("an id", "rdmaCreateId or CONNECT_REQUEST", [
  "channel",
  "ps",
  "unacknowledged",
]);
export const cmEvent = made<RdmaCmEvent>("an event of a channel", "rdmaGetCmEvent", [
  "event",
  "id",
  "param",
]);
export const buffer = made<Buffer>("a buffer", "cpu.allocate or cpu.scm", [
  "address",
  "length",
  "pages",
]);
export const core = made<Cpu>("a core", "the program's context", ["load", "store", "program"]);

const WR_IDS = { least: 0, most: Number.MAX_SAFE_INTEGER };
export const wrId = kind<WrId>(
  `a work request's id, ${wholeText(WR_IDS)}, or a bigint of 64 bits, as 1n`,
  (value) => typeof value === "bigint" ? value >= 0n && value < 1n << 64n : isWhole(value, WR_IDS),
);
const sge = shape<Sge>("an element (sge)", {
  address,
  length: whole("a length in bytes", 0, 0xffff_ffff),
  lkey: key,
});
const sges = listOf(sge, "elements (sge)");
function oneOrMany<T>(each: Kind<T>, name: string): Kind<T | readonly T[]> {
  const many = listOf(each, name);
  return (value) => Array.isArray(value) ? many(value) : each(value);
}

const opcode = oneOf(
  Object.keys(WQE_OPCODES).filter((each): each is SendRequest["opcode"] => each !== "nop"),
);

export const bindInfo = {
  mr,
  offset: optional(offset),
  length: optional(length),
  access: accessFlags,
};
const bind = shape<MwBind>("a bind", { ...bindInfo, mw, rkey: key });
export const sendRequest = shape<SendRequest>("a send request", {
  opcode,
  wrId: optional(wrId),
  sges: optional(sges),
  sendFlags: optional(sendFlags),
  immediate: optional(u32),
  remote: optional(
    shape<NonNullable<SendRequest["remote"]>>("a remote place", { va: address, rkey: key }),
  ),
  atomic: optional(
    shape<NonNullable<SendRequest["atomic"]>>("operands", { swapAdd: u64, compare: u64 }),
  ),
  flush: optional(shape<FlushRequest>("a flush", {
    placement: flushFlags,
    selectivity: oneOf(["range", "mr"]),
    length: optional(whole("a length in bytes", 0, 2 ** 31)),
  })),
  verify: optional(shape<VerifyRequest>("a verification", {
    level: oneOf(VERIFY_LEVELS),
    persist: optional(flag),
    crc: optional(u32),
  })),
  bind: optional(bind),
  ud: optional(shape<UdDestination>("a destination", { ah, qpn: u24, qKey: u32 })),
  objects: optional(listOf(u64, "bigints")),
  parts: optional(
    listOf(shape<ObjectPart>("a part", { offset: u32, length: u32 }), "parts of objects"),
  ),
});
export const sendRequests = oneOrMany(sendRequest, "send requests");
export const recvRequests = oneOrMany(
  shape<RecvRequest>("a receive request", { wrId: optional(wrId), sges }),
  "receive requests",
);

const access = { access: accessFlags };
export const regionOptions = shape<RegionOptions>("options of a region", {
  ...access,
  offset: optional(offset),
  length: optional(size),
  pin: optional(oneOfTrue()),
  iova: optional(address),
  objects: optional(listOf(
    shape<RegionObject>("an object", { identity: u64, offset, length: size }),
    "objects",
  )),
});
function oneOfTrue(): Kind<true> {
  return kind("true, or nothing", (value) => value === true);
}
export const reregistration = shape<Reregistration>("changes of a region", {
  place: optional(shape<NonNullable<Reregistration["place"]>>("a place", {
    buffer,
    offset: optional(offset),
    length: optional(size),
    iova: optional(address),
  })),
  pd: optional(pd),
  access: optional(accessFlags),
});
export const advice = shape<Advice>("advice", {
  pd,
  sges,
  advice: oneOf(["prefetch", "prefetchWrite", "prefetchNoFault"]),
  flags: optional(adviseFlags),
});
export const memoryAdvice = shape<MemoryAdvice>("advice", {
  buffer,
  offset: optional(offset),
  length: optional(size),
  advice: oneOf(["dontneed", "pageout"]),
});

export const cqEntries = within(LIMITS.completions);
const receives = within(LIMITS.receives);
const workRequests = within(LIMITS.requests), elements = within(LIMITS.elements);
export const cqOptions = shape<CqOptions>("options of a completion queue", {
  entries: cqEntries,
  interrupts: optional(flag),
  channel: optional(channel),
  vector: optional(count),
  compVector: optional(within(LIMITS.vector)),
  wcFlags: optional(wcExFlags),
  flags: optional(cqFlags),
});
export const waitOptions = shape<WaitOptions>("options of a wait", {
  mode: optional(oneOf(["poll", "interrupt"])),
  deadline: optional(deadline),
  most: optional(atLeastOne),
  also: optional(
    shape<NonNullable<WaitOptions["also"]>>("what else ends a wait", {
      signal: name,
      ready: callback,
    }),
  ),
});
export const until = optional(
  shape<{ readonly deadline?: number }>("options of a wait", { deadline: optional(deadline) }),
);

const inlineRule = tagged<"by", InlineRule>("by", {
  size: shape("a rule", { by: only("size"), bytes: length }),
  type: shape("a rule", {
    by: only("type"),
    opcodes: listOf(opcode, "opcodes"),
    bytes: length,
  }),
  program: shape("a rule", { by: only("program") }),
});
const qpFields = {
  sendCq: cq,
  recvCq: cq,
  maxSendWr: workRequests,
  maxRecvWr: workRequests,
  srq: optional(srq),
  maxSendSge: optional(elements),
  maxRecvSge: optional(elements),
  maxInlineData: optional(within(LIMITS.inlineBytes)),
  inline: optional(inlineRule),
  sqSigAll: optional(flag),
  blueFlame: optional(oneOf(BLUE_FLAME)),
  persistCompletion: optional(oneOf(["persistence", "reception"])),
  weight: optional(within(LIMITS.weight)),
  hints: optional(oneOf(["on", "off", "carrier", "group"])),
  hintEncoding: optional(oneOf(HINT_ENCODINGS)),
  oneSided: optional(flag),
  maxObjects: optional(within(LIMITS.objects)),
};
export const idQpOptions = shape<RdmaQpOptions>("options of an id's queue pair", {
  ...qpFields,
  type: optional(oneOf(["rc", "uc", "ud"])),
});
export const qpOptions = shape<QpOptions>("options of a queue pair", {
  ...qpFields,
  type: oneOf(["rc", "uc", "ud"]),
  qpn: optional(u24),
});
const state = oneOf(["reset", "init", "rtr", "rts", "sqd", "sqe", "err"]);
const pathMtu = oneOf(PATH_MTUS);
const timeout = whole("a code of 5 bits", 0, 31);
const retries = whole("a number of retries", 0, 7);
export const attributes = shape<QpAttributes>("attributes of a queue pair", {
  state: optional(state),
  curState: optional(state),
  enSqdAsyncNotify: optional(flag),
  accessFlags: optional(accessFlags),
  pathMtu: optional(pathMtu),
  destAddress: optional(ipv4),
  trafficClass: optional(u8),
  hopLimit: optional(u8),
  flowLabel: optional(whole("20 bits", 0, 0xf_ffff)),
  udpSourcePort: optional(u16),
  destQpn: optional(u24),
  rqPsn: optional(u24),
  sqPsn: optional(u24),
  maxDestRdAtomic: optional(u8),
  maxRdAtomic: optional(u8),
  minRnrTimer: optional(timeout),
  timeout: optional(timeout),
  retryCnt: optional(retries),
  rnrRetry: optional(retries),
  qKey: optional(u32),
});
export const qpSize = shape<QpSize>("sizes of a queue pair", {
  maxSendWr: optional(workRequests),
  maxRecvWr: optional(workRequests),
});
export const srqOptions = shape<SrqOptions>("options of a shared receive queue", {
  maxWr: receives,
  maxSge: optional(within(LIMITS.sharedElements)),
});
export const srqChange = shape<{ readonly limit?: number; readonly maxWr?: number }>("changes", {
  limit: optional(within({ ...LIMITS.receives, least: 0 })),
  maxWr: optional(receives),
});
export const ahOptions = shape<AhOptions>("attributes of an address handle", {
  address: ipv4,
  trafficClass: optional(u8),
  hopLimit: optional(u8),
  flowLabel: optional(whole("20 bits", 0, 0xf_ffff)),
});
export const space2Change = shape<Space2Change>("a change of space 2", {
  queue: count,
  offset,
  data: ownBytes,
});

const hintEntry = shape<HintEntry>("an entry of a hint", {
  kinds: u8,
  operation: oneOf(HINT_OPERATIONS),
  messages: count,
  sequence: u24,
  rkey: key,
  length: u32,
  va: u64,
  objects: listOf(u64, "bigints"),
  operands: optional(shape<HintOperands>("operands", { swapAdd: u64, compare: u64 })),
  parts: optional(listOf(shape<ObjectPart>("a part", { offset: u32, length: u32 }), "parts")),
});
export const hint = shape<HintMessage>("a hint", {
  type: oneOf(HINT_TYPES),
  kinds: u8,
  reason: oneOf(HINT_REASONS),
  sequence: u32,
  answer: flag,
  groups: listOf(
    shape<HintGroup>("a group of a hint", {
      destQpn: u24,
      sourceQpn: u24,
      entries: listOf(hintEntry, "entries"),
    }),
    "groups",
  ),
});

const transport = optional(shape<Partial<Transport>>("timers of a connection", {
  timeout: optional(timeout),
  retryCnt: optional(retries),
  rnrRetry: optional(retries),
  minRnrTimer: optional(timeout),
}));
const retry = optional(shape<Partial<CmRetry>>("retries of the connection manager", {
  timeoutPs: optional(whole("picoseconds", 1, Number.MAX_SAFE_INTEGER)),
  tries: optional(whole("transmissions", 1, 16)),
}));
const connectionQp = shape<ConnectionQp>("options of a connection's queue pair", {
  ...qpFields,
  pd,
  type: optional(oneOf(["rc", "uc"])),
});
/** The program's own queue pair, or the options to create one. */
const ownOrMade = madeOr(qp, "qpn", connectionQp);
const rdAtomicDepth = optional(whole("READs and atomics at a time", 0, RD_ATOMIC_MAX));
const depths = { responderResources: rdAtomicDepth, initiatorDepth: rdAtomicDepth };
export const connectOptions = shape<ConnectOptions>("options of a connection", {
  ...depths,
  to: name,
  service: name,
  qp: ownOrMade,
  privateData: optional(bytes),
  transport,
  retry,
  pathMtu: optional(pathMtu),
  path: optional(shape<ConnectionPath>("a path", {
    trafficClass: optional(u8),
    hopLimit: optional(u8),
  })),
  prepare: optional(callback),
});
export const acceptOptions = shape<AcceptOptions>("options of a connection", {
  ...depths,
  qp: ownOrMade,
  privateData: optional(bytes),
  transport,
  prepare: optional(callback),
});
export const rejectOptions = optional(
  shape<{ readonly privateData?: Uint8Array }>("options of a rejection", {
    privateData: optional(bytes),
  }),
);
export const listenOptions = optional(
  shape<{ readonly retry?: Partial<CmRetry> }>("options of a listener", { retry }),
);

export const idOptions = shape<RdmaIdOptions>("options of an id", {
  ps: oneOf(["tcp", "udp"]),
  retry,
});
const host: Kind<string | number> = (value) =>
  typeof value === "number" ? ipv4(value) : name(value);
export const bindOptions = shape<BindAddrOptions>("a port", {
  port: u16,
  address: optional(host),
});
export const resolveOptions = shape<ResolveAddrOptions>("a destination", {
  to: host,
  port: u16,
  timeoutPs: optional(whole("picoseconds", 1, Number.MAX_SAFE_INTEGER)),
});
export const connParam = optional(shape<RdmaConnParam>("parameters of a connection", {
  privateData: optional(bytes),
  responderResources: optional(u8),
  initiatorDepth: optional(u8),
  retryCount: optional(retries),
  rnrRetryCount: optional(retries),
  qpNum: optional(u24),
  srq: optional(flag),
}));
