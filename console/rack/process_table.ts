/**
 * The process table of a running rack, a file in its run directory. Commands use it to list
 * processes, and to end them where the supervisor has ended. A process number is trusted only if
 * its process was started for that very directory.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { jsonIfThere } from "../base/files.ts";

export interface ProcessEntry {
  readonly name: string;
  readonly kind: "supervisor" | "nats" | "timekeeper" | "partition";
  /** Null while it has no process. */
  readonly pid: number | null;
  readonly nodes: readonly string[];
}

const FILE = "processes.json";

/** Writes the table atomically, so that a reader never sees a part of it. */
export function writeProcesses(directory: string, entries: readonly ProcessEntry[]): void {
  const path = `${directory}/${FILE}`;
  Deno.writeTextFileSync(`${path}.new`, JSON.stringify(entries, null, 1));
  Deno.renameSync(`${path}.new`, path);
}

/** The last written table; empty where there is none. */
export function readProcesses(directory: string): ProcessEntry[] {
  return jsonIfThere(`${directory}/${FILE}`) ?? [];
}

/** Whether the process exists and was started for this run directory. */
export function isProcessOf(directory: string, pid: number | null): boolean {
  if (pid === null) return false;
  try {
    const words = Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
    return words.includes(`${directory}/run.json`) ||
      words.includes(`${directory}/nats-server.conf`);
  } catch (error) {
    // Without this check, a missing permission would look like a missing process.
    if (error instanceof Deno.errors.NotCapable) throw error;
    // The process has ended or is ending.
    return false;
  }
}

/** Resident memory in bytes; 0 where the process has ended. */
export function residentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Sends a signal to a process of this run. @returns false where it has ended. */
export function signalProcess(
  directory: string,
  pid: number | null,
  signal: Deno.Signal = "SIGKILL",
): boolean {
  if (!isProcessOf(directory, pid)) return false;
  try {
    Deno.kill(pid!, signal);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

const LOOK_AGAIN_MS = 20;

/**
 * Sends SIGTERM to all, SIGKILL to those that remain after `graceMs`; returns when all have ended.
 * @returns how many there were.
 */
export async function endProcesses(
  directory: string,
  options: { readonly entries: readonly ProcessEntry[]; readonly graceMs: number },
): Promise<number> {
  const pids = options.entries.map(({ pid }) => pid).filter((pid) => isProcessOf(directory, pid));
  for (const pid of pids) signalProcess(directory, pid, "SIGTERM");
  const deadline = Date.now() + options.graceMs;
  let left = pids;
  while (left.length > 0) {
    if (Date.now() >= deadline) { for (const pid of left) signalProcess(directory, pid); }
    await sleep(LOOK_AGAIN_MS);
    left = left.filter((pid) => isProcessOf(directory, pid));
  }
  return pids.length;
}
