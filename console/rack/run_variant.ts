/** Runs one rack to its end: as processes over the bus, or without one (`--pack all`). */
import type { ObservationScope } from "../../fabric/capture/observation.ts";
import { widestOf } from "../../fabric/capture/tee.ts";
import {
  busPatienceMs,
  type FinalReply,
  type RunFile,
  startsNative,
} from "../../fabric/rack/assembly/run_file.ts";
import type { Time } from "../../fabric/base/time.ts";
import { type Broker, connectSupervisor } from "./nats_server.ts";
import type { ProcessSet } from "./process_set.ts";
import type { Refused } from "./refused.ts";
import { Supervisor, type SupervisorEvent } from "./supervisor.ts";
import { writeClockEnd, writeRunFile } from "./run_directory.ts";
import { LOG_TOPIC } from "../../nodes/host/cpu/log_text.ts";
import { DEVICE_WRITES, settleStores } from "../../nodes/files.ts";
import type { ReportSeen, RunRecord } from "../checks/run_record.ts";
import { removeRecordings } from "../captures/capture_files.ts";
import { eventsIn } from "../captures/captures.ts";
import { RackError } from "../base/rack_error.ts";
import { absentIn, FIRST_MISSING_MS, MISSING_MS } from "./elsewhere.ts";
import { inexactIn } from "./fault_lines.ts";
import { collectDevices } from "./remote/collect.ts";
import { askConfined } from "./own/confined.ts";
import type { RunAnswer, RunJob, RunProgress } from "./own/run_main.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { NATIVE_RIGHTS } from "./device_rights.ts";
import { type Prepared, runFileOf } from "./prepare.ts";
import type { ProtocolVerdict } from "../reports/protocol_checks.ts";
import { recordOfProcesses, recordOfWatched, watchRun } from "./run_record.ts";
import type { Simulated } from "./simulate.ts";

export interface Outcome {
  readonly digest: string;
  readonly virtualPs: Time;
  readonly events: number;
  readonly wallMs: number;
  /** Of the operating system, without nats-server and this one. */
  readonly processes: number;
  readonly finals: readonly FinalReply[];
  readonly refused: readonly Refused[];
  readonly inexact?: readonly string[];
  readonly directory: string;
  readonly record?: RunRecord;
  /** Of recoveries and checks that the run itself has asked, under a debugger. */
  readonly protocols?: readonly ProtocolVerdict[];
}

/** Judged: frames and notes of its record are gone. */
export type Reported = Omit<Outcome, "record"> & {
  readonly record?: Pick<RunRecord, "reports" | "scm" | "lives">;
};

/**
 * Reports of programs and cards, by time, and the programs that have not ended. Of a recorded run
 * with reports of processes that were killed; else those that a partition keeps
 * (`nodes/kept_reports.ts`), of processes that are left. Without lines of `cpu.log`.
 */
export function reportsOf(
  { finals, record }: Pick<Reported, "finals"> & { readonly record?: Pick<RunRecord, "reports"> },
): ReportSeen[] {
  const left = finals.flatMap(({ reports }) => reports);
  if (record === undefined) return left;
  const said = record.reports.filter(({ topic }) => topic !== LOG_TOPIC);
  return [...said, ...left.filter(({ topic }) => topic === "unfinished")];
}

/** Undefined where the device's process is gone at the run's end. */
export function countersOf(
  finals: readonly Pick<FinalReply, "statistics">[],
  node: string,
): FinalReply["statistics"][string] | undefined {
  return finals.find(({ statistics }) => statistics[node] !== undefined)?.statistics[node];
}

