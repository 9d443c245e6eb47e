/** What the arguments of a core's functions must be, of a shared region's, and of a recovery's core. */
import { hostOfRnic } from "../../../fabric/rack/plan/names.ts";
import {
  type FreedRecord,
  type LogRecord,
  OBJECT_TYPES,
  type ObjectRecord,
  type OperationEndRecord,
  type OperationRecord,
  type PersistentRecord,
  type VisibleRecord,
  type WritesRecord,
} from "../../../fabric/audit.ts";
import { notPlain } from "../cpu/report_data.ts";
import type { Measurement, Region, Source } from "../cpu/program.ts";
import type { ProgramCpu } from "../program_context.ts";
import { type CallRow, checksOf, row } from "./calls.ts";
import {
  address,
  bytes,
  callback,
  count,
  deadline,
  duration,
  flag,
  found,
  type Kind,
  length,
  listOf,
  made,
  name,
  offset,
  oneOf,
  optional,
  shape,
  size,
  text,
  u32,
  u64,
} from "./values.ts";

const memory = shape<Extract<Source, { kind: "memory" }>>("memory", {
  kind: text,
  address,
  length,
});
const interrupt = shape<Extract<Source, { kind: "interrupt" }>>("an interrupt", {
  kind: text,
  vector: count,
});
const signal = shape<Extract<Source, { kind: "signal" }>>("a signal", { kind: text, name });
const sourceKind = oneOf(["memory", "interrupt", "signal"]);
/** What a program can wait for. */
const source: Kind = (value) => {
  const its: unknown = Object(value).kind;
  if (its === "memory") return memory(value);
  if (its === "interrupt") return interrupt(value);
  if (its === "signal") return signal(value);
  const wrong = sourceKind(its)!;
  return { ...wrong, at: ".kind" };
};
/** A line of the ladder: numbers in it are for those that read it. */
const step: Kind = (value) => {
  const { step, text: said } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof step !== "string") return { at: "", found: found(value), expected: STEP };
  const wrong = text(said);
  return wrong === undefined ? plain(value) : { ...wrong, at: ".text" };
};
const STEP = "a step, an object with step";

/** What another process can be told. */
const plain: Kind = (value) => {
  const other = notPlain(value);
  return other === undefined ? undefined : { at: "", found: other, expected: "plain data" };
};

const measurement = shape<Measurement>("a measurement", {
  operation: text,
  method: text,
  bytes: optional(length),
  latencyPs: duration,
  promisedBytes: optional(length),
});

/** Records that own programs make; those of queues and of shared regions are the driver's own. */
const recordsOn = (host: Kind): Readonly<Record<string, Kind>> => ({
  writes: shape<WritesRecord>("a record of a write", {
    kind: text,
    id: count,
    on: host,
    at: offset,
    bytes,
    line: optional(count),
    after: optional(listOf(count, "numbers of writes")),
    isOrderClaimed: optional(flag),
  }),
  visible: shape<VisibleRecord>("a record of a write", { kind: text, id: count }),
  persistent: shape<PersistentRecord>("a record of a write", {
    kind: text,
    id: count,
    promised: flag,
  }),
  operation: shape<OperationRecord>("a record of an operation", {
    kind: text,
    id: count,
    on: host,
    object: name,
    type: oneOf(OBJECT_TYPES),
    initial: optional(plain),
    call: name,
    key: optional(text),
    value: optional(plain),
  }),
  "operation-end": shape<OperationEndRecord>("a record of an operation", {
    kind: text,
    id: count,
    result: optional(plain),
    failed: optional(flag),
  }),
  object: shape<ObjectRecord>("a record of an object", {
    kind: text,
    state: oneOf(["begun", "asked", "stored", "withdrawn", "removing", "removed"]),
    name,
    on: optional(host),
    at: offset,
    length,
    complete: optional(flag),
  }),
  freed: shape<FreedRecord>("a record of freed bytes", { kind: text, at: offset, length }),
  log: shape<LogRecord>("a record of a log", {
    kind: text,
    log: name,
    replicas: listOf(
      shape<LogRecord["replicas"][number]>("a replica", {
        host,
        at: listOf(offset, "offsets"),
      }),
      "replicas",
    ),
    quorum: count,
    recordBytes: size,
    segments: listOf(count, "numbers of slots"),
    durable: count,
    crc: u32,
    promised: flag,
    anew: optional(flag),
  }),
});

