/** The kinds of arguments of the functions of a core, a shared region, and a recovery's core. */
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
import type { TraceStep } from "../../../fabric/node.ts";
import { notPlain } from "../cpu/report_data.ts";
import type { Measurement, Region, Source } from "../cpu/program.ts";
import type { ProgramCpu } from "../program_context.ts";
import { checksOf, row, type RowOf } from "./calls.ts";
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
  only,
  optional,
  ownBytes,
  shape,
  size,
  tagged,
  text,
  u32,
  u64,
} from "./values.ts";

const source = tagged<"kind", Source>("kind", {
  memory: shape("memory", { kind: only("memory"), address, length }),
  interrupt: shape("an interrupt", { kind: only("interrupt"), vector: count }),
  signal: shape("a signal", { kind: only("signal"), name }),
});
/** A line of the ladder; its numbers are not checked. */
const step: Kind<TraceStep> = (value) => {
  const { step, text: said } = Object(value) as Readonly<Record<string, unknown>>;
  if (typeof step !== "string") return { at: "", found: found(value), expected: STEP };
  const wrong = text(said);
  return wrong === undefined ? plain(value) : { ...wrong, at: ".text" };
};
const STEP = "a step, an object with step";

/** Data that another process can receive. */
const plain: Kind<unknown> = (value) => {
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

/** Records that own programs make; only the driver notes those of queues and of shared regions. */
type OwnRecord =
  | WritesRecord
  | VisibleRecord
  | PersistentRecord
  | OperationRecord
  | OperationEndRecord
  | ObjectRecord
  | FreedRecord
  | LogRecord;

/** @param host a known host's name: no checker would judge a record of another. */
const noteOn = (host: Kind<string>): Kind<OwnRecord> =>
  tagged<"kind", OwnRecord>("kind", {
    writes: shape<WritesRecord>("a record of a write", {
      kind: only("writes"),
      id: count,
      on: host,
      at: offset,
      bytes,
      line: optional(count),
      after: optional(listOf(count, "numbers of writes")),
      isOrderClaimed: optional(flag),
    }),
    visible: shape<VisibleRecord>("a record of a write", { kind: only("visible"), id: count }),
    persistent: shape<PersistentRecord>("a record of a write", {
      kind: only("persistent"),
      id: count,
      promised: flag,
    }),
    operation: shape<OperationRecord>("a record of an operation", {
      kind: only("operation"),
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
      kind: only("operation-end"),
      id: count,
      result: optional(plain),
      failed: optional(flag),
    }),
    object: shape<ObjectRecord>("a record of an object", {
      kind: only("object"),
      state: oneOf(["begun", "asked", "stored", "withdrawn", "removing", "removed"]),
      name,
      on: optional(host),
      at: offset,
      length,
      complete: optional(flag),
    }),
    freed: shape<FreedRecord>("a record of freed bytes", {
      kind: only("freed"),
      at: offset,
      length,
    }),
    log: shape<LogRecord>("a record of a log", {
      kind: only("log"),
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

type Functions<T> = {
  [K in keyof T]-?: T[K] extends (...args: never[]) => unknown ? K : never;
}[keyof T];

const load = { address, length };
const store = { address, bytes };

/**
 * One row per function, which the compiler demands. `report` and `command` check their values
 * themselves.
 */
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
  registerWrite: row("thrown", { offset, bytes: ownBytes }),
  writeCombined: row("thrown", { offset, lines: ownBytes }),
  command: row("steps", {}),
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
} as const satisfies { readonly [Name in Functions<ProgramCpu>]: RowOf<ProgramCpu[Name]> };

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
} as const satisfies { readonly [Name in Functions<Region>]: RowOf<Region[Name]> };

export const CORE_CHECKS = checksOf(CORE_CALLS);

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