export interface RunOptions {
  readonly run: string;
  readonly directory: string;
  readonly trace?: boolean;
  readonly observe?: ObservationScope | undefined;
  /** For checkers: audit records, with `wire` frames too. */
  readonly check?: "notes" | "wire" | undefined;
  readonly elsewhere?: readonly string[] | undefined;
  readonly livenessMs?: number | undefined;
  readonly onMissing?: (run: string, devices: readonly string[]) => void;
  /** Every process waits up to this long before each span. */
  readonly delayMsMax?: number;
  /** In one process only; wall time. */
  readonly limitMs?: number;
  /**
   * With own programs in one process: it waits there for a debugger. Programs prepared with `stops`
   * then stop at their first line.
   */
  readonly inspect?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (node: string, topic: string, value: unknown) => void;
  readonly onEvent?: (event: SupervisorEvent) => void;
  /** Before any process of the rack starts; the callee may take the rack down. */
  readonly beforeStart?: (supervisor: Supervisor) => void;
  readonly mayLackFinal?: (partition: string) => boolean;
  /** The rack has started; tests inject faults with it. */
  readonly onStart?: (supervisor: Supervisor) => void;
}

/** Starts the rack as processes, waits for its end, takes it down. @throws RackError, BusError */
export async function runProcesses(
  prepared: Prepared,
  options: RunOptions & {
    readonly broker: Broker;
    readonly processes?: ProcessSet | undefined;
  },
): Promise<Outcome> {
  const began = performance.now();
  const { run, directory, broker, processes: shared, observe, check, onEvent, onProgress } =
    options;
  const runFile = runFileOfProcesses(prepared, options);
  const runFilePath = await writeRunFile(runFile);
  const bus = await connectSupervisor(broker, {
    patienceMs: busPatienceMs((variable) => Deno.env.get(variable)),
    run,
    onError: () => {},
  });
  const supervisor = new Supervisor({
    runFile,
    runFilePath,
    broker,
    bus,
    processes: shared,
    onEvent,
    onReport: onProgress,
  });
  options.beforeStart?.(supervisor);
  const { signal } = options;
  const takeDown = () => void supervisor.down();
  signal?.addEventListener("abort", takeDown);
  try {
    signal?.throwIfAborted();
    await supervisor.start();
    options.onStart?.(supervisor);
    const stopSaying = sayMissing(supervisor, options);
    const summary = await supervisor.finished.finally(stopSaying);
    const finals = await supervisor.finals(options.mayLackFinal);
    const refused = [...await supervisor.refused(finals), ...broker.refused(run)];
    await collectDevices(bus, { runFile, directory, signal }).catch((error) => {
      if (!(error instanceof RackError)) throw error;
      const ended = `${run} has come to its end, digest ${summary.digest}, and is not judged`;
      throw new RackError(`${ended}:\n${error.message}`);
    });
    const processes = supervisor.processes().length;
    await supervisor.down();
    shared?.forget(runFilePath);
    settleStores(runFile);
    const wallMs = performance.now() - began;
    const { digest, virtualPs, events } = summary;
    const { plan, partitions } = prepared;
    const record = check && recordOfProcesses({
      plan,
      directory,
      partitions,
      events: eventsIn(directory),
      hasWire: check === "wire",
    });
    if (observe === undefined && check !== undefined) removeRecordings(directory);
    const inexact = inexactIn(directory);
    const outcome = {
      ...{ digest, virtualPs, events, wallMs, processes, finals, refused, directory },
      ...(inexact.length > 0 && { inexact }),
    };
    return record === undefined ? outcome : { ...outcome, record };
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", takeDown);
    await supervisor.down();
    await bus.close();
  }
}

export function runFileOfProcesses(
  prepared: Prepared,
  { run, directory, trace = false, delayMsMax = 0, observe, check, elsewhere, livenessMs = 0 }:
    RunOptions,
): RunFile {
  const scope = widestOf([observe, check]);
  const there = elsewhere && { elsewhere, livenessMs };
  return runFileOf(prepared, { run, directory, trace, delayMsMax, observe: scope, ...there });
}

/** Tells of devices elsewhere that have not come, until they have; returns a function that ends it. */
function sayMissing(
  supervisor: Supervisor,
  { run, elsewhere = [], onMissing }: Pick<RunOptions, "run" | "elsewhere" | "onMissing">,
): () => void {
  if (elsewhere.length === 0 || onMissing === undefined) return () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = async () => {
    const status = await supervisor.status();
    const missing = status && absentIn(status, elsewhere);
    if (missing?.length === 0 || timer === undefined) return;
    if (missing !== undefined) onMissing(run, missing);
    timer = setTimeout(look, MISSING_MS);
  };
  timer = setTimeout(look, FIRST_MISSING_MS);
  return () => {
    clearTimeout(timer);
    timer = undefined;
  };
}

