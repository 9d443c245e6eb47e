import { sleep } from "../../fabric/bus/wall_time.ts";
import { DamagedFileError, readInto } from "../base/files.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { RackError } from "../base/rack_error.ts";
import { findRun, rackAt, type RackUp, refreshDevices } from "./live/racks.ts";
import {
  bytesOf,
  isRemovable,
  listRuns,
  markRun,
  pruneRuns,
  removeRun,
  type RunRow,
  type RunState,
  stateOf,
  writeNote,
} from "./run_directory.ts";
import { limitsHere, type LimitTexts, readLimits } from "./run_limits.ts";

export interface KeptRun extends RunRow {
  readonly state: RunState;
  readonly bytes: number;
}

/** Newest first, with the limits. */
export async function keptRuns() {
  const runs = (await listRuns()).map((row): KeptRun => {
    return { ...row, state: stateOf(row), bytes: bytesOf(row.path) };
  });
  return { runs, limits: limitsHere() };
}

/** Keeps a run for good, under a name or without. @throws Refusal where there is no such run. */
export async function keepRun(id: string, name = ""): Promise<RunRow> {
  const row = await findRun(id, "The run");
  const isFree = (await listRuns()).every((other) => other.id === row.id || other.mark !== name);
  if (name !== "" && !isFree) {
    throw refusal("The name", { found: `"${name}"`, expected: "one that no other run has" });
  }
  await markRun(row, name);
  return row;
}

/** Writes down the user's words about a run; "" removes them. @throws Refusal where there is none. */
export async function noteRun(id: string, note: string): Promise<void> {
  await writeNote(await findRun(id, "The run"), note);
}

/** Removes the mark. @throws Refusal where there is no such run. */
export async function releaseRun(id: string): Promise<RunRow> {
  const row = await findRun(id, "The run");
  await markRun(row, undefined);
  return row;
}

/**
 * Removes the oldest runs beyond the given limits, else those of the environment.
 * @throws Refusal
 */
export async function pruneTo(texts: LimitTexts): Promise<readonly RunRow[]> {
  const named = { runs: "--runs", bytes: "--size" };
  return await pruneRuns(readLimits(texts, named, limitsHere()));
}

/**
 * Runs with processes, and runs that the user keeps, stay under "all".
 * @throws Refusal where the named run has processes.
 */
export async function removeRuns(
  which: { readonly id: string } | "all",
): Promise<{ readonly removed: readonly RunRow[]; readonly kept: readonly RunRow[] }> {
  if (which !== "all") {
    const row = await findRun(which.id, "The run");
    if (!isRemovable(row)) {
      const hint = row.isForeign ? "" : ": rack down ends it first";
      throw refusal("", { found: `${row.id} is ${stateOf(row)}${hint}` });
    }
    await removeRun(row);
    return { removed: [row], kept: [] };
  }
  const rows = await listRuns();
  const kept = rows.filter((row) => !isRemovable(row) || row.mark !== undefined);
  const removed = rows.filter((row) => !kept.includes(row));
  for (const row of removed) await removeRun(row);
  return { removed, kept };
}

interface Log {
  readonly name: string;
  readonly path: string;
  read: number;
}

export interface LogLine {
  readonly log: string;
  readonly line: string;
  readonly alone: boolean;
}

export interface LogOptions {
  /** Default: the run that is up, else the latest. */
  readonly run?: string;
  /** Default: all logs. */
  readonly node?: string;
  readonly follow?: boolean;
}

const LOOK_AGAIN_MS = 200, REFRESH_MS = 1_000;

/** The lines of a run's logs, log by log. @throws Refusal where there are none. */
export async function* logLines({ run, node, follow }: LogOptions): AsyncGenerator<LogLine> {
  const path = await runOf(run);
  await refreshLogs(path);
  let refreshedMs = performance.now();
  const all = findLogs(path, "");
  const chosen = all.filter(({ name }) =>
    node === undefined || name === node || name.endsWith(`/${node}`)
  );
  if (all.length === 0) {
    const id = path.replace(/.*\//, "");
    const expected = "--run with a run as processes (not --pack all)";
    throw refusal("", { found: `${id} has no logs`, expected });
  }
  if (chosen.length === 0) {
    const known = [...new Set(all.map(({ name }) => name.split("/").at(-1)!))];
    throw refusal("", { found: `There is no log of ${node}`, expected: oneOf(known, node) });
  }
  for (;;) {
    for (const log of chosen) {
      for (const line of newLines(log)) {
        yield { log: log.name, line, alone: chosen.length === 1 };
      }
    }
    if (!follow) return;
    await sleep(LOOK_AGAIN_MS);
    if (performance.now() - refreshedMs >= REFRESH_MS) {
      await refreshLogs(path);
      refreshedMs = performance.now();
    }
    for (const log of node === undefined ? findLogs(path, "") : []) {
      if (!chosen.some((known) => known.path === log.path)) chosen.push(log);
    }
  }
}

/** Logs of other machines: those that do not answer now are as they were. */
async function refreshLogs(path: string): Promise<void> {
  const rack = rackIfUp(path);
  if (rack === undefined) return;
  await refreshDevices(rack, (name) => name.startsWith("logs/")).catch((error) => {
    if (!(error instanceof RackError)) throw error;
  });
}

/** A damaged one has the logs that are here. */
function rackIfUp(path: string): RackUp | undefined {
  try {
    return rackAt(path);
  } catch (error) {
    if (error instanceof DamagedFileError) return undefined;
    throw error;
  }
}

async function runOf(run: string | undefined): Promise<string> {
  if (run !== undefined) return (await findRun(run)).path;
  const rows = await listRuns();
  const row = rows.find(({ up }) => up) ??
    rows.find(({ isForeign, started }) => !isForeign && started !== "");
  if (row !== undefined) return row.path;
  throw refusal("", { found: "There are no runs", expected: "one that rack run SCENARIO made" });
}

/** A run in one process has none. */
export function hasLogs(path: string): boolean {
  return findLogs(path, "").length > 0;
}

function findLogs(directory: string, prefix: string): Log[] {
  return [...Deno.readDirSync(directory)].sort((x, y) => x.name < y.name ? -1 : 1)
    .flatMap(({ name, isDirectory }): Log[] => {
      const path = `${directory}/${name}`;
      if (isDirectory && PARTS.has(name)) return [];
      if (isDirectory) return findLogs(path, name === "logs" ? prefix : `${prefix}${name}/`);
      if (!name.endsWith(".log")) return [];
      const log = name === "nats-server.log" ? "nats" : name.slice(0, -".log".length);
      return [{ name: `${prefix}${log}`, path, read: 0 }];
    });
}

const PARTS: ReadonlySet<string> = new Set(["scm", "outputs", "trace"]);

function newLines(log: Log): string[] {
  using file = Deno.openSync(log.path);
  const { size } = file.statSync();
  if (size <= log.read) return [];
  file.seekSync(log.read, Deno.SeekMode.Start);
  const bytes = new Uint8Array(size - log.read);
  const length = readInto(file, bytes);
  const end = bytes.lastIndexOf(10, length - 1) + 1;
  log.read += end;
  return new TextDecoder().decode(bytes.subarray(0, end)).split("\n").slice(0, -1);
}
