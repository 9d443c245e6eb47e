import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import { formatPath } from "../../fabric/rack/scenario/yaml_source.ts";
import { SWEEP_OPTIONS } from "../api/options.ts";
import { forEachAtOnce } from "../base/at_once.ts";
import { optionWords, quoted } from "../base/command_line.ts";
import { allowedBeside, type Reach } from "../scenarios/read_door.ts";
import { writeWhole } from "../base/files.ts";
import { commandFlags, LARGE_HEAP } from "../base/v8_flags.ts";
import { commitHere } from "../base/version.ts";
import { workersFor } from "../base/workers.ts";
import { explain } from "../rack/failure.ts";
import { WorkerPool } from "../rack/own/worker_pool.ts";
import type { NativeDoor } from "../rack/native/native.ts";
import { prepare } from "../rack/prepare.ts";
import { beforeRun, createRunDirectory } from "../rack/run_directory.ts";
import { LANES, noEndText } from "../rack/side_by_side.ts";
import type { RunReport } from "../reports/method_report.ts";
import { readScenario, type ScenarioSource } from "../scenarios/scenario_source.ts";
import type { CombinationJob, CombinationTold } from "./combination_main.ts";
import { runInLanes } from "./sweep_lanes.ts";
import { combinationsOf, labelOf, readCombinations } from "./combinations.ts";
import { folderOf, sweptBy, type SweptCombination, unswept } from "./swept.ts";

/** As `rack sweep --json` prints it and its directory keeps it. Plain data. */
export interface Sweep {
  readonly run: string;
  readonly scenario: string;
  /** The scenario's; it may be what varies. */
  readonly seed: number;
  readonly commit: string | null;
  readonly command: string;
  readonly varied: readonly {
    readonly name: string;
    readonly places: readonly string[];
    readonly values: readonly string[];
  }[];
  readonly combinations: readonly SweptCombination[];
  readonly directory: string;
  readonly wallMs: number;
}

export interface SweepOptions {
  /** `depth=1,4,16`: see `vary.ts`. */
  readonly vary: readonly string[];
  readonly input?: string;
  /** Default: each combination is one process. */
  readonly packing?: Packing;
  /**
   * Combinations at a time, of one process each; default: as many as cores and memory have room
   * for.
   */
  readonly jobs?: number;
  /** Combinations at a time, as racks of processes; default: `LANES`. */
  readonly lanes?: number;
  /** A combination that takes longer is ended, and has failed. */
  readonly limitMs?: number;
  /** Ends all processes. The result covers the finished part. */
  readonly signal?: AbortSignal;
  /** What becomes of native programs: see `PrepareOptions`. */
  readonly native?: NativeDoor;
  /** Before anything runs. */
  readonly onCount?: (about: { readonly count: number; readonly jobs: number }) => void;
  /** `id` among the kept runs, when the first combination is about to run. */
  readonly onStart?: (id: string) => void;
  readonly onProgress?: (title: string, share: number) => void;
}

export const SWEEP_FILE = "sweep.json";
const LIMIT_MS = 1_000 * SWEEP_OPTIONS.limit.normal;

