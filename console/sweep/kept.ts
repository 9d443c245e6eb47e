/** What kept runs and kept sweeps have measured, and what tells them apart. */
import { isMapping } from "../../fabric/rack/scenario/reading.ts";
import { formatPath, type Path, readYaml } from "../../fabric/rack/scenario/yaml_source.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { jsonIfThere, textIfThere } from "../base/files.ts";
import { findRun } from "../rack/live/racks.ts";
import { readReport, variantsOf } from "../reports/run_summary.ts";
import { type Measured, measuredOf, type Measurement } from "./measured.ts";
import { type Sweep, SWEEP_FILE } from "./run_sweep.ts";

export interface KeptMeasured {
  readonly measured: Measured;
  /** Of all of them, without repetition. */
  readonly scenarios: readonly string[];
  readonly seeds: readonly string[];
  /** Of a sweep, which has it on record; a run does not say which commit made it. */
  readonly commit: string | null;
  /** Names of the runs, or of the sweep. */
  readonly runs: readonly string[];
}

const DIFFERENT_MAX = 12;

/**
 * The points of runs, told apart by the words in which their scenarios differ; of a sweep by what it varied.
 * @param ids names of runs, or how they begin.
 * @throws Refusal for an unknown run, one without a report, and a sweep among other runs.
 */
export async function measureKept(ids: readonly string[]): Promise<KeptMeasured> {
  const rows = await Promise.all(ids.map((id) => findRun(id, "The run")));
  const sweeps = rows.map(({ path }) => readSweep(path));
  const sweep = sweeps.find((each) => each !== undefined);
  if (sweep !== undefined && rows.length > 1) {
    const expected = "one sweep alone, or runs";
    throw refusal("", { found: `${sweep.run} is a sweep among ${rows.length} runs`, expected });
  }
  if (sweep !== undefined) return measuredSweep(sweep);
  return measuredRuns(rows);
}

/** The sweep that a directory keeps; undefined where it is a run. @throws DamagedFileError */
function readSweep(path: string): Sweep | undefined {
  return jsonIfThere<Sweep>(
    `${path}/${SWEEP_FILE}`,
    ({ run, combinations }) => typeof run === "string" && Array.isArray(combinations),
  );
}

/** What a sweep has measured. Combinations that did not run are no part of it. */
export function measuredSweep(sweep: Sweep): KeptMeasured {
  const { run, scenario, seed, commit, varied, combinations } = sweep;
  const ended = combinations.filter(({ state }) => state === "done" || state === "failed");
  const seeds = varied.find(({ places }) => places.includes("seed"))?.values ?? [String(seed)];
  const measured = measuredOf(ended, varied);
  return { measured, scenarios: [scenario], seeds, commit, runs: [run] };
}

interface KeptRun {
  readonly id: string;
  readonly path: string;
  readonly mark?: string;
}

function measuredRuns(rows: readonly KeptRun[]): KeptMeasured {
  const runs = rows.map(({ id, path, mark }) => {
    const report = readReport(path);
    if (report === undefined) {
      const expected = "one that has ended with a report";
      throw refusal("The run", { found: `${id}, which has left no report`, expected });
    }
    const variants = variantsOf(path), [first] = variants;
    const text = textIfThere(`${path}${first === undefined ? "" : `/${first}`}/scenario.yaml`);
    const words = wordsIn(text === undefined ? {} : readYaml(text, "").source.data);
    // What a run has several of, its points say themselves.
    const said = variants.length > 1 ? /\.(ddio|method)$/ : /^$/;
    const own = [...words].filter(([path]) => !said.test(path));
    return { name: mark || id, report, words: new Map(own) };
  });
  const paths = [...new Set(runs.flatMap(({ words }) => [...words.keys()]))];
  const different = paths.filter((path) =>
    new Set(runs.map(({ words }) => words.get(path))).size > 1
  ).slice(0, DIFFERENT_MAX);
  const keys = runs.map(({ words }) => JSON.stringify(different.map((path) => words.get(path))));
  const isUnique = different.length > 0 && new Set(keys).size === runs.length;
  const names = isUnique ? different : [...different, "run"];
  const measurements = runs.map(({ name, report, words }): Measurement => ({
    values: Object.fromEntries(
      names.map((path) => [path, path === "run" ? name : words.get(path) ?? "–"]),
    ),
    report,
    error: report.checks.filter(({ holds }) => !holds)
      .map(({ name, detail }) => `${name}: ${detail}`).join("; "),
  }));
  const varied = names.map((name) => ({
    name,
    values: [...new Set(measurements.map(({ values }) => values[name]!))],
  }));
  return {
    measured: measuredOf(measurements, varied),
    scenarios: [...new Set(runs.map(({ report }) => report.scenario))],
    seeds: [...new Set(runs.map(({ report }) => String(report.seed)))],
    commit: null,
    runs: rows.map(({ id }) => id),
  };
}

/** Every single word of a scenario by its path. */
function wordsIn(value: unknown, path: Path = []): Map<string, string> {
  const parts = Array.isArray(value) ? [...value.keys()] : isMapping(value) ? Object.keys(value) : [];
  if (parts.length === 0 && path.length > 0) return new Map([[formatPath(path), String(value)]]);
  return new Map(
    parts.flatMap((part) => [
      ...wordsIn((value as Record<string | number, unknown>)[part], [...path, part]),
    ]),
  );
}
