/**
 * What a run leaves: one directory per run under the user's cache, and in it one per variant with the
 * run file, SCM files, logs, outputs, traces and the record of faults. Nothing else is written.
 */
import type { BusAddress, RunFile } from "../../fabric/rack/build/run_file.ts";
import { runsDirectory } from "../base/paths.ts";
import { isProcessOf } from "./process_table.ts";

/** A directory for a new run, named after the scenario and the moment. */
export async function createRunDirectory(scenario: string): Promise<{ id: string; path: string }> {
  const stamp = new Date().toISOString().replace(/\..*$/, "").replaceAll(/[-:]/g, "").replace(
    "T",
    "-",
  );
  const name = scenario.replaceAll(/[^A-Za-z0-9_-]/g, "-").slice(0, 24);
  await Deno.mkdir(runsDirectory(), { recursive: true });
  for (;;) {
    const id = `${name}-${stamp}-${crypto.randomUUID().slice(0, 4)}`;
    const path = `${runsDirectory()}/${id}`;
    try {
      await Deno.mkdir(path);
      await Deno.writeTextFile(`${path}/owner.json`, JSON.stringify(ownerHere()));
      return { id, path };
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}

/** Makes the directories that a variant's processes expect, and writes its run file. */
export async function writeRunFile(runFile: RunFile): Promise<string> {
  const parts = ["scm", "logs", "outputs", "trace"];
  for (const part of runFile.observe === undefined ? parts : [...parts, "observed"]) {
    await Deno.mkdir(`${runFile.directory}/${part}`, { recursive: true });
  }
  const path = `${runFile.directory}/run.json`;
  await Deno.writeTextFile(path, JSON.stringify(runFile));
  return path;
}

export interface RunRow {
  readonly id: string;
  readonly path: string;
  readonly started: string;
  /** Whether a supervisor of it is alive. */
  readonly up: boolean;
  /** Whether the command that made it still runs. */
  readonly running: boolean;
}

/** How to reach the supervisor of a rack that is up. Credentials: the file is the user's alone. */
export interface SupervisorFile extends BusAddress {
  readonly run: string;
  readonly pid: number;
}

/** Why the rack of a supervisor ended by itself, and the exit code that says so. */
export interface EndFile {
  readonly message: string;
  readonly code: number;
}

/** The command that a run belongs to, told from a later process of the same number. */
interface OwnerFile {
  readonly pid: number;
  /** In clock ticks since the machine was started, as the kernel counts. */
  readonly startTicks: number | null;
}

function ownerHere(): OwnerFile {
  return { pid: Deno.pid, startTicks: startTicksOf(Deno.pid) };
}

function startTicksOf(pid: number): number | null {
  try {
    // Field 22; the second one may hold blanks, so the count begins behind its bracket.
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
  } catch {
    return null;
  }
}

/** Runs, newest first. */
export async function listRuns(): Promise<RunRow[]> {
  const rows: RunRow[] = [];
  try {
    for await (const entry of Deno.readDir(runsDirectory())) {
      if (!entry.isDirectory) continue;
      const path = `${runsDirectory()}/${entry.name}`;
      const { birthtime, mtime } = await Deno.stat(path);
      const started = (birthtime ?? mtime ?? new Date(0)).toISOString();
      const up = await readSupervisor(path) !== undefined;
      rows.push({ id: entry.name, path, started, up, running: await isOwned(path) });
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return rows.sort((x, y) => (x.started < y.started ? 1 : -1));
}

/** The supervisor's file of a run, where its process is alive. */
export async function readSupervisor(path: string): Promise<SupervisorFile | undefined> {
  try {
    const file: SupervisorFile = JSON.parse(await Deno.readTextFile(`${path}/supervisor.json`));
    return isProcessOf(path, file.pid) ? file : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Says how to reach this supervisor. */
export async function writeSupervisor(path: string, file: SupervisorFile): Promise<void> {
  const name = `${path}/supervisor.json`;
  await Deno.writeTextFile(`${name}.new`, JSON.stringify(file), { mode: 0o600, createNew: true });
  await Deno.rename(`${name}.new`, name);
}

export function writeEnd(path: string, end: EndFile): void {
  Deno.writeTextFileSync(`${path}/ended.json`, JSON.stringify(end));
}

/** Why the rack ended; undefined where it did not, or was told to. */
export function readEnd(path: string): EndFile | undefined {
  try {
    return JSON.parse(Deno.readTextFileSync(`${path}/ended.json`));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function isOwned(path: string): Promise<boolean> {
  try {
    const owner: OwnerFile = JSON.parse(await Deno.readTextFile(`${path}/owner.json`));
    return owner.startTicks !== null && startTicksOf(owner.pid) === owner.startTicks;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
