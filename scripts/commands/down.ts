/** `rack down`: ends every process of a rack, also where its supervisor is gone. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import {
  endProcesses,
  isProcessOf,
  readProcesses,
  signalProcess,
} from "../../console/rack/process_table.ts";
import { listRuns, type RunRow } from "../../console/rack/run_directory.ts";
import { writeCapturesOf } from "../../console/captures/captures.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { addRunOption, findRun, listed, type RunFlag, sleep } from "./link.ts";
import { print } from "../../console/base/output.ts";

interface DownFlags extends RunFlag {
  readonly all?: boolean;
  readonly json?: boolean;
}

export function addDown(program: Command): void {
  addRunOption(program.command("down"))
    .description("end every process of a rack; what is in its SCM files stays")
    .option("--all", "every rack that is up")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack down")
    .action(async (flags: DownFlags) => {
      Deno.exitCode = await down(flags);
    });
}

async function down(flags: DownFlags): Promise<number> {
  const rows = await chosen(flags);
  const ended = [];
  for (const { id, path } of rows) {
    const processes = await takeDown(path);
    ended.push({ run: id, processes, captures: await writeCapturesOf(path) });
  }
  if (flags.json) print(JSON.stringify(ended));
  else {for (const { run, processes, captures } of ended) {
      print(`${run} is down: ${processes} processes ended`);
      for (const path of captures) print(`capture ${path}`);
    }}
  return EXIT.done;
}

/** Racks with processes, whether or not their supervisor is among them. */
async function chosen({ run, all }: DownFlags): Promise<RunRow[]> {
  if (run !== undefined) return [await findRun(run)];
  const rows = (await listRuns()).filter(({ path }) => livingOf(path) > 0);
  if (rows.length === 1 || all) return rows;
  throw new UsageError(
    rows.length === 0
      ? "No rack is up"
      : `${rows.length} racks are up: expected --all, or --run with one of ${listed(rows)}`,
  );
}

function livingOf(directory: string): number {
  return readProcesses(directory).filter(({ pid }) => isProcessOf(directory, pid)).length;
}

const SUPERVISOR_MS = 8_000;
const GRACE_MS = 2_000;
const LOOK_AGAIN_MS = 30;

/** Ends a rack's processes; returns when they are gone. @returns how many there were. */
export async function takeDown(directory: string): Promise<number> {
  const count = livingOf(directory);
  const supervisor = readProcesses(directory).find(({ kind }) => kind === "supervisor");
  if (signalProcess(directory, supervisor?.pid ?? null, "SIGTERM")) {
    const deadline = performance.now() + SUPERVISOR_MS;
    while (isProcessOf(directory, supervisor!.pid) && performance.now() < deadline) {
      await sleep(LOOK_AGAIN_MS);
    }
  }
  // Whoever the supervisor did not get to, or has left behind.
  await endProcesses(directory, { entries: readProcesses(directory), graceMs: GRACE_MS });
  return count;
}
