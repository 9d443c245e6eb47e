/** `rack runs`: what runs have left, and cleaning it up. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { runsDirectory } from "../../console/base/paths.ts";
import { removeRuns, stateOf } from "../../console/rack/kept_runs.ts";
import { listRuns, type RunRow } from "../../console/rack/run_directory.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { print, say } from "./output.ts";

interface RunsFlags {
  readonly all?: boolean;
  readonly json?: boolean;
}

export function addRuns(program: Command): void {
  const runs = program.command("runs")
    .description("runs that are kept, newest first")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack runs\n  rack runs rm --all")
    .action(async (flags: RunsFlags) => {
      Deno.exitCode = await list(flags);
    });
  runs.command("rm [id]")
    .description("remove a run's directory; never of one that is up")
    .option("--all", "of every run that is not up")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack runs rm persist-pair-20260101-120000-1a2b")
    .action(async (id: string | undefined, _: RunsFlags, command: Command) => {
      Deno.exitCode = await remove(id, command.optsWithGlobals<RunsFlags>());
    });
}

const COLUMNS: readonly Column<RunRow>[] = [
  { title: "run", value: ({ id }) => id },
  { title: "state", value: stateOf },
  { title: "started", value: ({ started }) => started },
  { title: "directory", value: ({ path }) => path },
];

async function list(flags: RunsFlags): Promise<number> {
  const rows = await listRuns();
  if (flags.json) print(JSON.stringify(rows));
  else if (rows.length === 0) say(`There are no runs in ${runsDirectory()}`);
  else print(tableText(COLUMNS, rows));
  return EXIT.done;
}

async function remove(id: string | undefined, flags: RunsFlags): Promise<number> {
  if ((id === undefined) === (flags.all !== true)) {
    throw refusal("", { found: "rack runs rm", expected: "the name of a run, or --all" });
  }
  const { removed, kept } = await removeRuns(id === undefined ? "all" : { id });
  const stay = kept.length > 0 ? `, ${kept.length} kept as they are up` : "";
  print(
    flags.json ? JSON.stringify(removed.map((row) => row.id)) : `${removed.length} removed${stay}`,
  );
  return EXIT.done;
}
