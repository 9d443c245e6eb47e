/** `rack logs`: what the processes of a run have said. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { listRuns } from "../../console/rack/run_directory.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { addRunOption, findRun, type RunFlag, sleep } from "./link.ts";
import { print } from "../../console/base/output.ts";

interface LogFlags extends RunFlag {
  readonly follow?: boolean;
}

/** A log and how much of it has been shown. */
interface Log {
  /** `b`, or `persist-opcode_ddio_off/b` where the run has several variants. */
  readonly name: string;
  readonly path: string;
  shown: number;
}

export function addLogs(program: Command): void {
  addRunOption(program.command("logs [node]"))
    .description("what the processes have said; nats, timekeeper and supervisor included")
    .option("-f, --follow", "go on as they say more, until Ctrl-C")
    .addHelpText("after", "\nExample:\n  rack logs b -f")
    .action(async (node: string | undefined, flags: LogFlags) => {
      Deno.exitCode = await logs(node, flags);
    });
}

const LOOK_AGAIN_MS = 200;

async function logs(node: string | undefined, flags: LogFlags): Promise<number> {
  const path = await runOf(flags);
  const all = findLogs(path, "");
  const chosen = node === undefined ? all : all.filter(({ name }) => isOf(name, node));
  if (all.length === 0) {
    const id = path.replace(/.*\//, "");
    throw new UsageError(
      `${id} has no logs: expected --run with a run as processes (not --pack all)`,
    );
  }
  if (chosen.length === 0) {
    const known = [...new Set(all.map(({ name }) => name.split("/").at(-1)!))].join(", ");
    throw new UsageError(`There is no log of ${node ?? "anybody"}: expected one of ${known}`);
  }
  for (;;) {
    for (const log of chosen) await show(log, { alone: chosen.length === 1 });
    if (!flags.follow) return EXIT.done;
    await sleep(LOOK_AGAIN_MS);
    for (const log of node === undefined ? findLogs(path, "") : []) {
      if (!chosen.some((known) => known.path === log.path)) chosen.push(log);
    }
  }
}

/** The directory of the run that is meant: the one that is up, else the latest. */
async function runOf({ run }: RunFlag): Promise<string> {
  if (run !== undefined) return (await findRun(run)).path;
  const rows = await listRuns();
  const row = rows.find(({ up }) => up) ?? rows[0];
  if (row === undefined) throw new UsageError("There are no runs: rack run SCENARIO makes one");
  return row.path;
}

function isOf(name: string, node: string): boolean {
  return name === node || name.endsWith(`/${node}`);
}

function findLogs(directory: string, prefix: string): Log[] {
  const found: Log[] = [];
  for (const entry of [...Deno.readDirSync(directory)].sort((x, y) => x.name < y.name ? -1 : 1)) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory && entry.name === "logs") {
      found.push(...logsIn(path, prefix));
    } else if (entry.isDirectory && !PARTS.has(entry.name)) {
      found.push(...findLogs(path, `${prefix}${entry.name}/`));
    } else if (entry.name === "nats-server.log") {
      found.push({ name: `${prefix}nats`, path, shown: 0 });
    }
  }
  return found;
}

/** What else is in a run's directory. */
const PARTS: ReadonlySet<string> = new Set(["scm", "outputs", "trace"]);

function logsIn(directory: string, prefix: string): Log[] {
  const names = [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
  return names.filter((name) => name.endsWith(".log")).map((name) => ({
    name: `${prefix}${name.replace(/\.log$/, "")}`,
    path: `${directory}/${name}`,
    shown: 0,
  }));
}

/** Prints the whole lines that are new. */
async function show(log: Log, how: { alone: boolean }): Promise<void> {
  using file = await Deno.open(log.path);
  const { size } = await file.stat();
  if (size <= log.shown) return;
  await file.seek(log.shown, Deno.SeekMode.Start);
  const bytes = new Uint8Array(size - log.shown);
  let length = 0;
  for (;;) {
    const count = await file.read(bytes.subarray(length));
    if (count === null || length === bytes.length) break;
    length += count;
  }
  const end = bytes.lastIndexOf(10, length - 1) + 1;
  log.shown += end;
  const lines = new TextDecoder().decode(bytes.subarray(0, end)).split("\n").slice(0, -1);
  for (const line of lines) print(how.alone ? line : `${log.name}: ${line}`);
}
