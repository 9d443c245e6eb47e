/**
 * Wrong calls of an own program: each answers EINVAL with the argument's field, what was found and what was
 * expected, at the line of the program, and changes nothing.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CORE_CALLS } from "../../nodes/host/calls/core_calls.ts";
import { VERB_CALLS } from "../../nodes/host/calls/verb_calls.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Mw, Qp, Srq } from "../../nodes/host/verbs/objects.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { type Body, connected, type Ends } from "../support/two_programs.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_RELAXED_ORDERING, IBV_SEND_SIGNALED } from "rackmesh";

/** What the calls are made with. All is right but for what a case says. */
interface Things extends Ends {
  readonly cpu: ProgramContext["cpu"];
  readonly device: ProgramContext["device"];
  readonly ud: Qp;
  readonly srq: Srq;
  readonly mw: Mw;
  /** A legal WRITE. */
  readonly write: { readonly [field: string]: unknown };
}

// deno-lint-ignore no-explicit-any -- the calls are wrong
type Any = any;
/** Arguments, and what is said of them behind the name of the call and the line. */
type Case = readonly [args: (things: Things) => readonly unknown[], text: string];

const KEY = "a key, a whole number from 0 to 4294967295";
const ELEMENT_BYTES = "a length in bytes, a whole number from 0 to 4294967295";
const BYTES = "a length in bytes, a whole number ≥ 0, below 2^53";
const SIZE = "a length in bytes, a whole number ≥ 1, below 2^53";
const OFFSET = "an offset in bytes, a whole number ≥ 0, below 2^53";
const ADDRESS = "an address, a whole number ≥ 0, below 2^53";
const BITS_32 = "32 bits, a whole number from 0 to 4294967295";
const BITS_24 = "24 bits, a whole number from 0 to 16777215";
const BITS_8 = "8 bits, a whole number from 0 to 255";
const ENTRIES = "a number of completions, a whole number from 1 to 1048576";
const RECEIVES = "a number of receives, a whole number from 1 to 32767";
const REQUESTS = "a number of work requests, a whole number from 0 to 65535";
const COUNT = "a number of them, a whole number ≥ 0, below 2^53";
const BIGINT = "a bigint of 64 bits, as 1n";
const WR_ID = "a work request's id, a whole number ≥ 0, below 2^53, or a bigint of 64 bits, as 1n";
const QP = "a queue pair, as createQp or a connection's qp returns it";
const PD = "a protection domain, as allocPd returns it";
const BUFFER = "a buffer, as cpu.allocate or cpu.scm returns it";
const ACCESS =
  "access flags combined by |: IBV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_PERSISTENT, " +
  "IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND …";
const SEND = "send flags combined by |: IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, " +
  "IBV_SEND_SOLICITED";
const UNTIL = "a time in picoseconds (cpu.now + …) or NEVER";
const PASSED = "picoseconds, a number of 0 or more";

const NOTES = 'expected one of "writes", "visible", "persistent", "operation", "operation-end", ' +
  '"object", "freed", "log"';
const OBJECT = 'note.state is "whole": expected one of "begun", "asked", "stored", "withdrawn", ' +
  '"removing", "removed"';
const OPERATION = { kind: "operation", id: 1, on: "b", object: "x", type: "log", call: "append" };

/** A WRITE with something wrong. */
function post(change: (things: Things) => object): Case[0] {
  return (things) => [things.qp, { ...things.write, ...change(things) }];
}

function region(change: object): Case[0] {
  return ({ pd, cpu }) => [
    pd,
    cpu.scm,
    { access: IBV_ACCESS_LOCAL_WRITE, offset: 1 << 20, length: 64, ...change },
  ];
}

function pair(change: object): Case[0] {
  return ({ pd, qp: { sendCq } }) => [
    pd,
    { type: "rc", sendCq, recvCq: sendCq, maxSendWr: 4, maxRecvWr: 4, ...change },
  ];
}

function attributes(change: object): Case[0] {
  return ({ qp }) => [qp, change];
}

const connectionQp = ({ pd, qp: { sendCq } }: Things) => ({
  pd,
  sendCq,
  recvCq: sendCq,
  maxSendWr: 4,
  maxRecvWr: 4,
});

