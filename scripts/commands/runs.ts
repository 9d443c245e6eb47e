import type { Command } from "commander";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { runsDirectory } from "../../console/base/paths.ts";
import { countOf } from "../../console/checks/finding.ts";
import {
  keepRun,
  type KeptRun,
  keptRuns,
  pruneTo,
  releaseRun,
  removeRuns,
} from "../../console/rack/kept_runs.ts";
import { checkpointNames } from "../../console/replay/checkpoints.ts";
import type { RunLimits } from "../../console/rack/run_limits.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { print, printResult, say } from "./output.ts";

interface RunsFlags {
  readonly all?: boolean;
  readonly json?: boolean;
}

interface PruneFlags extends RunsFlags {
  readonly runs?: string;
  readonly size?: string;
}

const LIMITS = `
The oldest runs go as soon as a new one begins and there are more than 50, or they hold more than 2 GiB.
RACKMESH_RUNS_MAX and RACKMESH_RUNS_BYTES_MAX (5GiB, none) change that. What never goes: the latest one,
what is up or running, and what rack runs keep keeps, which does not count.`;

export function addRuns(program: Command): void {
  const runs = program.command("runs")
    .description("runs that are kept, newest first, and how much of the disk they take")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `${LIMITS}\n\nExample:\n  rack runs\n  rack runs keep persist-pair-2026 before\n  rack runs rm --all`,
    )
    // Commander looks for a near word only where a command does nothing by itself.
    .argument("[command...]", "one of those below")
    .action(async ([word]: readonly string[], flags: RunsFlags) => {
      if (word !== undefined) {
        const known = runs.commands.map((command) => command.name());
        throw refusal("", { found: `There is no rack runs ${word}`, expected: oneOf(known, word) });
      }
      await list(flags);
    });
  addMarks(runs);
  runs.command("rm [id]")
    .description("remove a run's directory; never of one that is up")
    .option("--all", "of every run that is not up, and not kept by rack runs keep")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack runs rm persist-pair-20260101-120000-1a2b")
    .action((id: string | undefined, _: RunsFlags, command: Command) =>
      remove(id, command.optsWithGlobals<RunsFlags>())
    );
  runs.command("prune")
    .description("remove the oldest runs beyond a number or a size, as a new run does")
    .option("--runs <n>", "at most so many")
    .option("--size <bytes>", "at most so much of the disk, like 500MiB")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", `${LIMITS}\n\nExample:\n  rack runs prune --runs 10`)
    .action(async (_: PruneFlags, command: Command) => {
      const flags = command.optsWithGlobals<PruneFlags>();
      const removed = await pruneTo({ runs: flags.runs, bytes: flags.size });
      printResult(flags, removed.map(({ id }) => id), `${countOf(removed.length, "run")} removed`);
    });
}

function addMarks(runs: Command): void {
  runs.command("keep <id> [name]")
    .description("keep a run until it is removed by name; the name is another word for its id")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack runs keep persist-pair-20260101-120000-1a2b before")
    .action(async (id: string, name: string | undefined, _: RunsFlags, command: Command) => {
      const run = await keepRun(id, name);
      const named = name === undefined ? "" : ` as ${name}`;
      printResult(
        command.optsWithGlobals(),
        { id: run.id, mark: name ?? "" },
        `${run.id} is kept${named}`,
      );
    });
  runs.command("release <id>")
    .description("let a run go again when its turn comes")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack runs release before")
    .action(async (id: string, _: RunsFlags, command: Command) => {
      const run = await releaseRun(id);
      printResult(command.optsWithGlobals(), { id: run.id }, `${run.id} goes when its turn comes`);
    });
}

interface Row extends KeptRun {
  readonly checkpoints: readonly string[];
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "run", value: ({ id }) => id },
  { title: "state", value: ({ state }) => state },
  { title: "kept as", value: ({ mark }) => mark === "" ? "(no name)" : mark },
  {
    title: "size",
    value: ({ bytes }) => bytes,
    text: ({ bytes }) => sizeText(bytes),
  },
  { title: "started", value: ({ started }) => started },
  { title: "checkpoints", value: ({ checkpoints }) => checkpoints.join(" ") },
  { title: "directory", value: ({ path }) => path },
];

async function list(flags: RunsFlags): Promise<void> {
  const { runs: kept, limits } = await keptRuns();
  const runs = kept.map((run): Row => {
    const isReadable = !run.isForeign && run.damage === undefined;
    return { ...run, checkpoints: isReadable ? checkpointNames(run.path) : [] };
  });
  if (flags.json) print(JSON.stringify(runs));
  else if (runs.length === 0) say(`There are no runs in ${runsDirectory()}`);
  else print(`${tableText(COLUMNS, runs)}\n${sumText(runs, limits)}`);
  for (const { id, damage } of runs) if (damage !== undefined) say(`${id}: ${damage}`);
}

/** `12 runs, 340 MiB; 2 of them, 80 MiB, stay whatever comes; of the others at most 50 and 2 GiB`. */
function sumText(runs: readonly KeptRun[], limits: RunLimits): string {
  const marked = runs.filter(({ mark }) => mark !== undefined);
  const size = (some: readonly KeptRun[]) =>
    sizeText(some.reduce((sum, { bytes }) => sum + bytes, 0));
  const count = limits.runs === Infinity ? "any number" : `at most ${limits.runs}`;
  const bytes = limits.bytes === Infinity ? "any size" : sizeText(limits.bytes);
  return [
    `${countOf(runs.length, "run")}, ${size(runs)}`,
    ...(marked.length > 0 ? [`${marked.length} of them, ${size(marked)}, kept by you`] : []),
    `${marked.length > 0 ? "of the others " : ""}${count} and ${bytes} stay`,
  ].join("; ");
}

function sizeText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes, unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${Number(value.toFixed(1))} ${units[unit]}`;
}

async function remove(id: string | undefined, flags: RunsFlags): Promise<void> {
  if ((id === undefined) === (flags.all !== true)) {
    throw refusal("", { found: "rack runs rm", expected: "the name of a run, or --all" });
  }
  const { removed, kept } = await removeRuns(id === undefined ? "all" : { id });
  const stay = kept.length > 0
    ? `, ${kept.length} kept as they are up, another user's or kept by rack runs keep`
    : "";
  printResult(flags, removed.map((row) => row.id), `${removed.length} removed${stay}`);
}
