/** Explores each variant of a scenario, and keeps the faults that replay counterexamples. */
import { nativeSetUpOf } from "../../fabric/rack/assembly/run_file.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { listOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import { EXPLORE_OPTIONS } from "../api/options.ts";
import { optionWords, quoted } from "../base/command_line.ts";
import { allowedBeside } from "../scenarios/read_door.ts";
import { fileName } from "../captures/capture_files.ts";
import { lacksInput, prepare, type Prepared, type PrepareOptions } from "../rack/prepare.ts";
import { stoppable } from "../rack/own/confined.ts";
import { WorkerPool } from "../rack/own/worker_pool.ts";
import { createRunDirectory, removeRun } from "../rack/run_directory.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { faultLines } from "./counterexample.ts";
import { explore } from "./explore.ts";
import { checkNative, exploreNative, recoveriesText } from "./native/explore_native.ts";
import type { Turned } from "./interleavings/interleavings.ts";
import type { Disturbed } from "./disturbed/disturbed.ts";
import { verdictOfAll } from "./interleavings/verdict.ts";
import type { ExploreJob, ExploreRequest } from "../rack/own/explore_main.ts";
import { dealSteps, disturbingBy, openWorkers, type StepWorker, turningBy } from "./steps/deal.ts";
import type { Opening } from "./steps/exploration.ts";
import { type ExploreMemory, nameOfRack, remembering } from "./steps/memory.ts";
import type { StepFound } from "./steps/judge_steps.ts";
import { type Explored, progressText } from "./report.ts";
import type {
  Counterexample,
  Cut,
  ExploredRack,
  ExploreOptions,
  ExploreProgress,
  Verdict,
} from "./types.ts";
import { EXPLORE_DEFAULTS } from "./types.ts";

export interface ExploreScenarioOptions {
  readonly prepare: PrepareOptions;
  /** `stopped` is called between variants, too. */
  readonly explore: ExploreOptions;
  readonly jobs?: number;
  /** Has what an exploration that was ended has found of it. */
  readonly memory?: ExploreMemory;
  /** `share` in [0, 1]. */
  readonly onProgress?: (title: string, share: number) => void;
}

export interface ExploredScenario {
  readonly scenario: string;
  readonly seed: number;
  readonly explored: readonly Explored[];
  /** All variants were explored, not only the first ones. */
  readonly isWhole: boolean;
  readonly input: string | undefined;
}

/** Exit code of an exploration: 0 only where all variants were explored, and each is safe. */
export function exitOf(
  { explored, isWhole }: {
    readonly explored: readonly { readonly verdict: Pick<Verdict, "verdict"> }[];
    readonly isWhole: boolean;
  },
) {
  const verdicts = explored.map(({ verdict }) => verdict.verdict);
  if (verdicts.includes("unsafe") || verdicts.includes("failed")) return EXIT.failed;
  return isWhole && verdicts.every((verdict) => verdict === "safe") ? EXIT.done : EXIT.unclear;
}

/** @throws Refusal; Error where a program keeps state from run to run. */
export async function exploreScenario(
  source: ScenarioSource,
  options: ExploreScenarioOptions,
): Promise<ExploredScenario> {
  const { name } = source.scenario;
  let made: string | undefined, isKept = false;
  const directory = async () => made ??= (await createRunDirectory(name)).path;
  try {
    const found = await exploreIn(directory, source, options);
    isKept = found.explored.some(({ command }) => command !== null);
    return found;
  } finally {
    if (made !== undefined && !isKept) await removeRun({ path: made });
  }
}

