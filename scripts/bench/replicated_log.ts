/** (l) With three replicas and a quorum of two. */
import { type MethodName, METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { PS_PER_NS, PS_PER_S, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { promisesPersistence } from "../../nodes/host/programs/persist/put_methods.ts";
import { BASELINES } from "./methods.ts";
import { DDIOS, type PutTable } from "./put_table.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";

const RECORDS = [64, 1024, 4096] as const;
const REPLICAS = ["b", "c", "d"] as const;

export interface LogFigure {
  readonly ddio: typeof DDIOS[number];
  readonly method: MethodName;
  readonly record: number;
  /** With one record outstanding: from its first request to the second replica's answer. */
  readonly medianPs: Time;
  readonly p99Ps: Time;
  readonly perSecond: number;
  readonly packets: number;
  readonly bytes: number;
  readonly clientPs: Time;
  readonly replicaPs: Time;
}

/** A replica's power failure, with eight outstanding records of 1 KiB. */
export interface LogFailure {
  readonly ddio: typeof DDIOS[number];
  readonly method: MethodName;
  readonly perSecond: number;
  readonly perSecondAfter: number;
  /** Longest time between two reports of durable records, before the failure and from it on. */
  readonly gapPs: Time;
  readonly gapAfterPs: Time;
  /** From its power-on until it has all durable records. */
  readonly caughtUpPs: Time;
}

interface LogRun {
  readonly ddio: typeof DDIOS[number];
  readonly method: MethodName;
  readonly record: number;
  readonly records: number;
  readonly depth: number;
  readonly seed: number;
  readonly faults?: string;
}

interface LogResult {
  readonly status: string;
  readonly error?: string;
  readonly latencyPs?: { readonly median: Time; readonly p99: Time };
  readonly replicas: readonly { readonly caughtUp?: { readonly lastAt: Time } }[];
}

interface Ran {
  readonly result: LogResult;
  readonly durableReports: readonly { readonly time: Time; readonly durable: number }[];
  readonly statistics: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** A SEND can be persistent only in persistent receive buffers. */
function receiveOf(method: MethodName): "scm" | "dram" {
  return method === "send-read" ? "scm" : "dram";
}

function runLog({ ddio, method, record, records, depth, seed, faults = "[]" }: LogRun): Ran {
  const receive = receiveOf(method);
  const text = [
    "name: log",
    `seed: ${seed}`,
    "profile: clx-optane-cx5",
    `defaults: { ddio: ${ddio}, dram: 64MiB, scm: { size: 16MiB }, receive: ${receive} }`,
    "hosts: { a: {}, b: {}, c: {}, d: {} }",
    `programs: [{ on: a, run: log, to: [${REPLICAS.join(", ")}], quorum: 2, method: ${method},`,
    `  record: ${record}, bytes: ${record * records}, depth: ${depth} }]`,
    `faults: ${faults}`,
  ].join("\n") + "\n";
  let result: LogResult | undefined;
  const durableReports: { time: Time; durable: number }[] = [];
  const simulator = simulatorOf(planOf(text), (time, node, topic, value) => {
    if (node !== "a") return;
    if (topic === "result") result = value as LogResult;
    if (topic === "progress") {
      durableReports.push({ time, durable: (value as { durable: number }).durable });
    }
  });
  simulator.run();
  if (result?.status !== "done") throw new Error(`log, ${method}, ended: ${result?.error}`);
  return { result, durableReports, statistics: simulator.statistics() };
}

function rateOf(durableReports: Ran["durableReports"]): number {
  const first = durableReports[0]!, last = durableReports.at(-1)!;
  return PS_PER_S * (last.durable - first.durable) / (last.time - first.time);
}

function longestGap(durableReports: Ran["durableReports"]): Time {
  return durableReports.slice(1).reduce(
    (most, { time }, i) => Math.max(most, time - durableReports[i]!.time),
    0,
  );
}

type Case = Pick<LogRun, "ddio" | "method" | "record" | "seed">;

/** The difference of two runs' costs is that of the additional records. */
const FEW = 16, MANY = 80;

function measureOne(each: Case): LogFigure {
  const few = runLog({ ...each, records: FEW, depth: 1 }).statistics;
  const many = runLog({ ...each, records: MANY, depth: 1 });
  const perRecord = (node: string, counter: string) => {
    const [less, more] = [few[node]?.[counter] ?? 0, many.statistics[node]?.[counter] ?? 0];
    return (more - less) / (MANY - FEW);
  };
  const { durableReports } = runLog({ ...each, records: MANY, depth: 8 });
  const { ddio, method, record } = each;
  const replicaPs = REPLICAS.reduce((sum, host) => sum + perRecord(host, "cpuPs"), 0);
  return {
    ddio,
    method,
    record,
    medianPs: many.result.latencyPs?.median ?? 0,
    p99Ps: many.result.latencyPs?.p99 ?? 0,
    // Without the first quarter, in which the window opens.
    perSecond: rateOf(durableReports.filter(({ durable }) => durable >= MANY / 4)),
    packets: perRecord("a-rnic", "framesIn") + perRecord("a-rnic", "framesOut"),
    bytes: perRecord("a-rnic", "bytesIn") + perRecord("a-rnic", "bytesOut"),
    clientPs: perRecord("a", "cpuPs"),
    replicaPs: replicaPs / REPLICAS.length,
  };
}

/** The method guarantees the log's persistence (P-12, P-10). */
function promises(method: MethodName, ddio: typeof DDIOS[number]): boolean {
  const flush = ddio === "on" ? "cpu" : "read";
  return promisesPersistence(method, { flush, receive: receiveOf(method) });
}

/** What {@link measureLog} measures: where a method promises. */
export function logCases(): Pick<LogFigure, "ddio" | "method">[] {
  return DDIOS.flatMap((ddio) =>
    METHODS.filter((method) => promises(method, ddio)).map((method) => ({ ddio, method }))
  );
}

/** @param cases those of {@link logCases}, or some, with the baselines. */
export function measureLog(seed: number, cases = logCases()): LogFigure[] {
  return cases.flatMap((each) => RECORDS.map((record) => measureOne({ ...each, record, seed })));
}

const KILL_AT = 550 * PS_PER_US, START_AT = 650 * PS_PER_US;

/**
 * @throws Error where the replica did not return, or there is no report before or after its
 * failure.
 */
function measureFailure(each: Omit<Case, "record">): LogFailure {
  const { ddio, method } = each;
  const faults = `[{ at: ${KILL_AT / PS_PER_US}us, kill: c }, { at: ${
    START_AT / PS_PER_US
  }us, start: c }]`;
  const { durableReports, result } = runLog({
    ...each,
    record: 1024,
    records: 1024,
    depth: 8,
    faults,
  });
  const before = durableReports.filter(({ time }) => time < KILL_AT);
  // The first gap after the failure begins at the last report before it.
  const after = durableReports.slice(before.length - 1);
  const lastAt = result.replicas[1]?.caughtUp?.lastAt;
  if (lastAt === undefined || before.length < 2 || after.length < 2) {
    throw new Error(
      `log, ${method}: ${before.length}, ${after.length} reports, caught up: ${lastAt}`,
    );
  }
  return {
    ddio,
    method,
    perSecond: rateOf(before),
    perSecondAfter: rateOf(after),
    gapPs: longestGap(before),
    gapAfterPs: longestGap(after),
    caughtUpPs: lastAt - START_AT,
  };
}

export function measureLogFailure(seed: number): LogFailure[] {
  return DDIOS.flatMap((ddio) =>
    [BASELINES[ddio], "persist-opcode" as const].map((method) =>
      measureFailure({ ddio, method, seed })
    )
  );
}

export function logTable(figures: readonly LogFigure[]): PutTable {
  const counted = [
    "latency",
    "p99",
    "of the baseline's",
    "records/s, depth 8",
    "of the baseline's",
  ];
  const rows = figures.map((figure) => {
    const { ddio, method, record, medianPs, p99Ps, perSecond, packets, bytes } = figure;
    const baseline = figures.find((other) =>
      other.ddio === ddio && other.record === record && other.method === BASELINES[ddio]
    )!;
    return [
      ddio,
      method,
      formatSize(record),
      microseconds(medianPs),
      microseconds(p99Ps),
      (medianPs / baseline.medianPs).toFixed(2),
      String(Math.round(perSecond)),
      (perSecond / baseline.perSecond).toFixed(2),
      String(Number(packets.toFixed(2))),
      bytes.toFixed(0),
      `${Math.round(figure.clientPs / PS_PER_NS)} ns`,
      `${Math.round(figure.replicaPs / PS_PER_NS)} ns`,
    ];
  });
  const cpu = ["CPU client", "CPU replica"];
  const header = ["DDIO", "method", "record", ...counted, "packets", "bytes", ...cpu];
  return { name: "log", header, rows };
}

export function logFailureTable(figures: readonly LogFailure[]): PutTable {
  const rows = figures.map((figure) => [
    figure.ddio,
    figure.method,
    String(Math.round(figure.perSecond)),
    microseconds(figure.gapPs),
    microseconds(figure.gapAfterPs),
    String(Math.round(figure.perSecondAfter)),
    microseconds(figure.caughtUpPs),
  ]);
  const header = [
    "DDIO",
    "method",
    "records/s before",
    "longest gap before",
    "longest gap from the failure on",
    "records/s from the failure on",
    "has all again, after its power's return",
  ];
  return { name: "log-failure", header, rows };
}

function microseconds(time: Time): string {
  return `${(time / PS_PER_US).toFixed(2)} µs`;
}