const VERBS: readonly (readonly [keyof typeof VERB_CALLS, ...Case])[] = [
  ["regMr", ({ cpu }) => [undefined, cpu.scm, {}], `pd is not given: expected ${PD}`],
  ["regMr", ({ pd }) => [pd, 4096, {}], `buffer is 4096: expected ${BUFFER}`],
  ["regMr", ({ pd, cpu }) => [pd, cpu.scm], "options is not given: expected options of a region"],
  ["regMr", region({ access: undefined }), `options.access is not given: expected ${ACCESS}`],
  [
    "regMr",
    region({ access: ["remoteWrite"] }),
    `options.access is a list of 1: expected ${ACCESS}`,
  ],
  [
    "regMr",
    region({ access: "LOCAL_WRITE" }),
    `options.access is "LOCAL_WRITE": expected ${ACCESS}`,
  ],
  [
    "regMr",
    region({ access: 0x85 }),
    `options.access is 0x85, of which 0x80 is none: expected ${ACCESS}`,
  ],
  [
    "regMr",
    region({ acess: 1 }),
    "options.acess is no field of options of a region: expected access, offset, length, pin, iova, objects",
  ],
  ["regMr", region({ length: -1 }), `options.length is -1: expected ${SIZE}`],
  ["regMr", region({ length: 0.5 }), `options.length is 0.5: expected ${SIZE}`],
  ["regMr", region({ length: NaN }), `options.length is NaN: expected ${SIZE}`],
  ["regMr", region({ offset: 64n }), `options.offset is 64n, a bigint: expected ${OFFSET}`],
  ["regMr", region({ iova: -4096 }), `options.iova is -4096: expected ${ADDRESS}`],
  ["regMr", region({ pin: 1 }), "options.pin is 1: expected true, or nothing"],
  [
    "regMr",
    region({ objects: [{ identity: 5, offset: 0, length: 8 }] }),
    `options.objects[0].identity is 5: expected ${BIGINT}`,
  ],
  ["reregMr", ({ mr }) => [mr, { access: "all" }], `change.access is "all": expected ${ACCESS}`],
  [
    "reregMr",
    ({ mr }) => [mr, { place: { buffer: null } }],
    `change.place.buffer is null: expected ${BUFFER}`,
  ],
  ["deregMr", ({ qp }) => [qp.qpn * 0], "mr is 0: expected a region, as regMr returns it"],
  [
    "adviseMr",
    ({ pd }) => [{ pd, sges: [], advice: "IBV_ADVISE_MR_ADVICE_PREFETCH" }],
    'request.advice is "IBV_ADVISE_MR_ADVICE_PREFETCH": expected "prefetch", as it is here',
  ],
  [
    "adviseMr",
    ({ pd }) => [{ pd, sges: [], advice: "prefetch", flags: 2 }],
    "request.flags is 0x2, of which 0x2 is none: expected flags of advice combined by |: IBV_ADVISE_MR_FLAG_FLUSH",
  ],
  [
    "madvise",
    ({ device, cpu }) => [device, { buffer: cpu.scm, advice: "free" }],
    'advice.advice is "free": expected one of "dontneed", "pageout"',
  ],
  ["allocMw", ({ pd }) => [pd, 3], "type is 3: expected one of 1, 2"],
  [
    "allocMw",
    ({ pd }) => [pd, "IBV_MW_TYPE_2"],
    'type is "IBV_MW_TYPE_2": expected 2, as it is here',
  ],
  [
    "bindMw",
    ({ qp, mw, mr }) => [qp, mw, { mr, access: 1 << 27 }],
    `options.access is 0x8000000, of which 0x8000000 is none: expected ${ACCESS}`,
  ],
  [
    "bindMw",
    ({ qp, mw }) => [qp, mw, { access: 0 }],
    "options.mr is not given: expected a region, as regMr returns it",
  ],
  ["incRkey", () => [2 ** 32], `rkey is 4294967296: expected ${KEY}`],
  ["createCq", ({ device }) => [device, {}], `options.entries is not given: expected ${ENTRIES}`],
  [
    "createCq",
    ({ device }) => [device, { entries: 1.5 }],
    `options.entries is 1.5: expected ${ENTRIES}`,
  ],
  [
    "createCq",
    ({ device }) => [device, 16],
    "options is 16: expected options of a completion queue",
  ],
  ["pollCq", ({ qp }) => [qp.sendCq], `most is not given: expected ${COUNT}`],
  [
    "pollCq",
    ({ qp }) => [qp, 1],
    "cq is an object with device, pd, qpn, type, sendCq, recvCq, …: expected a completion queue, as createCq returns it",
  ],
  ["reqNotifyCq", ({ qp }) => [qp.sendCq, true], "options is true: expected options"],
  [
    "createCq",
    ({ device }) => [device, { entries: 4_194_303 }],
    `options.entries is 4194303: expected ${ENTRIES}`,
  ],
  ["resizeCq", ({ qp }) => [qp.sendCq, "16"], `entries is "16": expected ${ENTRIES}`],
  [
    "waitCompletion",
    ({ qp }) => [qp.sendCq, 5e6],
    "options is 5000000: expected options of a wait",
  ],
  [
    "waitCompletion",
    ({ qp }) => [qp.sendCq, { deadline: NaN }],
    `options.deadline is NaN: expected ${UNTIL}`,
  ],
  [
    "waitCompletion",
    ({ qp }) => [qp.sendCq, { mode: "spin" }],
    'options.mode is "spin": expected one of "poll", "interrupt"',
  ],
  ["ackCqEvents", ({ qp }) => [qp.sendCq, -1], `count is -1: expected ${COUNT}`],
  [
    "getAsyncEvent",
    ({ device }) => [device, { deadline: -1 }],
    `options.deadline is -1: expected ${UNTIL}`,
  ],
  [
    "createQp",
    pair({ type: "IBV_QPT_RC" }),
    'options.type is "IBV_QPT_RC": expected "rc", as it is here',
  ],
  ["createQp", pair({ type: "xrc" }), 'options.type is "xrc": expected one of "rc", "uc", "ud"'],
  [
    "createQp",
    pair({ sendCq: undefined }),
    "options.sendCq is not given: expected a completion queue, as createCq returns it",
  ],
  ["createQp", pair({ maxSendWr: -1 }), `options.maxSendWr is -1: expected ${REQUESTS}`],
  ["createQp", pair({ maxSendWr: 2.5 }), `options.maxSendWr is 2.5: expected ${REQUESTS}`],
  ["createQp", pair({ maxRecvWr: 65_536 }), `options.maxRecvWr is 65536: expected ${REQUESTS}`],
  [
    "createQp",
    pair({ maxSendSge: 31 }),
    "options.maxSendSge is 31: expected a number of elements (sge), a whole number from 0 to 30",
  ],
  [
    "createQp",
    pair({ maxInlineData: 237 }),
    "options.maxInlineData is 237: expected a length in bytes, a whole number from 0 to 236",
  ],
  [
    "createQp",
    pair({ weight: 256 }),
    "options.weight is 256: expected a weight, a whole number from 1 to 255",
  ],
  [
    "createQp",
    pair({ srq: {} }),
    "options.srq is an object without fields: expected a shared receive queue, as createSrq returns it",
  ],
  [
    "createQp",
    pair({ maxSends: 4 }),
    /^options\.maxSends is no field of options of a queue pair: expected sendCq, recvCq, maxSendWr/ as Any,
  ],
  [
    "modifyQp",
    attributes({ state: "RTR" }),
    'attributes.state is "RTR": expected one of "reset", "init", "rtr", "rts", "sqd", "sqe", "err"',
  ],
  [
    "modifyQp",
    attributes({ state: "IBV_QPS_RTR" }),
    'attributes.state is "IBV_QPS_RTR": expected "rtr", as it is here',
  ],
  [
    "modifyQp",
    attributes({ destQpn: 1 << 24 }),
    `attributes.destQpn is 16777216: expected ${BITS_24}`,
  ],
  ["modifyQp", attributes({ rqPsn: -1 }), `attributes.rqPsn is -1: expected ${BITS_24}`],
  [
    "modifyQp",
    attributes({ pathMtu: 1500 }),
    "attributes.pathMtu is 1500: expected one of 256, 512, 1024, 2048, 4096",
  ],
  [
    "modifyQp",
    attributes({ timeout: 32 }),
    "attributes.timeout is 32: expected a code of 5 bits, a whole number from 0 to 31",
  ],
  [
    "modifyQp",
    attributes({ destAddress: "10.0.0.2" }),
    'attributes.destAddress is "10.0.0.2": expected an IPv4 address, a whole number from 0 to 4294967295',
  ],
  [
    "modifyQp",
    attributes({ accessFlags: 1 << 28 }),
    `attributes.accessFlags is 0x10000000, of which 0x10000000 is none: expected ${ACCESS}`,
  ],
  ["resizeQp", attributes({ maxSendWr: "64" }), `size.maxSendWr is "64": expected ${REQUESTS}`],
  ["postSend", ({ write }) => [undefined, write], `qp is not given: expected ${QP}`],
  ["postSend", ({ qp }) => [qp], "requests is not given: expected a send request"],
  [
    "postSend",
    post(() => ({ opcode: undefined })),
    /^requests\.opcode is not given: expected one of "send-invalidate", "write", / as Any,
  ],
  [
    "postSend",
    post(() => ({ opcode: "IBV_WR_RDMA_WRITE" })),
    'requests.opcode is "IBV_WR_RDMA_WRITE": expected "write", as it is here',
  ],
  [
    "postSend",
    post(() => ({ opcode: "nop" })),
    /^requests\.opcode is "nop": expected one of / as Any,
  ],
  [
    "postSend",
    post(() => ({ opcode: "toString" })),
    /^requests\.opcode is "toString": expected one of / as Any,
  ],
  [
    "postSend",
    post(() => ({ wrId: -1 })),
    `requests.wrId is -1: expected ${WR_ID}`,
  ],
  [
    "postSend",
    post(() => ({ wrId: -7n })),
    `requests.wrId is -7n, a bigint: expected ${WR_ID}`,
  ],
  [
    "postSend",
    post(() => ({ wrId: 1n << 64n })),
    `requests.wrId is 18446744073709551616n, a bigint: expected ${WR_ID}`,
  ],
  [
    "postSend",
    post(() => ({ wrId: 2 ** 53 })),
    `requests.wrId is 9007199254740992: expected ${WR_ID}`,
  ],
  [
    "postSend",
    post(() => ({ sgse: [] })),
    /^requests\.sgse is no field of a send request: expected opcode, wrId, sges, / as Any,
  ],
  [
    "postSend",
    post(({ mr }) => ({ sges: mr })),
    /^requests\.sges is an object with pd, address, length, lkey, rkey, access.*: expected a list of elements \(sge\)$/ as Any,
  ],
  [
    "postSend",
    post(() => ({ sges: [undefined] })),
    "requests.sges[0] is not given: expected an element (sge)",
  ],
  [
    "postSend",
    post(({ mr }) => ({ sges: [{ address: mr.address, length: -8, lkey: mr.lkey }] })),
    `requests.sges[0].length is -8: expected ${ELEMENT_BYTES}`,
  ],
  [
    "postRecv",
    ({ qp, mr }) => [qp, { sges: [{ address: mr.address, length: 2 ** 32 + 64, lkey: mr.lkey }] }],
    `requests.sges[0].length is 4294967360: expected ${ELEMENT_BYTES}`,
  ],
  [
    "postSend",
    post(({ mr }) => ({ sges: [{ address: mr.address, length: 8, lkey: -1 }] })),
    `requests.sges[0].lkey is -1: expected ${KEY}`,
  ],
  [
    "postSend",
    post(({ mr }) => ({ sges: [{ address: BigInt(mr.address), length: 8, lkey: mr.lkey }] })),
    /^requests\.sges\[0\]\.address is \d+n, a bigint: expected an address/ as Any,
  ],
  [
    "postSend",
    post(() => ({ sendFlags: 16 })),
    `requests.sendFlags is 0x10, of which 0x10 is none: expected ${SEND}`,
  ],
  [
    "postSend",
    post(() => ({ sendFlags: ["signaled"] })),
    `requests.sendFlags is a list of 1: expected ${SEND}`,
  ],
  [
    "postSend",
    post(() => ({ signaled: true })),
    /^requests\.signaled is no field of a send request: / as Any,
  ],
  [
    "postSend",
    post(() => ({ immediate: 2 ** 32 })),
    `requests.immediate is 4294967296: expected ${BITS_32}`,
  ],
  [
    "postSend",
    post(() => ({ remote: { va: 0n, rkey: 1 } })),
    `requests.remote.va is 0n, a bigint: expected ${ADDRESS}`,
  ],
  [
    "postSend",
    post(() => ({ remote: { va: 0, rkey: "k" } })),
    `requests.remote.rkey is "k": expected ${KEY}`,
  ],
  [
    "postSend",
    post(() => ({ remote: { va: 0 } })),
    `requests.remote.rkey is not given: expected ${KEY}`,
  ],
  [
    "postSend",
    post(() => ({ opcode: "fetch-add", atomic: { swapAdd: 1, compare: 0n } })),
    `requests.atomic.swapAdd is 1: expected ${BIGINT}`,
  ],
  [
    "postSend",
    post(() => ({ opcode: "fetch-add", atomic: { swapAdd: 1n } })),
    `requests.atomic.compare is not given: expected ${BIGINT}`,
  ],
  [
    "postSend",
    post(() => ({ opcode: "flush", flush: { placement: ["persistent"], selectivity: "mr" } })),
    "requests.flush.placement is a list of 1: expected placement flags combined by |: IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT",
  ],
  [
    "postSend",
    post(() => ({ opcode: "flush", flush: { placement: 1, selectivity: "all" } })),
    'requests.flush.selectivity is "all": expected one of "range", "mr"',
  ],
  [
    "postSend",
    post(() => ({ opcode: "write-verify", verify: { level: "full" } })),
    'requests.verify.level is "full": expected one of "none", "check", "verify", "verify-crc", "read-back", "crc-after"',
  ],
  [
    "postSend",
    ({ ud }) => [ud, { opcode: "send", ud: { ah: {}, qpn: 5, qKey: 1 } }],
    "requests.ud.ah is an object without fields: expected an address handle, as createAh returns it",
  ],
  [
    "postSend",
    ({ qp, write }) => [qp, [write, { ...write, wrId: 0.5 }]],
    `requests[1].wrId is 0.5: expected ${WR_ID}`,
  ],
  [
    "postRecv",
    ({ qp }) => [qp, {}],
    "requests.sges is not given: expected a list of elements (sge)",
  ],
  [
    "postRecv",
    ({ qp }) => [qp, [{ sges: [] }, null]],
    "requests[1] is null: expected a receive request",
  ],
  [
    "postSrqRecv",
    ({ srq }) => [srq, { sges: [{}] }],
    `requests.sges[0].address is not given: expected ${ADDRESS}`,
  ],
  [
    "wrAdd",
    ({ qp, device, write }) => [device.verbs.wrStart(qp), { ...write, opcode: 8 }],
    /^request\.opcode is 8: expected one of / as Any,
  ],
  [
    "wrComplete",
    ({ qp }) => [qp],
    /^batch is an object with .*: expected a batch, as wrStart returns it$/ as Any,
  ],
  ["createSrq", ({ pd }) => [pd, { maxWr: -1 }], `options.maxWr is -1: expected ${RECEIVES}`],
  [
    "modifySrq",
    ({ srq }) => [srq, { limit: 0.5 }],
    "change.limit is 0.5: expected a number of receives, a whole number from 0 to 32767",
  ],
  ["sge", ({ mr }) => [mr, -1], `offset is -1: expected ${OFFSET}`],
  ["sge", ({ mr }) => [mr, 0, NaN], `length is NaN: expected ${BYTES}`],
  [
    "createAh",
    ({ pd }) => [pd, { address: -1 }],
    "options.address is -1: expected an IPv4 address, a whole number from 0 to 4294967295",
  ],
  [
    "createAh",
    ({ pd }) => [pd, { address: 1, trafficClass: 256 }],
    `options.trafficClass is 256: expected ${BITS_8}`,
  ],
  ["createAhFromWc", ({ pd }) => [pd, [0x45]], "area is a list of 1: expected bytes, a Uint8Array"],
  [
    "attachMcast",
    ({ ud }) => [ud, "224.0.0.1"],
    'group is "224.0.0.1": expected an IPv4 address, a whole number from 0 to 4294967295',
  ],
  [
    "modifyQpUdpSport",
    ({ qp }) => [qp, 65536],
    "udpSourcePort is 65536: expected 16 bits, a whole number from 0 to 65535",
  ],
  ["queueFill", ({ qp }) => [qp, "both"], 'which is "both": expected one of "send", "recv"'],
  [
    "connect",
    ({ device, ...things }) => [device, { service: "s", qp: connectionQp({ device, ...things }) }],
    "options.to is not given: expected a name, a text that is not empty",
  ],
  [
    "connect",
    (
      { device, ...things },
    ) => [device, {
      to: "b",
      service: "s",
      qp: { ...connectionQp({ device, ...things }), pd: undefined },
    }],
    `options.qp.pd is not given: expected ${PD}`,
  ],
  [
    "connect",
    (
      { device, ...things },
    ) => [device, {
      to: "b",
      service: "s",
      qp: connectionQp({ device, ...things }),
      privateData: "hello",
    }],
    'options.privateData is "hello": expected bytes, a Uint8Array',
  ],
  [
    "connect",
    (
      { device, ...things },
    ) => [device, {
      to: "b",
      service: "s",
      qp: connectionQp({ device, ...things }),
      transport: { timeout: 99 },
    }],
    "options.transport.timeout is 99: expected a code of 5 bits, a whole number from 0 to 31",
  ],
  [
    "listen",
    ({ device }) => [device, 7],
    "service is 7: expected a name, a text that is not empty",
  ],
  [
    "waitEvent",
    ({ device }) => [device.verbs.listen(device, "wrong call")],
    /^listener is the error EINVAL \(.*\): expected a listener, as listen returns it$/ as Any,
  ],
  [
    "accept",
    () => [undefined, {}, {}],
    "listener is not given: expected a listener, as listen returns it",
  ],
  [
    "disconnect",
    ({ qp }) => [{ refused: "timeout", reason: "No answer", qp }],
    "connection is a refusal (No answer): expected a connection, as connect or accept returns it",
  ],
];

