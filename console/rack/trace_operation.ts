import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { accessesOf, accessLadderOf } from "../../fabric/trace/access_ladder.ts";
import { accessText } from "../../fabric/trace/access_steps.ts";
import {
  type Ladder,
  ladderOf,
  operationsOf,
  readTrace,
  type TraceLine,
} from "../../fabric/trace/trace.ts";
import { documentText } from "../../fabric/trace/trace_figures.ts";
import { ifThere, isThere, jsonIn, textIfThere } from "../base/files.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { findRun, rackAt, refreshDevices } from "./live/racks.ts";
import { lacksInput, onlyOne, prepare, type PrepareOptions } from "./prepare.ts";
import { programLog } from "./program_log.ts";
import { readRunFile } from "./run_directory.ts";
import { runSimulated } from "./run_variant.ts";

export interface Trace {
  readonly lines: readonly TraceLine[];
  readonly plan: RunFile["plan"];
  readonly label: string;
}

/** Where neither the scenario nor the options name a file. */
export const TRACED_BYTES = 64 * 1024;

/** Runs and traces the one rack of a scenario and its options. @throws Refusal */
export async function traceScenario(
  scenario: ScenarioSource,
  { onLog, ...options }: PrepareOptions & {
    readonly onLog?: (text: string) => void;
  },
): Promise<Trace> {
  const prepared = onlyOne(
    await prepare(scenario, {
      ...options,
      change: (program) =>
        lacksInput(program, options.input)
          ? { ...program, options: { ...program.options, bytes: TRACED_BYTES } }
          : program,
    }),
    scenario.path,
  );
  const { plan, label } = prepared;
  // Rights are of real paths.
  const directory = await Deno.realPath(await Deno.makeTempDir({ prefix: "rackmesh-trace-" }));
  try {
    const log = onLog && programLog({ isOrdered: true, say: onLog });
    await runSimulated(prepared, {
      run: "trace",
      directory,
      trace: true,
      signal: options.signal,
      ...(log && { onProgress: (...told) => log.hear(...told) }),
    });
    return { lines: tracedIn(directory), plan, label };
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

export interface VariantChoice {
  readonly method?: string;
  readonly ddio?: string;
}

/** The recorded steps of a run. @throws Refusal where there are none. */
export async function traceOfRun(run: string, choice: VariantChoice): Promise<Trace> {
  const { id, path, up } = await findRun(run), rack = up ? rackAt(path) : undefined;
  if (rack !== undefined) await refreshDevices(rack, (name) => name.startsWith("trace/"));
  const directory = variantOf({ id, path }, choice);
  const file = readRunFile(directory), lines = tracedIn(directory);
  if (file === undefined || lines.length === 0) {
    throw refusal("", { found: `${id} has no trace`, expected: "one that was run with --trace" });
  }
  return { lines, plan: file.plan, label: directory.slice(path.length + 1) || id };
}

/** By time; none where the run or variant was not traced. @throws DamagedFileError */
export function tracedIn(directory: string): TraceLine[] {
  return linesIn(`${directory}/trace`);
}

function linesIn(folder: string): TraceLine[] {
  const all = [...ifThere(() => [...Deno.readDirSync(folder)]) ?? []].flatMap(({ name }) => {
    const path = `${folder}/${name}`;
    // A killed process leaves an incomplete last line, one in a container perhaps no file yet.
    const lines = (textIfThere(path) ?? "").split("\n").slice(0, -1);
    return lines.map((line, i) => jsonIn<TraceLine>(line, `${path}:${i + 1}`));
  });
  // Stable: each device's lines keep their order.
  return all.sort((x, y) => x.time - y.time);
}

function variantOf(run: { id: string; path: string }, { method, ddio }: VariantChoice): string {
  const names = [...Deno.readDirSync(run.path)].map(({ name }) => name).sort();
  if (names.includes("run.json")) return run.path;
  const variants = names.filter((name) => isThere(`${run.path}/${name}/run.json`));
  const found = variants.filter((name) =>
    (method === undefined || name.startsWith(method)) &&
    (ddio === undefined || name.endsWith(`ddio_${ddio}`))
  );
  if (found.length === 1) return `${run.path}/${found[0]}`;
  throw refusal("", {
    found: `${run.id} has ${found.length} variants that fit: choose with --method and --ddio`,
    expected: oneOf(variants),
  });
}

/**
 * The ladder of one operation, and the number of operations to choose from.
 * @param which.index from 0, in order of their begin.
 * @param which.on the requester; default: all hosts.
 * @throws Refusal where there is none.
 */
export function operationIn(
  { lines, plan }: Trace,
  { index, on }: { readonly index: number; readonly on?: string },
) {
  const hosts = plan.nodes.flatMap(({ kind, name }) => kind === "host" ? [name] : []);
  if (on !== undefined && !hosts.includes(on)) {
    throw refusal("--on", { found: `"${on}"`, expected: oneOf(hosts, on) });
  }
  const traced = readTrace(lines, plan);
  const all = [...operationsOf(traced), ...accessesOf(traced)]
    .filter(({ node }) => (on ?? node) === node)
    .sort((x, y) => x.startPs - y.startPs);
  const operation = all[index];
  if (operation !== undefined) {
    const ladder = operation.shared === undefined
      ? ladderOf(traced, operation)
      : accessLadderOf(traced, operation);
    return { ladder, count: all.length };
  }
  const by = on === undefined ? "" : ` of ${on}`;
  throw all.length === 0
    ? refusal("", { found: `The trace has no operation${by}` })
    : refusal("--operation", { found: `${index}: there are ${all.length}${by}, from 0 on` });
}

export function ladderDocument({ plan, label }: Trace, ladder: Ladder) {
  const { operation, columns, rows, conclusion, figure, costs } = ladder;
  const { node, connection, number, startPs } = operation;
  return {
    ...(costs && { costs }),
    scenario: plan.scenario,
    seed: plan.seed,
    variant: label,
    operation: { node, connection, number, startPs },
    figure: figure ?? null,
    columns,
    rows: rows.map((row) => ({
      ...row,
      sincePs: row.time - startPs,
      document: documentText(row.step) ?? accessText(row.step) ?? null,
    })),
    conclusion: { ...conclusion, sincePs: conclusion.time - startPs },
  };
}
