import { assert } from "../../../fabric/base/assert.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import type { ProgramScenario } from "../../../fabric/rack/scenario/scenario.ts";
import { fromOrder, ORDER_NAMES, valuesIn } from "../../../fabric/rack/plan/option_rows.ts";
import { Refusal } from "../../../fabric/rack/plan/problem.ts";
import { CHOICES } from "../../../fabric/rack/plan/vocabulary.ts";
import { CHAOS_OPTIONS, EXPLORE_OPTIONS } from "../../api/options.ts";
import type { ChaosResult, JobOrder, MatrixCell } from "../../api/jobs.ts";
import { isThere } from "../../base/files.ts";
import { workersFor } from "../../base/workers.ts";
import { exitOf, startCampaign } from "../../chaos/campaign.ts";
import { exploreRunAt } from "../../replay/fork.ts";
import { resumeRun } from "../../replay/resume/resume_run.ts";
import { exitOf as exitOfExplored, exploreScenario } from "../../explore/explore_scenario.ts";
import { exploreCells, type MatrixPlace, matrixPlaces } from "../../explore/matrix.ts";
import { verdictWords } from "../../api/explore_text.ts";
import { exploredDocument, progressText } from "../../explore/report.ts";
import { ExploreMemory } from "../../explore/steps/memory.ts";
import { catalogueRow, withFrames } from "../../scenarios/catalogue.ts";
import { exploreOptions } from "../../explore/options.ts";
import { bringUp } from "../../rack/bring_up.ts";
import { explain } from "../../rack/failure.ts";
import { runPerftest } from "../../rack/perftest.ts";
import { lacksInput } from "../../rack/prepare.ts";
import { consoleDoor, type NativeDoor } from "../../rack/native/native.ts";
import { runScenario } from "../../rack/run_scenario.ts";
import { readScenario, type ScenarioSource } from "../../scenarios/scenario_source.ts";
import { captionOf } from "../../sweep/caption.ts";
import { chartOf } from "../../sweep/choose.ts";
import { measuredSweep } from "../../sweep/kept.ts";
import { runSweep } from "../../sweep/run_sweep.ts";
import { plainly } from "../../reports/json.ts";
import { verdictOf } from "../../reports/run_summary.ts";
import type { JobLine, JobWork } from "./protocol.ts";

type OrderOf<Kind extends JobOrder["kind"]> = Extract<JobOrder, { kind: Kind }>;

interface Work<Kind extends JobOrder["kind"]> {
  readonly order: OrderOf<Kind>;
  readonly signal: AbortSignal;
}

interface ScenarioWork<Kind extends JobOrder["kind"]> extends Work<Kind> {
  readonly scenario: ScenarioSource;
}