const CORE: readonly (readonly [keyof typeof CORE_CALLS, ...Case])[] = [
  ["load", ({ cpu }) => [cpu.scm, 8], /^address is an object with .*: expected an address/ as Any],
  ["load", ({ cpu }) => [cpu.scm.address, -8], `length is -8: expected ${BYTES}`],
  ["load", ({ cpu }) => [cpu.scm.address], `length is not given: expected ${BYTES}`],
  [
    "store",
    ({ cpu }) => [cpu.scm.address, "text"],
    'bytes is "text": expected bytes, a Uint8Array',
  ],
  [
    "store",
    ({ cpu }) => [cpu.scm.address, [1, 2]],
    "bytes is a list of 2: expected bytes, a Uint8Array",
  ],
  [
    "ntstore",
    ({ cpu }) => [cpu.scm.address + 0.5, new Uint8Array(1)],
    /^address is \d+\.5: expected an address/ as Any,
  ],
  ["clwb", ({ cpu }) => [cpu.scm.address, 64n], `length is 64n, a bigint: expected ${BYTES}`],
  ["flush", ({ cpu }) => [cpu.scm.address, NaN], `length is NaN: expected ${BYTES}`],
  ["ntStore", ({ cpu }) => [cpu.scm.address], "bytes is not given: expected bytes, a Uint8Array"],
  ["charge", () => [-1], `ps is -1: expected ${PASSED}`],
  ["sleep", () => ["10us"], `ps is "10us": expected ${PASSED}`],
  ["sleep", () => [Infinity], `ps is Infinity: expected ${PASSED}`],
  ["waitMemory", ({ cpu }) => [cpu.scm.address, 8], `deadline is not given: expected ${UNTIL}`],
  ["waitSignal", () => ["done"], `deadline is not given: expected ${UNTIL}`],
  [
    "waitAny",
    () => [[{ kind: "timer" }], 1],
    'sources[0].kind is "timer": expected one of "memory", "interrupt", "signal"',
  ],
  ["allocate", () => [0], `bytes is 0: expected ${SIZE}`],
  ["allocate", () => ["4KiB"], `bytes is "4KiB": expected ${SIZE}`],
  ["allocateContiguous", () => [1.5], `bytes is 1.5: expected ${SIZE}`],
  ["free", () => [4096], "memory is 4096: expected a buffer, as cpu.allocate returns it"],
  ["region", () => [""], 'name is "": expected a name, a text that is not empty'],
  ["spawn", () => ["thread"], "thread is not given: expected a function"],
  [
    "note",
    () => [{ kind: "writes", id: 1, on: "b", at: 0, bytes: "x" }],
    'note.bytes is "x": expected bytes, a Uint8Array',
  ],
  [
    "note",
    () => [{ kind: "persistent", id: 1 }],
    "note.promised is not given: expected true or false",
  ],
  [
    "measured",
    () => [{ operation: "put", method: "own", latencyPs: NaN }],
    `measurement.latencyPs is NaN: expected ${PASSED}`,
  ],
  ["note", () => [undefined], `note.kind is not given: ${NOTES}`],
  ["note", () => [{ kind: "wirtes", id: 1 }], `note.kind is "wirtes": ${NOTES}`],
  ["note", () => [{ kind: "moved" }], `note.kind is "moved": ${NOTES}`],
  [
    "note",
    () => [{ ...OPERATION, call: undefined }],
    "note.call is not given: expected a name, a text that is not empty",
  ],
  [
    "note",
    () => [{ ...OPERATION, type: "stack" }],
    'note.type is "stack": expected one of "register", "counter", "map", "log", "queue"',
  ],
  [
    "note",
    () => [{ ...OPERATION, value: { of: () => 1 } }],
    "note.value is a function at .of: expected plain data",
  ],
  [
    "note",
    () => [{ kind: "operation-end", id: 1, result: new Map() }],
    "note.result is a Map: expected plain data",
  ],
  ["note", () => [{ ...OPERATION, on: "c" }], 'note.on is "c": expected one of "a", "b"'],
  ["note", () => [{ kind: "object", at: 0, length: 8, name: "x", state: "whole" }], OBJECT],
  ["trace", () => [{ step: "mine", text: 5 }], "step.text is 5: expected a text"],
  ["trace", () => ["mine"], 'step is "mine": expected a step, an object with step'],
  [
    "trace",
    () => [{ step: "mine", text: "", psn: () => 1 }],
    "step is a function at .psn: expected plain data",
  ],
];