/** @throws Refusal before anything runs, for a scenario or a value that is wrong. */
export async function runSweep(source: ScenarioSource, options: SweepOptions): Promise<Sweep> {
  const began = performance.now();
  const { base, allowRead, onRead } = source;
  const reach = { base, allowRead, isReadOnly: true, ...(onRead && { onRead }) };
  const all = readCombinations(source, options.vary);
  const { packing = "all", signal } = options;
  const { jobs = workersFor({}), lanes = LANES } = options;
  const atOnce = Math.min(packing === "all" ? jobs : lanes, all.count);
  options.onCount?.({ count: all.count, jobs: atOnce });
  const combinations = [...combinationsOf(source, all)];
  const created = await createRunDirectory(`sweep-${all.scenario}`), { id, path } = created;
  const rows = await beforeRun(created, async () => {
    await Deno.mkdir(`${path}/combinations`, { mode: 0o700 });
    const digits = String(all.count).length;
    const rows = combinations.map(({ number, values, text }): SweptCombination => {
      const name = `combinations/${String(number).padStart(digits, "0")}.yaml`;
      writeWhole(`${path}/${name}`, text);
      return { number, values, state: "not run", error: "", ...NOTHING, scenario: name };
    });
    // A missing file or own program is reported before the first one runs.
    const first = await readScenario(`${path}/${rows[0]!.scenario}`, reach);
    const { native } = options;
    await prepare(first, { packing, ...inputOf(options), signal, ...(native && { native }) });
    return rows;
  });
  options.onStart?.(id);
  const shares = new Map<number, number>();
  const show = (title: string) => {
    const sum = [...shares.values()].reduce((sum, share) => sum + share, 0);
    options.onProgress?.(title, sum / rows.length);
  };
  const inProcesses = async () => {
    await using pool = new WorkerPool({
      module: "console/sweep/combination_main.ts",
      programs: ["a combination"],
      flags: commandFlags(...LARGE_HEAP),
      runDirectory: path,
      signal,
    });
    await forEachAtOnce([...rows], async (row, at, lane) => {
      if (signal?.aborted) return;
      const title = `${row.number} of ${rows.length}: ${labelOf(row.values)}`;
      rows[at] = await runOne(row, { ...options, path, reach, pool, lane }, (share) => {
        shares.set(at, share);
        show(title);
      });
      shares.set(at, 1);
      show(title);
    }, { atOnce });
    return rows;
  };
  const ended = packing === "all" ? await inProcesses() : await runInLanes(rows, {
    ...{ id, path, reach, packing, lanes, signal },
    ...inputOf(options),
    isNative: options.native?.kind === "run",
    limitMs: options.limitMs ?? LIMIT_MS,
    onProgress: ({ number, values }, share) => {
      shares.set(number, share);
      show(`${number} of ${rows.length}: ${labelOf(values)}`);
    },
  });
  const sweep: Sweep = {
    run: id,
    scenario: all.scenario,
    seed: all.seed,
    commit: commitHere() ?? null,
    command: commandOf(source, options),
    varied: all.varied.map(({ name, places, values }) => ({
      name,
      places: places.map(formatPath),
      values: values.map((value) => value.text),
    })),
    combinations: ended,
    directory: path,
    wallMs: Math.round(performance.now() - began),
  };
  writeWhole(`${path}/${SWEEP_FILE}`, JSON.stringify(sweep));
  return sweep;
}

function commandOf(source: ScenarioSource, options: SweepOptions): string {
  const { vary, input, packing = "all" } = options;
  const varied = vary.map((text) => `--vary ${quoted(text)}`);
  return [
    "rack sweep",
    quoted(source.path),
    ...varied,
    ...optionWords({
      input,
      ...(packing !== "all" && { pack: packing }),
      "allow-read": allowedBeside(source),
    }),
  ].join(" ");
}

const NOTHING = { report: null, directory: null } as const;

function inputOf({ input }: Pick<SweepOptions, "input">) {
  return input === undefined ? {} : { input };
}

async function runOne(
  row: SweptCombination,
  { path, reach, input, native, limitMs = LIMIT_MS, signal, pool, lane }: SweepOptions & {
    readonly path: string;
    readonly reach: Reach;
    readonly pool: WorkerPool;
    readonly lane: number;
  },
  onProgress: (share: number) => void,
): Promise<SweptCombination> {
  const { base, allowRead, isReadOnly = false, onRead } = reach;
  const directory = `${path}/${folderOf(row)}`, limit = AbortSignal.timeout(limitMs);
  try {
    const scenario = `${path}/${row.scenario}`;
    const job: CombinationJob = {
      ...{ scenario, reach: { base, allowRead, isReadOnly }, directory, input },
      isNative: native?.kind === "run",
    };
    const report = await pool.ask<RunReport, CombinationTold>(lane, job, {
      signal: limit,
      onProgress: (told) => typeof told === "number" ? onProgress(told) : onRead?.(told.read),
    });
    return await sweptBy(row, report, { path });
  } catch (error) {
    if (signal?.aborted) return unswept(row);
    return unswept(row, limit.aborted ? noEndText(limitMs) : explain(error).message);
  }
}
