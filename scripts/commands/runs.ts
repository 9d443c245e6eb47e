/** `rack runs`: what runs have left, and cleaning it up. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { runsDirectory } from "../../console/base/paths.ts";
import { isProcessOf, readProcesses } from "../../console/rack/process_table.ts";
import { listRuns, type RunRow } from "../../console/rack/run_directory.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { findRun } from "./link.ts";
import { print, say, table } from "../../console/base/output.ts";

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

async function list(flags: RunsFlags): Promise<number> {
  const rows = await listRuns();
  if (flags.json) {
    print(JSON.stringify(rows));
  } else if (rows.length === 0) {
    say(`There are no runs in ${runsDirectory()}`);
  } else {
    print(table(
      ["run", "state", "started", "directory"],
      rows.map((row) => [row.id, stateOf(row), row.started, row.path]),
    ));
  }
  return EXIT.done;
}

function stateOf({ up, running, path }: RunRow): string {
  if (up) return "up";
  if (running) return "running";
  return hasLeftOvers(path) ? "left over" : "kept";
}

/** Processes whose supervisor is gone. */
function hasLeftOvers(path: string): boolean {
  return readProcesses(path).some(({ pid }) => isProcessOf(path, pid));
}

async function remove(id: string | undefined, flags: RunsFlags): Promise<number> {
  if ((id === undefined) === (flags.all !== true)) {
    throw new UsageError("rack runs rm: expected the name of a run, or --all");
  }
  const rows = id === undefined ? await listRuns() : [await findRun(id, "The run")];
  const kept = rows.filter((row) => stateOf(row) !== "kept");
  if (id !== undefined && kept.length > 0) {
    throw new UsageError(`${kept[0]!.id} is ${stateOf(kept[0]!)}: rack down ends it first`);
  }
  const gone = rows.filter((row) => !kept.includes(row));
  for (const { path } of gone) await Deno.remove(path, { recursive: true });
  if (flags.json) print(JSON.stringify(gone.map((row) => row.id)));
  else {print(
      `${gone.length} removed${kept.length > 0 ? `, ${kept.length} kept as they are up` : ""}`,
    );}
  return EXIT.done;
}