/** @param host what is noted of another host would be judged by nothing. */
function noteOn(host: Kind): Kind {
  const records = recordsOn(host), kinds = oneOf(Object.keys(records));
  return (value) => {
    const its: unknown = Object(value).kind;
    const wrong = kinds(its);
    if (wrong !== undefined) return { ...wrong, at: ".kind" };
    return records[its as string]!(value);
  };
}

/** The functions of a core. */
type Functions<T> = {
  [K in keyof T]-?: T[K] extends (...args: never[]) => unknown ? K : never;
}[keyof T];

const load = { address, length };
const store = { address, bytes };

/** A row for each function, which the compiler demands. `report` and `command` look at their values themselves. */
export const CORE_CALLS = {
  random: row("thrown", {}),
  load: row("thrown", load),
  read: row("thrown", load),
  store: row("thrown", store),
  charge: row("thrown", { ps: duration }),
  settle: row("thrown", {}),
  region: row("thrown", { name }),
  clwb: row("thrown", load),
  ntstore: row("thrown", store),
  sfence: row("thrown", {}),
  flush: row("thrown", load),
  ntStore: row("thrown", store),
  registerWrite: row("thrown", { offset, bytes }),
  writeCombined: row("thrown", { offset, lines: bytes }),
  command: row("thrown", {}),
  sleep: row("thrown", { ps: duration }),
  waitMemory: row("thrown", { address, length, deadline }),
  waitInterrupt: row("thrown", { vector: count, deadline }),
  waitSignal: row("thrown", { name, deadline }),
  signal: row("thrown", { name }),
  waitAny: row("thrown", { sources: listOf(source, "sources"), deadline }),
  allocate: row("thrown", { bytes: size }),
  allocateContiguous: row("thrown", { bytes: size }),
  free: row("thrown", { memory: made("a buffer", "cpu.allocate", ["address"]) }),
  input: row("thrown", { path: text }),
  report: row("thrown", { topic: name }),
  note: row("thrown", { note: noteOn(name) }),
  measured: row("thrown", { measurement: measurement }),
  log: row("thrown", {}),
  trace: row("thrown", { step }),
  spawn: row("thrown", { name, thread: callback }),
} as const satisfies Readonly<Record<Functions<ProgramCpu>, CallRow>>;

/** The functions of a shared region. */
export const REGION_CALLS = {
  load: row("thrown", { offset, length }),
  store: row("thrown", { offset, bytes }),
  fetchAdd: row("thrown", { offset, operand: u64 }),
  compareSwap: row("thrown", { offset, compare: u64, swap: u64 }),
  fence: row("thrown", {}),
  flush: row("thrown", { offset, length }),
  waitChange: row("thrown", { offset, length, deadline }),
  move: row("thrown", { place: oneOf(["local", "remote"]) }),
  deregister: row("thrown", {}),
} as const satisfies Readonly<Record<Functions<Region>, CallRow>>;

export const CORE_CHECKS = checksOf(CORE_CALLS);

/** By the addresses of a rack's hosts. */
const CHECKS_ON = new WeakMap<object, typeof CORE_CHECKS>();

/** The checks of a core on a rack with these hosts. */
export function coreChecks(addresses: ProgramCpu["addresses"]): typeof CORE_CHECKS {
  const known = CHECKS_ON.get(addresses);
  if (known !== undefined) return known;
  const hosts = Object.keys(addresses).filter((name) => hostOfRnic(name) === undefined);
  const note = noteOn(oneOf(hosts));
  const checks = { ...CORE_CHECKS, ...checksOf({ note: row("thrown", { note }) }) };
  CHECKS_ON.set(addresses, checks);
  return checks;
}

export const REGION_CHECKS = checksOf(REGION_CALLS);
