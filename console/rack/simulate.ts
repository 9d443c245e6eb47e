import { sleep } from "../../fabric/bus/wall_time.ts";
import { teeOf } from "../../fabric/capture/tee.ts";
import { OUTPUT_TOPIC } from "../../fabric/node.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { formatTime, NEVER, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { FinalReply, RunFile } from "../../fabric/rack/assembly/run_file.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import { LOG_TOPIC } from "../../nodes/host/cpu/log_text.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import {
  observationWriter,
  openStores,
  readInputs,
  traceWriter,
  writeOutput,
} from "../../nodes/files.ts";
import { nativePorts } from "../../nodes/native_ports.ts";
import type { ImageView } from "../checks/run_record.ts";
import type { Watch } from "./run_record.ts";
import { RackError } from "../base/rack_error.ts";

export interface SimulateOptions {
  readonly watch?:
    | Partial<Pick<Watch, "memoryLog" | "onAudit" | "onReport" | "observer">>
    | undefined;
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((node: string, topic: string, value: unknown) => void) | undefined;
  /** Called when all files are open. */
  readonly load?: () => Promise<OwnPrograms>;
  readonly onEnd?: ((scm: (host: string) => ImageView) => void) | undefined;
}

export interface OwnPrograms {
  readonly own: Readonly<Record<string, MakeProgram>>;
  readonly replace: (create: CreateNode) => CreateNode;
}

export interface Simulated {
  readonly digest: string;
  readonly virtualPs: Time;
  readonly events: number;
  readonly final: FinalReply;
  readonly nodes: ReturnType<Simulator["digests"]>;
}

/** @param runFile that has been written: its directory has the folders of a run. */
export async function simulate(runFile: RunFile, options: SimulateOptions): Promise<Simulated> {
  const { plan, directory, observe } = runFile;
  const { watch, limitMs = Infinity, signal } = options;
  const hosts = plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  const inputs = readInputs(runFile, hosts);
  const stores = openStores(runFile, hosts);
  for (const store of stores.values()) store.settle("unknown");
  const trace = runFile.trace ? traceWriter(`${directory}/trace/all.ndjson`) : undefined;
  const recorder = observe &&
    observationWriter(`${directory}/observed/all.here.seen`, observe);
  const observer = teeOf([recorder, watch?.observer]);
  const reports: FinalReply["reports"][number][] = [];
  const native = nativePorts(runFile);
  let span = 0;
  try {
    const { own, replace } = await options.load?.() ?? { own: {}, replace: (create) => create };
    const simulator = new Simulator({
      plan,
      create: replace(nodeFactory({
        plan,
        image: (host) => (offset, length) => stores.get(host)!.readImage(offset, length),
        inputs: (host) => inputs.get(host) ?? {},
        own,
        native: native?.port,
        ...(watch?.memoryLog && { memoryLog: watch.memoryLog }),
      })),
      onDurable: (host, writes) => stores.get(host)!.commit(span++, writes),
      ...(trace && { onTrace: trace.write }),
      ...(observer && { observer }),
      ...(watch?.onAudit && { onAudit: watch.onAudit }),
      onReport(time, node, topic, value) {
        if (topic === OUTPUT_TOPIC) return writeOutput(runFile, value);
        options.onProgress?.(node, topic, value);
        watch?.onReport?.(time, node, topic, value);
        if (topic !== "progress" && topic !== LOG_TOPIC) reports.push({ time, node, topic, value });
      },
    });
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
    options.onEnd?.((host) => ({
      read: (from, to) => stores.get(host)!.readImage(from, to - from),
    }));
    const { digest, now: virtualPs, events } = simulator;
    return { digest, virtualPs, events, final, nodes: simulator.digests() };
  } finally {
    native?.flush();
    for (const store of stores.values()) store.close();
    recorder?.close();
    trace?.close();
  }
}

const SLICE_PS = 100 * PS_PER_US;
const TURN_MS = 50;

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