/**
 * Runs the rack without a bus: in this process; with own programs, in one that gives up its rights when it loads
 * them; with native ones, which may hold their process up, in one that the command can end.
 */
export async function runSimulated(prepared: Prepared, options: RunOptions): Promise<Outcome> {
  const began = performance.now();
  options.signal?.throwIfAborted();
  const isOwn = Object.keys(prepared.programs).length > 0;
  const isNative = startsNative(prepared);
  const { digest, virtualPs, events, final, nodes, record, protocols } = isOwn || isNative
    ? await simulateConfined(prepared, options)
    : await simulateHere(prepared, options);
  const wallMs = performance.now() - began;
  const { directory } = options;
  writeClockEnd(directory, {
    ...{ digest, virtualPs, events, exact: true, isFinished: true },
    partitions: [{ partition: "all", reached: null, nodes }],
  });
  const counted = { digest, virtualPs, events, wallMs, processes: 1 };
  const inexact = inexactIn(directory);
  const asked = { ...(protocols && { protocols }), ...(inexact.length > 0 && { inexact }) };
  const outcome = { ...counted, finals: [final], refused: [], directory, ...asked };
  return record === undefined ? outcome : { ...outcome, record };
}

interface Recorded extends Simulated, Pick<Outcome, "protocols"> {
  readonly record: RunRecord | undefined;
}

async function simulateHere(prepared: Prepared, options: RunOptions): Promise<Recorded> {
  const { run, directory, trace = false, observe, delayMsMax = 0 } = options;
  const { plan } = prepared;
  const runFile = runFileOf(prepared, { run, directory, trace, delayMsMax, observe });
  await writeRunFile(runFile);
  const { check, limitMs, signal, onProgress } = options;
  const watch = check && watchRun(plan);
  const hasWire = check === "wire";
  const { observer: _, ...notes } = watch ?? {};
  // Loaded only here, as it loads all kinds of nodes.
  const { simulate } = await import("./simulate.ts");
  const simulated = await simulate(runFile, {
    watch: hasWire ? watch : notes,
    limitMs,
    signal,
    onProgress,
  });
  const ended = { plan, directory, hasWire, finals: [simulated.final] };
  return { ...simulated, record: watch && recordOfWatched(ended, watch) };
}

/** Checkers run outside of the process with own programs, on its recordings. */
async function simulateConfined(prepared: Prepared, options: RunOptions): Promise<Recorded> {
  const { run, directory, trace = false, observe, delayMsMax = 0, check } = options;
  const scope = widestOf([observe, check]);
  const runFile = runFileOf(prepared, { run, directory, trace, delayMsMax, observe: scope });
  const runFilePath = await writeRunFile(runFile);
  const isChecked = check !== undefined;
  const { limitMs, signal, onProgress, inspect } = options;
  const { durable, ...simulated } = await askConfined<RunAnswer, RunProgress>({
    module: "console/rack/own/run_main.ts",
    job: { runFilePath, isChecked, limitMs, isInspected: inspect !== undefined } satisfies RunJob,
    inspect,
    programs: [
      ...Object.keys(prepared.programs),
      ...nativeIn(prepared.plan).map(({ program }) => program.run),
    ],
    reads: "all",
    ...(!startsNative(prepared) ? { writes: DEVICE_WRITES } : {
      writes: [...DEVICE_WRITES, ...NATIVE_RIGHTS.writes],
      more: NATIVE_RIGHTS.flags,
    }),
    directory,
    signal,
    onProgress: (told) => onProgress?.(...told),
  });
  const { plan, partitions } = prepared;
  const ended = { plan, directory, finals: [simulated.final], partitions };
  const recorded = isChecked &&
    recordOfProcesses({ ...ended, events: eventsIn(directory), hasWire: check === "wire" });
  if (observe === undefined) removeRecordings(directory);
  return { ...simulated, record: recorded ? { ...recorded, durable } : undefined };
}
