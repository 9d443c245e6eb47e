/**
 * Combinations run as racks of processes, those with the same devices and cables side by side in
 * one set.
 */
import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import { fileName } from "../captures/capture_files.ts";
import { explain } from "../rack/failure.ts";
import { keepInputs, prepare, type Prepared, type PrepareOptions } from "../rack/prepare.ts";
import { type Rack, runSideBySide } from "../rack/side_by_side.ts";
import type { Outcome } from "../rack/run_variant.ts";
import { plainly } from "../reports/json.ts";
import type { JudgedVariant } from "../reports/run_checks.ts";
import { judge, summarise } from "../reports/summarise.ts";
import { keepScenario } from "../scenarios/kept_scenario.ts";
import type { Reach } from "../scenarios/read_door.ts";
import { readScenario, type ScenarioSource } from "../scenarios/scenario_source.ts";
import { folderOf, sweptBy, type SweptCombination, unswept } from "./swept.ts";

export interface LanesOfSweep {
  /** The sweep's name among the kept runs, and its directory. */
  readonly id: string;
  readonly path: string;
  readonly reach: Reach;
  readonly input?: string | undefined;
  /** Native programs may run. */
  readonly isNative: boolean;
  readonly packing: Exclude<Packing, "all">;
  readonly lanes?: number | undefined;
  /** A rack that takes longer is ended, and its combination has failed. */
  readonly limitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress: (row: SweptCombination, share: number) => void;
}

interface Combination {
  readonly row: SweptCombination;
  readonly choices: PrepareOptions;
  readonly directory: string;
  readonly variants: readonly Prepared[];
  readonly judged: (JudgedVariant | undefined)[];
  error: string;
}

/** An interrupted sweep has the rows that were done by then. */
export async function runInLanes(
  rows: readonly SweptCombination[],
  options: LanesOfSweep,
): Promise<SweptCombination[]> {
  const { id, path, packing, reach, input, isNative, lanes, limitMs, signal, onProgress } = options;
  const combinations: Combination[] = [], racks: Rack[] = [];
  const places: {
    readonly of: Combination;
    readonly scenario: ScenarioSource;
    readonly variant: number;
  }[] = [];
  for (const row of rows) {
    const directory = `${path}/${folderOf(row)}`;
    const choices: PrepareOptions = {
      packing,
      ...(input !== undefined && { input }),
      ...(isNative && { native: { kind: "run" } }),
    };
    const none = { judged: [], error: "", variants: [] };
    const one: Combination = { ...none, row, choices, directory };
    try {
      await Deno.mkdir(directory, { mode: 0o700 });
      const scenario = await readScenario(`${path}/${row.scenario}`, reach);
      const variants = await keepInputs(await prepare(scenario, { ...choices, signal }), directory);
      const combination = { ...one, variants };
      combinations.push(combination);
      for (const [variant, one] of variants.entries()) {
        places.push({ of: combination, scenario, variant });
        racks.push(rackOf(one, { run: `${id}-${row.number}-${variant}`, directory, variants }));
      }
    } catch (error) {
      combinations.push({ ...one, error: explain(error).message });
    }
  }
  const judging: Promise<void>[] = [];
  const onFailed = (place: number, error: unknown) => {
    places[place]!.of.error ||= explain(error).message;
  };
  try {
    await runSideBySide(racks, {
      ...{ id, path, lanes, limitMs, signal, onFailed },
      onEnded(place, outcome) {
        const { of, ...which } = places[place]!;
        const work = judgeOne(of, { ...which, outcome, signal }).then(() => {
          const done = of.judged.filter((each) => each !== undefined).length;
          onProgress(of.row, done / of.variants.length);
        });
        judging.push(work.catch((error) => onFailed(place, error)));
      },
    });
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  }
  await Promise.all(judging);
  const isInterrupted = signal?.aborted === true;
  return await Promise.all(combinations.map((each) => rowOf(each, { path, isInterrupted })));
}

function rackOf(
  one: Prepared,
  { run, directory, variants }: {
    readonly run: string;
    readonly directory: string;
    readonly variants: readonly Prepared[];
  },
): Rack {
  const own = variants.length === 1 ? directory : `${directory}/${fileName(one.label)}`;
  return { one, run: { run, directory: own, check: "wire" } };
}

async function judgeOne(
  { choices, variants, judged }: Combination,
  { scenario, variant, outcome, signal }: {
    readonly scenario: ScenarioSource;
    readonly variant: number;
    readonly outcome: Outcome;
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const one = variants[variant]!;
  keepScenario(outcome.directory, { scenario, choices, variant: one.variant });
  judged[variant] = await judge(one, outcome, { signal });
}

async function rowOf(
  { row, directory, variants, judged, error }: Combination,
  { path, isInterrupted }: { readonly path: string; readonly isInterrupted: boolean },
): Promise<SweptCombination> {
  const outcomes = variants.flatMap((_, variant) => judged[variant] ?? []);
  if (error !== "") return unswept(row, error);
  if (outcomes.length < variants.length) {
    return isInterrupted ? unswept(row) : unswept(row, "it has not ended");
  }
  const wallMs = Math.max(...outcomes.map(({ outcome }) => outcome.wallMs));
  const id = directory.replace(/.*\//, ""), { expect } = variants[0]!.variant;
  const report = summarise({ id, path: directory, wallMs, outcomes, nats: true, expect });
  const text = JSON.stringify(report, plainly, 2);
  await Deno.writeTextFile(`${directory}/report.json`, text, { mode: 0o600 });
  return await sweptBy(row, JSON.parse(text), { path });
}