async function exploreIn(
  directory: () => Promise<string>,
  source: ScenarioSource,
  options: ExploreScenarioOptions,
): Promise<ExploredScenario> {
  const { onProgress } = options;
  const { path, scenario: { programs } } = source;
  const choices = { ...options.prepare };
  if (programs.some((program) => lacksInput(program, choices.input))) {
    choices.input = `${await directory()}/made-up.bin`;
    await Deno.writeFile(choices.input, madeUpBytes(MADE_UP_BYTES, "made-up"), { mode: 0o600 });
  }
  const prepared = await prepare(source, choices);
  checkHost(prepared, options.explore.cut);
  for (const one of prepared) if (one.native !== undefined) checkNative(one);
  if (prepared[0]!.native !== undefined && choices.native?.kind === "run") {
    choices.native.onNotice?.(recoveriesText(prepared[0]!));
  }
  const explored: Explored[] = [];
  await using explorer = new Explorer(options.jobs ?? 1, options.memory);
  for (const [i, one] of prepared.entries()) {
    if (options.explore.stopped?.()) break;
    const tell = (progress: ExploreProgress) => {
      const title = `${one.label}: ${progressText(progress)}`;
      onProgress?.(title, (i + progress.share) / prepared.length);
    };
    const native = nativeSetUpOf(one);
    const found = native === undefined
      ? await explorer.explore(one, options.explore, tell)
      : await exploreNative({
        prepared: { ...one, native },
        directory: await variantFolder(await directory(), i),
        options: options.explore,
        jobs: options.jobs ?? 1,
        ...(options.memory && { memory: options.memory }),
        onProgress: tell,
      });
    const verdict = ofAllInstants(found, options.explore);
    const left = verdict.counterexample && await leave(verdict.counterexample, {
      directory: await directory(),
      words: [
        quoted(path),
        ...choiceWords(choices, one),
        ...optionWords({ "allow-read": allowedBeside(source) }),
      ],
      label: one.label,
      options: options.explore,
    });
    const { command, faults } = left ?? { command: null, faults: null };
    explored.push({ label: one.label, verdict, command, faults, variant: one.variant });
  }
  const { plan } = prepared[0]!;
  const isWhole = explored.length === prepared.length;
  const { input } = choices;
  return { scenario: plan.scenario, seed: plan.seed, explored, isWhole, input };
}

/** For what the native programs of a variant write. */
async function variantFolder(directory: string, place: number): Promise<string> {
  const folder = `${directory}/${place}`;
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
}

/** A verdict on chosen instants is partial. */
export function ofAllInstants(verdict: Verdict, { from, until }: ExploreOptions): Verdict {
  if (verdict.verdict !== "safe" || (from === undefined && until === undefined)) return verdict;
  const span = [
    ...(from === undefined ? [] : [`from ${formatTime(from)}`]),
    ...(until === undefined ? [] : [`until ${formatTime(until)}`]),
  ];
  return { ...verdict, verdict: "partial", why: `only instants ${span.join(" ")} were asked for` };
}

type Rack =
  & Pick<Prepared, "plan" | "inputs" | "programs">
  & Pick<ExploredRack, "orders">;

/**
 * Explores racks one after the other, in this process or in several. With own programs each rack
 * has processes of its own, which may read and write nothing.
 */
export class Explorer {
  readonly #jobs: number;
  readonly #memory: ExploreMemory | undefined;
  readonly #shared = new WorkerPool({ ...WORKER, programs: NO_PROGRAMS });

  constructor(jobs: number, memory?: ExploreMemory) {
    this.#jobs = jobs;
    this.#memory = memory;
  }

