/** Runs one rack to its end: as processes over the bus, or in this process (`--pack all`). */
import { USERS } from "../../fabric/bus/access.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import type { ObservationScope } from "../../fabric/capture/observation.ts";
import { teeOf, widestOf } from "../../fabric/capture/tee.ts";
import { busPatienceMs, type FinalReply } from "../../fabric/rack/build/run_file.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { OUTPUT_TOPIC, type TraceStep } from "../../fabric/node.ts";
import { formatTime, NEVER, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { Broker } from "./nats_server.ts";
import type { Refused } from "./refused.ts";
import { RackError, Supervisor, type SupervisorEvent } from "./supervisor.ts";
import { writeRunFile } from "./run_directory.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import type { FactoryOptions } from "../../nodes/make_host.ts";
import { type LoopWatch, watchLoops } from "./own/loop_watch.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import {
  loadOwnPrograms,
  observationWriter,
  openStores,
  readInputs,
  settleStores,
  traceWriter,
  writeOutput,
} from "../../nodes/files.ts";
import type { ReportSeen, RunRecord } from "../checks/run_record.ts";
import { eventsIn, removeRecordings } from "../captures/captures.ts";
import { inexactIn } from "./fault_lines.ts";
import { type Prepared, runFileOf } from "./prepare.ts";
import { recordOfProcesses, recordOfWatched, watchRun } from "./run_record.ts";

/** The outcome of a rack's run, in either mode. */
export interface Outcome {
  readonly digest: string;
  readonly virtualPs: Time;
  readonly events: number;
  readonly wallMs: number;
  /** Operating system processes, without nats-server and this one. */
  readonly processes: number;
  readonly finals: readonly FinalReply[];
  /** Messages that the processes or the broker refused. */
  readonly refused: readonly Refused[];
  /** Why the run cannot be replayed exactly; absent where it can. */
  readonly inexact?: readonly string[];
  readonly directory: string;
  /** The record for the checkers, where it was requested. */
  readonly record?: RunRecord;
}

/**
 * What programs and cards have reported, by time, and the programs that have not ended. Of a run that was
 * recorded, also the reports of processes that were killed; else those of processes that are left.
 */
export function reportsOf({ finals, record }: Pick<Outcome, "finals" | "record">): ReportSeen[] {
  const left = finals.flatMap(({ reports }) => reports);
  if (record === undefined) return left;
  const said = record.reports.filter(({ topic }) => topic !== "progress");
  return [...said, ...left.filter(({ topic }) => topic === "unfinished")];
}

export interface RunOptions {
  readonly run: string;
  readonly directory: string;
  /** Keep every step of every operation in the directory. */
  readonly trace?: boolean;
  /** What is recorded for captures; absent: nothing. */
  readonly observe?: ObservationScope | undefined;
  /** What is recorded for checkers: audit records, and frames too for `wire`; absent: nothing. */
  readonly check?: "notes" | "wire" | undefined;
  /** Every process waits up to this long before each span. */
  readonly delayMsMax?: number;
  /** In one process only: limit in wall ms. */
  readonly limitMs?: number;
  /** Takes the rack down; the run then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (node: string, topic: string, value: unknown) => void;
  readonly onEvent?: (event: SupervisorEvent) => void;
  /** Called before any process of the rack starts; the callee may take the rack down. */
  readonly beforeStart?: (supervisor: Supervisor) => void;
  /** Called when the rack has started; tests inject faults with it. */
  readonly onStart?: (supervisor: Supervisor) => void;
}

