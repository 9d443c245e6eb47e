/** What the arguments of a core's functions must be, of a shared region's, and of a recovery's core. */
import type { PersistentRecord, VisibleRecord, WritesRecord } from "../../../fabric/audit.ts";
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
  type Kind,
  kind,
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
/** A record or a step: what is in it is for those that read it. */
function tagged(what: string, tag: string): Kind {
  return kind(
    `${what}, an object with ${tag}`,
    (value) => typeof Object(value)[tag] === "string",
  );
}

const measurement = shape<Measurement>("a measurement", {
  operation: text,
  method: text,
  bytes: optional(length),
  latencyPs: duration,
  promisedBytes: optional(length),
});

/** Records of promises, which own programs make; those of the driver are its own. */
const RECORDS: Readonly<Record<string, Kind>> = {
  writes: shape<WritesRecord>("a record of a write", {
    kind: text,
    id: count,
    on: name,
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
};
const record = tagged("a record", "kind");
const note: Kind = (value) => {
  const its: unknown = Object(value).kind;
  return (typeof its === "string" && Object.hasOwn(RECORDS, its) ? RECORDS[its]! : record)(value);
};

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
  note: row("thrown", { note }),
  measured: row("thrown", { measurement: measurement }),
  log: row("thrown", {}),
  trace: row("thrown", { step: tagged("a step", "step") }),
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
export const REGION_CHECKS = checksOf(REGION_CALLS);
