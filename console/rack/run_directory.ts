/**
 * The directory of a run, in the user's cache, with one directory per variant. A run writes to no
 * other place. Only its owner can read it: SCM holds the user's data.
 */
import type { NatsAddress } from "../../fabric/bus/nats_bus.ts";
import type { ClockEnd } from "../../fabric/clock/record.ts";
import { RESUMING_FILE, type RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import {
  DamagedFileError,
  ifThere,
  isThere,
  jsonIfThere,
  textIfThere,
  writeWhole,
} from "../base/files.ts";
import { runsDirectory } from "../base/paths.ts";
import { statOf } from "../base/process_stat.ts";
import { findProcesses, isProcessOf } from "./process_table.ts";
import { beyondLimits, byAge, limitsHere, type RunLimits } from "./run_limits.ts";

/** `removed`: runs that made room for it. */
export interface NewRun {
  readonly id: string;
  readonly path: string;
  readonly removed: readonly RunRow[];
}

/**
 * Creates a directory named after the scenario and the moment, and removes old runs beyond the
 * limits.
 * @throws Refusal where the environment's limits are not valid.
 */
export async function createRunDirectory(scenario: string): Promise<NewRun> {
  const limits = limitsHere();
  const stamp = new Date().toISOString().replace(/\..*$/, "").replaceAll(/[-:]/g, "").replace(
    "T",
    "-",
  );
  const name = scenario.replaceAll(/[^A-Za-z0-9_-]/g, "-").slice(0, 24);
  const owner: OwnerFile = { pid: Deno.pid, startTicks: startTicksOf(Deno.pid) };
  await Deno.mkdir(runsDirectory(), { recursive: true, mode: 0o700 }).catch((cause) => {
    const found = `Cannot keep runs in ${runsDirectory()}: ${(cause as Error).message}`;
    throw refusal("", { found, expected: "a folder, or another one in RACKMESH_CACHE", cause });
  });
  for (;;) {
    const id = `${name}-${stamp}-${crypto.randomUUID().slice(0, 4)}`;
    const path = `${runsDirectory()}/${id}`;
    // The directory gets its name after its owner file exists, or another command could take it for an ended run.
    const unnamed = `${runsDirectory()}/${UNFINISHED}${crypto.randomUUID()}`;
    await Deno.mkdir(unnamed, { mode: 0o700 });
    await Deno.writeTextFile(`${unnamed}/owner.json`, JSON.stringify(owner), { mode: 0o600 });
    try {
      await Deno.rename(unnamed, path);
    } catch (error) {
      await Deno.remove(unnamed, { recursive: true });
      if (!(error instanceof Deno.errors.AlreadyExists) && !isNotEmpty(error)) throw error;
      continue;
    }
    return { id, path, removed: await pruneRuns(limits) };
  }
}

/** A directory of a run that is a part of something else, which keeps it or removes it. */
export async function runDirectoryAt(path: string): Promise<NewRun> {
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  return { id: path.replace(/.*\//, ""), path, removed: [] };
}

/** Prefix of directories that are being created or removed. */
const UNFINISHED = ".";

function isNotEmpty(error: unknown): boolean {
  return error instanceof Error && /os error 39/.test(error.message);
}

/** Removes the oldest runs beyond the limits: `run_limits.ts` has the exceptions. */
export async function pruneRuns(limits: RunLimits): Promise<RunRow[]> {
  await removeUnfinished();
  const counted = (await listRuns())
    .filter(({ mark, isForeign }) => mark === undefined && !isForeign)
    .map((run) => ({ ...run, bytes: bytesOf(run.path) }));
  const candidates = counted.filter(isRemovable);
  // The latest one stays, however large it is.
  const [latest, ...older] = candidates;
  if (latest === undefined) return [];
  const others = counted.filter((run) => !candidates.includes(run));
  const removed: RunRow[] = [];
  const room = {
    runs: limits.runs - others.length,
    bytes: limits.bytes - others.reduce((sum, { bytes }) => sum + bytes, 0),
  };
  for (const run of beyondLimits(candidates, room)) {
    if (older.some(({ id }) => id === run.id) && await removeRun(run)) removed.push(run);
  }
  return removed;
}

/** If a step before the run fails, the run's directory is removed. */
export async function beforeRun<T>(run: NewRun, prepare: () => Promise<T>): Promise<T> {
  try {
    return await prepare();
  } catch (error) {
    await removeRun(run);
    throw error;
  }
}

/**
 * Renames the directory first, so that no other command sees a part of a run. False: another
 * command has removed it.
 */
export async function removeRun({ path }: Pick<RunRow, "path">): Promise<boolean> {
  const going = `${runsDirectory()}/${UNFINISHED}${crypto.randomUUID()}`;
  try {
    await Deno.rename(path, going);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
  await Deno.remove(going, { recursive: true });
  return true;
}

const UNFINISHED_MS = 60_000;

async function removeUnfinished(): Promise<void> {
  for await (const { name } of Deno.readDir(runsDirectory())) {
    const path = `${runsDirectory()}/${name}`;
    if (!name.startsWith(UNFINISHED) || isRunning(path)) continue;
    const stat = await Deno.stat(path).catch(() => undefined);
    if (Date.now() - (stat?.ctime?.getTime() ?? Date.now()) < UNFINISHED_MS) continue;
    await Deno.remove(path, { recursive: true }).catch(() => {});
  }
}

/** On the disk; a sparse file counts with its written parts. */
export function bytesOf(path: string): number {
  let bytes = 0;
  try {
    for (const { name, isDirectory } of Deno.readDirSync(path)) {
      const { blocks, size } = Deno.lstatSync(`${path}/${name}`);
      if (isDirectory) bytes += bytesOf(`${path}/${name}`);
      else bytes += blocks === null ? size : blocks * BLOCK_BYTES;
    }
  } catch (error) {
    const isGone = error instanceof Deno.errors.NotFound;
    if (!isGone && !(error instanceof Deno.errors.PermissionDenied)) throw error;
  }
  return bytes;
}

const BLOCK_BYTES = 512;

/** Makes the directories that a variant's processes expect, and writes its run file. */
export async function writeRunFile(runFile: RunFile): Promise<string> {
  const parts = ["scm", "logs", "outputs", "trace"];
  for (const part of runFile.observe === undefined ? parts : [...parts, "observed"]) {
    await Deno.mkdir(`${runFile.directory}/${part}`, { recursive: true, mode: 0o700 });
  }
  const path = `${runFile.directory}/run.json`;
  writeWhole(path, JSON.stringify(runFile));
  return path;
}

const CLOCK_END = "clock.json";

/** For a run without a timekeeper. */
export function writeClockEnd(directory: string, end: ClockEnd): void {
  writeWhole(`${directory}/${CLOCK_END}`, JSON.stringify(end));
}

/** The last virtual time on record; undefined if there is none. @throws DamagedFileError */
export function readClockEnd(directory: string): ClockEnd | undefined {
  return jsonIfThere<ClockEnd>(
    `${directory}/${CLOCK_END}`,
    ({ digest, virtualPs, partitions }) =>
      typeof digest === "string" && typeof virtualPs === "number" && Array.isArray(partitions),
  );
}

/** Undefined where there is none. @throws DamagedFileError */
export function readRunFile(directory: string): RunFile | undefined {
  return jsonIfThere<RunFile>(
    `${directory}/run.json`,
    ({ run, plan, partitions }) => typeof run === "string" && !!plan && Array.isArray(partitions),
  );
}

/**
 * `left over`: processes whose supervisor or directory is gone; `damaged`: a file of ours cannot be
 * read; `kept`: only files.
 */
export type RunState = "up" | "running" | "left over" | "another user's" | "damaged" | "kept";

export function stateOf({ up, running, processes, isForeign, damage }: RunRow): RunState {
  if (isForeign) return "another user's";
  if (up) return "up";
  if (running) return "running";
  if (processes > 0) return "left over";
  return damage === undefined ? "kept" : "damaged";
}

/** No process would lose its directory. */
export function isRemovable(row: RunRow): boolean {
  return ["kept", "damaged"].includes(stateOf(row));
}

export interface RunRow {
  readonly id: string;
  readonly path: string;
  /** "": only processes are left. */
  readonly started: string;
  readonly up: boolean;
  readonly running: boolean;
  readonly processes: number;
  readonly isForeign?: true;
  readonly damage?: string;
  /** The user's name for it; "": kept without a name. */
  readonly mark?: string;
  /** The user's own words about it. */
  readonly note?: string;
}

/** How to reach the supervisor of a running rack. Holds credentials: only the user can read it. */
export interface SupervisorFile extends NatsAddress {
  readonly run: string;
  /** Null: the rack is in containers, and has none. */
  readonly pid: number | null;
  /** Of a user that may watch and not drive, at the same address. */
  readonly viewer: Omit<NatsAddress, "url">;
}

export interface EndFile {
  readonly message: string;
  readonly code: number;
}

/** The start time excludes a later process of the same number. */
interface OwnerFile {
  readonly pid: number;
  /** In clock ticks since boot. */
  readonly startTicks: number | null;
}

function startTicksOf(pid: number): number | null {
  const stat = statOf(pid);
  return stat === undefined ? null : Number(stat[START_TICKS]);
}

/** Field 22 of /proc's `stat`, counted from the state, field 3. */
const START_TICKS = 19;

/** Newest first; also those of which only processes are left. */
export async function listRuns(): Promise<RunRow[]> {
  const folder = runsDirectory();
  const count = new Map<string, number>();
  for (const { directory } of findProcesses(folder)) {
    const id = directory.slice(folder.length + 1).split("/")[0]!;
    count.set(id, (count.get(id) ?? 0) + 1);
  }
  const rows: RunRow[] = [];
  try {
    for await (const entry of Deno.readDir(folder)) {
      if (!entry.isDirectory || entry.name.startsWith(UNFINISHED)) continue;
      const row = await readRow(entry.name, count.get(entry.name) ?? 0);
      if (row === undefined) continue;
      rows.push(row);
      count.delete(entry.name);
    }
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) {
      const found = `Cannot look for runs in ${folder}: ${(cause as Error).message}`;
      throw refusal("", { found, expected: "a folder, or another one in RACKMESH_CACHE", cause });
    }
  }
  for (const [id, processes] of count) {
    rows.push({
      id,
      path: `${folder}/${id}`,
      started: "",
      up: false,
      running: false,
      processes,
      damage: "its directory has been deleted",
    });
  }
  return rows.sort((x, y) => byAge(y, x));
}

async function readRow(id: string, processes: number): Promise<RunRow | undefined> {
  const path = `${runsDirectory()}/${id}`;
  let row: RunRow = { id, path, started: "", up: false, running: false, processes };
  try {
    const { birthtime, mtime, uid } = await Deno.stat(path);
    row = { ...row, started: (birthtime ?? mtime ?? new Date(0)).toISOString() };
    if (uid !== Deno.uid()) return { ...row, isForeign: true };
    const mark = textIfThere(`${path}/${MARK_FILE}`)?.trim();
    const note = textIfThere(`${path}/${NOTE_FILE}`)?.trim();
    row = { ...row, ...(mark !== undefined && { mark }), ...(note && { note }) };
    row = { ...row, running: isOwned(path) };
    return { ...row, up: readSupervisor(path) !== undefined };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof DamagedFileError || error instanceof Deno.errors.PermissionDenied) {
      return { ...row, damage: error.message };
    }
    throw error;
  }
}

const MARK_FILE = "kept.txt", NOTE_FILE = "note.txt";

/** Keeps a run under the user's name; undefined removes the mark. */
export async function markRun({ path }: RunRow, mark: string | undefined): Promise<void> {
  await writeOrRemove(`${path}/${MARK_FILE}`, mark);
}

/** The user's words about a run; "" removes them. */
export async function writeNote({ path }: RunRow, note: string): Promise<void> {
  await writeOrRemove(`${path}/${NOTE_FILE}`, note.trim() === "" ? undefined : note.trim());
}

async function writeOrRemove(file: string, text: string | undefined): Promise<void> {
  if (text !== undefined) return writeWhole(file, `${text}\n`);
  await Deno.remove(file).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/**
 * Of a rack that is up: its process is alive, and is no longer repeating another run.
 * @throws DamagedFileError
 */
export function readSupervisor(path: string): SupervisorFile | undefined {
  return isThere(`${path}/${RESUMING_FILE}`) ? undefined : readSupervisorOf(path);
}

/** Also of a rack that is coming up. @throws DamagedFileError */
export function readSupervisorOf(path: string): SupervisorFile | undefined {
  const isOne = ({ run, pid, url, viewer }: Partial<Record<keyof SupervisorFile, unknown>>) =>
    typeof run === "string" && (typeof pid === "number" || pid === null) &&
    typeof url === "string" &&
    typeof viewer === "object" && viewer !== null;
  const file = jsonIfThere<SupervisorFile>(`${path}/supervisor.json`, isOne);
  return file !== undefined && isServed(path, file) ? file : undefined;
}

/**
 * A rack in containers is up as long as this machine has its directory: Docker removes both at
 * once.
 */
export function isServed(path: string, { pid }: Pick<SupervisorFile, "pid">): boolean {
  return pid === null || isProcessOf(path, pid);
}

export function writeSupervisor(path: string, file: SupervisorFile): void {
  writeWhole(`${path}/supervisor.json`, JSON.stringify(file));
}

/** A letter takes up to six bytes in JSON. */
const END_BYTES = 16 * 1024, END_TEXT_MAX = 2_000;

/** Makes room for {@link writeEnd}: a full disk may be why the run ends. */
export function reserveEnd(path: string): void {
  Deno.writeTextFileSync(`${path}/ended.room`, " ".repeat(END_BYTES), { mode: 0o600 });
}

export function writeEnd(path: string, { message, code }: EndFile): void {
  const text = JSON.stringify({ message: message.slice(0, END_TEXT_MAX), code });
  try {
    using file = Deno.openSync(`${path}/ended.room`, { write: true });
    file.truncateSync(file.writeSync(new TextEncoder().encode(text)));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return writeWhole(`${path}/ended.json`, text);
  }
  Deno.renameSync(`${path}/ended.room`, `${path}/ended.json`);
}

/** Undefined where the rack has not ended, or was taken down. */
export function readEnd(path: string): EndFile | undefined {
  return jsonIfThere<EndFile>(
    `${path}/ended.json`,
    ({ message, code }) => typeof message === "string" && typeof code === "number",
  );
}

const UNCOLLECTED = "uncollected.txt";

/**
 * What the run has left on other machines, and this directory lacks.
 * @param why undefined: nothing is missing any more.
 */
export function writeUncollected(path: string, why: string | undefined): void {
  const file = `${path}/${UNCOLLECTED}`;
  if (why === undefined) ifThere(() => Deno.removeSync(file));
  else writeWhole(file, why);
}

/** Undefined where nothing is missing. */
export function readUncollected(path: string): string | undefined {
  return textIfThere(`${path}/${UNCOLLECTED}`);
}

/**
 * The run is its rack's from now on: when that is down it has ended, though the process that brought it
 * up may go on, as a console does.
 */
export function disown(path: string): void {
  const owner: OwnerFile = { pid: Deno.pid, startTicks: null };
  writeWhole(`${path}/owner.json`, JSON.stringify(owner));
}

function isOwned(path: string): boolean {
  const owner = jsonIfThere<OwnerFile>(
    `${path}/owner.json`,
    ({ pid, startTicks }) =>
      typeof pid === "number" && (startTicks === null || typeof startTicks === "number"),
  );
  return typeof owner?.startTicks === "number" && startTicksOf(owner.pid) === owner.startTicks;
}

function isRunning(path: string): boolean {
  try {
    return isOwned(path);
  } catch {
    return false;
  }
}
