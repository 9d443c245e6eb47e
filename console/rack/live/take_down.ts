import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { DamagedFileError, isThere } from "../../base/files.ts";
import { isRecording, recordingsIn } from "../../captures/capture_files.ts";
import { explain } from "../failure.ts";
import { endProcesses, findProcesses, isProcessOf, signalProcess } from "../process_table.ts";
import {
  listRuns,
  readRunFile,
  readSupervisorOf,
  readUncollected,
  type RunRow,
  writeUncollected,
} from "../run_directory.ts";
import { refuseLocked } from "./lock.ts";
import {
  findRun,
  findUp,
  type LinkOptions,
  listed,
  type RackUp,
  refreshDevices,
  refreshRecord,
} from "./racks.ts";

/**
 * Takes down the named rack, the only running rack, or all racks, also where the supervisor has
 * ended.
 * @returns for each rack the number of its processes, the paths of its captures, and what of the run
 * is not kept here: files of other machines, captures that could not be written.
 * @throws Refusal where the choice is ambiguous, or a user of a console has locked one of them.
 */
export async function takeRacksDown(which: WhichRacks) {
  const down = [], rows = await chosen(which);
  if (!which.overrideLock) {
    for (const { id, path } of rows.filter(({ up }) => up)) refuseLocked({ id, directory: path });
  }
  for (const { id, path } of rows) {
    const isDetached = readSupervisorOf(path)?.pid === null;
    if (isDetached) await detach(id, path);
    down.push({ id, path, processes: await takeDown(path), isDetached });
  }
  const ended = [];
  for (const { id: run, path, processes, isDetached } of down) {
    let captures: string[] = [];
    const uncollected = readUncollected(path);
    const problems = uncollected === undefined ? [] : [`not kept as a whole: ${uncollected}`];
    try {
      captures = await capturesOf(path);
    } catch (error) {
      problems.push(`without captures: ${explain(error).message}`);
    }
    ended.push({
      ...{ run, processes, captures },
      ...(isDetached && { detached: true }),
      ...(problems.length > 0 && { problem: problems.join("; ") }),
    });
  }
  return ended;
}

/**
 * The rack goes on where it runs; its record is kept as far as it has come. A rack that does not
 * answer, as it may have ended, is let go of, too: what has been copied before is what there is.
 */
async function detach(id: string, path: string): Promise<void> {
  const why = await findUp(id).then(refreshAll)
    .then(() => undefined, (error) => explain(error).message);
  await Deno.remove(`${path}/supervisor.json`);
  writeUncollected(path, why);
}

async function refreshAll(rack: RackUp): Promise<void> {
  await refreshRecord(rack);
  if (rack.file.captures !== undefined) await refreshDevices(rack, isRecording);
}

export interface WhichRacks extends Pick<LinkOptions, "overrideLock"> {
  readonly run?: string;
  readonly all?: boolean;
  readonly onForeign?: (ids: readonly string[]) => void;
}

async function chosen({ run, all, onForeign }: WhichRacks): Promise<RunRow[]> {
  if (run !== undefined) {
    const row = await findRun(run);
    if (row.isForeign) throw refusal("", { found: `${row.id} is another user's` });
    return [row];
  }
  const living = (await listRuns()).filter(({ processes }) => processes > 0);
  const rows = living.filter(({ isForeign }) => !isForeign);
  const foreign = living.filter(({ isForeign }) => isForeign).map(({ id }) => id);
  if (foreign.length > 0) onForeign?.(foreign);
  if (rows.length === 1 || all) return rows;
  if (rows.length === 0) {
    const attached = (await listRuns()).filter(({ up }) => up);
    const other = attached.length === 0
      ? ""
      : `, or --run with an attached one: ${listed(attached)}`;
    throw refusal("", { found: "No rack is up here", expected: `one to take down${other}` });
  }
  const expected = `--all, or --run with one of ${listed(rows)}`;
  throw refusal("", { found: `${rows.length} racks are up`, expected });
}

const SUPERVISOR_MS = 8_000;
const GRACE_MS = 2_000;

/** The writing module is loaded only where there is a recording. */
async function capturesOf(directory: string): Promise<string[]> {
  if (!isThere(recordingsIn(directory))) return [];
  const { writeCapturesOf } = await import("../../captures/captures.ts");
  return await writeCapturesOf(directory);
}

const LOOK_AGAIN_MS = 30;

function hasElsewhere(directory: string): boolean {
  try {
    return readRunFile(directory)?.elsewhere !== undefined;
  } catch (error) {
    // A damaged file keeps no rack up.
    if (error instanceof DamagedFileError) return false;
    throw error;
  }
}

/** Ends a rack's processes; returns how many there were when they are gone. */
export async function takeDown(directory: string): Promise<number> {
  const living = () => findProcesses(directory);
  const all = living();
  for (const { pid, kind } of all) {
    if (kind !== "supervisor" || !signalProcess(directory, pid, "SIGTERM")) continue;
    // It copies files of other machines first.
    const isElsewhere = hasElsewhere(directory);
    const deadline = performance.now() + (isElsewhere ? PATIENCE_MS : SUPERVISOR_MS);
    while (isProcessOf(directory, pid) && performance.now() < deadline) {
      await sleep(LOOK_AGAIN_MS);
    }
  }
  for (const each of new Set(living().map((found) => found.directory))) {
    const entries = living().filter((found) => found.directory === each);
    await endProcesses(each, { entries, graceMs: GRACE_MS });
  }
  return all.length;
}
