import { listOf, Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import type { CaptureFiles } from "../../fabric/rack/assembly/run_file.ts";
import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { captureFiles, fileName, makeRoomFor, scopeFor } from "../captures/capture_files.ts";
import { type RecordedRun, writeCaptures } from "../captures/captures.ts";
import { inOrder, resultsInOrder } from "../base/at_once.ts";
import type { ReportSeen } from "../checks/run_record.ts";
import { plainly } from "../reports/json.ts";
import { keepScenario } from "../scenarios/kept_scenario.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import type { RunReport } from "../reports/method_report.ts";
import type { JudgedVariant } from "../reports/run_checks.ts";
import { judge, summarise } from "../reports/summarise.ts";
import { elsewhereIn } from "./elsewhere.ts";
import type { ExistingNats } from "./existing_nats.ts";
import { readFaultLines } from "./fault_lines.ts";
import { keepInputs, onlyOne, prepare, type Prepared, type PrepareOptions } from "./prepare.ts";
import { beforeRun, createRunDirectory, type NewRun, runDirectoryAt } from "./run_directory.ts";
import { programLog } from "./program_log.ts";
import { type Rack, runSideBySide } from "./side_by_side.ts";
import { stallText } from "./stall_text.ts";
import { VariantPool } from "./variant_pool.ts";
import type { Supervisor } from "./supervisor.ts";
import { type Outcome, type RunOptions, runSimulated } from "./run_variant.ts";

export interface RunManner {
  /** To use instead of starting a nats-server. */
  readonly nats?: ExistingNats;
  /** Devices that are started on other machines (`rack node`). */
  readonly elsewhere?: readonly string[];
  /** Of those: without a message for so long, one is dead. */
  readonly livenessMs?: number;
  /** Of those, the ones that are not there yet, each time that ten seconds have passed. */
  readonly onMissing?: (run: string, devices: readonly string[]) => void;
  /** A folder for frames, a file for the devices' timeline; true: in the run's directory. */
  readonly pcap?: string | true;
  readonly perfetto?: string | true;
  /** Takes the rack down; the run then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** `share` in [0, 1]. */
  readonly onProgress?: (title: string, share: number) => void;
  /** In the order of virtual time. */
  readonly onLog?: (text: string) => void;
  readonly onCapturing?: () => void;
}

interface VariantRunOptions extends RunManner {
  readonly trace?: boolean;
  readonly inspect?: number;
  readonly delayMsMax?: number;
  /** Variants that run at once, as processes; default: `LANES`. */
  readonly lanes?: number;
  /** Does not exist yet; default: a new one among the kept runs. */
  readonly directory?: string | undefined;
  readonly onStart?: (run: NewRun & { readonly seed: number }) => void;
  /** Called before captures are written and recordings removed. */
  readonly onRecorded?: (recorded: readonly RecordedRun[]) => void;
  readonly onUp?: (place: number, rack: Supervisor) => void;
  readonly onStall?: (text: string) => void;
}

export interface RunScenarioOptions extends VariantRunOptions {
  readonly prepare: PrepareOptions;
  /** A record of power and cables (`faults.jsonl`) to replay. */
  readonly faultsFile?: string;
  readonly claims?: boolean;
  /**
   * Where one process has a whole rack: variants at a time, in processes; default: one, in this
   * process.
   */
  readonly jobs?: number;
  /** `signal` has ended the run; the report is on the variants that had ended, if any. */
  readonly onInterrupted?: (report: RunReport) => void;
  /** Called in the order of the variants. */
  readonly onJudged?: (variant: JudgedVariant & { readonly one: Prepared }) => void;
}

/** @throws Refusal before anything is started; RackError, BusError, NatsServerError. */
export async function runScenario(
  scenario: ScenarioSource,
  options: RunScenarioOptions,
): Promise<RunReport> {
  const { faultsFile, signal } = options;
  const faults = faultsFile === undefined ? undefined : await readFaultLines(faultsFile);
  const stops = options.inspect !== undefined;
  const prepared = await prepare(scenario, { ...options.prepare, ...faults, stops, signal });
  if (stops) checkInspected(prepared, scenario.path);
  if (options.elsewhere !== undefined) checkElsewhere(prepared, scenario.path, options);
  const nodes = [...new Set(prepared.flatMap(({ plan }) => plan.nodes.map(({ name }) => name)))];
  const { faults: power = [], writebacks = [], holds = [], stalls = [], morePrograms = [] } =
    faults ?? {};
  const named = [
    ...[...power, ...writebacks, ...holds, ...stalls].map(({ node }) => node),
    ...morePrograms.map(onOf),
  ];
  const stranger = named.find((node) => !nodes.includes(node));
  if (stranger !== undefined) {
    const expected = `a node of this rack (${listOf(nodes)})`;
    throw new Refusal([{ file: faultsFile!, path: "", found: stranger, expected }]);
  }
  return await runAll(scenario, { ...options, prepared });
}

function checkInspected(prepared: readonly Prepared[], scenario: string): void {
  const { programs } = onlyOne(prepared, scenario);
  if (Object.keys(programs).length > 0) return;
  const found = `${scenario}, which runs no program of your own`;
  throw refusal("--inspect-brk", { found, expected: "a scenario with one: { program: ./my.ts }" });
}

/** Devices elsewhere are started for one run. */
function checkElsewhere(
  prepared: readonly Prepared[],
  scenario: string,
  { elsewhere = [], prepare: { packing } }: RunScenarioOptions,
): void {
  if (packing === "all") {
    const found = "together with --pack all";
    throw refusal("--elsewhere", { found, expected: "--pack node or machine" });
  }
  elsewhereIn(onlyOne(prepared, scenario), elsewhere);
}

function onOf({ on }: ProgramScenario): string {
  return on;
}

async function runAll(
  scenario: ScenarioSource,
  { prepared, ...options }: RunScenarioOptions & { readonly prepared: readonly Prepared[] },
): Promise<RunReport> {
  const began = performance.now();
  const { prepare: { packing, method, ddio }, claims = false, signal } = options;
  const onJudged = inOrder<JudgedVariant & { readonly one: Prepared }>((variant) =>
    options.onJudged?.(variant)
  );
  const ended = new Map<number, JudgedVariant>();
  let started: Pick<NewRun, "id" | "path"> | undefined;
  // A method or DDIO option makes another run than the one whose result the scenario expects.
  const isChosen = method !== undefined || ddio !== undefined;
  const expect = isChosen ? [] : prepared[0]!.variant.expect;
  // A run that repeats a record does things that are not in its scenario.
  const keep = ({ variant }: Prepared, directory: string) => {
    if (options.faultsFile !== undefined) return;
    keepScenario(directory, { scenario, choices: options.prepare, variant });
  };
  const take = (place: number, judged: JudgedVariant & { readonly one: Prepared }) => {
    ended.set(place, judged);
    onJudged(place, judged);
    return judged;
  };
  const { jobs = 1 } = options;
  const isDealt = packing === "all" && jobs > 1 && prepared.length > 1;
  await using pool = isDealt ? new VariantPool(() => started?.path) : undefined;
  const run = await runVariants(prepared, {
    ...options,
    packing,
    check: "wire",
    ...(pool && {
      pool: {
        atOnce: Math.min(jobs, prepared.length),
        async run(place, { one, run }, lane) {
          const judged = await pool.run(lane, { one, run, claims, signal });
          keep(one, run.directory);
          return { result: take(place, judged), reports: judged.outcome.record?.reports };
        },
      },
    }),
    onStart: (run) => {
      started = run;
      options.onStart?.(run);
    },
    async onOutcome(place, { one, outcome }) {
      keep(one, outcome.directory);
      return take(place, { ...await judge(one, outcome, { claims, signal }), one });
    },
  }).catch(async (error) => {
    const outcomes = prepared.flatMap((_, place) => ended.get(place) ?? []);
    if (signal?.aborted === true && started !== undefined && outcomes.length > 0) {
      const missing = prepared.filter((_, place) => !ended.has(place));
      const wallMs = performance.now() - began;
      const summary = summarise({ ...started, wallMs, outcomes, nats: packing !== "all" });
      const checks = [...summary.checks, interruptedCheck(missing, outcomes)];
      options.onInterrupted?.(await leaveReport({ ...summary, checks }));
    }
    throw error;
  });
  const { id, path, captures, results: outcomes } = run;
  const wallMs = performance.now() - began;
  const summary = summarise({ id, path, wallMs, outcomes, nats: packing !== "all", expect });
  return await leaveReport(captures.length === 0 ? summary : { ...summary, captures });
}

async function leaveReport(report: RunReport): Promise<RunReport> {
  const text = JSON.stringify(report, plainly, 2);
  await Deno.writeTextFile(`${report.directory}/report.json`, text, { mode: 0o600 });
  return report;
}

function interruptedCheck(
  missing: readonly Prepared[],
  ended: readonly JudgedVariant[],
): RunReport["checks"][number] {
  return {
    name: "all-variants-run",
    promise: "Every variant of the scenario comes to its end.",
    looked: [],
    holds: false,
    detail: `interrupted when ${ended.length} of ${ended.length + missing.length} had ended; ` +
      `not these: ${missing.map(({ label }) => label).join("; ")}`,
  };
}

export interface RunVariantsOptions<Result> extends VariantRunOptions, Pick<RunOptions, "check"> {
  readonly packing: Packing;
  readonly captureLabel?: (label: string, files: CaptureFiles) => string;
  readonly onOutcome: (place: number, variant: Ended) => Promise<Result>;
  /** How others run variants where one process has a whole rack. */
  readonly pool?: {
    readonly atOnce: number;
    /** @param lane does nothing else meanwhile; from 0 on. */
    readonly run: (place: number, rack: Rack, lane: number) => Promise<{
      readonly result: Result;
      readonly reports: readonly ReportSeen[] | undefined;
    }>;
  };
}

interface Ended {
  readonly one: Prepared;
  readonly outcome: Outcome;
}

/**
 * Runs variants in a new run directory, and writes their captures. Racks of processes run side by
 * side in one set of processes, except those whose plan ends a process, as its death would be that
 * of the same device in the others.
 * @returns results in the order of the variants, and the paths of the captures.
 */
export async function runVariants<Result>(
  given: readonly Prepared[],
  options: RunVariantsOptions<Result>,
) {
  const { variant: { name, seed, capture }, reach } = given[0]!;
  const { packing } = options;
  const created = options.directory === undefined
    ? await createRunDirectory(name)
    : await runDirectoryAt(options.directory);
  const { id, path, removed } = created;
  const files = captureFiles({ flags: options, scenario: capture, reach, directory: path });
  const prepared = await beforeRun(created, async () => {
    await makeRoomFor(files);
    return await keepInputs(given, path);
  });
  options.onStart?.({ id, path, seed, removed });
  const observe = scopeFor(files);
  const logs = logsInOrder(prepared, options);
  const racks = racksOf(prepared, { id, path, observe, logs, options });
  const recorded: RecordedRun[] = racks.map(({ one: { label, plan }, run: { directory } }) => ({
    ...{ plan, directory },
    label: options.captureLabel?.(label, files) ?? label,
  }));
  const results: Promise<Result>[] = [];
  let captures: string[] = [];
  const onEnded = (place: number, outcome: Outcome) => {
    logs.end(place, outcome.record?.reports);
    const result = options.onOutcome(place, { one: prepared[place]!, outcome });
    // It may fail before all have ended, and is awaited then.
    result.catch(() => {});
    results[place] = result;
  };
  try {
    const { nats, lanes, signal, pool } = options;
    if (packing !== "all") {
      await runSideBySide(racks, { id, path, nats, lanes, signal, onEnded });
    } else if (pool !== undefined) {
      const work = async (rack: Rack, place: number, lane: number) => {
        const { result, reports } = await pool.run(place, rack, lane);
        logs.end(place, reports);
        results[place] = Promise.resolve(result);
      };
      await Array.fromAsync(resultsInOrder(racks, { atOnce: pool.atOnce, work }));
    } else {
      for (const [place, { one, run }] of racks.entries()) {
        onEnded(place, await runSimulated(one, { ...run, signal }));
      }
    }
  } finally {
    logs.endAll();
    // Judging still writes to the run's directory, and is in the report on an interrupted run.
    await Promise.allSettled(results);
    // A failed run needs its captures most.
    if (observe !== undefined) {
      options.onRecorded?.(recorded);
      options.onCapturing?.();
    }
    captures = await writeCaptures(
      recorded,
      files,
      options.signal?.aborted ? undefined : options.signal,
    );
  }
  return { id, path, results: await Promise.all(results), captures };
}

function racksOf(
  prepared: readonly Prepared[],
  { id, path, observe, logs, options }: {
    readonly id: string;
    readonly path: string;
    readonly observe: RunOptions["observe"];
    readonly logs: ReturnType<typeof logsInOrder>;
    readonly options: Omit<RunVariantsOptions<unknown>, "onOutcome">;
  },
): Rack[] {
  const { check, trace = false, delayMsMax = 0, inspect, onProgress, onStall, onUp } = options;
  const { elsewhere, livenessMs, onMissing } = options;
  const shares = prepared.map(() => 0);
  return prepared.map((one, i) => {
    const show = (share: number) => {
      shares[i] = share;
      onProgress?.(one.label, shares.reduce((sum, each) => sum + each, 0) / shares.length);
    };
    const run: RunOptions = {
      run: `${id}-${i}`,
      directory: prepared.length === 1 ? path : `${path}/${fileName(one.label)}`,
      trace,
      delayMsMax,
      check,
      observe,
      inspect,
      ...(elsewhere && elsewhereIn(one, elsewhere, livenessMs)),
      ...(onMissing && { onMissing }),
      onProgress: (node, topic, value) => {
        logs.hear(i, [node, topic, value]);
        if (topic === "progress") show(shareOf(value));
      },
      onStart: (rack) => onUp?.(i, rack),
      onEvent: (event) => {
        if (event.kind === "stalled") onStall?.(stallText(event.why, one));
      },
    };
    return { one, run };
  });
}

function logsInOrder(
  prepared: readonly Prepared[],
  { packing, onLog, pool }: Pick<RunVariantsOptions<unknown>, "packing" | "onLog" | "pool">,
) {
  // A rack in one process has its lines in order; one that runs alone passes them on at once.
  const isOrdered = packing === "all", isAlone = isOrdered && pool === undefined;
  const lines = prepared.map((): string[] => []);
  const logs = prepared.map((_, i) =>
    onLog && programLog({ isOrdered, say: isAlone ? onLog : (text) => lines[i]!.push(text) })
  );
  const say = inOrder<number>((place) => {
    for (const text of lines[place]!) onLog?.(text);
  });
  const ended = new Set<number>();
  const end = (place: number, reports?: readonly ReportSeen[]) => {
    if (ended.has(place)) return;
    ended.add(place);
    logs[place]?.end(reports);
    say(place, place);
  };
  return {
    hear: (place: number, report: readonly [node: string, topic: string, value: unknown]) =>
      logs[place]?.hear(...report),
    end,
    endAll: () => prepared.forEach((_, place) => end(place)),
  };
}

function shareOf(progress: unknown): number {
  const { written, messages } = Object(progress) as { written?: unknown; messages?: unknown };
  return typeof written === "number" && typeof messages === "number" ? written / messages : 0;
}
