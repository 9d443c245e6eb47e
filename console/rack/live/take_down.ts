import { sleep } from "../../../fabric/bus/wall_time.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { isThere } from "../../base/files.ts";
import { recordingsIn } from "../../captures/capture_files.ts";
import { explain } from "../failure.ts";
import { endProcesses, findProcesses, isProcessOf, signalProcess } from "../process_table.ts";
import { listRuns, readSupervisorOf, type RunRow } from "../run_directory.ts";
import { findRun, listed } from "./racks.ts";

/**
 * Takes down the named rack, the only running rack, or all racks, also where the supervisor has
 * ended.
 * @returns for each rack the number of its processes, the paths of its captures, and why there are
 * none where they could not be written.
 * @throws Refusal where the choice is ambiguous.
 */
export async function takeRacksDown(which: WhichRacks) {
  const down = [];
  for (const { id, path } of await chosen(which)) {
    down.push({ id, path, processes: await takeDown(path) });
  }
  const ended = [];
  for (const { id: run, path, processes } of down) {
    try {
      ended.push({ run, processes, captures: await capturesOf(path) });
    } catch (error) {
      ended.push({ run, processes, captures: [], problem: explain(error).message });
    }
  }
  return ended;
}

export interface WhichRacks {
  readonly run?: string;
  readonly all?: boolean;
  readonly onForeign?: (ids: readonly string[]) => void;
}

async function chosen({ run, all, onForeign }: WhichRacks): Promise<RunRow[]> {
  if (run !== undefined) {
    const row = await findRun(run);
    if (row.isForeign) throw refusal("", { found: `${row.id} is another user's` });
    if (readSupervisorOf(row.path)?.pid === null) {
      const expected = "docker-compose down -v in its folder";
      throw refusal("", { found: `${row.id} is in containers, which only Docker ends`, expected });
    }
    return [row];
  }
  const living = (await listRuns()).filter(({ processes }) => processes > 0);
  const rows = living.filter(({ isForeign }) => !isForeign);
  const foreign = living.filter(({ isForeign }) => isForeign).map(({ id }) => id);
  if (foreign.length > 0) onForeign?.(foreign);
  if (rows.length === 1 || all) return rows;
  if (rows.length === 0) {
    throw refusal("", { found: "No rack is up", expected: "one to take down" });
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

/** Ends a rack's processes; returns how many there were when they are gone. */
export async function takeDown(directory: string): Promise<number> {
  const living = () => findProcesses(directory);
  const all = living();
  for (const { pid, kind } of all) {
    if (kind !== "supervisor" || !signalProcess(directory, pid, "SIGTERM")) continue;
    const deadline = performance.now() + SUPERVISOR_MS;
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