function say(line: JobLine): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(line, plainly)}\n`);
  for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
}

const PROGRESS_MS = 100;
let saidMs = 0;

function onProgress(title: string, share: number): void {
  const now = performance.now();
  if (now - saidMs < PROGRESS_MS) return;
  saidMs = now;
  say({ say: "progress", title, share: Math.min(1, Math.max(0, share)) });
}

function workersOf({ jobs }: { readonly jobs?: number | undefined }): number {
  return workersFor({ jobs, onFewer: (text) => say({ say: "note", text }) });
}

const INPUT_BYTES = 256 * 1024;

function withMadeUpInput(program: ProgramScenario): ProgramScenario {
  if (!lacksInput(program, undefined)) return program;
  return { ...program, options: { ...program.options, bytes: INPUT_BYTES } };
}

async function run(
  { order, scenario, signal, replay, native }: ScenarioWork<"run"> & {
    readonly replay: JobWork["replay"];
    readonly native: NativeDoor;
  },
): Promise<void> {
  const { packing, claims, trace, captures } = order;
  const again = replay && { ...(replay.input !== undefined && { input: replay.input }) };
  const report = await runScenario(scenario, {
    prepare: {
      ...valuesIn(CHOICES, order),
      packing,
      isTyped: true,
      native,
      ...(again ?? { change: withMadeUpInput }),
    },
    ...(replay && { faultsFile: replay.faults }),
    ...(claims !== undefined && { claims }),
    ...(trace !== undefined && { trace }),
    ...(captures && { pcap: true, perfetto: true }),
    signal,
    onProgress,
    onStart: ({ id }) => say({ say: "run", run: id }),
    onStall: (text) => say({ say: "note", text }),
  });
  say({ say: "result", result: JSON.parse(JSON.stringify({ kind: "run", report }, plainly)) });
  const broken = report.checks.filter(({ holds }) => !holds);
  const { unchecked: [nothing] = [] } = report;
  const verdict = broken.length > 0
    ? `${broken.map(({ name }) => name).join(", ")} does not hold`
    : nothing === undefined
    ? "every check holds"
    : `unchecked: ${nothing.why}`;
  say({ say: "end", verdict, isGood: verdictOf(report) === "holds" });
}

async function up(
  { order, scenario, signal, native }: ScenarioWork<"up"> & { readonly native: NativeDoor },
): Promise<void> {
  const { packing, trace, paused, psPerSecond } = order;
  const rack = await bringUp(scenario, {
    prepare: {
      ...valuesIn(CHOICES, order),
      packing,
      isTyped: true,
      native,
      change: withMadeUpInput,
    },
    ...(trace !== undefined && { trace }),
    ...(paused !== undefined && { paused }),
    ...(psPerSecond !== undefined && { psPerSecond }),
    signal,
    onProgress,
  });
  say({ say: "run", run: rack.id });
  say({ say: "result", result: { kind: "up", run: rack.id } });
  say({ say: "end", verdict: "up", isGood: true });
}

async function resume(
  { order, signal, native }: Work<"resume"> & { readonly native: NativeDoor },
): Promise<void> {
  const { run: named, variant, at: where, go, trace } = order;
  const { rack: { id: run }, from, at: atPs, digest } = await resumeRun(named, {
    ...(variant !== undefined && { variant }),
    at: where,
    ...(go !== undefined && { go }),
    ...(trace !== undefined && { trace }),
    native,
    signal,
    onProgress,
  });
  say({ say: "run", run });
  say({ say: "result", result: { kind: "resume", run, from, atPs, digest } });
  say({ say: "end", verdict: "up", isGood: true });
}

/** @param what it consists of. */
function memoryAt(path: string | undefined, what: string): ExploreMemory | undefined {
  if (path === undefined) return undefined;
  const memory = new ExploreMemory(path), { size } = memory;
  if (size > 0) say({ say: "note", text: `goes on with what ${size} ${what} have found` });
  return memory;
}

async function explore(
  { order, scenario, signal, native, memory: path }: ScenarioWork<"explore"> & {
    readonly native: NativeDoor;
    readonly memory: string | undefined;
  },
): Promise<void> {
  const given = withFrames(catalogueRow(scenario.path), fromOrder(EXPLORE_OPTIONS, order));
  const options = exploreOptions(given);
  const memory = memoryAt(path, "steps and runs");
  const explored = await exploreScenario(scenario, {
    prepare: { ...valuesIn(CHOICES, order), packing: "all", isTyped: true, signal, native },
    explore: { ...options, stopped: () => signal.aborted },
    jobs: workersOf(order),
    ...(memory && { memory }),
    onProgress,
  });
  const document = JSON.parse(JSON.stringify(exploredDocument(explored), plainly));
  say({ say: "result", result: { kind: "explore", explored: document } });
  const verdicts = [...new Set(explored.explored.map(({ verdict }) => verdictWords(verdict)))];
  const isGood = exitOfExplored(explored) === EXIT.done;
  say({ say: "end", verdict: verdicts.join(", "), isGood });
}

async function cut({ order, signal }: Work<"cut">): Promise<void> {
  const { run, variant, host, atPs: at, claims } = order;
  const { scenario, seed, verdict, variant: found } = await exploreRunAt(
    { run, ...(variant !== undefined && { variant }) },
    { host, at },
    {
      ...(claims !== undefined && { claims }),
      stopped: () => signal.aborted,
      onProgress: (progress) => onProgress(progressText(progress), progress.share),
    },
  );
  const runs = [{
    variant: found,
    method: null,
    ddio: null,
    ...verdict,
    command: null,
    faults: null,
  }];
  const explored = JSON.parse(JSON.stringify({ scenario, seed, runs }, plainly));
  say({ say: "result", result: { kind: "cut", explored } });
  const isGood = exitOfExplored({ explored: [{ verdict }], isWhole: true }) === EXIT.done;
  say({ say: "end", verdict: verdictWords(verdict), isGood });
}

const CELLS_MS = 2_000;

/** The first rows are whole after seconds. */
function byResponder(places: readonly MatrixPlace[]): MatrixPlace[] {
  const groups = (all: readonly MatrixPlace[], key: (place: MatrixPlace) => string) => [
    ...Map.groupBy(all, key).values(),
  ];
  return groups(places, ({ update }) => update).flatMap((own) =>
    groups(
      own,
      ({ domain, arch, ddio, receiveBuffer }) => `${domain} ${arch} ${ddio} ${receiveBuffer}`,
    )
  ).flat();
}

async function matrix(
  { order, signal, memory: path }: Work<"matrix"> & { readonly memory: string | undefined },
): Promise<void> {
  const memory = memoryAt(path, "cells");
  const places = byResponder(matrixPlaces()), cells: MatrixCell[] = [];
  let toldMs = 0;
  for await (const cell of exploreCells(places, workersOf(order), memory)) {
    cells.push(JSON.parse(JSON.stringify(cell, plainly)));
    onProgress(`${cell.method}, ${cell.update}`, cells.length / places.length);
    if (performance.now() - toldMs > CELLS_MS) {
      toldMs = performance.now();
      say({ say: "result", result: { kind: "matrix", matrix: { cells, count: places.length } } });
    }
    if (signal.aborted) break;
  }
  say({ say: "result", result: { kind: "matrix", matrix: { cells, count: places.length } } });
  const unsafe = cells.filter(({ safe }) => !safe).length;
  say({ say: "end", verdict: `${unsafe} of ${cells.length} unsafe`, isGood: true });
}

const ROUNDS_SHOWN = 200;
const ROUNDS_KEPT = 8;

async function chaos(
  { order, scenario, signal, native }: ScenarioWork<"chaos"> & { readonly native: NativeDoor },
): Promise<void> {
  const { seed = crypto.getRandomValues(new Uint32Array(1))[0]!, ...fixed } = valuesIn(
    CHOICES,
    order,
  );
  const { forMs = CHAOS_OPTIONS.for.normal, rounds, from = 0, packing } = order;
  const began = performance.now();
  const shown: ChaosResult["rounds"] = [];
  const counts = { held: 0, broken: 0, untold: 0 };
  const goals: Record<string, number> = {};
  const soFar = (): ChaosResult => ({
    scenario: order.scenario && "shipped" in order.scenario
      ? order.scenario.shipped
      : scenario.path,
    seed,
    wallMs: performance.now() - began,
    // Folders of rounds that held go again.
    rounds: shown.map((round) =>
      round.directory === null || isThere(round.directory) ? round : { ...round, directory: null }
    ),
    count: counts.held + counts.broken + counts.untold,
    ...counts,
    goals,
  });
  const report = await startCampaign(scenario, {
    seed,
    forMs,
    ...(rounds !== undefined && { rounds }),
    from,
    fixed,
    keepLatest: ROUNDS_KEPT,
    jobs: workersOf(order),
    ...(packing !== undefined && { packing }),
    native,
    signal,
    onStart: ({ id }) => say({ say: "run", run: id }),
    onRound: (round) => {
      counts[round.outcome]++;
      for (const goal of round.fired) goals[goal] = (goals[goal] ?? 0) + 1;
      const plain = JSON.parse(JSON.stringify(round, plainly));
      shown.push(plain);
      if (shown.length > ROUNDS_SHOWN) shown.shift();
      say({ say: "result", result: { kind: "chaos", campaign: soFar() } });
      const share = Math.max(
        (performance.now() - began) / forMs,
        rounds === undefined ? 0 : (counts.held + counts.broken + counts.untold) / rounds,
      );
      say({
        say: "progress",
        title: `round ${round.round}: ${round.outcome}`,
        share: Math.min(1, share),
      });
    },
  });
  const campaign = { ...soFar(), scenario: report.scenario, goals: { ...report.goals } };
  say({ say: "result", result: { kind: "chaos", campaign } });
  const { held, broken, untold } = report;
  const verdict = `${held} held, ${broken} broken, ${untold} gave no result`;
  say({ say: "end", verdict, isGood: exitOf(report) === EXIT.done });
}

async function perftest({ order, scenario, signal }: ScenarioWork<"perftest">): Promise<void> {
  const { test, packing, from, to, ddio, seed, size, all, iterations, depth, qps } = order;
  const given = Object.entries({ size, all, iterations, depth, qps });
  const { result, outcome, seed: used } = await runPerftest(test, scenario, {
    options: Object.fromEntries(given.filter(([, value]) => value !== undefined)),
    packing,
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(ddio !== undefined && { ddio }),
    ...(seed !== undefined && { seed }),
    signal,
    onProgress,
  });
  const { digest, virtualPs } = outcome;
  const document = JSON.parse(
    JSON.stringify({ seed: used, digest, virtualPs, ...result }, plainly),
  );
  say({ say: "result", result: { kind: "perftest", result: document } });
  const isGood = result.status === "done";
  say({ say: "end", verdict: isGood ? "done" : result.error ?? result.status, isGood });
}

async function sweep(
  { order, scenario, signal, native }: ScenarioWork<"sweep"> & { readonly native: NativeDoor },
): Promise<void> {
  const { vary, limitMs, x, y, by } = order;
  const swept = await runSweep(scenario, {
    vary,
    jobs: workersOf(order),
    native,
    ...(limitMs !== undefined && { limitMs }),
    signal,
    onStart: (id) => say({ say: "run", run: id }),
    onProgress,
  });
  const tell = (svg: string) =>
    say({
      say: "result",
      result: JSON.parse(JSON.stringify({ kind: "sweep", sweep: swept, svg })),
    });
  // A name that is no axis is refused behind it.
  tell("");
  const kept = measuredSweep(swept);
  if (kept.measured.points.length > 0) {
    const { svgOf } = await import("../../plot/svg.ts");
    const title = swept.scenario, caption = captionOf(kept);
    tell(svgOf(chartOf(kept.measured, { choice: { x, y, by }, title, caption })));
  }
  const done = swept.combinations.filter(({ state }) => state === "done").length;
  const all = swept.combinations.length;
  say({ say: "end", verdict: `${done} of ${all} done`, isGood: done === all });
}

function toldOnce(): (file: string) => void {
  const told = new Set<string>();
  return (file) => {
    if (told.has(file)) return;
    told.add(file);
    say({ say: "read", file });
  };
}

async function main(signal: AbortSignal): Promise<void> {
  const text = await new Response(Deno.stdin.readable).text();
  const { order, scenario: given, replay, memory, allowNative }: JobWork = JSON.parse(text);
  const native = consoleDoor(allowNative, (text) => say({ say: "note", text }));
  switch (order.kind) {
    case "resume":
      return await resume({ order, signal, native });
    case "cut":
      return await cut({ order, signal });
    case "matrix":
      return await matrix({ order, signal, memory });
  }
  assert(given !== undefined, `a job of kind ${order.kind} has a scenario`);
  const scenario = await readScenario(given.path, { ...given.reach, onRead: toldOnce() });
  switch (order.kind) {
    case "run":
      return await run({ order, scenario, signal, replay, native });
    case "up":
      return await up({ order, scenario, signal, native });
    case "explore":
      return await explore({ order, scenario, signal, native, memory });
    case "chaos":
      return await chaos({ order, scenario, signal, native });
    case "perftest":
      return await perftest({ order, scenario, signal });
    case "sweep":
      return await sweep({ order, scenario, signal, native });
  }
}

if (import.meta.main) {
  const ending = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => ending.abort());
  }
  let code: number = EXIT.done;
  try {
    await main(ending.signal);
  } catch (error) {
    const explained = explain(error instanceof Refusal ? error.inNames(ORDER_NAMES) : error);
    code = explained.code;
    if (!ending.signal.aborted) say({ say: "error", message: explained.message, code });
  }
  Deno.exit(code);
}
