/**
 * Which processes a rack that is up consists of, written down in its run directory: so they can be
 * looked at, and ended where the supervisor is gone. A process identifier is trusted only if what runs
 * under it was started for that very directory.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";

/** One process of a rack, the supervisor and the broker included. */
export interface ProcessEntry {
  readonly name: string;
  readonly kind: "supervisor" | "nats" | "timekeeper" | "partition";
  /** Null while it has none. */
  readonly pid: number | null;
  /** Devices that live in it. */
  readonly nodes: readonly string[];
}

const FILE = "processes.json";

/** Writes the table as a whole or not at all, so that a reader never sees half of it. */
export function writeProcesses(directory: string, entries: readonly ProcessEntry[]): void {
  const path = `${directory}/${FILE}`;
  Deno.writeTextFileSync(`${path}.new`, JSON.stringify(entries, null, 1));
  Deno.renameSync(`${path}.new`, path);
}

/** The table last written, empty where there is none. */
export function readProcesses(directory: string): ProcessEntry[] {
  try {
    return JSON.parse(Deno.readTextFileSync(`${directory}/${FILE}`));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Whether the process is there and was started for this run directory. */
export function isProcessOf(directory: string, pid: number | null): boolean {
  if (pid === null) return false;
  try {
    const words = Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
    return words.includes(`${directory}/run.json`) ||
      words.includes(`${directory}/nats-server.conf`);
  } catch (error) {
    // Without the permission to look, nothing would ever be there.
    if (error instanceof Deno.errors.NotCapable) throw error;
    // It is gone, or going.
    return false;
  }
}

/** Resident memory in bytes, 0 where the process is gone. */
export function residentBytes(pid: number): number {
  try {
    const match = /^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`));
    return Number(match?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** Sends a signal to a process of this run. @returns false where it is not there any more. */
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
 * SIGTERM to all, SIGKILL to whoever is there after `graceMs`; returns when all are gone.
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
