/** The measurements of kept runs and kept sweeps, and the dimensions that distinguish them. */
import { isMapping } from "../../fabric/base/mapping.ts";
import { formatPath, type Path, readYaml } from "../../fabric/rack/scenario/yaml_source.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { jsonIfThere, textIfThere } from "../base/files.ts";
import { findRun } from "../rack/live/racks.ts";
import type { RunReport } from "../reports/method_report.ts";
import { readReport, variantsOf } from "../reports/run_summary.ts";
import { type Measured, measuredOf, type Measurement } from "./measured.ts";
import { type Sweep, SWEEP_FILE } from "./run_sweep.ts";

export interface KeptMeasured {
  readonly measured: Measured;
  readonly scenarios: readonly string[];
  readonly seeds: readonly string[];
  /** Of a sweep; a run does not say which commit made it. */
  readonly commit: string | null;
  readonly command: string;
  readonly runs: readonly string[];
}

const DIFFERENT_MAX = 12;

/**
 * The points of runs, distinguished by the words in which their scenarios differ; of a sweep by its
 * varied words.
 * @param ids names of runs, or their prefixes.
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

function readSweep(path: string): Sweep | undefined {
  return jsonIfThere<Sweep>(
    `${path}/${SWEEP_FILE}`,
    ({ run, combinations }) => typeof run === "string" && Array.isArray(combinations),
  );
}

/** Without combinations that did not run. */
export function measuredSweep(sweep: Sweep): KeptMeasured {
  const { run, scenario, seed, commit, command, varied, combinations } = sweep;
  const ended = combinations.filter(({ state }) => state !== "interrupted" && state !== "not run");
  const seeds = varied.find(({ places }) => places.includes("seed"))?.values ?? [String(seed)];
  const measured = measuredOf(
    ended.map((each) => each.report === null ? each : { ...each, error: brokenIn(each.report) }),
    varied,
  );
  return { measured, scenarios: [scenario], seeds, commit, command, runs: [run] };
}

function brokenIn({ checks, unchecked }: RunReport): string {
  const broken = checks.filter(({ holds }) => !holds);
  if (broken.length > 0) return `FAIL ${broken.map(({ name }) => name).join(", ")}`;
  return unchecked === undefined ? "" : "unchecked";
}

interface KeptRun {
  readonly id: string;
  readonly path: string;
  readonly mark?: string;
}

function measuredRuns(rows: readonly KeptRun[]): KeptMeasured {
  const reports = rows.map(({ id, path }) => {
    const report = readReport(path);
    if (report !== undefined) return report;
    const expected = "one that has ended with a report";
    throw refusal("The run", { found: `${id}, which has left no report`, expected });
  });
  const { names, values } = toldApart(rows);
  const measurements = reports.map((report, i): Measurement => ({
    values: values[i]!,
    report,
    error: brokenIn(report),
  }));
  const varied = names.map((name) => ({
    name,
    values: [...new Set(values.map((own) => own[name]!))],
  }));
  return {
    measured: measuredOf(measurements, varied),
    scenarios: [...new Set(reports.map(({ scenario }) => scenario))],
    seeds: [...new Set(reports.map(({ seed }) => String(seed)))],
    commit: null,
    command: `rack plot ${rows.map(({ id }) => id).join(" ")}`,
    runs: rows.map(({ id }) => id),
  };
}

/**
 * The words in which the scenarios of runs differ, with their values; their names where that is not
 * enough.
 */
export function toldApart(rows: readonly KeptRun[]): {
  readonly names: readonly string[];
  readonly values: readonly Readonly<Record<string, string>>[];
} {
  const words = rows.map(({ path }) => {
    const variants = variantsOf(path), [first] = variants;
    const text = textIfThere(`${path}${first === undefined ? "" : `/${first}`}/scenario.yaml`);
    const said = variants.length > 1 ? /\.(ddio|method)$/ : /^$/;
    const all = wordsIn(text === undefined ? {} : readYaml(text, "").source.data);
    return new Map([...all].filter(([path]) => !said.test(path)));
  });
  const paths = [...new Set(words.flatMap((own) => [...own.keys()]))];
  const different = paths.filter((path) => new Set(words.map((own) => own.get(path))).size > 1)
    .slice(0, DIFFERENT_MAX);
  const keys = words.map((own) => JSON.stringify(different.map((path) => own.get(path))));
  const isEnough = different.length > 0 && new Set(keys).size === rows.length;
  const names = isEnough ? different : [...different, "run"];
  const values = rows.map(({ id, mark }, i) =>
    Object.fromEntries(
      names.map((name) => [name, name === "run" ? mark || id : words[i]!.get(name) ?? "–"]),
    )
  );
  return { names, values };
}

function wordsIn(value: unknown, path: Path = []): Map<string, string> {
  const parts = Array.isArray(value)
    ? [...value.keys()]
    : isMapping(value)
    ? Object.keys(value)
    : [];
  if (parts.length === 0 && path.length > 0) return new Map([[formatPath(path), String(value)]]);
  return new Map(
    parts.flatMap((part) => [
      ...wordsIn((value as Record<string | number, unknown>)[part], [...path, part]),
    ]),
  );
}
