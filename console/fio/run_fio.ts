import type { Memory } from "../../fabric/rack/plan/plan.ts";
import type { FioJob } from "../../nodes/host/programs/fio/job.ts";
import type { FioResult, ThreadResult } from "../../nodes/host/programs/fio/fio.ts";
import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import { formatTime, PS_PER_S } from "../../fabric/base/time.ts";
import { type PersistenceDomain, survives } from "../../fabric/rack/plan/persistence_domain.ts";
import { Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { unusedLabel } from "../captures/capture_files.ts";
import { onlyOne, prepare, type PrepareOptions } from "../rack/prepare.ts";
import { type RunManner, runVariants } from "../rack/run_scenario.ts";
import { type Outcome, reportsOf } from "../rack/run_variant.ts";
import { judge, summarise } from "../reports/summarise.ts";
import type { RunReport } from "../reports/method_report.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { type JobFileWorld, readJobFile } from "./job_file.ts";
import { placeOf, planJobs } from "./jobs.ts";
import { type PlacedJob, placeJobs } from "./place.ts";

export interface RunFioOptions extends RunManner {
  readonly files: readonly string[];
  /** In place of the files' settings: `runtime=10ms`. */
  readonly set?: readonly string[];
  /** Sections that run beside [global]; absent: all. */
  readonly only?: readonly string[];
  readonly world: JobFileWorld;
  readonly packing: Packing;
  readonly from?: string;
  readonly to?: string;
  readonly memory: Memory;
  /** Default: on, where the scenario has both. */
  readonly ddio?: "on" | "off";
  readonly seed?: number;
  readonly onNotes?: (notes: readonly string[]) => void;
}

export interface FioThread extends PlacedJob {
  /** Absent where its program has not come to its end. */
  readonly result?: ThreadResult;
}

export interface FioRun {
  readonly scenario: string;
  readonly seed: number;
  readonly threads: readonly FioThread[];
  readonly globals: Readonly<Record<string, string>>;
  readonly report: RunReport;
  readonly captures: readonly string[];
}

/**
 * Runs fio's job files on the rack of a scenario, without the scenario's programs and faults, and
 * checks the run.
 * @throws Refusal with all that is wrong with the files.
 */
export async function runFio(source: ScenarioSource, options: RunFioOptions): Promise<FioRun> {
  const began = performance.now();
  const { path, scenario } = source;
  const plan = planJobs(await readAll(options), {
    world: options.world,
    override: options.set ?? [],
    only: options.only ?? [],
  });
  const { packing, seed, from, to, memory } = options;
  const isMixed = scenario.hosts.some(({ ddio }) => ddio === "both");
  const ddio = options.ddio ?? (isMixed ? "on" : undefined);
  const manner: PrepareOptions = {
    packing,
    ...(ddio !== undefined && { ddio }),
    ...(seed !== undefined && { seed }),
    faults: [],
    linkFaults: "none",
    signal: options.signal,
  };
  const bare = onlyOne(await prepare(source, { ...manner, programs: [] }), path);
  const placed = placeJobs(plan.jobs, {
    addresses: bare.plan.addresses,
    memories: Object.fromEntries(
      bare.plan.nodes.flatMap((node) => node.kind === "host" ? [[node.name, node.config]] : []),
    ),
    memory,
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
  });
  const all = [...placed.jobs, ...placed.assumed];
  const long = longJobs(all);
  options.onNotes?.([...plan.notes, ...placed.notes, ...claimsOf(all, bare), ...longText(long)]);
  const prepared = onlyOne(await prepare(source, { ...manner, programs: programsOf(all) }), path);
  const named = { ...prepared, label: `fio, ${prepared.label}` };
  const run = await runVariants([named], {
    ...options,
    check: long.length > 0 ? undefined : "notes",
    captureLabel: unusedLabel,
    onOutcome: async (_, { one, outcome }) => ({
      threads: threadsOf(all, outcome),
      judged: await judge(one, outcome, { signal: options.signal }),
    }),
  });
  const { threads, judged } = run.results[0]!;
  const report = summarise({
    id: run.id,
    path: run.path,
    wallMs: performance.now() - began,
    nats: packing !== "all",
    outcomes: [judged],
  });
  return {
    scenario: scenario.name,
    seed: prepared.plan.seed,
    threads,
    globals: plan.globals,
    report,
    captures: run.captures,
  };
}

async function readAll({ files, world }: RunFioOptions) {
  if (files.length === 0) throw refusal("", { found: "no job file", expected: "at least one" });
  return await Promise.all(files.map(async (file) => {
    try {
      return await readJobFile(file, world);
    } catch (cause) {
      if (cause instanceof Refusal) throw cause;
      const why = (cause as Error).message;
      throw refusal("", { found: `Cannot read the job file ${file}: ${why}`, cause });
    }
  }));
}

/** One program of each host has all of its threads: as one process of fio. */
function programsOf(jobs: readonly PlacedJob[]): NonNullable<PrepareOptions["programs"]> {
  const hosts = [...new Set(jobs.map(({ host }) => host))];
  return hosts.map((on) => ({
    on,
    run: "fio",
    at: 0,
    options: { jobs: jobs.filter(({ host }) => host === on).map(({ job }) => job) },
  }));
}

interface NodeOf {
  readonly name: string;
  readonly config: unknown;
}

/** A job's file claims what the rack does not keep (`direct_write_to_pmem`). */
export function claimsOf(
  jobs: readonly PlacedJob[],
  { plan }: { readonly plan: { readonly nodes: readonly NodeOf[] } },
): string[] {
  const notes = jobs.flatMap((placed) => {
    const { host, job, given } = placed;
    if (job.engine !== "librpma_apm_server" || !job.directWriteToPmem || job.memory !== "scm") {
      return [];
    }
    const node = plan.nodes.find(({ name }) => name === host);
    const { ddio, domain } = Object(node?.config) as {
      ddio?: unknown;
      domain?: PersistenceDomain;
    };
    if (ddio !== true && ddio !== "on" || domain === undefined || survives("llc", domain)) {
      return [];
    }
    const { file, line } = placeOf(placed, "direct_write_to_pmem");
    const isSaid = given.get("direct_write_to_pmem") !== undefined;
    const place = isSaid ? `${file}:${line}` : "the server that is assumed";
    return [
      `${place}: direct_write_to_pmem=1, and ${host} has DDIO on: what is flushed by a READ may ` +
      "still be in its cache, and is not persistent",
    ];
  });
  return [...new Set(notes)];
}

const LONG_PS = PS_PER_S / 2, LONG_BLOCKS = 250_000;

/** Their posts are too many to be kept for the checkers: a million of them takes some 2 GiB. */
export function longJobs(jobs: readonly Pick<PlacedJob, "job">[]): FioJob[] {
  return jobs.map(({ job }) => job).filter((job) => {
    const { isServer, rampPs, runtimePs, timeBased, size, ioBytes, blockSizes, loops } = job;
    const passes = rampPs + (runtimePs ?? 0);
    if (isServer || (timeBased && passes < LONG_PS)) return false;
    if (timeBased) return true;
    const bytes = ioBytes ?? (size !== undefined && "bytes" in size ? size.bytes : 0);
    const block = Math.min(blockSizes.read.least, blockSizes.write.least);
    const ios = job.ios ?? loops * bytes / block;
    return ios >= LONG_BLOCKS && (runtimePs === undefined || passes >= LONG_PS);
  });
}

function longText(jobs: readonly FioJob[]): string[] {
  const notes = jobs.map(({ name, timeBased, rampPs, runtimePs = 0 }) => {
    const much = timeBased
      ? `${formatTime(rampPs + runtimePs)} of virtual time takes`
      : "its many blocks take";
    const less = timeBased ? "--set runtime=10ms --set ramp_time=1ms" : "--set size=100m";
    return `${name}: ${much} minutes or hours (${less} answers sooner), ` +
      "and posts are not kept for the checks of the run";
  });
  return [...new Set(notes)];
}

/** A client that has come to its end without a single I/O has measured nothing. */
export function hasNoIo({ job: { isServer }, result }: FioThread): boolean {
  if (isServer || result === undefined || result.error !== undefined) return false;
  return (result.stats?.read.ios ?? 0) + (result.stats?.write.ios ?? 0) === 0;
}

function threadsOf(jobs: readonly PlacedJob[], outcome: Outcome): FioThread[] {
  const results = new Map<string, ThreadResult>();
  for (const { node, topic, value } of reportsOf(outcome)) {
    const { program, jobs: ended } = Object(value) as Partial<FioResult>;
    if (topic !== "result" || program !== "fio") continue;
    for (const each of ended ?? []) results.set(keyOf(node, each), each);
  }
  return jobs.map((each) => {
    const result = results.get(keyOf(each.host, each.job));
    return result === undefined ? each : { ...each, result };
  });
}

function keyOf(host: string, { index, isServer }: Pick<FioJob, "index" | "isServer">): string {
  return `${host} ${isServer ? "server" : "client"} ${index}`;
}
