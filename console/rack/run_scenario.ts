/** Runs each variant of a scenario to its end, and reports on it. */
import { accessOfProcesses } from "../../fabric/bus/access.ts";
import { ANY } from "../../fabric/bus/subjects.ts";
import { listOf, Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import type { CaptureFiles } from "../../fabric/rack/build/run_file.ts";
import type { Packing } from "../../fabric/rack/build/topology.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { captureFiles, fileName, makeRoomFor, scopeFor } from "../captures/capture_files.ts";
import { type RecordedRun, writeCaptures } from "../captures/captures.ts";
import { plainly } from "../reports/json.ts";
import { keepScenario } from "../scenarios/kept_scenario.ts";
import type { RunReport } from "../reports/method_report.ts";
import type { JudgedVariant } from "../reports/run_checks.ts";
import { judge, summarise } from "../reports/summarise.ts";
import { readFaultLines } from "./fault_lines.ts";
import { type Broker, existingBroker, type NatsServer, startNatsServer } from "./nats_server.ts";
import { keepInputs, onlyOne, prepare, type Prepared, type PrepareOptions } from "./prepare.ts";
import { beforeRun, createRunDirectory, type NewRun, runDirectoryAt } from "./run_directory.ts";
import { programLog } from "./program_log.ts";
import { stallText } from "./stall_text.ts";
import { type Outcome, type RunOptions, runProcesses, runSimulated } from "./run_variant.ts";

/** Options of a run, independent of its programs. */
export interface RunManner {
  /** Address of a nats-server to use instead of starting one. */
  readonly nats?: string;
  /** Paths of captures: a folder for frames, a file for the timeline of the devices; true: in the run's. */
  readonly pcap?: string | true;
  readonly perfetto?: string | true;
  /** Takes the rack down; the run then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** The current task, and the part that is done, in [0, 1]. */
  readonly onProgress?: (title: string, share: number) => void;
  /** Called with each line that a program logs, in the order of virtual time. */
  readonly onLog?: (text: string) => void;
  /** Called when the rack is down and captures are about to be written. */
  readonly onCapturing?: () => void;
}

interface VariantRunOptions extends RunManner {
  /** Keep every step of every operation in the run's directory. */
  readonly trace?: boolean;
  /** The port at which the process of own programs waits for a debugger (`--pack all`). */
  readonly inspect?: number;
  /** Every process waits up to this long before each span. */
  readonly delayMsMax?: number;
  /** A folder that is not there yet; default: a new one among the kept runs. */
  readonly directory?: string | undefined;
  /** Called before any process starts. */
  readonly onStart?: (run: Pick<NewRun, "id" | "removed"> & { readonly seed: number }) => void;
  /** Called with the recordings of all variants before captures are written and they are removed. */
  readonly onRecorded?: (recorded: readonly RecordedRun[]) => void;
  /** Called when time has not moved for a while, with the processes that it waits for. */
  readonly onStall?: (text: string) => void;
}

export interface RunScenarioOptions extends VariantRunOptions {
  readonly prepare: PrepareOptions;
  /** A record of power and cables (`faults.jsonl`) to replay. */
  readonly faultsFile?: string;
  /** Check the claims of methods as if they were promises. */
  readonly claims?: boolean;
  /** Called with each variant when it has been judged. */
  readonly onJudged?: (variant: JudgedVariant & { readonly one: Prepared }) => void;
}

/** @throws Refusal before anything is started; RackError, BusError, NatsServerError. */
export async function runScenario(
  scenario: string,
  options: RunScenarioOptions,
): Promise<RunReport> {
  const { faultsFile } = options;
  const faults = faultsFile === undefined ? undefined : await readFaultLines(faultsFile);
  const stops = options.inspect !== undefined;
  const prepared = await prepare(scenario, { ...options.prepare, ...faults, stops });
  if (stops) checkInspected(prepared, scenario);
  const nodes = [...new Set(prepared.flatMap(({ plan }) => plan.nodes.map(({ name }) => name)))];
  const { faults: power = [], writebacks = [], morePrograms = [] } = faults ?? {};
  const named = [...[...power, ...writebacks].map(({ node }) => node), ...morePrograms.map(onOf)];
  const stranger = named.find((node) => !nodes.includes(node));
  if (stranger !== undefined) {
    const expected = `a node of this rack (${listOf(nodes)})`;
    throw new Refusal([{ file: faultsFile!, path: "", found: stranger, expected }]);
  }
  return await runAll(scenario, { ...options, prepared });
}

/** A debugger attaches to one process, in which there has to be something to look at. @throws Refusal */
function checkInspected(prepared: readonly Prepared[], scenario: string): void {
  const { programs } = onlyOne(prepared, scenario);
  if (Object.keys(programs).length > 0) return;
  const found = `${scenario}, which runs no program of your own`;
  throw refusal("--inspect-brk", { found, expected: "a scenario with one: { program: ./my.ts }" });
}

function onOf({ on }: ProgramScenario): string {
  return on;
}

async function runAll(
  scenario: string,
  { prepared, ...options }: RunScenarioOptions & { readonly prepared: readonly Prepared[] },
): Promise<RunReport> {
  const began = performance.now();
  const { prepare: { packing, method, ddio }, claims = false, signal } = options;
  const run = await runVariants(prepared, { ...options, packing, check: "wire" });
  const outcomes: JudgedVariant[] = [];
  for (const [i, one] of run.prepared.entries()) {
    const { variant } = one, { directory } = run.outcomes[i]!;
    // A run that repeats a record does what is not in its scenario.
    if (options.faultsFile === undefined) {
      await keepScenario(directory, { scenario, choices: options.prepare, variant });
    }
    const judged = await judge(one, run.outcomes[i]!, { claims, signal });
    outcomes.push(judged);
    options.onJudged?.({ ...judged, one });
  }
  const { id, path, captures } = run;
  const wallMs = performance.now() - began;
  // A method or DDIO option makes a run other than the one whose result the scenario expects.
  const isChosen = method !== undefined || ddio !== undefined;
  const expect = isChosen ? [] : prepared[0]!.variant.expect;
  const summary = summarise({ id, path, wallMs, outcomes, nats: packing !== "all", expect });
  const report = captures.length === 0 ? summary : { ...summary, captures };
  await Deno.writeTextFile(`${path}/report.json`, JSON.stringify(report, plainly, 2), {
    mode: 0o600,
  });
  return report;
}

export interface RunVariantsOptions extends VariantRunOptions, Pick<RunOptions, "check"> {
  readonly packing: Packing;
  /** The name of a variant's capture; default: its label. */
  readonly captureLabel?: (label: string, files: CaptureFiles) => string;
}

/**
 * Runs variants one after the other in a new run directory, and writes their captures.
 * @returns the variants with the inputs that the run keeps, their outcomes, and the paths of the captures.
 */
export async function runVariants(
  given: readonly Prepared[],
  options: RunVariantsOptions,
) {
  const { variant: { name, seed, capture }, base } = given[0]!;
  const { check, trace = false, delayMsMax = 0, signal, onProgress, onStall, onLog } = options;
  const log = onLog && programLog({ isOrdered: options.packing === "all", say: onLog });
  const created = options.directory === undefined
    ? await createRunDirectory(name)
    : await runDirectoryAt(options.directory);
  const { id, path, removed } = created;
  const files = captureFiles({ flags: options, scenario: capture, base, directory: path });
  const prepared = await beforeRun(created, async () => {
    await makeRoomFor(files);
    return await keepInputs(given, path);
  });
  options.onStart?.({ id, seed, removed });
  const observe = scopeFor(files);
  const recorded: RecordedRun[] = [];
  const outcomes: Outcome[] = [];
  let captures: string[] = [];
  let server: (Broker & Pick<NatsServer, "stop">) | undefined;
  try {
    if (options.packing !== "all") server = await busFor(path, { ...options, prepared });
    for (const [i, one] of prepared.entries()) {
      const { label, plan } = one;
      const directory = prepared.length === 1 ? path : `${path}/${fileName(label)}`;
      recorded.push({ label: options.captureLabel?.(label, files) ?? label, plan, directory });
      const show = (share: number) => onProgress?.(label, (i + share) / prepared.length);
      show(0);
      const run: RunOptions = {
        run: `${id}-${i}`,
        directory,
        trace,
        delayMsMax,
        check,
        observe,
        signal,
        inspect: options.inspect,
        onProgress: (node, topic, value) => {
          log?.hear(node, topic, value);
          if (topic === "progress") show(shareOf(value));
        },
        onEvent: (event) => {
          if (event.kind === "stalled") onStall?.(stallText(event.why, one));
        },
      };
      outcomes.push(
        await (server === undefined
          ? runSimulated(one, run)
          : runProcesses(one, { ...run, broker: server })),
      );
      log?.end(outcomes.at(-1)!.record?.reports);
    }
  } finally {
    log?.end();
    await server?.stop();
    // Captures are also written for a run that failed: it needs them most.
    if (observe !== undefined) {
      options.onRecorded?.(recorded);
      options.onCapturing?.();
    }
    captures = await writeCaptures(recorded, files, signal?.aborted ? undefined : signal);
  }
  return { id, path, prepared, outcomes, captures };
}

async function busFor(
  directory: string,
  { nats, signal, prepared }: Pick<RunManner, "nats" | "signal"> & {
    readonly prepared: readonly Prepared[];
  },
): Promise<Broker & Pick<NatsServer, "stop">> {
  if (nats !== undefined) return { ...existingBroker(nats), stop: () => Promise.resolve() };
  // The variants run one after the other over this server, and differ in neither devices nor cables.
  const users = accessOfProcesses({ ...prepared[0]!, run: ANY });
  return await startNatsServer({ dir: directory, users, keepUp: true, signal });
}

function shareOf(progress: unknown): number {
  const { written, messages } = Object(progress) as { written?: unknown; messages?: unknown };
  return typeof written === "number" && typeof messages === "number" ? written / messages : 0;
}
