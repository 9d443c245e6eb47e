/** `rack trace`: one operation as a ladder, with the document's step numbers. */
import type { Command } from "commander";
import { EXIT, type RunFile } from "../../fabric/rack/build/run_file.ts";
import {
  type Ladder,
  ladderOf,
  type Operation,
  operationsOf,
  readTrace,
  type TraceLine,
} from "../../fabric/trace/trace.ts";
import { documentText } from "../../fabric/trace/trace_figures.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import { lacksInput, onlyOne, prepare } from "../../console/rack/prepare.ts";
import { runSimulated } from "../../console/rack/run_variant.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { findRun } from "./link.ts";
import { print } from "../../console/base/output.ts";
import { addVariantOptions, prepareOptions, type RunFlags, whole } from "./run.ts";

interface TraceFlags extends Partial<Omit<RunFlags, "json">> {
  readonly run?: string;
  readonly on?: string;
  readonly operation: string;
  readonly json?: boolean;
}

/** What is written where the scenario and the command line name no file. */
const MADE_UP_BYTES = 64 * 1024;

export function addTrace(program: Command): void {
  addVariantOptions(program.command("trace [scenario]"))
    .description("run a scenario in this process, and show one operation step by step")
    .option("--run <id>", "of a run that was made with --trace, instead of running anything")
    .option("--operation <n>", "which one, from 0 on: a message of put, or a work request", "0")
    .option("--on <host>", "whose operations; else those of all hosts, as they began")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
A put without a file writes ${MADE_UP_BYTES / 1024} KiB of made-up data.

Example:
  rack trace scripts/scenarios/persist_pair.yaml --method persist-opcode --ddio off
  rack trace --run persist-pair-20260101-120000-1a2b --operation 5`,
    )
    .action(async (scenario: string | undefined, flags: TraceFlags) => {
      Deno.exitCode = await trace(scenario, flags);
    });
}

/** Where a trace comes from. */
interface Source {
  readonly lines: readonly TraceLine[];
  readonly plan: RunFile["plan"];
  readonly label: string;
}

async function trace(scenario: string | undefined, flags: TraceFlags): Promise<number> {
  if ((scenario === undefined) === (flags.run === undefined)) {
    throw new UsageError("rack trace: expected a scenario, or --run with a run made with --trace");
  }
  const source = scenario === undefined ? await ofRun(flags) : await ofScenario(scenario, flags);
  const hosts = source.plan.nodes.flatMap(({ kind, name }) => kind === "host" ? [name] : []);
  if (flags.on !== undefined && !hosts.includes(flags.on)) {
    throw new UsageError(`--on is "${flags.on}": expected one of ${hosts.join(", ")}`);
  }
  const traced = readTrace(source.lines, source.plan);
  const all = operationsOf(traced).filter(({ node }) => (flags.on ?? node) === node);
  const ladder = ladderOf(traced, choose(all, flags));
  if (flags.json) print(JSON.stringify(document(source, ladder)));
  else {print(
      `${source.label}: operation ${flags.operation} of ${all.length}\n${ladderText(ladder)}`,
    );}
  return EXIT.done;
}

function choose(operations: readonly Operation[], flags: TraceFlags): Operation {
  const index = whole("--operation", flags.operation, { least: 0, most: Number.MAX_SAFE_INTEGER });
  const operation = operations[index];
  if (operation !== undefined) return operation;
  const by = flags.on === undefined ? "" : ` of ${flags.on}`;
  throw new UsageError(
    operations.length === 0
      ? `Nothing${by} was traced that is an operation`
      : `--operation is ${index}: there are ${operations.length}${by}, from 0 on`,
  );
}

async function ofScenario(scenario: string, flags: TraceFlags): Promise<Source> {
  const prepared = onlyOne(
    await prepare(scenario, {
      ...prepareOptions(flags, "all"),
      change: (program) =>
        lacksInput(program, flags.input)
          ? { ...program, options: { ...program.options, bytes: MADE_UP_BYTES } }
          : program,
    }),
    scenario,
  );
  const lines: TraceLine[] = [];
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-trace-" });
  try {
    await runSimulated(prepared, {
      run: "trace",
      directory,
      trace: true,
      delayMsMax: 0,
      onTrace: (time, node, step) => lines.push({ time, node, ...step }),
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
  return { lines, plan: prepared.plan, label: prepared.label };
}

async function ofRun(flags: TraceFlags): Promise<Source> {
  const { id, path } = await findRun(flags.run!);
  const directory = variantOf({ id, path }, flags);
  const file: RunFile = JSON.parse(await Deno.readTextFile(`${directory}/run.json`));
  const lines: TraceLine[] = [];
  for (const { name } of Deno.readDirSync(`${directory}/trace`)) {
    const text = await Deno.readTextFile(`${directory}/trace/${name}`);
    // The last line may be torn, where a process was killed.
    for (const line of text.split("\n").slice(0, -1)) lines.push(JSON.parse(line));
  }
  if (lines.length === 0) {
    throw new UsageError(`${id} has no trace: expected one that was run with --trace`);
  }
  // Each device's lines stay as it wrote them: sorting is stable.
  lines.sort((x, y) => x.time - y.time);
  return { lines, plan: file.plan, label: directory.slice(path.length + 1) || id };
}

/** The directory of the variant that is meant: a run may have several. @throws UsageError */
function variantOf(run: { id: string; path: string }, flags: TraceFlags): string {
  const names = [...Deno.readDirSync(run.path)].map(({ name }) => name).sort();
  if (names.includes("run.json")) return run.path;
  const variants = names.filter((name) => isFile(`${run.path}/${name}/run.json`));
  const found = variants.filter((name) =>
    (flags.method === undefined || name.startsWith(flags.method)) &&
    (flags.ddio === undefined || name.endsWith(`ddio_${flags.ddio}`))
  );
  if (found.length === 1) return `${run.path}/${found[0]}`;
  throw new UsageError(
    `${run.id} has ${found.length} variants that fit: choose with --method and --ddio among ${
      variants.join(", ")
    }`,
  );
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

function document(source: Source, ladder: Ladder): Record<string, unknown> {
  const { operation, columns, rows, conclusion, figure } = ladder;
  const { node, connection, number, startPs } = operation;
  return {
    scenario: source.plan.scenario,
    seed: source.plan.seed,
    variant: source.label,
    operation: { node, connection, number, startPs },
    figure: figure ?? null,
    columns,
    rows: rows.map((row) => ({
      ...row,
      sincePs: row.time - startPs,
      document: documentText(row.step) ?? null,
    })),
    conclusion: { ...conclusion, sincePs: conclusion.time - startPs },
  };
}
