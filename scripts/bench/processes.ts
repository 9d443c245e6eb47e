import { USERS } from "../../fabric/bus/access.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { decodeSealed } from "../../fabric/bus/codec.ts";
import { ANY, parseSubject, patternOf } from "../../fabric/bus/subjects.ts";
import type { Bus } from "../../fabric/bus/bus.ts";
import { proportionalBytes, residentBytes } from "../../console/rack/process_table.ts";
import type { Broker } from "../../console/rack/nats_server.ts";
import { Supervisor } from "../../console/rack/supervisor.ts";
import { writeRunFile } from "../../console/rack/run_directory.ts";
import { onInterrupt } from "../commands/interrupt.ts";
import { runFileOf } from "../../console/rack/prepare.ts";
import { type BenchRack, benchRack } from "./bench_rack.ts";

export interface ProcessRun {
  readonly processes: number;
  /** Until every partition has been granted its first span. */
  readonly upMs: number;
  readonly wholeMs: number;
  /** Between processes after the first quarter of all writes; `hopsMs`: their wall time. */
  readonly hops: number;
  readonly hopsMs: number;
  readonly allHops: number;
  readonly grants: number;
  readonly residentBytes: readonly number[];
  /** With the proportional part of shared memory. */
  readonly proportionalBytes: readonly number[];
  /** None was told to end while the rack was up. */
  readonly deaths: number;
}

export async function runAsProcesses(
  rack: BenchRack,
  at: { readonly broker: Broker; readonly directory: string; readonly run: string },
): Promise<ProcessRun> {
  const { broker, directory, run } = at;
  const runFile = runFileOf(benchRack(rack, "node"), {
    run,
    directory: `${directory}/${run}`,
  });
  const runFilePath = await writeRunFile(runFile);
  const bus = await connectNats({
    ...broker.addressOf(USERS.supervisor),
    run,
    name: USERS.supervisor,
    onError: () => {},
  });
  const progress = progressOf(rack);
  let deaths = 0;
  const supervisor = new Supervisor({
    runFile,
    runFilePath,
    broker,
    bus,
    onEvent: ({ kind }) => {
      if (kind === "died") deaths++;
    },
    onReport: (node, topic, value) => progress.note(node, topic, value),
  });
  const signal = onInterrupt("ending the bench");
  const takeDown = () => void supervisor.down();
  signal.addEventListener("abort", takeDown);
  try {
    signal.throwIfAborted();
    const up = untilGranted(bus, { run, partitions: runFile.partitions.length });
    const began = performance.now();
    await supervisor.start();
    const upAt = await up;
    const warm = rack.load === undefined ? { hops: 0, at: upAt } : await progress.warm.then(
      () => hopsSoFar(supervisor),
    );
    const summary = await supervisor.finished;
    const endedAt = performance.now();
    const { hops } = await hopsSoFar(supervisor);
    const pids = supervisor.processes().map(({ pid }) => pid).filter((pid) => pid !== null);
    return {
      processes: pids.length,
      upMs: upAt - began,
      wholeMs: endedAt - began,
      hops: hops - warm.hops,
      hopsMs: endedAt - warm.at,
      allHops: hops,
      grants: summary.grants,
      residentBytes: pids.map(residentBytes),
      proportionalBytes: pids.map(proportionalBytes),
      deaths,
    };
  } finally {
    signal.removeEventListener("abort", takeDown);
    await supervisor.down();
    await bus.close();
  }
}

/** When a quarter of the writes is confirmed, V8 has compiled. */
function progressOf({ load, writers }: BenchRack) {
  const wanted = writers * (load?.writes ?? 0) / 4;
  const confirmed = new Map<string, number>();
  const warm = Promise.withResolvers<void>();
  return {
    warm: warm.promise,
    note(node: string, topic: string, value: unknown): void {
      if (topic !== "progress") return;
      confirmed.set(node, (value as { confirmed: number }).confirmed);
      const sum = [...confirmed.values()].reduce((total, count) => total + count, 0);
      if (sum >= wanted) warm.resolve();
    },
  };
}

async function hopsSoFar(supervisor: Supervisor): Promise<{ hops: number; at: number }> {
  const at = performance.now();
  const finals = await supervisor.finals();
  return { hops: finals.reduce((sum, { sent }) => sum + sent, 0), at };
}

function untilGranted(
  bus: Bus,
  { run, partitions }: { run: string; partitions: number },
): Promise<number> {
  const granted = new Set<string>();
  const { promise, resolve } = Promise.withResolvers<number>();
  const pattern = patternOf({ kind: "clock.grant", run, partition: ANY });
  const subscription = bus.subscribe(pattern, (payload, subject) => {
    const name = parseSubject(subject);
    const value = decodeSealed(payload);
    if (name?.kind !== "clock.grant" || !Array.isArray(value) || value[0] !== "grant") return;
    granted.add(name.partition);
    if (granted.size < partitions) return;
    subscription.close();
    resolve(performance.now());
  });
  return promise;
}