  /** @throws Refusal where a file cannot be read. */
  async explore(
    { plan, inputs: paths, programs, orders = [] }: Rack,
    options: ExploreOptions,
    onProgress: (progress: ExploreProgress) => void,
  ): Promise<Verdict> {
    const inputs = await readInputs(paths);
    const names = Object.keys(programs);
    const memory = this.#memory;
    if (names.length === 0 && this.#jobs === 1 && memory === undefined) {
      return await explore({ plan, inputs, orders, own: {} }, options, onProgress);
    }
    const began = performance.now();
    const { stopped, ...told } = options;
    const job: ExploreJob = { plan, inputs, orders, programs, options: told };
    const who = names.length === 0 ? NO_PROGRAMS : names;
    const own = names.length === 0 ? undefined : new WorkerPool({ ...WORKER, programs: names });
    const pool = own ?? this.#shared;
    try {
      const asked = Array.from({ length: this.#jobs }, (_, lane) => stepWorker(pool, lane, job));
      const rack = memory && await nameOfRack(job);
      const workers = memory === undefined
        ? asked
        : asked.map((worker) => remembering(worker, { memory, rack: rack! }));
      const watched = { workers: () => pool.workers, stopped, programs: who };
      const opened = await stoppable(openWorkers(workers), watched);
      const turning = turningBy(workers, opened), disturbing = disturbingBy(workers, opened);
      const steps = () => dealSteps(workers, opened, options);
      return await verdictOfAll(opened.opening, {
        ...{ turning, disturbing, steps, options, began, onProgress },
      });
    } finally {
      pool.stop();
      await own?.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#shared.end();
  }
}

const WORKER = { module: "console/rack/own/explore_main.ts" };
const NO_PROGRAMS = ["a rack"];

function stepWorker(pool: WorkerPool, lane: number, job: ExploreJob): StepWorker {
  const ask = <Answer>(request: ExploreRequest) => pool.ask<Answer>(lane, request);
  return {
    open: () => ask<Opening>({ open: job }),
    turn: (planned) => ask<Turned>({ turn: planned }),
    disturb: (disturbance) => ask<Disturbed>({ disturb: disturbance }),
    judge: ({ sweep, from, to, spent }) =>
      ask<readonly StepFound[]>({ judge: { sweep, from, to, spent } }),
    stop: () => pool.stop(lane),
  };
}

/** Explores one rack by itself. @throws Refusal where a file cannot be read. */
export async function explorePrepared(
  rack: Rack,
  options: ExploreOptions,
  onProgress: (progress: ExploreProgress) => void,
): Promise<Verdict> {
  await using explorer = new Explorer(1);
  return await explorer.explore(rack, options, onProgress);
}

async function readInputs(paths: Prepared["inputs"]): Promise<ExploredRack["inputs"]> {
  const inputs: Record<string, Record<string, Uint8Array>> = {};
  for (const [host, files] of Object.entries(paths)) {
    const read: Record<string, Uint8Array> = {};
    for (const [name, path] of Object.entries(files)) read[name] = await readInput(path);
    inputs[host] = read;
  }
  return inputs;
}

async function readInput(path: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (cause) {
    throw refusal("", { found: `Cannot read ${path}: ${(cause as Error).message}`, cause });
  }
}

function checkHost(prepared: readonly Prepared[], cut: Cut | undefined): void {
  if (typeof cut !== "object") return;
  const hosts = prepared[0]!.plan.nodes.filter(({ kind }) => kind === "host")
    .map(({ name }) => name);
  if (hosts.includes(cut.host)) return;
  const { cut: row } = EXPLORE_OPTIONS;
  throw refusal((named) => named("cut", row), {
    found: `"${cut.host}"`,
    expected: `${hosts.join(", ")}, ${listOf(row.words)}`,
  });
}

const MADE_UP_BYTES = 16 * 1024;

function choiceWords(
  { input, method, ddio, size, depth, seed }: PrepareOptions,
  { label, variant }: Prepared,
): string[] {
  const own = label === variant.name ? undefined : variant;
  return optionWords({
    input: typeof input === "string" ? input : undefined,
    method: method ?? own?.method,
    ddio: ddio ?? own?.ddio,
    size,
    depth,
    seed,
  });
}

async function leave(
  counterexample: Counterexample,
  { directory, words, label, options }: {
    readonly directory: string;
    readonly words: readonly string[];
    readonly label: string;
    readonly options: ExploreOptions;
  },
): Promise<{ readonly command: string; readonly faults: string }> {
  const path = `${directory}/${fileName(label)}.jsonl`;
  const lines = faultLines(counterexample).map((line) => `${line}\n`).join("");
  await Deno.writeTextFile(path, lines, { mode: 0o600 });
  const { atPs, isReplayable } = counterexample;
  const more = isReplayable
    ? ["--pack", "all", "--faults", quoted(path)]
    : [...optionsAgain(options), "--from", `${atPs}ps`, "--until", `${atPs + 1}ps`];
  const claims = options.claims ? ["--claims"] : [];
  const robust = options.robust && !isReplayable ? ["--robust"] : [];
  const command = isReplayable ? "rack run" : "rack explore";
  return { command: [command, ...words, ...claims, ...robust, ...more].join(" "), faults: path };
}

/** The options of an exploration as words of its command. */
export function optionsAgain({ cut, cuts, choices, tear }: ExploreOptions): string[] {
  const assumed: Readonly<Record<string, unknown>> = EXPLORE_DEFAULTS;
  const given = { cut: typeof cut === "object" ? cut.host : cut, cuts, choices, tear };
  const other = Object.entries(given).filter(([name, value]) => value !== assumed[name]);
  return optionWords(Object.fromEntries(other));
}
