/** Runs each variant of a scenario to its end, and reports on it. */
import type { MemberStatus } from "../../fabric/clock/record.ts";
import { listOf, Refusal } from "../../fabric/rack/plan/problem.ts";
import { importPrograms } from "../../nodes/files.ts";
import { captureFiles, fileName, type RecordedRun, scopeFor } from "../captures/captures.ts";
import { leaveCaptures, makeRoomFor } from "../captures/leave_captures.ts";
import { plainly } from "../reports/json.ts";
import type { RunReport } from "../reports/method_report.ts";
import type { JudgedVariant } from "../reports/run_checks.ts";
import { judge, summarise } from "../reports/summarise.ts";
import { readFaultLines } from "./fault_lines.ts";
import { type NatsServer, startNatsServer, useExisting } from "./nats_server.ts";
import { prepare, type Prepared, type PrepareOptions } from "./prepare.ts";
import { createRunDirectory, type NewRun } from "./run_directory.ts";
import { type Outcome, type RunOptions, runProcesses, runSimulated } from "./run_variant.ts";

/** Options of a run, independent of its programs. */
export interface RunManner {
  /** Address of a nats-server to use instead of starting one. */
  readonly nats?: string;
  /** Paths of captures: a folder for frames, a file for the timeline of the devices. */
  readonly pcap?: string;
  readonly perfetto?: string;
  /** Takes the rack down; the run then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** The current task, and the part that is done, in [0, 1]. */
  readonly onProgress?: (title: string, share: number) => void;
  /** Called when the rack is down and captures are about to be written. */
  readonly onCapturing?: () => void;
}

export interface RunScenarioOptions extends RunManner {
  readonly prepare: PrepareOptions;
  /** Keep every step of every operation in the run's directory. */
  readonly trace?: boolean;
  /** Every process waits up to this long before each span. */
  readonly delayMsMax?: number;
  /** A record of power and cables (`faults.jsonl`) to replay. */
  readonly faultsFile?: string;
  /** Check the claims of methods as if they were promises. */
  readonly claims?: boolean;
  /** Called before any process starts. */
  readonly onStart?: (run: Pick<NewRun, "id" | "removed"> & { readonly seed: number }) => void;
  /** Called when time has not moved for a while, with the processes that it waits for. */
  readonly onStall?: (why: readonly MemberStatus[]) => void;
}

/** @throws Refusal before anything is started; RackError, BusError, NatsServerError. */
export async function runScenario(
  scenario: string,
  options: RunScenarioOptions,
): Promise<RunReport> {
  const { faultsFile } = options;
  const faults = faultsFile === undefined ? undefined : await readFaultLines(faultsFile);
  const prepared = await prepare(scenario, { ...options.prepare, ...faults });
  const nodes = [...new Set(prepared.flatMap(({ plan }) => plan.nodes.map(({ name }) => name)))];
  const stranger = [...faults?.faults ?? [], ...faults?.writebacks ?? []]
    .find(({ node }) => !nodes.includes(node));
  if (stranger !== undefined) {
    const expected = `a node of this rack (${listOf(nodes)})`;
    throw new Refusal([{ file: faultsFile!, path: "", found: stranger.node, expected }]);
  }
  // A program that cannot be loaded fails here, as an error of the command, not of one process.
  for (const one of prepared) await importPrograms(one);
  return await runAll(prepared, options);
}

async function runAll(
  prepared: readonly Prepared[],
  options: RunScenarioOptions,
): Promise<RunReport> {
  const { variant, base } = prepared[0]!;
  const { id, path, removed } = await createRunDirectory(variant.name);
  options.onStart?.({ id, seed: variant.seed, removed });
  const scenario = variant.capture;
  const files = captureFiles({ flags: options, scenario, base, directory: path });
  await makeRoomFor(files);
  const hasBus = options.prepare.packing !== "all";
  const observe = scopeFor(files);
  const recorded: RecordedRun[] = [];
  const ended: JudgedVariant[] = [];
  let server: Pick<NatsServer, "address" | "stop"> | undefined;
  let captures: string[] = [];
  const began = performance.now();
  try {
    server = hasBus ? await busFor(path, options) : undefined;
    for (const [i, one] of prepared.entries()) {
      const directory = prepared.length === 1 ? path : `${path}/${fileName(one.label)}`;
      recorded.push({ label: one.label, plan: one.plan, directory });
      const tell = (share: number) =>
        options.onProgress?.(one.label, (i + share) / prepared.length);
      tell(0);
      const outcome = await runOne(one, {
        run: `${id}-${i}`,
        directory,
        ...(server && { address: server.address }),
        ...(observe && { observe }),
        options,
        tell,
      });
      ended.push(await judge(one, outcome, { claims: options.claims === true }));
    }
  } finally {
    await server?.stop();
    // Captures are also written for a run that failed: it needs them most.
    if (observe !== undefined) options.onCapturing?.();
    captures = await leaveCaptures(recorded, files, options.signal);
  }
  const wallMs = performance.now() - began;
  // A method or DDIO option makes a run other than the one whose result the scenario expects.
  const isChosen = options.prepare.method !== undefined || options.prepare.ddio !== undefined;
  const expect = isChosen ? [] : variant.expect;
  const summary = summarise({ id, path, wallMs, outcomes: ended, nats: hasBus, expect });
  const report = captures.length === 0 ? summary : { ...summary, captures };
  await Deno.writeTextFile(`${path}/report.json`, JSON.stringify(report, plainly, 2));
  return report;
}

/** The bus of a run: a new server, or an existing one. */
export async function busFor(
  directory: string,
  { nats, signal }: Pick<RunManner, "nats" | "signal">,
): Promise<Pick<NatsServer, "address" | "stop">> {
  if (nats !== undefined) return { address: useExisting(nats), stop: () => Promise.resolve() };
  return await startNatsServer({ dir: directory, keepUp: true, ...(signal && { signal }) });
}

/** Runs one variant: as processes where there is a bus, else in this process. */
async function runOne(
  one: Prepared,
  how: Pick<RunOptions, "run" | "directory" | "observe"> & {
    readonly address?: NatsServer["address"];
    readonly options: RunScenarioOptions;
    readonly tell: (share: number) => void;
  },
): Promise<Outcome> {
  const { address, options, tell, ...place } = how;
  const { onStall, signal } = options;
  const common: RunOptions = {
    ...place,
    trace: options.trace === true,
    check: "wire",
    delayMsMax: options.delayMsMax ?? 0,
    ...(signal && { signal }),
    onProgress: (_node, topic, value) => {
      if (topic === "progress") tell(shareOf(value));
    },
    onEvent: (event) => {
      if (event.kind === "stalled") onStall?.(event.why);
    },
  };
  if (address === undefined) return await runSimulated(one, common);
  return await runProcesses(one, { ...common, address });
}

function shareOf(progress: unknown): number {
  const { written, messages } = progress as { written?: unknown; messages?: unknown };
  return typeof written === "number" && typeof messages === "number" ? written / messages : 0;
}