/** Starts the rack as processes, waits for its end, takes it down. @throws RackError, BusError. */
export async function runProcesses(
  prepared: Prepared,
  options: RunOptions & { readonly broker: Broker },
): Promise<Outcome> {
  const began = performance.now();
  const { run, directory, broker, observe, check, onEvent, onProgress } = options;
  const { trace = false, delayMsMax = 0 } = options;
  const scope = widestOf([observe, check]);
  const runFile = runFileOf(prepared, { run, directory, trace, delayMsMax, observe: scope });
  const runFilePath = await writeRunFile(runFile);
  const bus = await connectNats({
    ...broker.addressOf(USERS.supervisor),
    patienceMs: busPatienceMs((variable) => Deno.env.get(variable)),
    run,
    name: USERS.supervisor,
    onError: () => {},
  });
  const supervisor = new Supervisor({
    runFile,
    runFilePath,
    broker,
    bus,
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
    const summary = await supervisor.finished;
    const finals = await supervisor.finals();
    const refused = [...await supervisor.refused(finals), ...broker.refused(run)];
    const processes = supervisor.processes().length;
    await supervisor.down();
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
    if (observe === undefined && scope !== undefined) removeRecordings(directory);
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

/** Runs the rack in this process, without a bus. */
export async function runSimulated(
  prepared: Prepared,
  options: RunOptions & { readonly onTrace?: (time: Time, node: string, step: TraceStep) => void },
): Promise<Outcome> {
  const began = performance.now();
  const { run, directory, trace = false, observe, delayMsMax = 0 } = options;
  options.signal?.throwIfAborted();
  const { plan } = prepared;
  const runFile = runFileOf(prepared, { run, directory, trace, delayMsMax, observe });
  await writeRunFile(runFile);
  const hosts = plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  const inputs = readInputs(runFile, hosts);
  const own = await loadOwnPrograms(runFile);
  const stores = openStores(runFile, hosts);
  for (const store of stores.values()) store.settle("unknown");
  const reports: FinalReply["reports"][number][] = [];
  const onTrace = options.onTrace ??
    (trace ? traceWriter(`${directory}/trace/all.ndjson`) : undefined);
  const watch = options.check && watchRun(plan);
  const observer = teeOf([
    observe && observationWriter(`${directory}/observed/all.here.seen`, observe),
    options.check === "wire" ? watch?.observer : undefined,
  ]);
  const loops = watchLoops(plan, own);
  let span = 0;
  try {
    const simulator = new Simulator({
      plan,
      create: watchedBy(loops, {
        plan,
        image: (host) => (offset, length) => stores.get(host)!.readImage(offset, length),
        inputs: (host) => inputs.get(host) ?? {},
        own,
        ...(watch && { memoryLog: watch.memoryLog }),
      }),
      onDurable: (host, writes) => stores.get(host)!.commit(span++, writes),
      ...(onTrace && { onTrace }),
      ...(observer && { observer }),
      ...(watch && { onAudit: watch.onAudit }),
      onReport(time, node, topic, value) {
        if (topic === OUTPUT_TOPIC) return writeOutput(runFile, value);
        options.onProgress?.(node, topic, value);
        watch?.onReport(time, node, topic, value);
        if (topic !== "progress") reports.push({ time, node, topic, value });
      },
    });
    const { limitMs = Infinity, signal } = options;
    if (limitMs === Infinity && signal === undefined) simulator.run();
    else await runWithin(simulator, { until: plan.until ?? NEVER, limitMs, signal });
    const final: FinalReply = {
      partition: "all",
      statistics: simulator.statistics(),
      linkFaults: simulator.linkFaultCounts(),
      reports: [...reports, ...simulator.unfinished()],
      refused: 0,
      refusedOn: [],
      sent: 0,
      residentBytes: Deno.memoryUsage().rss,
    };
    const { digest, now, events } = simulator;
    const wallMs = performance.now() - began;
    const finals = [final];
    const outcome = {
      ...{ digest, virtualPs: now, events, wallMs, processes: 1, finals, directory },
      refused: [],
    };
    if (watch === undefined) return outcome;
    return { ...outcome, record: recordOfWatched({ plan, directory }, watch) };
  } finally {
    loops?.close();
    for (const store of stores.values()) store.close();
  }
}

function watchedBy(loops: LoopWatch | undefined, options: FactoryOptions): CreateNode {
  const create = nodeFactory(options);
  return loops?.watched(create) ?? create;
}

const SLICE_PS = 100 * PS_PER_US;
const TURN_MS = 50;

/**
 * Runs to the end and yields to the event loop (Ctrl-C) at intervals. @throws RackError after
 * `limitMs`.
 */
async function runWithin(
  simulator: Simulator,
  { until, limitMs, signal }: {
    readonly until: Time;
    readonly limitMs: number;
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const deadline = performance.now() + limitMs;
  let turnAt = performance.now() + TURN_MS;
  while (simulator.next < until) {
    simulator.run(simulator.next + SLICE_PS);
    if (performance.now() < turnAt) continue;
    await sleep(0);
    signal?.throwIfAborted();
    turnAt = performance.now() + TURN_MS;
    if (turnAt < deadline) continue;
    throw new RackError(`No end after ${limitMs} ms, at ${formatTime(simulator.now)}`);
  }
}