/** The answer of a call, whatever way it comes. */
function* answerOf(call: () => unknown): Steps<string> {
  try {
    const made: Any = call();
    const answer = typeof Object(made).next === "function" ? yield* made : made;
    if (answer?.errno !== undefined) return `${answer.errno}: ${answer.reason}`;
    return answer?.refused === "local" ? answer.reason : `it answers ${String(answer)}`;
  } catch (error) {
    return `${(error as Error).name} ${(error as Error).message}`.replace(/^ProgramError /, "");
  }
}

function* things({ cpu, device }: ProgramContext, ends: Ends): Steps<Things> {
  const { createQp, createSrq, allocMw, must, sge } = device.verbs;
  const { pd, mr, remote, qp: { sendCq } } = ends;
  const plan = { type: "ud", sendCq, recvCq: sendCq, maxSendWr: 4, maxRecvWr: 4 } as const;
  const ud = must(yield* createQp(pd, plan));
  const srq = must(yield* createSrq(pd, { maxWr: 4 }));
  const mw = must(yield* allocMw(pd, 1));
  const write = { opcode: "write", wrId: 1, sges: [sge(mr, 0, 8)], remote };
  return { ...ends, cpu, device, ud, srq, mw, write };
}

/** Runs the program of `a`, whose peer waits for it. */
function onA(body: (context: ProgramContext, ends: Ends) => Steps<void>) {
  const idle: Body = function* (context, _ends, table) {
    yield* table.get(context, "end");
  };
  return connected(
    function* (context, ends, table) {
      yield* body(context, ends);
      table.put("end");
    },
    idle,
  );
}

const PLACE = / at wrong_calls_test\.ts:\d+:\d+/;

function hold(call: string, answer: string, text: string | RegExp): void {
  assert.match(answer, PLACE, `${call} names its line`);
  const [start, ...rest] = answer.replace(PLACE, "").split(`EINVAL: ${call}: `);
  assert.equal(start, "", `${answer}: it is EINVAL of ${call}`);
  const said = rest.join("");
  if (typeof text === "string") assert.equal(said, text, call);
  else assert.match(said, text, `${call} ${said}`);
}

describe("wrong calls of an own program", () => {
  it(`are EINVAL with field, found, expected and line, and change nothing: ${VERBS.length} of verbs, ${CORE.length} of cores`, () => {
    const answers: [call: string, answer: string, text: string | RegExp][] = [];
    let status: string | undefined;
    onA(function* (context, ends) {
      const made = yield* things(context, ends);
      for (const [call, args, text] of VERBS) {
        const verb = context.device.verbs[call] as (...args: unknown[]) => unknown;
        answers.push([call, yield* answerOf(() => verb(...args(made))), text]);
      }
      for (const [call, args, text] of CORE) {
        const of = context.cpu[call] as (...args: unknown[]) => unknown;
        answers.push([call, yield* answerOf(() => of(...args(made))), text]);
      }
      // One WRITE before a wrong one is posted; all else is as it was.
      const { waitCompletion } = context.device.verbs;
      const completions = yield* waitCompletion(ends.qp.sendCq, {
        deadline: context.cpu.now + 1e9,
      });
      status = completions.map((each) => each.wrId).join();
      assert.equal(ends.qp.sq.requests, 0);
    });
    for (const [call, answer, text] of answers) hold(call, answer, text);
    assert.equal(status, "1", "the request before the wrong one of a list is posted, and no other");
  });

  it("without an argument: each function that needs one says which", () => {
    const answers: [call: string, answer: string, first: string][] = [];
    onA(function* ({ cpu, device }) {
      for (const [table, rows] of [[device.verbs, VERB_CALLS], [cpu, CORE_CALLS]] as const) {
        for (const [call, { args }] of Object.entries(rows)) {
          const [first] = args as readonly (readonly [string, unknown])[];
          if (first === undefined) continue;
          const of = (table as Any)[call] as () => unknown;
          answers.push([call, yield* answerOf(() => of()), first[0]]);
        }
      }
    });
    assert.ok(answers.length > 80, `${answers.length} of them`);
    for (const [call, answer, first] of answers) {
      hold(call, answer, new RegExp(`^${first}(\\.kind)? is not given: expected `));
    }
  });

  it("with flags that mean something else here are refused by the verb itself, with the flag's name", () => {
    let refused: unknown;
    onA(function* ({ cpu, device }, { pd }) {
      const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
      refused = yield* device.verbs.regMr(pd, cpu.allocate(64), { access });
    });
    assert.match(JSON.stringify(refused), /"EINVAL".*IBV_ACCESS_RELAXED_ORDERING is not honoured/);
  });

  it("a call without yield* is no object for another call, and fails the program with its line", () => {
    let answer = "";
    const forgets: Program = function* ({ cpu, device }) {
      const { allocPd, regMr, sge } = device.verbs;
      const mr = regMr(allocPd(device), cpu.allocate(64), { access: 0 }) as Any;
      answer = yield* answerOf(() => sge(mr));
    };
    const scenario =
      "name: forgets\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, program: ./forgets.ts }]\n";
    const rack = new SimulatedRack(scenario, { programs: { "./forgets.ts": forgets } }).run();
    const call = "the call of regMr at wrong_calls_test\\.ts:\\d+:\\d+";
    const made =
      `mr is ${call}, which was not awaited \\(write yield\\* in front of it\\): expected a region`;
    hold("sge", answer, new RegExp(`^${made}`));
    const [failed] = rack.reported("program-failed");
    assert.match(
      String((failed as { message?: unknown }).message),
      new RegExp(`^${call} was not awaited: write yield\\* in front of it$`),
    );
  });

  it("legal calls are not asked for more than they need: optional fields may be undefined", () => {
    const answers: unknown[] = [];
    onA(function* ({ cpu, device }, { pd, qp, mr }) {
      const { postSend, waitCompletion, regMr, sge, failed } = device.verbs;
      const options = { access: 0, offset: undefined, length: undefined } as Any;
      answers.push(failed(yield* regMr(pd, cpu.allocate(64), options)));
      const write = {
        opcode: "write",
        sges: [sge(mr, 0, 0)],
        sendFlags: IBV_SEND_SIGNALED,
      } as const;
      answers.push(
        yield* postSend(qp, { ...write, wrId: undefined, remote: { va: 0, rkey: 0 } } as Any),
      );
      answers.push((yield* waitCompletion(qp.sendCq, undefined)).length);
    });
    assert.deepEqual(answers, [false, undefined, 1]);
  });
});
